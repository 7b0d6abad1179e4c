//! The engine: epochs of one cooperative grid over the same memory.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everwarp_contract::control::REQUEST_PARK;
use everwarp_contract::device::{BLOCK_THREADS, BLOCK_WARPS, CHUNK_TASKS, DevGrid};
use everwarp_contract::task::PARAM_BYTES;
use everwarp_contract::{DevPtr, DevType, DevWords, DevWorker, FunctionId, InstanceId};
use everwarp_engine::sync::lock;
use everwarp_engine::trace::{span, spanned};
use everwarp_engine::{
    Addition, ElementSize, EngineError, EngineKind, EngineLoader, EngineMemory, EngineRings,
    Footprint, Frames, Haste, HeapControl, HostCallMemory, Image, LinkedPart, MeasuredFunction,
    NearMemory, PoolState, Pools, PreparedAddition, PreparedImage, TaskEngine,
};

use crate::addition;
use crate::cache::Cache;
use crate::copy::Copier;
use crate::device::CudaDevice;
use crate::driver::{Context, Stream, call};
use crate::epoch::{Code, Epoch, check_size};
use crate::heap::{Heap, alloc_filled};
use crate::hostcalls::HostCalls;
use crate::kernel::{code, load, occupancy, prepare};
use crate::leaving::is_leaving;
use crate::locked::LockedBytes;
use crate::measured::Measures;
use crate::parts::{Made, assemble_ahead, assemble_while};
use crate::residency::Residency;
use crate::tables::Tables;
use crate::task_heap::TaskHeap;
use crate::traced::Traces;

/// How many images stay loaded after they have been exchanged. To unload one takes 1.5 ms and more, which lengthens the pause of an
/// exchange; so it is done while the engine is idle. If it is never idle, each exchange unloads one: all of them at once paused the
/// engine for 280 ms now and then.
const OLD_IMAGES: usize = 16;
/// How long a start may take before it is a failure; the first launch loads the kernel.
const START_GRACE: Duration = Duration::from_secs(20);

/// An engine on an NVIDIA GPU.
#[derive(Debug)]
pub struct CudaEngine {
    context: Context,
    name: String,
    arch: u32,
    multiprocessors: u32,
    pools: Pools,
    /// Blocks that the tables have room for: what the first image's occupancy allowed.
    reserved_blocks: u32,
    tables: Tables,
    host_calls: Option<HostCalls>,
    copier: Copier,
    heap: Mutex<Heap>,
    /// Memory of the host that tasks reach, in use.
    near: Mutex<Vec<LockedBytes>>,
    task_heap: Option<TaskHeap>,
    traces: Option<Traces>,
    measures: Option<Measures>,
    stream: Stream,
    epoch: Mutex<Epoch>,
    /// Kernels of images that have been exchanged, and not unloaded.
    old: Mutex<VecDeque<Code>>,
    /// Machine code that is not in the cache.
    made: Made,
    lost: AtomicBool,
    start_time: Duration,
    residency: Residency,
}

/// The memory of an engine that does not depend on its image.
struct HostMemory {
    host_calls: Option<HostCalls>,
    copier: Copier,
}

impl HostMemory {
    fn new(device: &CudaDevice, image: &Image) -> Result<Self, EngineError> {
        device.context.enter()?;
        Ok(Self {
            host_calls: match image.linked.host_call_slots {
                0 => None,
                slots => Some(spanned("memory: host-call ring", || HostCalls::new(slots))?),
            },
            copier: spanned("memory: staging areas", || Copier::new(device.context))?,
        })
    }
}

