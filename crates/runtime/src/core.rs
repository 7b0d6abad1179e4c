//! The state that all handles of one engine share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use everwarp_contract::ring::Slots;
use everwarp_contract::task::INSTANCES;
use everwarp_contract::{DevWords, InstanceId, TokenId};
use everwarp_engine::{EngineRings, Image, TaskEngine};
use everwarp_telemetry::{Registration, register};

use crate::error::Error;
use crate::instance_slot::InstanceSlot;
use crate::reap::Consumer;
use crate::retired::Regions;
use crate::submit::Producer;
use crate::sync::Mutex;
use crate::token::Token;

/// The locks are taken in the order consumer, retired buffers, producer, recycled.
pub(crate) struct EngineCore {
    pub(crate) engine: Box<dyn TaskEngine>,
    pub(crate) rings: EngineRings,
    /// The completion ring.
    pub(crate) ring: Slots,
    pub(crate) producer: Mutex<Producer>,
    pub(crate) consumer: Mutex<Consumer>,
    /// The consumer's index, for a look without its lock.
    pub(crate) head: AtomicU32,
    pub(crate) tokens: Box<[Token]>,
    /// Tokens that came free since the producer last looked.
    pub(crate) recycled: Mutex<Vec<TokenId>>,
    pub(crate) slots: Box<[InstanceSlot]>,
    pub(crate) regions: Regions,
    pub(crate) image: Mutex<Image>,
    pub(crate) watchdog: Duration,
    /// How often the engine was parked or resumed; odd while it is parked.
    pub(crate) parked: AtomicU32,
    pub(crate) stopped: AtomicBool,
    /// Things outside the engine that its tasks wait for.
    pub(crate) outside: AtomicU64,
    /// The message of the error that ended the engine.
    pub(crate) failure: OnceLock<String>,
    /// The function and the detail of the fault that it ended with, if it was one.
    pub(crate) fault: OnceLock<(String, u64)>,
    /// Completions of tokens that were not in flight, and the first such token.
    pub(crate) bogus_completions: AtomicU64,
    pub(crate) bogus_token: OnceLock<TokenId>,
    /// How many futures wait to be woken, and the thread that wakes them.
    pub(crate) wakers: AtomicUsize,
    pub(crate) reaper: Mutex<Option<std::thread::Thread>>,
    pub(crate) begin: Instant,
    /// Shows the engine to others.
    pub(crate) shown: OnceLock<Registration>,
}

impl std::fmt::Debug for EngineCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("kind", &self.engine.kind())
            .finish_non_exhaustive()
    }
}

impl EngineCore {
    pub(crate) fn new(engine: Box<dyn TaskEngine>, image: Image, watchdog: Duration) -> Arc<Self> {
        let pools = engine.pools();
        let rings = engine.rings();
        Arc::new(Self {
            rings,
            ring: Slots::new(pools.tokens),
            producer: Mutex::new(Producer::new(rings, pools)),
            consumer: Mutex::new(Consumer::new(rings, pools)),
            head: AtomicU32::new(0),
            tokens: (0..pools.tokens).map(|_| Token::new()).collect(),
            recycled: Mutex::new(Vec::new()),
            slots: (0..INSTANCES).map(|_| InstanceSlot::new()).collect(),
            regions: Regions::new(),
            image: Mutex::new(image),
            watchdog,
            parked: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
            outside: AtomicU64::new(0),
            failure: OnceLock::new(),
            fault: OnceLock::new(),
            bogus_completions: AtomicU64::new(0),
            bogus_token: OnceLock::new(),
            wakers: AtomicUsize::new(0),
            reaper: Mutex::new(None),
            begin: Instant::now(),
            shown: OnceLock::new(),
            engine,
        })
    }

    /// Shows the engine to other programs of the same user.
    pub(crate) fn show(self: &Arc<Self>) {
        let source = Arc::downgrade(self);
        self.shown.get_or_init(|| register(source));
    }

    pub(crate) fn words(&self) -> *const DevWords {
        self.rings.words
    }

    /// The state of an instance's slot.
    pub(crate) fn slot(&self, instance: InstanceId) -> &InstanceSlot {
        &self.slots[instance.index()]
    }
    /// The state of a token that this library has given out.
    pub(crate) fn token(&self, id: TokenId) -> &Token {
        &self.tokens[id.0 as usize]
    }

    /// Checks that the engine takes new work.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(&token) = self.bogus_token.get() {
            let count = self.bogus_completions.load(Ordering::Relaxed);
            return Err(Error::BogusCompletion { token, count });
        }
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

    /// Remembers why the engine ended and wakes all futures, which would wait for ever.
    pub(crate) fn fail(&self, error: Error) -> Error {
        if let Error::Fault {
            function, detail, ..
        } = &error
        {
            let _ = self.fault.set((function.clone(), *detail));
        }
        let _ = self.failure.set(error.to_string());
        self.wake_all();
        error
    }

    /// Wakes every future, so that it finds out that the engine has ended.
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
