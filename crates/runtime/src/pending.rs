//! Submissions that were not waited for yet.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use everwarp_contract::TokenId;

use crate::core::EngineCore;
use crate::error::Error;
use crate::sync::lock;
use crate::token::{Dropped, Registered};
use crate::wait::WaitLoop;

/// The result of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The value that the task or the tasks of its group reported; 0 if none did.
    pub value: u64,
}

/// A submission in flight. It is also a [`Future`] that any executor can drive.
///
/// It may be dropped: the task runs all the same. As a future it needs no timer and no particular executor; a thread of
/// the engine, started when the first future is polled, wakes it.
#[derive(Debug)]
#[must_use = "wait for it, or drop it explicitly"]
pub struct Pending {
    core: Arc<EngineCore>,
    pub(crate) token: TokenId,
    taken: bool,
    /// Whether a waker may be registered.
    polled: bool,
}

impl Pending {
    pub(crate) fn new(core: Arc<EngineCore>, token: TokenId) -> Self {
        Self {
            core,
            token,
            taken: false,
            polled: false,
        }
    }

    fn take(&mut self) -> Option<Completion> {
        let token = self.core.token(self.token);
        if !token.is_done() {
            return None;
        }
        self.forget_waker();
        let value = token.take()?;
        self.taken = true;
        lock(&self.core.recycled).push(self.token);
        Some(Completion { value })
    }

    /// Takes the waker back before the token is recycled, because the token may then have another owner.
    fn forget_waker(&self) {
        if self.polled {
            self.core.woke(self.core.token(self.token).forget_waker());
        }
    }

    /// Whether the submission is done and its result was not taken yet.
    pub fn is_done(&self) -> bool {
        self.core.reap();
        !self.taken && self.core.token(self.token).is_done()
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// [`Error::AlreadyTaken`] the second time; [`Error::Fault`], [`Error::PoolExhausted`] or
    /// [`Error::Stuck`] if the engine ends or nothing moves for as long as its watchdog waits;
    /// [`Error::BogusCompletion`] if the engine breaks its protocol;
    /// [`Error::Parked`] if the engine is parked and stays so; [`Error::Stopped`] after its stop. Where an
    /// error leaves the engine alive (`Parked`), it can be waited for again.
    pub fn wait(&mut self) -> Result<Completion, Error> {
        self.wait_until(None)
    }

    /// Waits for the result for a limited time; [`Error::Timeout`] leaves the submission in flight.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), but for [`Error::Parked`]: the engine may be resumed meanwhile.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Completion, Error> {
        self.wait_until(Some(timeout))
    }

    /// Waits for the result as long as the engine lives and `goes_on` is true, also while the engine is parked and while
    /// nothing moves: for a thread that serves the engine. Not a stable API.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), but for [`Error::Parked`] and [`Error::Stuck`].
    #[doc(hidden)]
    pub fn wait_lasting(
        &mut self,
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<Completion>, Error> {
        if self.taken {
            return Err(Error::AlreadyTaken);
        }
        let mut wait = WaitLoop::lasting();
        while goes_on() {
            self.core.reap();
            if let Some(completion) = self.take() {
                return Ok(Some(completion));
            }
            wait.pause(&self.core, None)?;
        }
        Ok(None)
    }

    fn wait_until(&mut self, timeout: Option<Duration>) -> Result<Completion, Error> {
        if self.taken {
            return Err(Error::AlreadyTaken);
        }
        let mut wait = WaitLoop::default();
        loop {
            self.core.reap();
            if let Some(completion) = self.take() {
                return Ok(completion);
            }
            wait.pause(&self.core, timeout)?;
        }
    }
}

impl Future for Pending {
    type Output = Result<Completion, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.taken {
            return Poll::Ready(Err(Error::AlreadyTaken));
        }
        self.core.reap();
        if let Some(completion) = self.take() {
            return Poll::Ready(Ok(completion));
        }
        self.forget_waker();
        self.polled = true;
        self.core.wakers.fetch_add(1, Ordering::AcqRel);
        let registered = self.core.token(self.token).register(cx.waker().clone());
        if registered == Registered::AlreadyDone
            && let Some(completion) = self.take()
        {
            return Poll::Ready(Ok(completion));
        }
        // After the waker is in place: an engine that ends from here on wakes it.
        if let Err(error) = self.core.check().and_then(|()| self.core.ensure_reaper()) {
            self.forget_waker();
            return Poll::Ready(Err(error));
        }
        Poll::Pending
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        self.forget_waker();
        if self.core.token(self.token).abandon() == Dropped::Recycle {
            lock(&self.core.recycled).push(self.token);
        }
    }
}
