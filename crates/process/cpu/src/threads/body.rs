//! A thread from its beginning to its end.

use std::sync::Arc;

use wasmtime::{Store, UpdateDeadline};

use everwarp_process::threads::START;

use crate::exit::Reason;
use crate::run::{Guest, host_trap, reason};

use super::team::Team;
use super::wasi::Hook;

/// A thread that has a number, until it has none.
pub(super) struct Member {
    pub(super) team: Arc<Team>,
    pub(super) number: u32,
    /// The fuel that it began with, and what it has left.
    pub(super) given: u64,
    pub(super) left: u64,
}

impl Drop for Member {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A defect, but whoever waits for the process must hear of its end.
            self.team
                .end(host_trap("the host call panicked".to_owned()));
        }
        self.team.leave(self.number, self.given, self.left);
    }
}

/// The thread of the system.
pub(super) fn run(mut member: Member, argument: i32) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return member.team.end(host_trap(error.to_string())),
    };
    let (end, left) = runtime.block_on(execute(&member, argument));
    member.left = left;
    if let Some(reason) = end {
        member.team.end(reason);
    }
    // A file operation of a process that was ended may still be under way, and nobody wants its result.
    runtime.shutdown_background();
}

/// How it has ended the process, if it has, and the fuel that it has left.
async fn execute(member: &Member, argument: i32) -> (Option<Reason>, u64) {
    let team = &member.team;
    let guest = Guest::of_thread(team);
    let mut store = Store::new(team.linked.module().engine(), guest);
    store.limiter(|guest| &mut guest.limits);
    store
        .set_fuel(member.given)
        .expect("the engine counts fuel");
    let watched = Arc::clone(team);
    store.epoch_deadline_callback(move |_| {
        Ok(match watched.is_over() {
            true => UpdateDeadline::Interrupt,
            false => UpdateDeadline::Continue(1),
        })
    });
    store.set_epoch_deadline(1);
    store.call_hook_async(Hook {
        wasi: Arc::clone(&team.wasi),
        live: None,
    });
    let mut started = false;
    let number = member.number as i32;
    let work = async {
        let instance = team.linked.instantiate_async(&mut store).await?;
        started = true;
        let start = instance.get_typed_func::<(i32, i32), ()>(&mut store, START)?;
        start.call_async(&mut store, (number, argument)).await
    };
    let end = match team.unless_over(work).await {
        None | Some(Ok(())) => None,
        Some(Err(error)) => Some(reason(&error, started, team.program())),
    };
    let left = store.get_fuel().expect("the engine counts fuel");
    (end, left)
}
