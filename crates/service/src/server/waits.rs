//! The exits of single processes that a client waits for, each sent when it comes.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_process::{Exit, HostError, Pid};

#[derive(Default)]
struct QueueState {
    /// The processes whose exits the client has asked for and not got.
    awaited: HashSet<Pid>,
    /// Those of them to look at, and some whose exits have been sent meanwhile.
    pids: VecDeque<Pid>,
    closed: bool,
}

/// The processes whose exits may have come.
#[derive(Default)]
pub(super) struct WaitQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

struct PidWaker {
    pid: Pid,
    queue: Arc<WaitQueue>,
}

impl Wake for PidWaker {
    fn wake(self: Arc<Self>) {
        self.queue.look_at(self.pid);
    }
}

impl WaitQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }

    /// Adds a process whose exit the client asks for.
    pub(super) fn add(&self, pid: Pid) {
        self.state().awaited.insert(pid);
        self.look_at(pid);
    }

    fn look_at(&self, pid: Pid) {
        let mut state = self.state();
        if !state.closed {
            state.pids.push_back(pid);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Notes that an exit is sent. A process that ends while it is looked at may be in the queue once more; to look again
    /// would find that it is not known any more, and the client would take that for the exit.
    fn found(&self, pid: Pid) {
        self.state().awaited.remove(&pid);
    }

    /// Ends [`run`](Self::run).
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Pid> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            while let Some(pid) = state.pids.pop_front() {
                if state.awaited.contains(&pid) {
                    return Some(pid);
                }
            }
            state = ignore_poison(self.changed.wait(state));
        }
    }

    /// Passes each exit to `exited`, until the queue is closed. `poll_wait` is the engine's.
    pub(super) fn run(
        self: &Arc<Self>,
        poll_wait: impl Fn(Pid, &mut Context<'_>) -> Poll<Result<Exit, HostError>>,
        mut exited: impl FnMut(Pid, Result<Exit, HostError>),
    ) {
        while let Some(pid) = self.next() {
            let waker = Waker::from(Arc::new(PidWaker {
                pid,
                queue: Arc::clone(self),
            }));
            if let Poll::Ready(exit) = poll_wait(pid, &mut Context::from_waker(&waker)) {
                self.found(pid);
                exited(pid, exit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use everwarp_process::ExitStatus;

    use super::*;

    /// A process may end while it is looked at: then its exit is there, and its waker is woken as well.
    #[test]
    fn an_exit_is_sent_once() {
        let (queue, ends, unknown) = (Arc::<WaitQueue>::default(), Pid::new(0, 1), Pid::new(1, 1));
        [ends, unknown].into_iter().for_each(|pid| queue.add(pid));
        let alive = Mutex::new(true);
        let poll_wait = |pid: Pid, cx: &mut Context<'_>| {
            cx.waker().wake_by_ref();
            let known = pid == ends && std::mem::take(&mut *lock(&alive));
            Poll::Ready(match known {
                true => Ok(Exit {
                    status: ExitStatus::Exited(3),
                    fuel_used: None,
                    elapsed: std::time::Duration::ZERO,
                    stdout: None,
                    stderr: None,
                }),
                false => Err(HostError::UnknownPid(pid)),
            })
        };
        let mut exits = Vec::new();
        queue.run(poll_wait, |pid, exit| {
            exits.push((pid, exit.map(|exit| exit.status.code()).ok()));
            if pid == unknown {
                // A third process is looked at behind what was added meanwhile.
                queue.add(Pid::new(2, 1));
            }
            if exits.len() == 3 {
                queue.close();
            }
        });
        assert_eq!(
            exits,
            [
                (ends, Some(Some(3))),
                (unknown, None),
                (Pid::new(2, 1), None)
            ]
        );
    }
}
