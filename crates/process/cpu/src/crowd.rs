//! The threads that run processes.
//!
//! A thread runs one process, and takes another one for each that waits for others: for a message, for a child. So
//! whatever waits for whom, somebody runs. A process that waits for a clock or a file keeps its thread, because
//! its wait ends by itself, and what is queued must not all be begun at once.
//!
//! Those who share a thread take turns while they compute: the epoch moves on, and compiled code gives way when it
//! does. Alone on its thread, a process is left in peace.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::Notify;
use tokio::task::{Id, JoinSet, LocalSet};

use crate::exit::{Reason, TrapKind};
use crate::host::{Shared, ended};
use crate::process::Process;
use crate::run::run;

/// A thread, as the processes on it see it.
#[derive(Default)]
pub(crate) struct Seat {
    /// How many processes it has.
    crowd: AtomicUsize,
    /// How many of them wait for others.
    away: AtomicUsize,
    /// One more does.
    left: Notify,
}

/// That a process waits for others.
pub(crate) struct Away<'s>(&'s Seat);

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.0.away.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Seat {
    /// The process that runs now waits for others, until the answer is dropped.
    pub(crate) fn leave(&self) -> Away<'_> {
        // Only the thread's own processes and itself look: no order is needed.
        self.away.fetch_add(1, Ordering::Relaxed);
        self.left.notify_one();
        Away(self)
    }

    /// Whether others share the thread.
    pub(crate) fn is_shared(&self) -> bool {
        self.crowd.load(Ordering::Relaxed) > 1
    }

    fn has_room(&self) -> bool {
        self.crowd.load(Ordering::Relaxed) <= self.away.load(Ordering::Relaxed)
    }
}

/// Waits for either.
async fn either<T>(
    first: impl Future<Output = T>,
    second: impl Future<Output = T>,
    third: impl Future<Output = T>,
) -> T {
    let (mut first, mut second, mut third) = (pin!(first), pin!(second), pin!(third));
    poll_fn(|cx| {
        if let Poll::Ready(value) = first.as_mut().poll(cx) {
            return Poll::Ready(value);
        }
        if let Poll::Ready(value) = second.as_mut().poll(cx) {
            return Poll::Ready(value);
        }
        third.as_mut().poll(cx)
    })
    .await
}

/// The processes of one thread.
struct Crowd {
    shared: Arc<Shared>,
    seat: Arc<Seat>,
    running: JoinSet<crate::exit::Exit>,
    who: HashMap<Id, Arc<Process>>,
}

impl Crowd {
    fn begin(&mut self, process: Arc<Process>) {
        let Some(work) = process.begin() else {
            return;
        };
        let (shared, seat) = (Arc::downgrade(&self.shared), Arc::clone(&self.seat));
        let of_task = Arc::clone(&process);
        let running = async move { run(&of_task, *work, shared, seat).await };
        let handle = self.running.spawn_local(running);
        self.who.insert(handle.id(), process);
        if self.seat.crowd.fetch_add(1, Ordering::Relaxed) == 1 {
            self.shared.kills.begin();
        }
    }

    /// Waits for the end of one; nothing if there is none.
    async fn end(&mut self) {
        let Some(joined) = self.running.join_next_with_id().await else {
            return;
        };
        // A panic in a host call is a defect, but whoever waits for this process must hear of its end.
        let (id, exit) = match joined {
            Ok((id, exit)) => (id, exit),
            Err(panic) => {
                let reason = Reason::Trap {
                    kind: TrapKind::Host,
                    function: None,
                    message: "the host call panicked".to_owned(),
                };
                (panic.id(), ended(reason))
            }
        };
        if self.seat.crowd.fetch_sub(1, Ordering::Relaxed) == 2 {
            self.shared.kills.end();
        }
        let process = self.who.remove(&id).expect("it was begun here");
        if process.finish(exit) {
            self.shared.kills.end();
        }
    }

    /// Runs processes until the host ends.
    async fn run(mut self) {
        loop {
            if self.running.is_empty() {
                match self.shared.next() {
                    Some(process) => self.begin(process),
                    None => return,
                }
                continue;
            }
            let room = self.seat.has_room();
            if room && let Some(process) = self.shared.another() {
                self.begin(process);
                continue;
            }
            let (shared, seat) = (Arc::clone(&self.shared), Arc::clone(&self.seat));
            let more = async {
                match room {
                    true => shared.more.notified().await,
                    false => std::future::pending().await,
                }
            };
            either(self.end(), seat.left.notified(), more).await;
            if !self.seat.has_room() && self.shared.has_more() {
                // Should that have been what somebody else waits for.
                self.shared.more.notify_one();
            }
        }
    }
}

/// A thread of the host's.
pub(crate) fn work(shared: &Arc<Shared>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the machine gives a thread its event queue");
    let crowd = Crowd {
        shared: Arc::clone(shared),
        seat: Arc::default(),
        running: JoinSet::new(),
        who: HashMap::new(),
    };
    LocalSet::new().block_on(&runtime, crowd.run());
    // A file operation of a killed process may still be under way, and nobody wants its result.
    runtime.shutdown_background();
}
