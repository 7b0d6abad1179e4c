//! The record of one process: its life from the queue to the reaped exit.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use everwarp_process::{Exit, ExitStatus, Pid, Trap, TrapKind};
use everwarp_telemetry::processes::{self, ProcessHand};
use tokio::sync::Notify;

use crate::lock::{lock, wait, wait_for};
use crate::usage::LiveUsage;
use crate::worker_load::WorkerLoad;

/// Tells a running process to end, both its compiled code and a host call in which it waits.
#[derive(Default)]
pub(crate) struct KillSwitch {
    thrown: AtomicBool,
    notify: Notify,
}

impl KillSwitch {
    fn throw(&self) {
        // Release, with the Acquire in `is_thrown`: the process sees what the killer did before.
        self.thrown.store(true, Ordering::Release);
        // Leaves a permit if nothing waits yet, so that no kill is missed.
        self.notify.notify_one();
    }

    pub(crate) fn is_thrown(&self) -> bool {
        self.thrown.load(Ordering::Acquire)
    }

    pub(crate) async fn thrown(&self) {
        self.notify.notified().await;
    }
}

/// A process on its worker thread, from its start to its exit.
pub(crate) type ProcessFuture = Pin<Box<dyn Future<Output = Exit>>>;

/// What a queued process will run. The queue knows no more of it.
pub(crate) trait QueuedWork: Send {
    /// Starts the process on a worker thread.
    fn start(self: Box<Self>, process: Arc<Process>, load: Arc<WorkerLoad>) -> ProcessFuture;
}

/// Where a process is in its life. It moves only down this list, under the record's lock.
pub(crate) enum Lifecycle {
    /// In the queue.
    Queued(Box<dyn QueuedWork>),
    /// On a worker thread.
    Running,
    /// Ended, and not waited for yet.
    Exited(Box<Exit>),
    /// A waiter has taken the exit.
    Reaped,
}

/// What is under a record's lock.
pub(crate) struct Record {
    pub(crate) lifecycle: Lifecycle,
    /// Woken when the process ends: the waker of the last poll.
    waker: Option<Waker>,
}

pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// The process that has spawned it.
    pub(crate) parent: Option<Pid>,
    pub(crate) switch: KillSwitch,
    pub(crate) usage: LiveUsage,
    /// When it was queued, if that is measured.
    queued: u64,
    record: Mutex<Record>,
    /// Threads that wait for the end, changed and read under the lock. To notify a condition without waiters is a
    /// system call too.
    waiting_threads: AtomicUsize,
    ended: Condvar,
    /// The same for processes that wait for their child.
    ended_for_parent: Notify,
}

/// The exit of a process that did not run, or whose run is not known.
pub(crate) fn bare_exit(status: ExitStatus) -> Exit {
    Exit {
        status,
        fuel_used: None,
        elapsed: Duration::ZERO,
        stdout: None,
        stderr: None,
    }
}

/// The status of a process whose host call could not be carried out.
pub(crate) fn host_call_failed(message: String) -> ExitStatus {
    ExitStatus::Trapped(Trap {
        kind: TrapKind::HostCall,
        function: None,
        message,
    })
}

impl Process {
    pub(crate) fn new(pid: Pid, parent: Option<Pid>, work: Box<dyn QueuedWork>) -> Self {
        Self {
            pid,
            parent,
            switch: KillSwitch::default(),
            usage: LiveUsage::default(),
            queued: processes::queued(),
            record: Mutex::new(Record {
                lifecycle: Lifecycle::Queued(work),
                waker: None,
            }),
            waiting_threads: AtomicUsize::new(0),
            ended: Condvar::new(),
            ended_for_parent: Notify::new(),
        }
    }

    /// What it records from its start on, if anything is measured.
    pub(crate) fn hand(&self) -> Option<ProcessHand> {
        ProcessHand::start(self.queued, self.pid.slot())
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }

