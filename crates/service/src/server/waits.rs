//! The exits of single processes that a client waits for, each sent when it comes.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_process::{Pid, ProcessEngine};

#[derive(Default)]
struct QueueState {
    /// Processes to look at.
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
        self.queue.add(self.pid);
    }
}

impl WaitQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }

    /// Adds a process to look at.
    pub(super) fn add(&self, pid: Pid) {
        let mut state = self.state();
        if !state.closed {
            state.pids.push_back(pid);
        }
        drop(state);
        self.changed.notify_one();
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
            if let Some(pid) = state.pids.pop_front() {
                return Some(pid);
            }
            state = ignore_poison(self.changed.wait(state));
        }
    }

    /// Passes each exit to `exited`, until the queue is closed.
    pub(super) fn run(
        self: &Arc<Self>,
        engine: &dyn ProcessEngine,
        mut exited: impl FnMut(Pid, Result<everwarp_process::Exit, everwarp_process::HostError>),
    ) {
        while let Some(pid) = self.next() {
            let waker = Waker::from(Arc::new(PidWaker {
                pid,
                queue: Arc::clone(self),
            }));
            if let Poll::Ready(exit) = engine.poll_wait(pid, &mut Context::from_waker(&waker)) {
                exited(pid, exit);
            }
        }
    }
}
