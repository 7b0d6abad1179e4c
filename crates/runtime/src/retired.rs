//! Freed buffers, kept until no task in flight can reach them.
//!
//! A submission counts as in flight in one of two phases, the one that is current when it begins. A buffer that is dropped
//! is *fresh*. When the other phase is empty, the fresh buffers become *waiting* and the phases change places. When the
//! phase that was current then is empty, everything that was submitted before is done, and the waiting buffers are freed.
//! So an engine that is never idle frees memory too. A submission that lasts counts only when it is about to end.
//!
//! The engine has regions; each has phases and buffers of its own. Only tasks of a region's instances reach its buffers,
//! so they wait for no submission of another region. Region 0 is common: its phases count every submission.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::core::EngineCore;
use crate::sync::{Mutex, lock};
use crate::token::{Counted, RegionId};

/// How long an engine that ends waits for the tasks that may still reach its buffers.
const GRACE: Duration = Duration::from_secs(2);
/// One for each instance that there can be, and the common one.
const REGIONS: usize = 256;

/// Addresses and sizes.
type Allocations = Vec<(u64, u64)>;

/// The buffers of one region that were dropped and not freed yet, and the submissions that may still reach them.
#[derive(Debug)]
struct RetiredBuffers {
    /// Whether a [`Region`] has it; always true for the common one.
    held: AtomicBool,
    /// Submissions in flight by phase.
    in_flight: [AtomicUsize; 2],
    /// The current phase; changed and read under the producer's lock.
    phase: AtomicBool,
    /// Whether there are any buffers, so that reaping need not take the lock.
    any: AtomicBool,
    /// Fresh and waiting buffers.
    buffers: Mutex<(Allocations, Allocations)>,
}

impl RetiredBuffers {
    fn new(held: bool) -> Self {
        Self {
            held: AtomicBool::new(held),
            in_flight: [AtomicUsize::new(0), AtomicUsize::new(0)],
            phase: AtomicBool::new(false),
            any: AtomicBool::new(false),
            buffers: Mutex::new((Vec::new(), Vec::new())),
        }
    }
    fn begin(&self) -> bool {
        let phase = self.phase.load(Ordering::Relaxed);
        self.in_flight[usize::from(phase)].fetch_add(1, Ordering::Relaxed);
        phase
    }
    fn end(&self, phase: bool) {
        self.in_flight[usize::from(phase)].fetch_sub(1, Ordering::Release);
    }
    /// Whether a submission is in flight.
    fn is_busy(&self) -> bool {
        let mut phases = self.in_flight.iter();
        phases.any(|phase| phase.load(Ordering::Acquire) != 0)
    }
    /// Whether no submission is in flight and no buffer is left.
    fn is_drained(&self) -> bool {
        !self.is_busy() && !self.any.load(Ordering::Acquire)
    }
}

/// The regions of an engine.
#[derive(Debug)]
pub(crate) struct Regions {
    all: Box<[RetiredBuffers]>,
    /// Regions from this number on have never been held.
    used: AtomicUsize,
}

impl Regions {
    pub(crate) fn new() -> Self {
        Self {
            all: (0..REGIONS)
                .map(|id| RetiredBuffers::new(id == 0))
                .collect(),
            used: AtomicUsize::new(1),
        }
    }
    fn of(&self, id: RegionId) -> &RetiredBuffers {
        &self.all[usize::from(id.0)]
    }
    /// Counts the begin of a submission, under the producer's lock.
    pub(crate) fn begin(&self, region: RegionId) -> Counted {
        let own = region != RegionId::COMMON && self.of(region).begin();
        Counted {
            common: Some(self.of(RegionId::COMMON).begin()),
            region,
            own,
        }
    }
    /// Counts the end of a submission.
    pub(crate) fn end(&self, counted: Counted) {
        if let Some(phase) = counted.common {
            self.of(RegionId::COMMON).end(phase);
        }
        if counted.region != RegionId::COMMON {
            self.of(counted.region).end(counted.own);
        }
    }
    /// Takes a region that has no buffers and no submission in flight.
    fn hold(&self) -> Option<RegionId> {
        let found = self.all.iter().position(|region| {
            let free = !region.held.swap(true, Ordering::Acquire);
            // One that was given up, with work in flight or buffers that wait for it, is free later.
            if free && !region.is_drained() {
                region.held.store(false, Ordering::Release);
                return false;
            }
            free
        })?;
        self.used.fetch_max(found + 1, Ordering::Release);
        Some(RegionId(found as u8))
    }
    /// The regions that may have buffers.
    fn used(&self) -> &[RetiredBuffers] {
        &self.all[..self.used.load(Ordering::Acquire)]
    }
}

