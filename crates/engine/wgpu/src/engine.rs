//! The engine: a device, its memory, and the pump that keeps it going.

use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use everwarp_contract::task::{FN_LIMIT, INSTANCES, PARAM_BYTES};
use everwarp_contract::telemetry::WORKER_RUNNING;
use everwarp_contract::wgpu::WGPU_FUNCTIONS;
use everwarp_contract::{DevType, DevWords, DevWorker};
use everwarp_engine::sync::{ignore_poison, lock, try_lock};
use everwarp_engine::table::ZeroedTable;
use everwarp_engine::{
    DispatchTimes, EngineError, EngineKind, EngineLoader, EngineRings, Footprint, Image, PoolState,
    Pools, PreparedImage, TaskEngine,
};

use crate::adapter::WgpuDevice;
use crate::gpu::{Compiled, Gpu};
use crate::image::function_table;
use crate::pump::{Pump, Rings};
use crate::sizes::Sizes;
use crate::window::Window;

/// A waiter only looks while the oldest submission is younger than this, on a GPU: a round trip takes less, and waking up
/// would be a third of it. Software needs the cores.
const SPIN: Duration = Duration::from_micros(250);
/// A dispatch that has run this long does not answer a question about its counters.
const SLOW: Duration = Duration::from_millis(200);
/// How long a waiter's last step keeps the thread from stepping.
const TURN: Duration = Duration::from_millis(1);

/// What the engine's handle and its thread share.
pub(crate) struct Shared {
    pub(crate) gpu: Gpu,
    pub(crate) rings: Rings,
    pub(crate) pump: Mutex<Pump>,
    pub(crate) window: Mutex<Window>,
    /// When a waiter stepped last, in microseconds since `begin`.
    stepped: AtomicU64,
    begin: Instant,
    bell: Condvar,
    asleep: Mutex<bool>,
    leave: AtomicBool,
}

#[derive(Debug)]
struct WgpuEpoch {
    number: u32,
    running: bool,
    lost: bool,
    image: Image,
    prepared: Option<Compiled>,
    workers: Vec<DevWorker>,
}

/// An engine on an adapter.
pub struct WgpuEngine {
    pub(crate) shared: Arc<Shared>,
    pub(crate) sizes: Sizes,
    epoch: Mutex<WgpuEpoch>,
    thread: Option<std::thread::JoinHandle<()>>,
    start_time: Duration,
}

impl std::fmt::Debug for WgpuEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WgpuEngine")
            .field("adapter", &self.shared.gpu.name)
            .field("sizes", &self.sizes)
            .finish_non_exhaustive()
    }
}

impl WgpuDevice {
    /// Starts an engine of `size` workgroups.
    ///
    /// # Errors
    /// A program has no WGSL or does not compile, memory is short, or a size cannot work.
    pub fn start(
        &self,
        image: &Image,
        size: Option<u32>,
        pools: Pools,
    ) -> Result<WgpuEngine, EngineError> {
        let begin = Instant::now();
        image.check()?;
        // Room for more workgroups than were asked for, if the pools are large enough for them.
        let most = Sizes::most_workgroups(&pools).min(self.default_workgroups());
        let size = size.unwrap_or(most);
        let mut sizes = Sizes::new(pools, most.max(size).max(1), self.facts().window_bytes)?;
        let gpu = Gpu::new(self, &sizes)?;
        let mut window = Window::new(gpu.window_bytes);
        let heap = &sizes.pools.heap;
        if heap.bytes > 0 {
            let place = window
                .alloc(heap.limit)
                .ok_or_else(|| no_room(&gpu, &window, heap.limit))?;
            sizes.round.heap_base = place.address as u32;
        }
        crate::loops::check(&gpu)?;
        let compiled = gpu.compile(image)?;
        write_functions(&gpu, image);
        let pools = sizes.pools;
        let rings = Rings {
            words: ZeroedTable::new(1)?,
            submissions: ZeroedTable::new(pools.submission_slots as usize)?,
            completions: ZeroedTable::new(pools.tokens as usize)?,
            arena: ZeroedTable::new(pools.arena_tasks as usize)?,
        };
        if size == 0 {
            return Err(EngineError::Size {
                min: 1,
                asked: 0,
                max: sizes.workgroups,
            });
        }
        let functions = image.functions().count() as u32;
        let mut pump = Pump::new(&gpu, sizes, compiled, functions, size)?;
        pump.warm_up(&gpu, &rings)?;
        let window = Mutex::new(window);
        rings
            .word(offset_of!(DevWords, epoch))
            .store(1, Ordering::Release);
        let shared = Arc::new(Shared {
            gpu,
            rings,
            pump: Mutex::new(pump),
            window,
            stepped: AtomicU64::new(0),
            begin: Instant::now(),
            bell: Condvar::new(),
            asleep: Mutex::new(false),
            leave: AtomicBool::new(false),
        });
        let stepper = shared.clone();
        let thread = std::thread::Builder::new()
            .name("everwarp-wgpu".into())
            .spawn(move || stepper.step_alone())
            .map_err(|source| EngineError::System {
                what: "starting the thread of the wgpu engine",
                source,
            })?;
        Ok(WgpuEngine {
            epoch: Mutex::new(WgpuEpoch {
                number: 1,
                running: true,
                lost: false,
                image: image.clone(),
                prepared: None,
                workers: vec![DevWorker::ZERO; sizes.workgroups as usize],
            }),
            shared,
            sizes,
            thread: Some(thread),
            start_time: begin.elapsed(),
        })
    }
}