impl CudaEngine {
    /// Starts an engine of `blocks` blocks, or as many as can be resident.
    pub fn start(
        device: &CudaDevice,
        image: &Image,
        blocks: Option<u32>,
        pools: Pools,
    ) -> Result<Self, EngineError> {
        device.context.enter()?;
        pools.check()?;
        let residency = Residency::take(device)?;
        let begin = Instant::now();
        let (made, stream) = (Made::default(), Stream::new()?);
        let (code, memory) = std::thread::scope(|scope| {
            // Page-locking takes longer than everything else, so it happens while the image is read and loaded.
            let memory = scope.spawn(|| HostMemory::new(device, image));
            let code = code(device, image, &made, &stream);
            let memory = memory
                .join()
                .unwrap_or_else(|e| std::panic::resume_unwind(e));
            (code, memory)
        });
        // Memory of a start that fails stays until the process ends.
        let (prepared, kernel, compiling) = code?;
        let HostMemory { host_calls, copier } = memory?;
        let started = begin + compiling;
        let max_blocks = occupancy(kernel, device.multiprocessors())?;
        let blocks = blocks.unwrap_or(max_blocks);
        check_size(blocks, max_blocks, pools)?;
        let mut tables = spanned("memory: rings and tables", || {
            Tables::new(pools, max_blocks)
        })?;
        if let Some(calls) = &host_calls {
            tables.engine.host_calls = calls.ring();
        }
        let task_heap = TaskHeap::new(device.context, pools.heap, device.multiprocessors())?;
        if let Some(heap) = &task_heap {
            tables.engine.heap = DevPtr::new(heap.address());
        }
        let traces = Traces::new(image, max_blocks, &mut tables.engine)?;
        let measures = Measures::new(image, max_blocks, &mut tables.engine)?;
        kernel.install(&tables.engine)?;
        let heap = spanned("memory: buffers", || Heap::new(device.context))?;
        let mut engine = Self {
            context: device.context,
            name: device.name().to_owned(),
            arch: device.arch(),
            multiprocessors: device.multiprocessors(),
            pools,
            reserved_blocks: max_blocks,
            tables,
            host_calls,
            copier,
            heap: Mutex::new(heap),
            near: Mutex::default(),
            task_heap,
            traces,
            measures,
            stream,
            epoch: Mutex::new(Epoch {
                number: 0,
                blocks,
                max_blocks,
                resident: false,
                kernel,
                additions: Vec::new(),
                frames: prepared.frames,
                image: image.clone(),
            }),
            old: Mutex::default(),
            made,
            lost: AtomicBool::new(false),
            start_time: Duration::ZERO,
            residency,
        };
        {
            let _span = span("engine: first answer");
            let mut epoch = lock(&engine.epoch);
            engine.launch(&mut epoch, blocks)?;
            engine.await_epoch(epoch.number, |w| w.epoch, START_GRACE, &epoch.image)?;
        }
        engine.traces.iter_mut().for_each(Traces::answered);
        engine.start_time = started.elapsed();
        Ok(engine)
    }

    fn words(&self) -> *mut DevWords {
        self.tables.rings.words.cast_mut()
    }

    /// Queues the next epoch after the resident one.
    fn launch(&self, epoch: &mut Epoch, blocks: u32) -> Result<(), EngineError> {
        let mut number = epoch.number + 1;
        let mut params: [*mut c_void; 1] = [(&raw mut number).cast()];
        // SAFETY: the kernel takes the epoch's number by value; its tables are live; the grid is no larger
        // than the occupancy query allows.
        unsafe {
            call!(cuLaunchCooperativeKernel(
                epoch.kernel.raw,
                blocks,
                1,
                1,
                BLOCK_THREADS,
                1,
                1,
                epoch.kernel.shared_bytes,
                self.stream.0,
                params.as_mut_ptr()
            ))?;
        }
        epoch.number += 1;
        epoch.blocks = blocks;
        epoch.resident = true;
        Ok(())
    }

    fn read_words(&self) -> DevWords {
        // SAFETY: the words live as long as the engine; a torn read of independent words is harmless, and
        // the volatile read is not cached by the compiler.
        unsafe { self.words().read_volatile() }
    }

    fn request_park(&self, number: u32) {
        let request = u64::from(number) << 32 | u64::from(REQUEST_PARK);
        // SAFETY: `request` and `request_epoch` are one aligned 8-byte word, and the host is its only writer.
        unsafe { std::sync::atomic::AtomicU64::from_ptr(self.words().cast()) }
            .store(request, Ordering::Release);
    }

    /// Waits until a word shows the epoch's number; `image` names the functions in a report.
    fn await_epoch(
        &self,
        number: u32,
        word: impl Fn(&DevWords) -> u32,
        grace: Duration,
        image: &Image,
    ) -> Result<(), EngineError> {
        let begin = Instant::now();
        let lose = |e| {
            self.lost.store(true, Ordering::Relaxed);
            e
        };
        for spins in 1u32.. {
            if word(&self.read_words()) == number {
                break;
            }
            if spins.is_multiple_of(1 << 12) {
                if self.stream.is_done().map_err(lose)? && word(&self.read_words()) != number {
                    return Err(lose(EngineError::Lost {
                        reason: format!("epoch {number} ended before it answered"),
                    }));
                }
                if begin.elapsed() > grace {
                    return Err(lose(EngineError::Stuck {
                        grace,
                        report: self.report(image),
                    }));
                }
            }
            std::hint::spin_loop();
        }
        std::sync::atomic::fence(Ordering::Acquire);
        Ok(())
    }

