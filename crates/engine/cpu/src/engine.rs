//! The engine: threads over shared state, parked and resumed.

use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use everwarp_contract::fault::{FAULT_INTERNAL, FAULT_NONE};
use everwarp_contract::{DevTask, DevWords, DevWorker, FunctionId};
use everwarp_engine::sync::lock;
use everwarp_engine::{
    EngineError, EngineKind, EngineLoader, EngineRings, Footprint, Frames, Image, PoolState, Pools,
    PreparedImage, TaskEngine,
};
use everwarp_telemetry::{EngineRecorder, Level, WorkerHand, recorder};

use crate::idle_wait;
use crate::observe::Blind;
use crate::shared::CpuShared;
use crate::worker::work;

/// The state that changes from epoch to epoch.
#[derive(Debug)]
struct CpuEpoch {
    number: u32,
    threads: u32,
    running: bool,
    lost: bool,
    image: Image,
}

/// An engine on the host's cores.
pub struct CpuEngine {
    pub(crate) shared: Arc<CpuShared>,
    epoch: Mutex<CpuEpoch>,
    /// Tells this engine from others in a waiting thread.
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

/// The most threads of an engine.
const MAX_THREADS: u32 = 256;

fn check_size(asked: u32, max: u32) -> Result<(), EngineError> {
    match asked {
        1.. if asked <= max => Ok(()),
        _ => Err(EngineError::Size { asked, min: 1, max }),
    }
}

/// Runs a worker with the code for what it records.
fn run_worker(shared: &CpuShared, own: usize) {
    match &shared.recorder {
        None => work::<Blind>(shared, own),
        Some(_) => {
            work::<WorkerHand<'_>>(shared, own);
            recorder::leave();
        }
    }
}

/// Says what functions are called in a trace.
fn name_functions(shared: &CpuShared, image: &Image) {
    if let Some(recorder) = &shared.recorder {
        for (id, program, function) in image.functions() {
            recorder.name(id.0, &image.name(id), program.kind_of(function));
        }
    }
}

impl CpuEngine {
    /// Starts an engine of `threads` threads, or one for each core.
    ///
    /// # Errors
    /// A pool's size cannot work, memory is short, or the system refuses threads.
    pub fn start(image: &Image, threads: Option<u32>, pools: Pools) -> Result<Self, EngineError> {
        Self::start_measured(image, threads, pools, everwarp_telemetry::level())
    }

    /// Starts an engine that measures this much.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_measured(
        image: &Image,
        threads: Option<u32>,
        pools: Pools,
        level: Level,
    ) -> Result<Self, EngineError> {
        let begin = Instant::now();
        image.check()?;
        pools.check()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let threads = threads.unwrap_or(cores.min(MAX_THREADS));
        check_size(threads, MAX_THREADS)?;
        if pools.tasks < 64 {
            return Err(EngineError::Pool {
                what: "pools.tasks",
                rule: "at least 64",
                value: pools.tasks.into(),
            });
        }
        if pools.groups < 16 {
            return Err(EngineError::Pool {
                what: "pools.groups",
                rule: "at least 16",
                value: pools.groups.into(),
            });
        }
        let shared = CpuShared::new(
            image,
            pools,
            threads.max(cores).min(MAX_THREADS) as usize,
            level,
        )?;
        name_functions(&shared, image);
        let mut engine = Self {
            shared: Arc::new(shared),
            epoch: Mutex::new(CpuEpoch {
                number: 0,
                threads,
                running: false,
                lost: false,
                image: image.clone(),
            }),
            id: idle_wait::next_id(),
            start_time: Duration::ZERO,
        };
        engine.launch(&mut engine.lock(), threads)?;
        engine.start_time = begin.elapsed();
        Ok(engine)
    }

