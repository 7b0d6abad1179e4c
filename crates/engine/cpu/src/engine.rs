//! The engine: threads over shared state, parked and resumed.

use std::cell::Cell;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everwarp_contract::DevWords;
use everwarp_contract::fault::{FAULT_INTERNAL, FAULT_NONE};
use everwarp_contract::task::{FN_NONE, PARAM_BYTES};
use everwarp_contract::{DevTask, DevWorker};
use everwarp_engine::{
    Backend, BackendError, EngineKind, Footprint, Heap, Image, PoolState, Pools, Prepared,
    SharedMemory,
};

use crate::memory;
use crate::shared::{Group, Shared};

/// What changes from epoch to epoch.
#[derive(Debug)]
struct Epoch {
    number: u32,
    threads: u32,
    running: bool,
    lost: bool,
    image: Image,
}

/// An engine on the host's cores.
pub struct CpuEngine {
    shared: Arc<Shared>,
    epoch: Mutex<Epoch>,
    allocated: AtomicU64,
    /// Tells this engine from others in a thread's [`SEEN`].
    id: u64,
    start_time: Duration,
}

impl std::fmt::Debug for CpuEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpuEngine")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// The most threads one engine takes.
const MAX_THREADS: u32 = 256;

/// The next engine's id; 0 is nobody's.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// For the engines that this thread waited for last: the engine's id, and how many completions were
    /// written when it last returned from `idle_wait`, which was before its caller's last look. Kept by
    /// thread, because what one waiter has looked at says nothing about the others.
    static SEEN: Cell<[(u64, u64); 4]> = const { Cell::new([(0, 0); 4]) };
}

/// Notes `now` for an engine and answers what was noted before.
fn exchange_seen(id: u64, now: u64) -> Option<u64> {
    let mut seen = SEEN.get();
    let place = seen.iter().position(|s| s.0 == id);
    let before = place.map(|p| seen[p].1);
    // Most recent first; who is not among them only looks once more than needed.
    seen[..=place.unwrap_or(3)].rotate_right(1);
    seen[0] = (id, now);
    SEEN.set(seen);
    before
}
impl CpuEngine {
    /// Starts an engine of `threads` threads, or one for each core.
    ///
    /// # Errors
    /// A pool's size cannot work, memory is short, or the system refuses threads.
    pub fn start(image: &Image, threads: Option<u32>, pools: Pools) -> Result<Self, BackendError> {
        let begin = Instant::now();
        image.check()?;
        pools.check()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let threads = threads.unwrap_or(cores.min(MAX_THREADS));
        check_size(threads)?;
        if pools.tasks < 64 {
            return Err(BackendError::Pool {
                what: "pools.tasks",
                rule: "at least 64",
                value: pools.tasks.into(),
            });
        }
        if pools.groups < 16 {
            return Err(BackendError::Pool {
                what: "pools.groups",
                rule: "at least 16",
                value: pools.groups.into(),
            });
        }
        let shared = Shared::new(image, pools, threads.max(cores).min(MAX_THREADS) as usize)?;
        let mut engine = Self {
            shared: Arc::new(shared),
            epoch: Mutex::new(Epoch {
                number: 0,
                threads,
                running: false,
                lost: false,
                image: image.clone(),
            }),
            allocated: AtomicU64::new(0),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            start_time: Duration::ZERO,
        };
        engine.launch(&mut engine.lock(), threads)?;
        engine.start_time = begin.elapsed();
        Ok(engine)
    }

