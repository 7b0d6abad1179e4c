//! Waiting for processes to end: by a thread, by many, or as a future.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use everwarp_process::{Exit, HostError, Pid};

use crate::dispatch::{Shared, Taken};

/// Exits that are taken together.
const TOGETHER: usize = 1024;

impl Shared {
    /// Waits for the end of a process; its pid names nothing afterwards.
    pub(crate) fn wait(&self, pid: Pid, timeout: Option<Duration>) -> Result<Exit, HostError> {
        let begin = Instant::now();
        loop {
            match self.take(pid) {
                Taken::Unknown => return Err(HostError::UnknownPid(pid)),
                Taken::Exit(exit) => return Ok(exit),
                Taken::NotYet => {}
            }
            let failed = self.state().failed.clone();
            if let Some(reason) = failed {
                return Err(HostError::Lost { reason });
            }
            if let Some(after) = timeout.filter(|t| begin.elapsed() >= *t) {
                return Err(HostError::Timeout { after });
            }
            let most = timeout.map_or(Duration::MAX, |t| t.saturating_sub(begin.elapsed()));
            self.await_end(pid, most);
        }
    }

    /// Waits for the ends of processes, and hands each exit over in this order; the pids name nothing afterwards.
    /// Processes that have been waited for are skipped.
    pub(crate) fn wait_each(
        &self,
        pids: &[Pid],
        each: &mut dyn FnMut(Pid, Exit),
    ) -> Result<(), HostError> {
        let mut rest = pids;
        let mut ended = Vec::with_capacity(TOGETHER.min(pids.len()));
        while let Some(first) = rest.first() {
            // Not too many at a time, because other threads need the locks too.
            let mut taken = 0;
            let mut cursor = self.table.cursor();
            for pid in rest.iter().take(TOGETHER) {
                match self.take_from(&mut cursor, *pid) {
                    Taken::Exit(exit) => ended.push((*pid, exit)),
                    Taken::NotYet => break,
                    Taken::Unknown => {}
                }
                taken += 1;
            }
            drop(cursor);
            let slots = ended.iter().map(|(pid, _)| pid.slot());
            self.table.release(slots);
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

    /// Takes the exit of a process that has ended, and otherwise keeps the waker until it has.
    pub(crate) fn poll_wait(
        &self,
        pid: Pid,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Exit, HostError>> {
        if let Some(ready) = ready(pid, self.take(pid)) {
            return Poll::Ready(ready);
        }
        let mut state = self.state();
        if let Some(reason) = state.failed.clone() {
            return Poll::Ready(Err(HostError::Lost { reason }));
        }
        let before = state.wakers.insert(pid, cx.waker().clone());
        drop(state);
        drop(before);
        // The process may have ended before its waker was there.
        match ready(pid, self.take(pid)) {
            None => Poll::Pending,
            Some(ready) => {
                let waker = self.state().wakers.remove(&pid);
                drop(waker);
                Poll::Ready(ready)
            }
        }
    }
}

fn ready(pid: Pid, taken: Taken) -> Option<Result<Exit, HostError>> {
    match taken {
        Taken::NotYet => None,
        Taken::Exit(exit) => Some(Ok(exit)),
        Taken::Unknown => Some(Err(HostError::UnknownPid(pid))),
    }
}
