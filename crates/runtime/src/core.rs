//! What every handle of one engine shares.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use everwarp_contract::DevWords;
use everwarp_contract::ring::Slots;
use everwarp_contract::task::INSTANCES;
use everwarp_engine::{Backend, Image, SharedMemory};

use crate::error::Error;
use crate::grave::Graveyard;
use crate::reap::Consumer;
use crate::slot::Slot;
use crate::submit::Producer;
use crate::sync::Mutex;
use crate::token::Token;

/// The locks are taken in the order consumer, graves, producer, recycled.
pub(crate) struct Core {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) shared: SharedMemory,
    /// The completion ring.
    pub(crate) ring: Slots,
    pub(crate) producer: Mutex<Producer>,
    pub(crate) consumer: Mutex<Consumer>,
    /// Where the consumer stands, for a look without its lock.
    pub(crate) head: AtomicU32,
    pub(crate) tokens: Box<[Token]>,
    /// Tokens that came free since the producer last looked.
    pub(crate) recycled: Mutex<Vec<u32>>,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) graveyard: Graveyard,
    pub(crate) image: Mutex<Image>,
    pub(crate) watchdog: Duration,
    /// How often the engine was parked or resumed; odd while it is parked.
    pub(crate) parked: AtomicU32,
    pub(crate) stopped: AtomicBool,
    /// The error that ended the engine, as words.
    pub(crate) failure: OnceLock<String>,
    /// Futures that wait to be woken, and the thread that does it.
    pub(crate) wakers: AtomicUsize,
    pub(crate) reaper: Mutex<Option<std::thread::Thread>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("kind", &self.backend.kind())
            .finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(backend: Box<dyn Backend>, image: Image, watchdog: Duration) -> Arc<Self> {
        let pools = backend.pools();
        let shared = backend.shared();
        Arc::new(Self {
            shared,
            ring: Slots::new(pools.tokens),
            producer: Mutex::new(Producer::new(shared, pools)),
            consumer: Mutex::new(Consumer::new(shared, pools)),
            head: AtomicU32::new(0),
            tokens: (0..pools.tokens).map(|_| Token::new()).collect(),
            recycled: Mutex::new(Vec::new()),
            slots: (0..INSTANCES).map(|_| Slot::new()).collect(),
            graveyard: Graveyard::new(),
            image: Mutex::new(image),
            watchdog,
            parked: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
            failure: OnceLock::new(),
            wakers: AtomicUsize::new(0),
            reaper: Mutex::new(None),
            backend,
        })
    }

    pub(crate) fn words(&self) -> *const DevWords {
        self.shared.words
    }

    /// Whether new work may come.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(reason) = self.failure.get() {
            return Err(Error::Lost {
                reason: reason.clone(),
            });
        }
        if self.stopped.load(Ordering::Acquire) {
            return Err(Error::Stopped);
        }
        Ok(())
    }

    /// Remembers why the engine ended and wakes everybody who would wait for ever.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let _ = self.failure.set(error.to_string());
        self.wake_all();
        error
    }

    /// Wakes every future, to find out that the engine has ended.
    pub(crate) fn wake_all(&self) {
        for token in &self.tokens {
            self.woke(token.wake());
        }
    }

    /// Counts a waker that is no longer registered.
    pub(crate) fn woke(&self, was_there: bool) {
        if was_there {
            self.wakers.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
