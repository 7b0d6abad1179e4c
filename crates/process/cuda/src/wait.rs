//! Waiting for processes to exit: for one, for many, or as a future.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use everwarp_process::{Exit, HostError, Pid};

use crate::host_core::{ExitRequest, HostCore};
use crate::process::Phase;

/// How many exits are taken together.
const TOGETHER: usize = 1024;

impl HostCore {
    /// Waits until a process exits, and frees its pid.
    pub(crate) fn wait(&self, pid: Pid, timeout: Option<Duration>) -> Result<Exit, HostError> {
        let begin = Instant::now();
        loop {
            if let Some(decided) = decided(pid, self.take_exit(pid)) {
                return decided;
            }
            if let Some(reason) = self.waiters.failure() {
                return Err(HostError::Lost { reason });
            }
            if let Some(after) = timeout.filter(|t| begin.elapsed() >= *t) {
                return Err(HostError::Timeout { after });
            }
            let most = timeout.map_or(Duration::MAX, |t| t.saturating_sub(begin.elapsed()));
            let is_alive = || {
                let mut cursor = self.table.cursor();
                cursor
                    .phase(pid)
                    .is_some_and(|phase| Phase::is_alive(phase))
            };
            self.waiters.await_end(pid, most, is_alive);
        }
    }

    /// Waits until all these processes have exited, and passes their exits to `each` in the order of `pids`. Processes
    /// that have been waited for are skipped.
    pub(crate) fn wait_each(
        &self,
        pids: &[Pid],
        each: &mut dyn FnMut(Pid, Exit),
    ) -> Result<(), HostError> {
        let mut rest = pids;
        let mut ended = Vec::with_capacity(TOGETHER.min(pids.len()));
        while let Some(first) = rest.first() {
            let taken = self.take_exits(rest, &mut ended);
            rest = &rest[taken..];
            ended.drain(..).for_each(|(pid, exit)| each(pid, exit));
            if taken == 0 {
                match self.wait(*first, None) {
                    Ok(exit) => each(*first, exit),
                    // Another thread has waited for it meanwhile.
                    Err(HostError::UnknownPid(_)) => {}
                    Err(e) => return Err(e),
                }
                rest = &rest[1..];
            }
        }
        Ok(())
    }

    /// Takes the exits of the first processes, up to the first one that is alive; returns for how many it has done so.
    fn take_exits(&self, pids: &[Pid], ended: &mut Vec<(Pid, Exit)>) -> usize {
        let mut taken = 0;
        let mut cursor = self.table.cursor();
        // Not too many at a time, because other threads need the locks too.
        for pid in pids.iter().take(TOGETHER) {
            match self.take_exit_at(&mut cursor, *pid) {
                ExitRequest::Exited(exit) => ended.push((*pid, exit)),
                ExitRequest::Alive => break,
                ExitRequest::Unknown => {}
            }
            taken += 1;
        }
        drop(cursor);
        self.table.release(ended.iter().map(|(pid, _)| pid.slot()));
        taken
    }

    /// Takes the exit of a process that has exited, and otherwise keeps the waker until it has.
    pub(crate) fn poll_wait(
        &self,
        pid: Pid,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Exit, HostError>> {
        if let Some(decided) = decided(pid, self.take_exit(pid)) {
            return Poll::Ready(decided);
        }
        if let Err(reason) = self.waiters.keep_waker(pid, cx.waker()) {
            return Poll::Ready(Err(HostError::Lost { reason }));
        }
        // The process may have exited before its waker was there.
        match decided(pid, self.take_exit(pid)) {
            None => Poll::Pending,
            Some(decided) => {
                self.waiters.forget_waker(pid);
                Poll::Ready(decided)
            }
        }
    }
}

/// The result of a wait, unless the process is alive.
fn decided(pid: Pid, request: ExitRequest) -> Option<Result<Exit, HostError>> {
    match request {
        ExitRequest::Alive => None,
        ExitRequest::Exited(exit) => Some(Ok(exit)),
        ExitRequest::Unknown => Some(Err(HostError::UnknownPid(pid))),
    }
}
