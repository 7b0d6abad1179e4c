//! What every handle of one engine shares.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use everwarp_backend::{Backend, Image};
use everwarp_contract::DevWords;
use everwarp_contract::task::INSTANCES;

use crate::error::Error;
use crate::reap::Consumer;
use crate::submit::Producer;
use crate::token::Token;

/// A slot of the instance table.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Submissions in flight.
    pub(crate) in_flight: AtomicU32,
    /// 0 free, 1 held by an `Instance`, 2 dropped but still in flight.
    pub(crate) held: AtomicU32,
}

pub(crate) struct Core {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) producer: Mutex<Producer>,
    pub(crate) consumer: Mutex<Consumer>,
    pub(crate) tokens: Box<[Token]>,
    /// Tokens that came free since the producer last looked.
    pub(crate) recycled: Mutex<Vec<u32>>,
    pub(crate) slots: Box<[Slot]>,
    /// Freed buffers that tasks in flight may still reach: address and bytes.
    pub(crate) graveyard: Mutex<Vec<(u64, u64)>>,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) image: Mutex<Image>,
    pub(crate) watchdog: Duration,
    pub(crate) parked: AtomicBool,
    pub(crate) stopped: AtomicBool,
    /// The error that ended the engine, as words.
    pub(crate) failure: OnceLock<String>,
    /// Futures that wait to be woken, and the thread that does it.
    pub(crate) wakers: AtomicUsize,
    pub(crate) reaper: OnceLock<std::thread::Thread>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("kind", &self.backend.kind()).finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(backend: Box<dyn Backend>, image: Image, watchdog: Duration) -> Arc<Self> {
        let pools = backend.pools();
        let shared = backend.shared();
        Arc::new(Self {
            producer: Mutex::new(Producer::new(shared, pools)),
            consumer: Mutex::new(Consumer::new(shared, pools)),
            tokens: (0..pools.tokens).map(|_| Token::default()).collect(),
            recycled: Mutex::new(Vec::new()),
            slots: (0..INSTANCES).map(|_| Slot::default()).collect(),
            graveyard: Mutex::new(Vec::new()),
            in_flight: AtomicUsize::new(0),
            image: Mutex::new(image),
            watchdog,
            parked: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            failure: OnceLock::new(),
            wakers: AtomicUsize::new(0),
            reaper: OnceLock::new(),
            backend,
        })
    }

    pub(crate) fn words(&self) -> *const DevWords {
        self.backend.shared().words
    }

    /// Whether new work may come.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(reason) = self.failure.get() {
            return Err(Error::Lost { reason: reason.clone() });
        }
        if self.stopped.load(Ordering::Acquire) {
            return Err(Error::Stopped);
        }
        Ok(())
    }

    /// Remembers why the engine ended and wakes everybody who would wait for ever.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let _ = self.failure.set(error.to_string());
        for token in &self.tokens {
            if token.wake() {
                self.wakers.fetch_sub(1, Ordering::AcqRel);
            }
        }
        error
    }

    /// Frees a buffer, at once or when nothing is in flight.
    pub(crate) fn bury(&self, address: u64, bytes: u64) {
        lock(&self.graveyard).push((address, bytes));
        self.dig();
    }

    /// Frees what was buried, if nothing is in flight.
    pub(crate) fn dig(&self) {
        let mut graveyard = lock(&self.graveyard);
        if self.in_flight.load(Ordering::Acquire) == 0 && self.failure.get().is_none() {
            for (address, bytes) in graveyard.drain(..) {
                // SAFETY: allocated by this backend, buried once, and no task is queued or running.
                unsafe { self.backend.free(address, bytes) };
            }
        }
    }
}