/// The window has no room for so much memory.
pub(crate) fn no_room(gpu: &Gpu, window: &Window, bytes: u64) -> EngineError {
    EngineError::OutOfMemory {
        kind: "device",
        bytes,
        detail: format!(
            "programs reach a window of {} bytes on {}, and {} of it are free",
            gpu.window_bytes,
            gpu.name,
            window.left()
        ),
    }
}

/// Writes the table of functions, for the next dispatch.
fn write_functions(gpu: &Gpu, image: &Image) {
    let mut table = function_table(image);
    table.resize(FN_LIMIT as usize, 0);
    gpu.write_words(&gpu.params, u64::from(WGPU_FUNCTIONS), &table);
}

impl Shared {
    /// The thread's loop: it steps the pump while there is work and no waiter does it.
    fn step_alone(&self) {
        while !self.leave.load(Ordering::Acquire) {
            let now = self.begin.elapsed().as_micros() as u64;
            let recent =
                now.saturating_sub(self.stepped.load(Ordering::Relaxed)) < TURN.as_micros() as u64;
            let mut busy = true;
            if !recent && let Some(mut pump) = try_lock(&self.pump) {
                let moved = pump.step(&self.gpu, &self.rings);
                busy = pump.has_work(&self.rings);
                let oldest = pump.oldest();
                drop(pump);
                if moved {
                    continue;
                }
                if let Some((index, _)) = oldest {
                    self.gpu.poll_until(&index, TURN);
                    continue;
                }
            }
            let mut asleep = lock(&self.asleep);
            *asleep = true;
            let limit = if busy {
                TURN
            } else {
                Duration::from_millis(100)
            };
            asleep = ignore_poison(self.bell.wait_timeout(asleep, limit)).0;
            *asleep = false;
        }
    }
    fn wake(&self) {
        if let Some(asleep) = try_lock(&self.asleep)
            && *asleep
        {
            self.bell.notify_one();
        }
    }
    /// Copies from the device while nothing else is submitted: a call to a driver whose last dispatch does not return may
    /// not return either.
    pub(crate) fn read(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        to: &mut [u8],
        limit: Duration,
    ) -> Result<(), EngineError> {
        lock(&self.pump).copies += 1;
        let result = match self.settled(limit) {
            true => self.gpu.read(buffer, offset, to, limit),
            false => Err(EngineError::Lost {
                reason: format!("a dispatch did not return within {limit:?}"),
            }),
        };
        let mut pump = lock(&self.pump);
        pump.copies -= 1;
        pump.step(&self.gpu, &self.rings);
        result
    }
    /// Waits until nothing is in flight. Returns whether that is so.
    fn drain(&self, grace: Duration) -> bool {
        lock(&self.pump).parked = true;
        self.settled(grace)
    }
    fn settled(&self, grace: Duration) -> bool {
        let begin = Instant::now();
        loop {
            let mut pump = lock(&self.pump);
            pump.step(&self.gpu, &self.rings);
            let oldest = pump.oldest();
            drop(pump);
            let Some((index, _)) = oldest else {
                return true;
            };
            if begin.elapsed() > grace {
                return false;
            }
            self.gpu.poll_until(&index, grace);
        }
    }
}

