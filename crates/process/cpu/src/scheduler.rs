//! The processes of a host: their table, and the queue from which worker threads take them.
//!
//! A host begins with one worker thread. Another one is started when a process is ready and none of the threads waits for
//! one, up to the host's limit; a thread that has waited for [`LINGER`] ends, unless it is the last.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use everwarp_process::Pid;
use tokio::sync::Notify;

use crate::epoch;
use crate::lock::{lock, wait, wait_for};
use crate::permits::{give_extra, take_extra};
use crate::pid_table::PidTable;
use crate::process::{Lifecycle, Process, QueuedWork};

/// How long a worker thread waits for a process before it ends. To start one takes some 50 us.
const LINGER: Duration = Duration::from_millis(250);

#[derive(Default)]
struct ReadyQueue {
    ready: VecDeque<Arc<Process>>,
    stopped: bool,
    /// Worker threads that take processes.
    threads: usize,
    /// Those of them that wait for one.
    waiting: usize,
    /// Worker threads that have not returned.
    alive: usize,
    /// Threads that wait until no process is ready.
    feeders: usize,
}

/// Starts a worker thread, which runs processes until [`Scheduler::next`] returns none.
pub(crate) type StartWorker = fn(WorkerSeat) -> io::Result<()>;

/// The processes of a host.
pub(crate) struct Scheduler {
    table: Mutex<PidTable<Arc<Process>>>,
    queue: Mutex<ReadyQueue>,
    /// A process is ready; for worker threads without a process.
    ready: Condvar,
    /// The same for worker threads whose processes are all blocked.
    more: Notify,
    /// A worker thread has returned.
    left: Condvar,
    /// No process is ready; for threads that would add some.
    empty: Condvar,
    /// The most worker threads.
    limit: usize,
    start_worker: StartWorker,
    own: Weak<Self>,
}

/// The place of a worker thread at its host. It is given back when the thread returns, or could not be started.
pub(crate) struct WorkerSeat {
    pub(crate) scheduler: Arc<Scheduler>,
    /// The thread was told to return by [`Scheduler::next`].
    dismissed: bool,
}

impl WorkerSeat {
    /// Returns, as [`Scheduler::next`] has told the thread.
    pub(crate) fn leave(mut self) {
        self.dismissed = true;
        drop(self);
    }
}

impl Drop for WorkerSeat {
    fn drop(&mut self) {
        let mut queue = lock(&self.scheduler.queue);
        if !self.dismissed {
            queue.dismiss();
        }
        queue.alive -= 1;
        drop(queue);
        self.scheduler.left.notify_all();
    }
}

impl ReadyQueue {
    /// A thread takes no further processes.
    fn dismiss(&mut self) {
        self.threads -= 1;
        // The right to the last thread is the host's.
        if self.threads > 0 {
            give_extra();
        }
    }
}

impl Scheduler {
    /// A scheduler whose processes run on up to `limit` threads. The first one is started by [`Self::start`].
    pub(crate) fn new(limit: usize, start_worker: StartWorker) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            table: Mutex::new(PidTable::new()),
            queue: Mutex::default(),
            ready: Condvar::new(),
            more: Notify::new(),
            left: Condvar::new(),
            empty: Condvar::new(),
            limit,
            start_worker,
            own: own.clone(),
        })
    }

    /// How many processes run at the same time, besides those that wait for others.
    pub(crate) fn width(&self) -> usize {
        self.limit
    }

    /// Starts the first worker thread.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(&self) -> io::Result<()> {
        let mut queue = lock(&self.queue);
        (queue.threads, queue.alive) = (1, 1);
        drop(queue);
        self.start_thread()
    }

    /// Starts a thread that has been counted.
    fn start_thread(&self) -> io::Result<()> {
        let scheduler = self.own.upgrade();
        (self.start_worker)(WorkerSeat {
            scheduler: scheduler.expect("the caller has a reference"),
            dismissed: false,
        })
    }

    /// Sees to it that a process in the queue gets a thread: wakes one that waits, or starts one.
    fn serve_ready(&self, mut queue: MutexGuard<'_, ReadyQueue>) {
        if queue.ready.is_empty() || queue.stopped {
            return;
        }
        if queue.waiting > 0 {
            drop(queue);
            return self.ready.notify_one();
        }
        let first = queue.threads == 0;
        if queue.threads < self.limit && (first || take_extra()) {
            queue.threads += 1;
            queue.alive += 1;
            drop(queue);
            // Without the thread the others have more to do, and the next process that becomes ready tries again.
            drop(self.start_thread());
        }
    }

    /// Waits for the next process to run; `None` if the thread must return.
    pub(crate) fn next(&self) -> Option<Arc<Process>> {
        let mut queue = lock(&self.queue);
        let mut since = None;
        loop {
            if queue.stopped {
                queue.dismiss();
                return None;
            }
            if let Some(process) = queue.ready.pop_front() {
                self.tell_feeders(&queue);
                // Many may have become ready at once, so each thread that takes one sees to the next.
                self.serve_ready(queue);
                return Some(process);
            }
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            let last = queue.threads == 1;
            if !last && waited >= LINGER {
                queue.dismiss();
                return None;
            }
            queue.waiting += 1;
            queue = match last {
                true => wait(&self.ready, queue),
                false => wait_for(&self.ready, queue, LINGER.saturating_sub(waited)),
            };
            queue.waiting -= 1;
        }
    }

    /// The next process to run, if there is one.
    pub(crate) fn try_next(&self) -> Option<Arc<Process>> {
        let mut queue = lock(&self.queue);
        if queue.stopped {
            return None;
        }
        let process = queue.ready.pop_front()?;
        self.tell_feeders(&queue);
        if !queue.ready.is_empty() {
            // Several may have become ready at once, and another thread's processes may all be blocked as well.
            self.more.notify_one();
        }
        self.serve_ready(queue);
        Some(process)
    }

    /// Wakes threads that wait until no process is ready, if none is.
    fn tell_feeders(&self, queue: &ReadyQueue) {
        if queue.feeders > 0 && queue.ready.is_empty() {
            self.empty.notify_all();
        }
    }

    /// Waits until no process is ready, or `enough` holds. The thread that makes it hold calls [`Self::look_again`] afterwards.
    pub(crate) fn wait_until_empty(&self, enough: impl Fn() -> bool) {
        let mut queue = lock(&self.queue);
        queue.feeders += 1;
        while !queue.ready.is_empty() && !queue.stopped && !enough() {
            queue = wait(&self.empty, queue);
        }
        queue.feeders -= 1;
    }

    /// Has threads in [`Self::wait_until_empty`] look whether they have waited for enough.
    pub(crate) fn look_again(&self) {
        // With the lock, so that none is between its look and its wait.
        let _queue = lock(&self.queue);
        self.empty.notify_all();
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
        let mut queue = lock(&self.queue);
        queue.ready.push_back(Arc::clone(&process));
        self.serve_ready(queue);
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
        let mut queue = lock(&self.queue);
        queue.ready.extend(processes);
        self.serve_ready(queue);
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
        process.kill(epoch::demand);
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
        self.empty.notify_all();
    }

    /// Waits until all worker threads have returned.
    pub(crate) fn join(&self) {
        let mut queue = lock(&self.queue);
        while queue.alive > 0 {
            queue = wait(&self.left, queue);
        }
    }
}