    fn lock(&self) -> MutexGuard<'_, CpuEpoch> {
        lock(&self.epoch)
    }

    fn launch(&self, epoch: &mut CpuEpoch, threads: u32) -> Result<(), EngineError> {
        check_size(threads, self.max_size())?;
        self.check_fault()?;
        self.shared.leave.store(false, Ordering::Release);
        self.shared.divide(threads);
        for worker in 0..threads as usize {
            let shared = self.shared.clone();
            shared.active.fetch_add(1, Ordering::AcqRel);
            let spawned = std::thread::Builder::new()
                .name(format!("everwarp-{worker}"))
                .spawn(move || {
                    // A twin's panic is caught around its call. This catches a panic of the engine itself, which must
                    // not keep the engine from parking either.
                    if catch_unwind(AssertUnwindSafe(|| run_worker(&shared, worker))).is_err() {
                        shared.fault(FAULT_INTERNAL, FunctionId::NONE, u64::MAX);
                    }
                    shared.active.fetch_sub(1, Ordering::AcqRel);
                    shared.waiters.wake();
                });
            if let Err(source) = spawned {
                self.shared.active.fetch_sub(1, Ordering::AcqRel);
                self.shared.send_away();
                return Err(EngineError::System {
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

    /// A faulted engine does not run again: its last tasks are neither done nor undone.
    fn check_fault(&self) -> Result<(), EngineError> {
        match self.shared.fault_code() {
            FAULT_NONE => Ok(()),
            code => Err(EngineError::Lost {
                reason: format!("it ended with fault {code}; start a new one"),
            }),
        }
    }

    /// The state of each thread, one per line.
    fn report(&self, image: &Image) -> String {
        let lines = self.shared.workers.iter().enumerate().map(|(i, slot)| {
            let worker = slot.counters.read();
            let state = worker.activity();
            if state.is_in_function() {
                format!(
                    "  thread {i}: {state} {}",
                    image.name(FunctionId(worker.function))
                )
            } else {
                format!("  thread {i}: {state}")
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn stop(&self, epoch: &mut CpuEpoch, grace: Duration) -> Result<(), EngineError> {
        if epoch.lost {
            return Err(EngineError::Lost {
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
                return Err(EngineError::Stuck { grace, report });
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

impl TaskEngine for CpuEngine {
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
        self.shared.workers.len() as u32
    }
    fn pools(&self) -> Pools {
        self.shared.pools
    }
    fn rings(&self) -> EngineRings {
        EngineRings {
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
        idle_wait::idle_wait(&self.shared, self.id, round);
    }

    fn workers(&self) -> Result<Vec<DevWorker>, EngineError> {
        Ok(self
            .shared
            .workers
            .iter()
            .map(|w| w.counters.read())
            .collect())
    }
    fn pool_state(&self) -> Result<PoolState, EngineError> {
        Ok(PoolState {
            task_limit: self.shared.pools.tasks.into(),
            task_refusals: self.shared.task_refusals.load(Ordering::Relaxed),
            group_limit: self.shared.pools.groups.into(),
            group_refusals: self.shared.group_ids.refusals.load(Ordering::Relaxed),
        })
    }
    fn footprint(&self) -> Footprint {
        let s = &self.shared;
        let rings =
            s.words.bytes() + s.submissions.bytes() + s.completions.bytes() + s.arena.bytes();
        let queued = u64::from(s.pools.tasks) * size_of::<DevTask>() as u64;
        Footprint {
            device_bytes: rings + s.group_bytes() + queued + s.params.bytes(),
            host_bytes: 0,
        }
    }
    fn recorder(&self) -> Option<&EngineRecorder> {
        self.shared.recorder.as_ref()
    }
    fn start_time(&self) -> Duration {
        self.start_time
    }
    fn park(&self, grace: Duration) -> Result<(), EngineError> {
        self.stop(&mut self.lock(), grace)
    }
    fn resume(&self, size: Option<u32>) -> Result<(), EngineError> {
        let mut epoch = self.lock();
        if epoch.lost {
            return Err(EngineError::Lost {
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
    fn swap(&self, size: Option<u32>, grace: Duration) -> Result<Duration, EngineError> {
        let mut epoch = self.lock();
        if !epoch.running {
            return Err(EngineError::Parked { action: "swapping" });
        }
        let threads = size.unwrap_or(epoch.threads);
        check_size(threads, self.max_size())?;
        let begin = Instant::now();
        self.stop(&mut epoch, grace)?;
        self.launch(&mut epoch, threads)?;
        Ok(begin.elapsed())
    }
}

impl EngineLoader for CpuEngine {
    fn prepare(&self, image: &Image) -> Result<PreparedImage, EngineError> {
        self.lock().image.check_successor(image)?;
        image.check()?;
        Ok(PreparedImage {
            image: image.clone(),
            code: Vec::new(),
            frames: Frames::default(),
        })
    }
    fn set_image(&self, prepared: &PreparedImage) -> Result<(), EngineError> {
        let image = &prepared.image;
        let mut epoch = self.lock();
        if epoch.running {
            return Err(EngineError::NotParked {
                action: "loading an image",
            });
        }
        epoch.image.check_successor(image)?;
        self.shared.functions.set(image);
        name_functions(&self.shared, image);
        epoch.image = image.clone();
        Ok(())
    }
}

impl Drop for CpuEngine {
    fn drop(&mut self) {
        // Threads that do not leave keep the shared state alive; this does not wait for them for ever.
        let _ = self.stop(&mut self.lock(), Duration::from_secs(2));
    }
}