impl WgpuEngine {
    fn lock(&self) -> MutexGuard<'_, WgpuEpoch> {
        lock(&self.epoch)
    }
    fn check_size(&self, asked: u32) -> Result<u32, EngineError> {
        match asked {
            1.. if asked <= self.sizes.workgroups => Ok(asked),
            _ => Err(EngineError::Size {
                min: 1,
                asked,
                max: self.sizes.workgroups,
            }),
        }
    }
    fn check_alive(&self, epoch: &WgpuEpoch) -> Result<(), EngineError> {
        self.shared.gpu.check()?;
        let reason = if epoch.lost {
            "a dispatch did not return"
        } else if lock(&self.shared.pump).ended {
            "it ended with a fault; start a new one"
        } else {
            return Ok(());
        };
        Err(EngineError::Lost {
            reason: reason.into(),
        })
    }
    fn stop(&self, epoch: &mut WgpuEpoch, grace: Duration) -> Result<(), EngineError> {
        if epoch.lost {
            return Err(EngineError::Lost {
                reason: "a dispatch did not return".into(),
            });
        }
        if !epoch.running {
            return Ok(());
        }
        if !self.shared.drain(grace) {
            epoch.lost = true;
            crate::exit::without_destructors();
            let newest = lock(&self.shared.pump).newest();
            let report = format!(
                "  a dispatch does not return; submitted last: {}",
                epoch.image.name(newest)
            );
            return Err(EngineError::Stuck { grace, report });
        }
        epoch.running = false;
        let word = self.shared.rings.word(offset_of!(DevWords, parked));
        word.store(epoch.number, Ordering::Release);
        Ok(())
    }
    fn launch(&self, epoch: &mut WgpuEpoch, size: u32) {
        epoch.number += 1;
        epoch.running = true;
        let word = self.shared.rings.word(offset_of!(DevWords, epoch));
        word.store(epoch.number, Ordering::Release);
        let mut pump = lock(&self.shared.pump);
        pump.size = size;
        pump.parked = false;
        pump.step(&self.shared.gpu, &self.shared.rings);
        drop(pump);
        self.shared.wake();
    }
    /// Writes the parameters of an instance.
    pub(crate) fn write_params(&self, instance: u32, params: &[u8]) {
        assert!(instance < INSTANCES && params.len() <= PARAM_BYTES as usize);
        let at = u64::from(instance * PARAM_BYTES);
        self.shared
            .gpu
            .queue
            .write_buffer(&self.shared.gpu.params, at, params);
    }
}

