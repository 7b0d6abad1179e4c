//! Processes that callers wait for, and exits that have come.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_process::{Exit, HostError, Pid};

use crate::protocol::{HostFault, ProcessExit};

/// A process that a caller waits for.
#[derive(Debug, Default)]
struct Waiting {
    exit: Option<Result<Exit, HostError>>,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct WaitTable {
    waiting: HashMap<Pid, Waiting>,
    /// Captured output of processes whose exits have not come.
    captured: HashMap<Pid, [Vec<u8>; 2]>,
    ended: Option<HostError>,
}

/// What callers wait for on one connection.
#[derive(Debug, Default)]
pub(super) struct Waits {
    table: Mutex<WaitTable>,
    changed: Condvar,
}

impl Waits {
    fn table(&self) -> MutexGuard<'_, WaitTable> {
        lock(&self.table)
    }

    /// Registers a process; `true` if the service has to be asked for its exit.
    pub(super) fn register(&self, pid: Pid) -> bool {
        let mut table = self.table();
        if table.ended.is_some() || table.waiting.contains_key(&pid) {
            return false;
        }
        table.waiting.insert(pid, Waiting::default());
        true
    }

    /// Waits for a registered process.
    pub(super) fn wait(&self, pid: Pid, timeout: Option<Duration>) -> Result<Exit, HostError> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut table = self.table();
        loop {
            match table.waiting.get_mut(&pid) {
                // Another caller has taken the exit.
                None => {
                    return Err(table.ended.clone().unwrap_or(HostError::UnknownPid(pid)));
                }
                Some(waiting) => {
                    if let Some(exit) = waiting.exit.take() {
                        table.waiting.remove(&pid);
                        return exit;
                    }
                }
            }
            if let Some(ended) = &table.ended {
                return Err(ended.clone());
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            table = match (left, timeout) {
                (None, _) => ignore_poison(self.changed.wait(table)),
                (Some(Duration::ZERO), Some(after)) => return Err(HostError::Timeout { after }),
                (Some(left), _) => {
                    let waited = self.changed.wait_timeout(table, left);
                    ignore_poison(waited).0
                }
            };
        }
    }

    /// Takes the exit of a registered process, or stores the waker.
    pub(super) fn poll(&self, pid: Pid, waker: &Waker) -> Poll<Result<Exit, HostError>> {
        let mut table = self.table();
        let ended = table.ended.clone();
        let Some(waiting) = table.waiting.get_mut(&pid) else {
            return Poll::Ready(Err(ended.unwrap_or(HostError::UnknownPid(pid))));
        };
        if let Some(exit) = waiting.exit.take() {
            table.waiting.remove(&pid);
            return Poll::Ready(exit);
        }
        match ended {
            Some(ended) => Poll::Ready(Err(ended)),
            None => {
                waiting.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Adds captured output of a process.
    pub(super) fn captured(&self, pid: Pid, stderr: bool, bytes: &[u8]) {
        let mut table = self.table();
        let captured = table.captured.entry(pid).or_default();
        captured[usize::from(stderr)].extend_from_slice(bytes);
    }

    /// An exit with the output that was captured before it.
    pub(super) fn complete(&self, pid: Pid, exit: ProcessExit) -> Exit {
        let captured = match exit.stdout.is_some() || exit.stderr.is_some() {
            true => self.table().captured.remove(&pid).unwrap_or_default(),
            false => Default::default(),
        };
        exit.with(captured)
    }

    /// Stores an exit, and wakes the callers that wait for it.
    pub(super) fn exited(&self, pid: Pid, exit: Result<ProcessExit, HostFault>) {
        let exit = match exit {
            Ok(exit) => Ok(self.complete(pid, exit)),
            Err(fault) => Err(fault.into()),
        };
        let mut table = self.table();
        let Some(waiting) = table.waiting.get_mut(&pid) else {
            return;
        };
        waiting.exit = Some(exit);
        let waker = waiting.waker.take();
        drop(table);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends all present and future waits.
    pub(super) fn end(&self, error: &HostError) {
        let mut table = self.table();
        table.ended = Some(error.clone());
        let wakers: Vec<_> = table
            .waiting
            .values_mut()
            .filter_map(|waiting| waiting.waker.take())
            .collect();
        drop(table);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}