    fn lock(&self) -> MutexGuard<'_, Epoch> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&self, epoch: &mut Epoch, threads: u32) -> Result<(), BackendError> {
        let seats = self.shared.seats.len() as u32;
        if threads == 0 || threads > seats {
            return Err(BackendError::Size {
                asked: threads,
                max: seats,
            });
        }
        self.check_fault()?;
        self.shared.leave.store(false, Ordering::Release);
        self.shared
            .quota
            .store(self.shared.pools.tasks / threads, Ordering::Relaxed);
        for seat in 0..threads as usize {
            let shared = self.shared.clone();
            shared.active.fetch_add(1, Ordering::AcqRel);
            let spawned = std::thread::Builder::new()
                .name(format!("everwarp-{seat}"))
                .spawn(move || {
                    // A twin's panic is caught where it runs; this one is the engine's own, and must not keep
                    // the engine from parking either.
                    if catch_unwind(AssertUnwindSafe(|| crate::worker::work(&shared, seat)))
                        .is_err()
                    {
                        shared.fault(FAULT_INTERNAL, FN_NONE, u64::MAX);
                    }
                    shared.active.fetch_sub(1, Ordering::AcqRel);
                    shared.waiters.wake();
                });
            if let Err(source) = spawned {
                self.shared.active.fetch_sub(1, Ordering::AcqRel);
                self.shared.send_away();
                return Err(BackendError::System {
                    what: "starting a worker thread",
                    source,
                });
            }
        }
        epoch.number += 1;
        epoch.threads = threads;
        epoch.running = true;
        self.shared
            .word(offset_of!(DevWords, epoch))
            .store(epoch.number, Ordering::Release);
        Ok(())
    }

    /// A faulted engine does not run again: what its last tasks did is neither done nor undone.
    fn check_fault(&self) -> Result<(), BackendError> {
        match self.shared.fault_code() {
            FAULT_NONE => Ok(()),
            code => Err(BackendError::Lost {
                reason: format!("it ended with fault {code}; start a new one"),
            }),
        }
    }

    /// What each thread does, one per line.
    fn report(&self, image: &Image) -> String {
        let lines = self.shared.seats.iter().enumerate().map(|(i, seat)| {
            let worker = seat.counters.read();
            let state = worker.activity();
            if state.is_in_function() {
                format!("  thread {i}: {state} {}", image.name(worker.function))
            } else {
                format!("  thread {i}: {state}")
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn stop(&self, epoch: &mut Epoch, grace: Duration) -> Result<(), BackendError> {
        if epoch.lost {
            return Err(BackendError::Lost {
                reason: "a task did not end".into(),
            });
        }
        if !epoch.running {
            return Ok(());
        }
        self.shared.send_away();
        let begin = Instant::now();
        let left = || self.shared.active.load(Ordering::Acquire) == 0;
        while !left() {
            if begin.elapsed() > grace {
                epoch.lost = true;
                let report = self.report(&epoch.image);
                return Err(BackendError::Stuck { grace, report });
            }
            self.shared.waiters.sleep(Duration::from_millis(1), left);
        }
        epoch.running = false;
        self.shared
            .word(offset_of!(DevWords, parked))
            .store(epoch.number, Ordering::Release);
        Ok(())
    }
}

fn check_size(threads: u32) -> Result<(), BackendError> {
    if threads == 0 || threads > MAX_THREADS {
        return Err(BackendError::Size {
            asked: threads,
            max: MAX_THREADS,
        });
    }
    Ok(())
}

impl Backend for CpuEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Cpu
    }
    fn device_name(&self) -> String {
        format!("host, {} threads", self.lock().threads)
    }
    fn worker_count(&self) -> u32 {
        self.lock().threads
    }
    fn size(&self) -> u32 {
        self.lock().threads
    }
    fn max_size(&self) -> u32 {
        self.shared.seats.len() as u32
    }
    fn pools(&self) -> Pools {
        self.shared.pools
    }
    fn shared(&self) -> SharedMemory {
        SharedMemory {
            words: self.shared.words.base(),
            submissions: self.shared.submissions.base(),
            completions: self.shared.completions.base(),
            arena: self.shared.arena.base(),
        }
    }
    fn doorbell(&self) {
        self.shared.idle.wake();
    }
    fn idle_wait(&self, round: u32) {
        // A waiting thread must not take a core from the workers for long.
        if round < 100 {
            std::hint::spin_loop();
        } else {
            // The caller's look came after the last call returned. Only if nothing was written since then
            // has it seen everything, and may sleep until something is.
            let written = || self.shared.completed.written();
            let now = written();
            if exchange_seen(self.id, now) == Some(now) {
                let completed = || written() != now || self.shared.fault_code() != FAULT_NONE;
                self.shared
                    .waiters
                    .sleep(Duration::from_millis(1), completed);
                exchange_seen(self.id, written());
            }
        }
    }

    fn alloc(&self, bytes: u64) -> Result<u64, BackendError> {
        let at = memory::alloc(bytes)? as u64;
        self.allocated.fetch_add(bytes, Ordering::Relaxed);
        Ok(at)
    }
    unsafe fn free(&self, address: u64, bytes: u64) {
        self.allocated.fetch_sub(bytes, Ordering::Relaxed);
        // SAFETY: the caller vouches: from `alloc`, freed once.
        unsafe { memory::free(address as *mut u8, bytes) };
    }
    unsafe fn write(&self, address: u64, data: &[u8]) -> Result<(), BackendError> {
        // SAFETY: the caller vouches for the range.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), address as *mut u8, data.len()) };
        Ok(())
    }
    unsafe fn read(&self, address: u64, data: &mut [u8]) -> Result<(), BackendError> {
        // SAFETY: the caller vouches for the range.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, data.as_mut_ptr(), data.len())
        };
        Ok(())
    }
    unsafe fn fill(&self, address: u64, bytes: u64, value: u8) -> Result<(), BackendError> {
        // SAFETY: the caller vouches for the range.
        unsafe { std::ptr::write_bytes(address as *mut u8, value, bytes as usize) };
        Ok(())
    }
    fn set_params(&self, instance: u8, params: &[u8]) -> Result<(), BackendError> {
        assert!(
            params.len() <= PARAM_BYTES as usize,
            "checked by the host library"
        );
        let block = self.shared.params.at(instance.into()).cast::<u8>();
        // SAFETY: the block is live and large enough; no task of the instance runs yet.
        unsafe { std::ptr::copy_nonoverlapping(params.as_ptr(), block, params.len()) };
        Ok(())
    }

    fn workers(&self) -> Result<Vec<DevWorker>, BackendError> {
        Ok(self
            .shared
            .seats
            .iter()
            .map(|s| s.counters.read())
            .collect())
    }
    fn pool_state(&self) -> Result<PoolState, BackendError> {
        Ok(PoolState {
            task_limit: self.shared.pools.tasks.into(),
            task_refusals: self.shared.task_refusals.load(Ordering::Relaxed),
            group_limit: self.shared.pools.groups.into(),
            group_refusals: self.shared.group_refusals.load(Ordering::Relaxed),
        })
    }
    fn heap(&self) -> Option<&dyn Heap> {
        self.shared.heap.as_ref().map(|h| -> &dyn Heap { h })
    }
    fn footprint(&self) -> Footprint {
        let s = &self.shared;
        let rings =
            s.words.bytes() + s.submissions.bytes() + s.completions.bytes() + s.arena.bytes();
        let groups = (s.groups.len() * size_of::<Group>()) as u64;
        let queued = u64::from(s.pools.tasks) * size_of::<DevTask>() as u64;
        Footprint {
            device_bytes: rings + groups + queued + s.params.bytes(),
            host_bytes: 0,
        }
    }
    fn start_time(&self) -> Duration {
        self.start_time
    }

    fn park(&self, grace: Duration) -> Result<(), BackendError> {
        self.stop(&mut self.lock(), grace)
    }
    fn resume(&self, size: Option<u32>) -> Result<(), BackendError> {
        let mut epoch = self.lock();
        if epoch.lost {
            return Err(BackendError::Lost {
                reason: "a task did not end".into(),
            });
        }
        self.check_fault()?;
        if epoch.running {
            return Ok(());
        }
        let threads = size.unwrap_or(epoch.threads);
        self.launch(&mut epoch, threads)
    }
    fn swap(&self, size: Option<u32>, grace: Duration) -> Result<Duration, BackendError> {
        let mut epoch = self.lock();
        if !epoch.running {
            return Err(BackendError::Parked { action: "swapping" });
        }
        let threads = size.unwrap_or(epoch.threads);
        let max = self.shared.seats.len() as u32;
        if threads == 0 || threads > max {
            return Err(BackendError::Size {
                asked: threads,
                max,
            });
        }
        let begin = Instant::now();
        self.stop(&mut epoch, grace)?;
        self.launch(&mut epoch, threads)?;
        Ok(begin.elapsed())
    }
    fn prepare(&self, image: &Image) -> Result<Prepared, BackendError> {
        self.lock().image.check_successor(image)?;
        image.check()?;
        Ok(Prepared {
            image: image.clone(),
            code: Vec::new(),
            largest_frame: 0,
        })
    }
    fn set_image(&self, prepared: &Prepared) -> Result<(), BackendError> {
        let image = &prepared.image;
        let mut epoch = self.lock();
        if epoch.running {
            return Err(BackendError::NotParked {
                action: "loading an image",
            });
        }
        epoch.image.check_successor(image)?;
        self.shared.set_functions(image);
        epoch.image = image.clone();
        Ok(())
    }
}

impl Drop for CpuEngine {
    fn drop(&mut self) {
        // Threads that do not leave keep what they share; nothing here waits for them for ever.
        let _ = self.stop(&mut self.lock(), Duration::from_secs(2));
    }
}
