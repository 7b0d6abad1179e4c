//! The threads that run closures of actors of the host. One is started when there is an actor for it and the others run.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use everwarp_runtime::Buffer;

use super::Far;
use super::memory::Memory;
use super::run::{Lent, Runner};
use super::wire::DeviceWire;
use crate::events::Reach;
use crate::id::ActorId;

/// The most threads of a system.
const MOST: u32 = 4;
/// The region of the thread that takes events.
pub(crate) const REGION_OF_EVENTS: u32 = 0;
/// How many regions there are with those of the threads, which come after that one.
pub(crate) const REGIONS: u32 = 1 + MOST;

/// An actor that the host is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loan {
    pub(crate) actor: ActorId,
    pub(crate) kind: u32,
}

#[derive(Debug, Default)]
struct Queue {
    loans: VecDeque<Loan>,
    /// Threads that wait for one.
    idle: u32,
    started: Vec<JoinHandle<()>>,
    /// The system ends, and no actor is lent any more; or the engine has ended.
    stops: bool,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    reach: Reach,
    parts: Arc<Buffer<u64>>,
    lent: Arc<Lent>,
    key: u64,
}

/// The threads of a system.
#[derive(Clone, Debug)]
pub(crate) struct Threads(Arc<Shared>);

impl Threads {
    pub(crate) fn new(reach: Reach, parts: Arc<Buffer<u64>>, lent: Lent, key: u64) -> Self {
        Self(Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            reach,
            parts,
            lent: Arc::new(lent),
            key,
        }))
    }
    /// The host was lent an actor.
    pub(crate) fn push(&self, loan: Loan) {
        let mut queue = self.0.queue();
        queue.loans.push_back(loan);
        let started = queue.started.len() as u32;
        if queue.loans.len() as u32 > queue.idle && started < MOST {
            let shared = self.0.clone();
            let thread = std::thread::Builder::new().name("everwarp-hosts".to_owned());
            let thread = thread.spawn(move || shared.run(1 + started));
            // Without a thread the actor would never come back, which no caller can mend.
            queue
                .started
                .push(thread.expect("a thread for actors of the host starts"));
        }
        drop(queue);
        self.0.changed.notify_one();
    }
    /// Ends the threads. No actor is lent, or the engine has ended.
    pub(crate) fn stop(&self) {
        let mut queue = self.0.queue();
        queue.stops = true;
        let started = std::mem::take(&mut queue.started);
        drop(queue);
        self.0.changed.notify_all();
        for thread in started {
            // A closure's handler may drop the last handle of its system.
            if thread.thread().id() != std::thread::current().id() {
                // A panic of the thread was printed.
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    /// No panic leaves the queue wrong.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn wire(&self, region: u32) -> DeviceWire {
        DeviceWire {
            reach: self.reach.clone(),
            parts: self.parts.clone(),
            region,
            wish: 0,
        }
    }
    /// The next actor; none when the system has ended.
    fn next(&self) -> Option<Loan> {
        let mut queue = self.queue();
        queue.idle += 1;
        while queue.loans.is_empty() && !queue.stops {
            let waited = self.changed.wait(queue);
            queue = waited.unwrap_or_else(PoisonError::into_inner);
        }
        queue.idle -= 1;
        queue.loans.pop_front()
    }
    fn run(&self, region: u32) {
        let mut runner = Runner {
            far: Far::new(Box::new(self.wire(region)), self.key),
            memory: Memory::new(),
            lent: self.lent.clone(),
        };
        while let Some(loan) = self.next() {
            if runner.run(loan).is_err() {
                // The engine has ended: its other callers say why.
                return;
            }
        }
    }
}