    /// Notifies the waiters on threads and the poller.
    fn notify(&self, mut record: MutexGuard<'_, Record>) {
        let waits = self.waiting_threads.load(Ordering::Relaxed) > 0;
        let waker = record.waker.take();
        drop(record);
        if waits {
            self.ended.notify_all();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn notify_end(&self, record: MutexGuard<'_, Record>) {
        self.notify(record);
        self.ended_for_parent.notify_waiters();
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(
            self.record().lifecycle,
            Lifecycle::Exited(_) | Lifecycle::Reaped
        )
    }

    /// Waits for the end and leaves the exit to be taken.
    pub(crate) async fn ended(&self) {
        loop {
            // Enabled before the check, so that an end after the check wakes this waiter.
            let mut ended = pin!(self.ended_for_parent.notified());
            ended.as_mut().enable();
            if self.has_ended() {
                return;
            }
            ended.await;
        }
    }

    /// Takes the work; `None` if the process was killed in the queue.
    pub(crate) fn start(&self) -> Option<Box<dyn QueuedWork>> {
        let mut record = self.record();
        match std::mem::replace(&mut record.lifecycle, Lifecycle::Running) {
            Lifecycle::Queued(work) => Some(work),
            other => {
                record.lifecycle = other;
                None
            }
        }
    }

    /// Records the exit; returns whether a kill was pending.
    #[must_use]
    pub(crate) fn finish(&self, exit: Exit) -> bool {
        let mut record = self.record();
        record.lifecycle = Lifecycle::Exited(Box::new(exit));
        self.notify_end(record);
        self.switch.is_thrown()
    }

    /// Ends the process: at once if it is in the queue, soon if it runs. `before_throw` runs under the lock, before the
    /// process can end of this kill. A process that has ended keeps its status.
    pub(crate) fn kill(&self, before_throw: impl FnOnce()) {
        let mut record = self.record();
        match record.lifecycle {
            Lifecycle::Queued(_) => {
                let exit = Lifecycle::Exited(Box::new(bare_exit(ExitStatus::Killed)));
                let queued = std::mem::replace(&mut record.lifecycle, exit);
                self.notify_end(record);
                // Closes the channel ends that the process was to have, and not under the lock.
                drop(queued);
            }
            Lifecycle::Running if !self.switch.is_thrown() => {
                before_throw();
                self.switch.throw();
            }
            _ => {}
        }
    }

    /// Takes the exit, if the process has ended.
    fn take_exit(record: &mut Record) -> Taken {
        match std::mem::replace(&mut record.lifecycle, Lifecycle::Reaped) {
            Lifecycle::Exited(exit) => Taken::Exit(exit),
            Lifecycle::Reaped => Taken::ByAnother,
            other => {
                record.lifecycle = other;
                Taken::NotYet
            }
        }
    }

    /// Waits for the end, up to `timeout`.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Taken {
        let begin = Instant::now();
        let mut record = self.record();
        loop {
            match Self::take_exit(&mut record) {
                Taken::NotYet => {}
                taken => {
                    // Other waiters learn that the exit is gone.
                    self.notify(record);
                    return taken;
                }
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Taken::NotYet;
            }
            self.waiting_threads.fetch_add(1, Ordering::Relaxed);
            record = match left {
                None => wait(&self.ended, record),
                Some(left) => wait_for(&self.ended, record, left),
            };
            self.waiting_threads.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes the exit, or keeps the waker until there is one.
    pub(crate) fn poll_exit(&self, cx: &Context<'_>) -> Poll<Taken> {
        let mut record = self.record();
        match Self::take_exit(&mut record) {
            Taken::NotYet => {
                record.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            taken => {
                self.notify(record);
                Poll::Ready(taken)
            }
        }
    }
}

/// What a waiter got.
#[must_use]
pub(crate) enum Taken {
    /// The exit.
    Exit(Box<Exit>),
    /// The process has not ended.
    NotYet,
    /// Another waiter has taken the exit.
    ByAnother,
}
