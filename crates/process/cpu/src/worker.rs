//! The worker threads, which run processes.
//!
//! A worker thread runs one process, and takes another one for each of its processes that waits for others: for a
//! message, or for a child. So some process always runs, whatever the others wait for. A process that waits for a clock
//! or a file keeps its thread, because its wait ends by itself, and the queued processes must not all be started at
//! once.
//!
//! A process that has once waited for a socket keeps no thread any more, also while it computes. On a busy server some
//! such process computes at any time, and no further one would ever start.
//!
//! A process that starts runs until it first waits before the others of the thread go on. If it had to wait for a turn of each of
//! them first, a thread with hundreds would start few in a second, and a server's clients would wait for them.
//!
//! Processes that share a thread take turns while they compute: the epoch moves on, and compiled code yields when it
//! does. A process that has its thread to itself is not interrupted.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use everwarp_process::Exit;
use tokio::task::{Id, JoinSet, LocalSet};

use crate::epoch;
use crate::process::{Process, bare_exit, host_call_failed};
use crate::scheduler::{Scheduler, WorkerSeat};
use crate::worker_load::WorkerLoad;

/// How many processes a thread starts before its others go on.
const STARTS: u32 = 4;

/// Waits for the first of three futures.
async fn first_of<T>(
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

/// The exit of a process whose host call has panicked, which is a defect. Waiters get it like any other.
fn panicked() -> Exit {
    bare_exit(host_call_failed("the host call panicked".to_owned()))
}

/// A worker thread and its processes.
struct Worker {
    scheduler: Arc<Scheduler>,
    load: Arc<WorkerLoad>,
    tasks: JoinSet<Exit>,
    processes: HashMap<Id, Arc<Process>>,
}

impl Worker {
    /// Starts a process, unless it was killed in the queue, and runs it until it first waits.
    async fn start(&mut self, process: Arc<Process>) {
        let Some(work) = process.start() else {
            return;
        };
        let mut running = work.start(Arc::clone(&process), Arc::clone(&self.load));
        if self.load.add() {
            epoch::demand();
        }
        let begin = poll_fn(|cx| {
            let poll = AssertUnwindSafe(|| running.as_mut().poll(cx));
            Poll::Ready(catch_unwind(poll))
        });
        match begin.await {
            Ok(Poll::Pending) => {
                let handle = self.tasks.spawn_local(running);
                self.processes.insert(handle.id(), process);
            }
            Ok(Poll::Ready(exit)) => self.end(&process, exit),
            Err(_) => self.end(&process, panicked()),
        }
    }

    /// A process of this thread has ended.
    fn end(&self, process: &Process, exit: Exit) {
        if self.load.remove() {
            epoch::release();
        }
        if process.finish(exit) {
            epoch::release();
        }
    }

    /// Waits for the end of one process, if there is any.
    async fn finish_one(&mut self) {
        let Some(joined) = self.tasks.join_next_with_id().await else {
            return;
        };
        let (id, exit) = match joined {
            Ok((id, exit)) => (id, exit),
            Err(panic) => (panic.id(), panicked()),
        };
        let process = self.processes.remove(&id).expect("it was started here");
        self.end(&process, exit);
    }

    /// Runs processes until the scheduler has none for this thread any more.
    async fn run(mut self) {
        let mut starts = 0;
        loop {
            if self.tasks.is_empty() {
                match self.scheduler.next() {
                    Some(process) => self.start(process).await,
                    None => return,
                }
                continue;
            }
            let room = self.load.has_room();
            if room && let Some(process) = self.scheduler.try_next() {
                self.start(process).await;
                starts = (starts + 1) % STARTS;
                if starts == 0 {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            let (scheduler, load) = (Arc::clone(&self.scheduler), Arc::clone(&self.load));
            let more = async {
                match room {
                    true => scheduler.more_ready().await,
                    false => std::future::pending().await,
                }
            };
            first_of(self.finish_one(), load.changed(), more).await;
            if !self.load.has_room() && self.scheduler.has_ready() {
                // This thread may have taken the notification, and another thread has room.
                self.scheduler.pass_on();
            }
        }
    }
}

/// Starts a worker thread.
///
/// # Errors
/// The system has no thread, or no event queue for it.
pub(crate) fn start_worker(seat: WorkerSeat) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let builder = std::thread::Builder::new().name("process".to_owned());
    let work = move || {
        let worker = Worker {
            scheduler: Arc::clone(&seat.scheduler),
            load: Arc::default(),
            tasks: JoinSet::new(),
            processes: HashMap::new(),
        };
        LocalSet::new().block_on(&runtime, worker.run());
        seat.leave();
        // A file operation of a killed process may still be under way; its result is not needed.
        runtime.shutdown_background();
    };
    builder.spawn(work).map(drop)
}