impl TaskEngine for WgpuEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Wgpu
    }
    fn device_name(&self) -> String {
        self.shared.gpu.name.clone()
    }
    fn worker_count(&self) -> u32 {
        self.size()
    }
    fn size(&self) -> u32 {
        lock(&self.shared.pump).size
    }
    fn max_size(&self) -> u32 {
        self.sizes.workgroups
    }
    fn pools(&self) -> Pools {
        self.sizes.pools
    }
    fn rings(&self) -> EngineRings {
        let rings = &self.shared.rings;
        EngineRings {
            words: rings.words.base(),
            submissions: rings.submissions.base(),
            completions: rings.completions.base(),
            arena: rings.arena.base(),
        }
    }
    fn doorbell(&self) {
        // If another thread has the pump, that thread looks at the ring again, or the engine's own does.
        if let Some(mut pump) = try_lock(&self.shared.pump) {
            pump.step(&self.shared.gpu, &self.shared.rings);
        }
        self.shared.wake();
    }
    fn idle_wait(&self, _: u32) {
        let shared = &self.shared;
        let now = shared.begin.elapsed().as_micros() as u64;
        shared.stepped.store(now, Ordering::Relaxed);
        let oldest = match try_lock(&shared.pump) {
            None => None,
            Some(mut pump) => match pump.step(&shared.gpu, &shared.rings) {
                true => return,
                false => pump.oldest().zip(pump.age()),
            },
        };
        match oldest {
            Some((_, age)) if age < SPIN && !shared.gpu.software => std::hint::spin_loop(),
            Some(((index, _), _)) => shared.gpu.poll_until(&index, TURN),
            None => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    fn is_stepped(&self) -> bool {
        true
    }
    fn workers(&self) -> Result<Vec<DevWorker>, EngineError> {
        self.shared.gpu.check()?;
        let mut epoch = self.lock();
        let each = size_of::<DevWorker>();
        let mut bytes = vec![0; epoch.workers.len() * each];
        let at = u64::from(self.sizes.round.at_workers) * 4;
        if !epoch.lost
            && self
                .shared
                .read(&self.shared.gpu.state, at, &mut bytes, SLOW)
                .is_ok()
        {
            epoch.workers = bytes
                .chunks_exact(each)
                .map(DevWorker::from_bytes)
                .collect();
        } else {
            self.shared.gpu.check()?;
            let newest = lock(&self.shared.pump).newest();
            // The device answers nothing now. What runs can only be guessed: what was submitted last.
            let mut workers = epoch.workers.clone();
            if let Some(first) = workers.first_mut() {
                first.state = WORKER_RUNNING;
                first.function = newest.0;
            }
            return Ok(workers);
        }
        Ok(epoch.workers.clone())
    }
    fn dispatch_times(&self) -> Option<DispatchTimes> {
        Some(lock(&self.shared.pump).times.summary())
    }
    fn loss(&self) -> Option<String> {
        self.shared.gpu.lost().map(str::to_owned)
    }
    fn pool_state(&self) -> Result<PoolState, EngineError> {
        let header = lock(&self.shared.pump).header;
        Ok(PoolState {
            task_limit: self.sizes.pools.tasks.into(),
            task_refusals: header.task_refusals.into(),
            group_limit: self.sizes.pools.groups.into(),
            group_refusals: header.group_refusals.into(),
        })
    }
    fn footprint(&self) -> Footprint {
        let (sizes, rings) = (&self.sizes, &self.shared.rings);
        let tables = sizes.task_bytes() + sizes.group_bytes() + sizes.state_bytes();
        let device =
            tables + Sizes::params_bytes() + Sizes::inbox_bytes() + sizes.completion_bytes();
        Footprint {
            device_bytes: device + self.shared.gpu.window_bytes,
            host_bytes: rings.words.bytes()
                + rings.submissions.bytes()
                + rings.completions.bytes()
                + rings.arena.bytes(),
        }
    }
    fn start_time(&self) -> Duration {
        self.start_time
    }
    fn park(&self, grace: Duration) -> Result<(), EngineError> {
        self.stop(&mut self.lock(), grace)
    }
    fn resume(&self, size: Option<u32>) -> Result<(), EngineError> {
        let mut epoch = self.lock();
        self.check_alive(&epoch)?;
        if epoch.running {
            return Ok(());
        }
        let size = self.check_size(size.unwrap_or_else(|| self.size()))?;
        self.launch(&mut epoch, size);
        Ok(())
    }
    fn swap(&self, size: Option<u32>, grace: Duration) -> Result<Duration, EngineError> {
        let mut epoch = self.lock();
        if !epoch.running {
            return Err(EngineError::Parked { action: "swapping" });
        }
        let size = self.check_size(size.unwrap_or_else(|| self.size()))?;
        let begin = Instant::now();
        self.stop(&mut epoch, grace)?;
        self.check_alive(&epoch)?;
        self.launch(&mut epoch, size);
        Ok(begin.elapsed())
    }
}

impl EngineLoader for WgpuEngine {
    fn prepare(&self, image: &Image) -> Result<PreparedImage, EngineError> {
        self.lock().image.check_successor(image)?;
        let compiled = self.shared.gpu.compile(image)?;
        let code = compiled.text.text.clone().into_bytes();
        self.lock().prepared = Some(compiled);
        Ok(PreparedImage {
            image: image.clone(),
            code,
            frames: everwarp_engine::Frames::default(),
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
        let same = |c: &&Compiled| c.text.text.as_bytes() == prepared.code;
        let compiled = match epoch.prepared.as_ref().filter(same) {
            Some(compiled) => compiled.clone(),
            None => self.shared.gpu.compile(image)?,
        };
        let mut pump = lock(&self.shared.pump);
        pump.compiled = compiled;
        pump.functions = image.functions().count() as u32;
        write_functions(&self.shared.gpu, image);
        pump.warm_up(&self.shared.gpu, &self.shared.rings)?;
        drop(pump);
        epoch.image = image.clone();
        Ok(())
    }
}

impl Drop for WgpuEngine {
    fn drop(&mut self) {
        let stopped = self.stop(&mut self.lock(), Duration::from_secs(2)).is_ok();
        self.shared.leave.store(true, Ordering::Release);
        self.shared.bell.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if !stopped {
            // The destructors of wgpu wait for the device, which does not return.
            std::mem::forget(self.shared.clone());
        }
    }
}