    fn check_lost(&self) -> Result<(), EngineError> {
        if self.lost.load(Ordering::Relaxed) {
            return Err(EngineError::Lost {
                reason: "a task did not end or the kernel crashed; start a new process".into(),
            });
        }
        Ok(())
    }

    /// Counts the workers by state and function.
    fn report(&self, image: &Image) -> String {
        let Ok(workers) = self.workers() else {
            return "(the workers' counters cannot be read)".into();
        };
        let mut groups = std::collections::BTreeMap::new();
        for (i, w) in workers.iter().enumerate() {
            let state = w.activity();
            let function = if state.is_in_function() {
                image.name(FunctionId(w.function))
            } else {
                String::new()
            };
            let entry: &mut (u32, usize) = groups.entry((state, function)).or_insert((0, i));
            entry.0 += 1;
        }
        let lines = groups
            .into_iter()
            .map(|((state, function), (count, first))| {
                format!(
                    "  {count} warps {state} {function} (first: warp {first}, block {})",
                    first as u32 / BLOCK_WARPS
                )
            });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn grid(&self) -> Result<DevGrid, EngineError> {
        let mut bytes = [0u8; size_of::<DevGrid>()];
        // SAFETY: the grid's words are live.
        unsafe {
            self.copier
                .read(self.tables.engine.grid.address(), &mut bytes)?;
        }
        Ok(DevGrid::from_bytes(&bytes))
    }
}

impl TaskEngine for CudaEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Cuda
    }
    fn device_name(&self) -> String {
        self.name.clone()
    }
    fn worker_count(&self) -> u32 {
        lock(&self.epoch).blocks * BLOCK_WARPS
    }
    fn size(&self) -> u32 {
        lock(&self.epoch).blocks
    }
    fn max_size(&self) -> u32 {
        lock(&self.epoch).max_blocks
    }
    fn pools(&self) -> Pools {
        self.pools
    }
    fn rings(&self) -> EngineRings {
        self.tables.rings
    }
    fn doorbell(&self) {}
    fn idle_wait(&self, round: u32) {
        // The grid cannot wake a thread of the host: the waiter polls, at first as fast as it can.
        match round {
            0..2048 => std::hint::spin_loop(),
            2048..4096 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    fn workers(&self) -> Result<Vec<DevWorker>, EngineError> {
        let count = (self.reserved_blocks * BLOCK_WARPS) as usize;
        let mut bytes = vec![0u8; count * size_of::<DevWorker>()];
        // SAFETY: the table has `count` entries.
        unsafe {
            self.copier
                .read(self.tables.engine.workers.address(), &mut bytes)?;
        }
        let entries = bytes.chunks_exact(size_of::<DevWorker>());
        Ok(entries.map(DevWorker::from_bytes).collect())
    }
    fn measured(&self) -> Result<Option<Vec<MeasuredFunction>>, EngineError> {
        let Some(measures) = &self.measures else {
            return Ok(None);
        };
        let mut bytes = vec![0u8; measures.bytes()];
        // SAFETY: the tables have this size.
        unsafe { self.copier.read(measures.address(), &mut bytes)? };
        Ok(Some(measures.read(&bytes)))
    }
    fn pool_state(&self) -> Result<PoolState, EngineError> {
        let grid = self.grid()?;
        Ok(PoolState {
            task_limit: u64::from(self.tables.engine.chunk_limit) * u64::from(CHUNK_TASKS),
            task_refusals: grid.chunk_refusals.into(),
            group_limit: self.tables.engine.group_limit.into(),
            group_refusals: grid.group_refusals.into(),
        })
    }
    fn footprint(&self) -> Footprint {
        let mut footprint = self.tables.footprint();
        if let Some(heap) = &self.task_heap {
            footprint.device_bytes += heap.device_bytes();
            footprint.host_bytes += heap.host_bytes();
        }
        footprint.host_bytes += self.copier.host_bytes();
        if let Some(calls) = &self.host_calls {
            footprint.host_bytes += calls.host_bytes();
            footprint.device_bytes += calls.device_bytes();
        }
        footprint.device_bytes += crate::heap::FIRST;
        footprint
    }
    fn start_time(&self) -> Duration {
        self.start_time
    }
    fn park(&self, grace: Duration) -> Result<(), EngineError> {
        self.check_lost()?;
        self.context.enter()?;
        let mut epoch = lock(&self.epoch);
        if !epoch.resident {
            return Ok(());
        }
        self.request_park(epoch.number);
        self.await_epoch(epoch.number, |w| w.parked, grace, &epoch.image)?;
        epoch.resident = false;
        Ok(())
    }
    fn resume(&self, size: Option<u32>) -> Result<(), EngineError> {
        self.check_lost()?;
        self.context.enter()?;
        let mut epoch = lock(&self.epoch);
        if epoch.resident {
            return Ok(());
        }
        let blocks = epoch.next_size(size, self.pools)?;
        spanned("engine: launch", || self.launch(&mut epoch, blocks))?;
        let _span = span("engine: answer");
        self.await_epoch(epoch.number, |w| w.epoch, START_GRACE, &epoch.image)
    }
    fn swap(&self, size: Option<u32>, grace: Duration) -> Result<Duration, EngineError> {
        self.check_lost()?;
        self.context.enter()?;
        let mut epoch = lock(&self.epoch);
        if !epoch.resident {
            return Err(EngineError::Parked { action: "swapping" });
        }
        let (old, blocks) = (epoch.number, epoch.next_size(size, self.pools)?);
        // The next epoch waits in the stream before the flag is raised.
        self.launch(&mut epoch, blocks)?;
        let begin = Instant::now();
        self.request_park(old);
        self.await_epoch(epoch.number, |w| w.epoch, grace, &epoch.image)?;
        Ok(begin.elapsed())
    }
}

impl EngineMemory for CudaEngine {
    fn alloc(&self, bytes: u64) -> Result<u64, EngineError> {
        self.check_lost()?;
        self.context.enter()?;
        alloc_filled(&self.heap, bytes, |address| {
            // SAFETY: the range has just been allocated, and nothing else knows of it.
            unsafe { self.copier.fill(address, bytes, 0) }
        })
    }
    fn alloc_uncleared(&self, bytes: u64) -> Result<u64, EngineError> {
        self.check_lost()?;
        self.context.enter()?;
        lock(&self.heap).alloc(bytes)
    }
    fn alloc_near(&self, bytes: u64) -> Result<Option<NearMemory>, EngineError> {
        self.check_lost()?;
        self.context.enter()?;
        let mut memory = LockedBytes::new(bytes as usize)?;
        memory.fill(0);
        let near = NearMemory {
            address: memory.address(),
            host: memory.as_mut_ptr(),
        };
        lock(&self.near).push(memory);
        Ok(Some(near))
    }
    unsafe fn free(&self, address: u64, bytes: u64) {
        let mut near = lock(&self.near);
        match near.iter().position(|memory| memory.address() == address) {
            // It is used again.
            Some(at) => drop(near.swap_remove(at)),
            None => lock(&self.heap).free(address, bytes),
        }
    }
    unsafe fn write(&self, address: u64, data: &[u8], _: ElementSize) -> Result<(), EngineError> {
        self.check_lost()?;
        // SAFETY: the caller vouches for the range.
        unsafe { self.copier.write(address, data) }
    }
    unsafe fn write_pieces(
        &self,
        address: u64,
        pieces: &mut dyn Iterator<Item = &[u8]>,
        _: ElementSize,
    ) -> Result<(), EngineError> {
        self.check_lost()?;
        // SAFETY: the caller vouches for the range.
        unsafe { self.copier.write_pieces(address, pieces) }
    }
    unsafe fn read(
        &self,
        address: u64,
        data: &mut [u8],
        _: ElementSize,
    ) -> Result<(), EngineError> {
        self.check_lost()?;
        // SAFETY: the caller vouches for the range.
        unsafe { self.copier.read(address, data) }
    }
    unsafe fn fill(
        &self,
        address: u64,
        bytes: u64,
        value: u8,
        _: ElementSize,
    ) -> Result<(), EngineError> {
        self.check_lost()?;
        // SAFETY: the caller vouches for the range.
        unsafe { self.copier.fill(address, bytes, value) }
    }
    fn set_params(&self, instance: InstanceId, params: &[u8]) -> Result<(), EngineError> {
        assert!(
            params.len() <= PARAM_BYTES as usize,
            "checked by the host library"
        );
        let at =
            self.tables.engine.params.address() + instance.index() as u64 * u64::from(PARAM_BYTES);
        // SAFETY: the slot is in the table of parameters.
        unsafe { self.copier.write(at, params) }
    }
    fn heap(&self) -> Option<&dyn HeapControl> {
        let heap = self.task_heap.as_ref()?;
        Some(heap)
    }
}

impl EngineLoader for CudaEngine {
    fn prepare(&self, image: &Image) -> Result<PreparedImage, EngineError> {
        self.check_lost()?;
        self.context.enter()?;
        lock(&self.epoch).image.check_successor(image)?;
        prepare(image, self.arch, &self.made)
    }
    fn assemble_ahead(&self, parts: &[LinkedPart]) {
        assemble_ahead(parts, self.arch, &Cache::user(), &self.made);
    }
    fn assembles_ahead(&self) -> bool {
        self.made.assembler().is_some()
    }
    fn assemble_while(
        &self,
        parts: &[LinkedPart],
        haste: Haste,
        unwanted: &Arc<AtomicBool>,
    ) -> Result<bool, EngineError> {
        let cache = Cache::user();
        assemble_while(parts, self.arch, &cache, &self.made, haste, unwanted)
    }
    fn set_image(&self, prepared: &PreparedImage) -> Result<(), EngineError> {
        self.check_lost()?;
        self.context.enter()?;
        let mut epoch = lock(&self.epoch);
        if epoch.resident {
            return Err(EngineError::NotParked {
                action: "loading an image",
            });
        }
        epoch.image.check_successor(&prepared.image)?;
        let kernel = load(prepared, &self.stream)?;
        let occupancy = spanned("image: occupancy", || {
            occupancy(kernel, self.multiprocessors)
        })?;
        let max_blocks = match epoch.limit(occupancy, self.reserved_blocks) {
            Ok(max_blocks) => max_blocks,
            Err(refused) => {
                kernel.unload();
                return Err(refused);
            }
        };
        spanned("image: tables", || kernel.install(&self.tables.engine))?;
        let mut old = lock(&self.old);
        old.push_back(epoch.exchange(kernel, max_blocks, prepared));
        if old.len() > OLD_IMAGES
            && let Some(oldest) = old.pop_front()
        {
            // The last kernel has ended when it says that it is parked, or is about to; unloading waits for that.
            spanned("image: unload", || oldest.unload());
        }
        Ok(())
    }
    fn prepare_addition(
        &self,
        addition: &Addition,
    ) -> Result<Option<PreparedAddition>, EngineError> {
        self.check_lost()?;
        self.context.enter()?;
        let (frames, kernel) = {
            let epoch = lock(&self.epoch);
            (epoch.frames.clone(), epoch.kernel)
        };
        addition::prepare(addition, &frames, kernel, self.arch, &self.made)
    }
    fn add(&self, prepared: &PreparedAddition) -> Result<(), EngineError> {
        self.check_lost()?;
        self.context.enter()?;
        let mut epoch = lock(&self.epoch);
        if epoch.resident {
            return Err(EngineError::NotParked {
                action: "loading code",
            });
        }
        let (image, earlier) = (epoch.kernel, &epoch.additions);
        let loaded = addition::load(prepared, image, earlier, &self.stream)?;
        epoch.additions.push(loaded);
        epoch.frames = prepared.frames.clone();
        Ok(())
    }
    fn trim(&self) {
        let epoch = lock(&self.epoch);
        if epoch.resident || self.context.enter().is_err() || self.stream.synchronize().is_err() {
            return;
        }
        let _span = span("engine: trim");
        lock(&self.old).drain(..).for_each(Code::unload);
        // SAFETY: nothing is resident: the lock keeps the next epoch from starting.
        unsafe { lock(&self.heap).trim() };
    }
    fn host_calls(&self) -> Option<HostCallMemory> {
        self.host_calls.as_ref().map(HostCalls::memory)
    }
    fn frames(&self) -> Frames {
        lock(&self.epoch).frames.clone()
    }
}

impl Drop for CudaEngine {
    fn drop(&mut self) {
        let _span = span("engine: end");
        let parked = self.park(Duration::from_secs(2)).is_ok();
        // A kernel that does not end keeps its memory and the device until the process ends: freeing would wait for it.
        if !parked {
            self.residency.lose();
        }
        if parked && self.stream.synchronize().is_ok() && !is_leaving() {
            // SAFETY: nothing is resident, and no other thread has the engine.
            unsafe {
                if let Some(traces) = &self.traces {
                    traces.finish(&lock(&self.epoch).image);
                }
                self.measures.iter().for_each(|measures| measures.release());
                self.tables.release();
                self.copier.release();
                self.host_calls.iter().for_each(|calls| calls.release());
                lock(&self.heap).release();
                if let Some(heap) = &self.task_heap {
                    heap.release();
                }
            }
        }
    }
}
