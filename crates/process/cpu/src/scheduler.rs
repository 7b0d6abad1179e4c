//! The processes of a host: their table, and the queue from which worker threads take them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

use everwarp_process::Pid;
use tokio::sync::Notify;

use crate::epoch::EpochClock;
use crate::lock::{lock, wait};
use crate::pid_table::PidTable;
use crate::process::{Lifecycle, Process, QueuedWork};

#[derive(Default)]
struct ReadyQueue {
    ready: VecDeque<Arc<Process>>,
    stopped: bool,
}

/// The processes of a host.
pub(crate) struct Scheduler {
    table: Mutex<PidTable<Arc<Process>>>,
    queue: Mutex<ReadyQueue>,
    /// A process is ready; for worker threads without a process.
    ready: Condvar,
    /// The same for worker threads whose processes are all blocked.
    more: Notify,
    pub(crate) epoch: EpochClock,
}

impl Scheduler {
    pub(crate) fn new() -> Self {
        Self {
            table: Mutex::new(PidTable::new()),
            queue: Mutex::default(),
            ready: Condvar::new(),
            more: Notify::new(),
            epoch: EpochClock::default(),
        }
    }

    /// Waits for the next process to run; `None` when the host ends.
    pub(crate) fn next(&self) -> Option<Arc<Process>> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.stopped {
                return None;
            }
            if let Some(process) = queue.ready.pop_front() {
                return Some(process);
            }
            queue = wait(&self.ready, queue);
        }
    }

    /// The next process to run, if there is one.
    pub(crate) fn try_next(&self) -> Option<Arc<Process>> {
        let mut queue = lock(&self.queue);
        match queue.stopped {
            true => None,
            false => queue.ready.pop_front(),
        }
    }

    /// Whether processes wait for a thread.
    pub(crate) fn has_ready(&self) -> bool {
        !lock(&self.queue).ready.is_empty()
    }

    /// Waits until another process is ready.
    pub(crate) async fn more_ready(&self) {
        self.more.notified().await;
    }

    /// Passes a notification of [`Self::more_ready`] on to another thread.
    pub(crate) fn pass_on(&self) {
        self.more.notify_one();
    }

    /// Adds a process to the table; `None` if every pid is in use.
    fn enter(&self, parent: Option<Pid>, work: Box<dyn QueuedWork>) -> Option<Arc<Process>> {
        let mut made = None;
        lock(&self.table).insert(|pid| {
            let process = Arc::new(Process::new(pid, parent, work));
            made.insert(process).clone()
        });
        made
    }

    /// Queues a child; `None` if every pid is in use.
    pub(crate) fn spawn(&self, parent: Pid, work: Box<dyn QueuedWork>) -> Option<Arc<Process>> {
        let process = self.enter(Some(parent), work)?;
        lock(&self.queue).ready.push_back(Arc::clone(&process));
        self.ready.notify_one();
        self.more.notify_one();
        Some(process)
    }

    /// Queues processes of the host together, all of them or none, which takes the lock of the queue once. Returns
    /// `None` if there are not enough free pids.
    pub(crate) fn spawn_all(
        &self,
        works: impl Iterator<Item = Box<dyn QueuedWork>>,
    ) -> Option<Vec<Pid>> {
        let mut processes = Vec::<Arc<Process>>::new();
        for work in works {
            let Some(process) = self.enter(None, work) else {
                processes
                    .iter()
                    .for_each(|process| self.forget(process.pid));
                return None;
            };
            processes.push(process);
        }
        let pids = processes.iter().map(|process| process.pid).collect();
        lock(&self.queue).ready.extend(processes);
        self.ready.notify_all();
        self.more.notify_one();
        Some(pids)
    }

    /// The process with this pid.
    pub(crate) fn find(&self, pid: Pid) -> Option<Arc<Process>> {
        lock(&self.table).get(pid).cloned()
    }

    /// Removes a process from the table, unless another waiter has done so.
    pub(crate) fn forget(&self, pid: Pid) {
        drop(lock(&self.table).remove(pid));
    }

    /// Ends a process, whatever it does.
    pub(crate) fn kill(&self, process: &Process) {
        process.kill(|| self.epoch.demand());
    }

    /// The records of all processes.
    pub(crate) fn all(&self) -> Vec<Arc<Process>> {
        lock(&self.table).values().cloned().collect()
    }

    /// Ends all processes; queued ones before running ones, so that none starts while the others are killed.
    pub(crate) fn kill_all(&self) {
        let all = self.all();
        let is_queued =
            |process: &&Arc<Process>| matches!(process.record().lifecycle, Lifecycle::Queued(_));
        let (queued, others): (Vec<_>, Vec<_>) = all.iter().partition(is_queued);
        for process in queued.into_iter().chain(others) {
            self.kill(process);
        }
    }

    /// Ends the worker threads once their processes have ended.
    pub(crate) fn stop(&self) {
        lock(&self.queue).stopped = true;
        self.ready.notify_all();
    }
}
