//! Processes that have been started.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use everwarp_process::{Exit, HostError, Pid, ProcessEngine};

/// A process that was started and has not been waited for. It is also a [`Future`] that any executor can drive.
///
/// If it is dropped, the process keeps running, and [`Host::list`](super::Host::list) shows it until
/// [`Host::wait`](super::Host::wait) is called with its pid or the host ends.
#[derive(Debug)]
#[must_use = "wait for it, or drop it explicitly"]
pub struct Child {
    engine: Arc<dyn ProcessEngine>,
    pid: Pid,
}

impl Child {
    /// The process's pid.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits until the process exits. The [`Exit`] holds the output that was captured.
    ///
    /// # Errors
    /// The engine has failed, or the exit was taken before ([`HostError::UnknownPid`]).
    pub fn wait(self) -> Result<Exit, HostError> {
        self.engine.wait(self.pid, None)
    }

    /// Waits up to `timeout` until the process exits; `None` if it still runs.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<Exit>, HostError> {
        match self.engine.wait(self.pid, Some(timeout)) {
            Ok(exit) => Ok(Some(exit)),
            Err(HostError::Timeout { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes the exit if the process has exited; `None` if it still runs.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn try_wait(&mut self) -> Result<Option<Exit>, HostError> {
        self.wait_timeout(Duration::ZERO)
    }

    /// Asks the process to end; wait for it to learn when it has. A process that has exited keeps its status.
    ///
    /// # Errors
    /// The engine has failed.
    pub fn kill(&mut self) -> Result<(), HostError> {
        self.engine.kill(self.pid).map(drop)
    }
}

impl Future for Child {
    type Output = Result<Exit, HostError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.engine.poll_wait(self.pid, cx)
    }
}

/// Processes that were started together, in the order of their numbers. They are cheaper to wait for together than one
/// by one.
#[derive(Debug)]
#[must_use = "wait for them, or drop them explicitly"]
pub struct Children {
    engine: Arc<dyn ProcessEngine>,
    pids: Vec<Pid>,
}

impl Children {
    pub(super) fn new(engine: &Arc<dyn ProcessEngine>, pids: Vec<Pid>) -> Self {
        let engine = Arc::clone(engine);
        Self { engine, pids }
    }

    /// How many processes there are.
    pub fn len(&self) -> usize {
        self.pids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// The pids, in the order of the processes' numbers.
    pub fn pids(&self) -> &[Pid] {
        &self.pids
    }

    /// Waits until all of them have exited.
    ///
    /// # Errors
    /// The engine has failed.
    pub fn wait_all(self) -> Result<Vec<Exit>, HostError> {
        let mut exits = Vec::with_capacity(self.len());
        self.wait_each(|_, exit| exits.push(exit))?;
        Ok(exits)
    }

    /// Waits until all of them have exited, and passes each exit to `each` in the order of the processes' numbers as
    /// soon as it is there.
    ///
    /// # Errors
    /// The engine has failed.
    pub fn wait_each(self, mut each: impl FnMut(Pid, Exit)) -> Result<(), HostError> {
        self.engine.wait_each(&self.pids, &mut each)
    }

    /// Asks all of them to end.
    ///
    /// # Errors
    /// The engine has failed.
    pub fn kill(&self) -> Result<(), HostError> {
        for pid in &self.pids {
            self.engine.kill(*pid)?;
        }
        Ok(())
    }
}

impl IntoIterator for Children {
    type Item = Child;
    type IntoIter = ChildIter;

    fn into_iter(self) -> ChildIter {
        ChildIter {
            engine: self.engine,
            pids: self.pids.into_iter(),
        }
    }
}

/// The iterator over [`Children`].
#[derive(Debug)]
pub struct ChildIter {
    engine: Arc<dyn ProcessEngine>,
    pids: std::vec::IntoIter<Pid>,
}

impl Iterator for ChildIter {
    type Item = Child;

    fn next(&mut self) -> Option<Child> {
        let pid = self.pids.next()?;
        let engine = Arc::clone(&self.engine);
        Some(Child { engine, pid })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.pids.size_hint()
    }
}

impl ExactSizeIterator for ChildIter {}