/// A region that engine handles, buffers and instances have in common.
#[derive(Debug)]
pub(crate) struct Region {
    core: Arc<EngineCore>,
    id: RegionId,
}

impl Region {
    /// A region of its own; none if all are held, and then the common one must do.
    pub(crate) fn take(core: &Arc<EngineCore>) -> Option<Arc<Self>> {
        let id = core.regions.hold()?;
        Some(Arc::new(Self {
            core: core.clone(),
            id,
        }))
    }
    /// Its number; that of the common region for none.
    pub(crate) fn id_of(region: Option<&Arc<Self>>) -> RegionId {
        region.map_or(RegionId::COMMON, |region| region.id)
    }
    /// Whether a submission of it is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.core.regions.of(self.id).is_busy()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let region = self.core.regions.of(self.id);
        region.held.store(false, Ordering::Release);
    }
}

impl EngineCore {
    /// Frees a buffer as soon as nothing of its region that was submitted before is in flight.
    pub(crate) fn retire(&self, region: RegionId, address: u64, bytes: u64) {
        let region = self.regions.of(region);
        lock(&region.buffers).0.push((address, bytes));
        region.any.store(true, Ordering::Release);
        self.free_retired_of(region);
    }

    /// Frees the buffers that nothing in flight can reach.
    pub(crate) fn free_retired(&self) {
        for region in self.regions.used() {
            self.free_retired_of(region);
        }
    }

    fn free_retired_of(&self, region: &RetiredBuffers) {
        // A lost engine may still be running tasks; its memory goes with the engine.
        if !region.any.load(Ordering::Acquire) || self.failure.get().is_some() {
            return;
        }
        let mut buffers = lock(&region.buffers);
        // Twice: after the phases have changed places, the other one may be empty as well.
        for _ in 0..2 {
            let current = region.phase.load(Ordering::Relaxed);
            if region.in_flight[usize::from(!current)].load(Ordering::Acquire) != 0 {
                return;
            }
            for (address, bytes) in buffers.1.drain(..) {
                // SAFETY: allocated by this engine and retired once; every submission that began before the phases
                // changed places has ended, and the buffer was dropped before that.
                unsafe { self.engine.free(address, bytes) };
            }
            if buffers.0.is_empty() {
                region.any.store(false, Ordering::Release);
                return;
            }
            let producer = lock(&self.producer);
            region.phase.store(!current, Ordering::Relaxed);
            drop(producer);
            let (fresh, waiting) = &mut *buffers;
            std::mem::swap(fresh, waiting);
        }
    }
}

impl Drop for EngineCore {
    /// Frees the buffers that were still waiting for a submission when the last handle went.
    fn drop(&mut self) {
        let buffers = self.regions.all.iter_mut().flat_map(|region| {
            let (fresh, waiting) = std::mem::take(&mut *lock(&region.buffers));
            fresh.into_iter().chain(waiting)
        });
        let buffers: Allocations = buffers.collect();
        // A task that does not end may still reach them, so they stay until the program ends.
        if !buffers.is_empty() && self.engine.park(GRACE).is_ok() {
            for (address, bytes) in buffers {
                // SAFETY: allocated by this engine and retired once; no task runs any more.
                unsafe { self.engine.free(address, bytes) };
            }
        }
    }
}
