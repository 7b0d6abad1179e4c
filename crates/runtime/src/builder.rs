//! Starting an engine.

use std::time::Duration;

use everwarp_engine::{EngineKind, HeapConfig, Image, Linked, Pools, ProgramRef, TaskEngine};
use everwarp_engine_cpu::CpuEngine;
use everwarp_telemetry::Level;

use crate::core::EngineCore;
use crate::device::{Device, Opened};
use crate::engine::Engine;
use crate::error::Error;
use crate::instance::append;

/// The programs and sizes that an engine starts with. Made by [`Device::engine`].
#[derive(Debug)]
pub struct EngineBuilder<'d> {
    device: &'d Device,
    programs: Vec<ProgramRef>,
    pub(crate) linked: Linked,
    pools: Pools,
    heap: Option<HeapConfig>,
    size: Option<u32>,
    watchdog: Duration,
    level: Level,
    shown: bool,
}

impl Device {
    /// Prepares an engine on this device.
    pub fn engine(&self) -> EngineBuilder<'_> {
        EngineBuilder::new(self)
    }
}

impl<'d> EngineBuilder<'d> {
    fn new(device: &'d Device) -> Self {
        let (programs, pools) = (Vec::new(), Pools::default());
        Self {
            device,
            programs,
            linked: Linked::default(),
            pools,
            heap: None,
            size: None,
            watchdog: Duration::from_secs(10),
            level: everwarp_telemetry::level(),
            shown: true,
        }
    }
    /// Adds a program. Adding one twice does nothing.
    pub fn program(mut self, program: impl Into<ProgramRef>) -> Self {
        self.programs.push(program.into());
        self
    }
    /// Sets the sizes of rings and pools.
    pub fn pools(mut self, pools: Pools) -> Self {
        self.pools = pools;
        self
    }
    /// Gives the engine a heap, from which its tasks allocate; by default it has none. This wins over the heap of
    /// [`pools`](Self::pools).
    pub fn heap(mut self, heap: HeapConfig) -> Self {
        self.heap = Some(heap);
        self
    }
    /// Sets the size: blocks on a GPU, threads on a CPU. By default, as many as the device holds.
    pub fn size(mut self, size: u32) -> Self {
        self.size = Some(size);
        self
    }
    /// Sets how long nothing may move before a wait ends with an error; 10 s by default. A single task that runs longer
    /// than this while nothing else moves looks stuck, so set it longer than the longest task.
    pub fn watchdog(mut self, watchdog: Duration) -> Self {
        self.watchdog = watchdog;
        self
    }
    /// Measures how long tasks run and wait; by default that is done only if the program has turned it on as a whole. A GPU
    /// measures them through CUDA in samples, and nothing through other interfaces. On the CPU engine it costs about a hundredth of
    /// the engine's time.
    pub fn measure(mut self, measure: bool) -> Self {
        self.level = match measure {
            true => self.level.max(Level::Measure),
            false => Level::Off,
        };
        self
    }
    /// Sets whether `everwarp top` and other programs of the same user can look at the engine; they can by default.
    pub fn shown(mut self, shown: bool) -> Self {
        self.shown = shown;
        self
    }
    /// Starts the engine. On a GPU this compiles the image, unless it is in the cache.
    ///
    /// # Errors
    /// The image does not compile, memory is short, a size is impossible, two programs share a name
    /// ([`Error::DuplicateProgram`]), they have too many functions ([`Error::TooManyFunctions`]), or the GPU has an engine of
    /// this process already ([`EngineError::Occupied`](crate::EngineError::Occupied)).
    pub fn start(self) -> Result<Engine, Error> {
        let mut image = Image {
            linked: self.linked,
            ..Image::default()
        };
        for program in self.programs {
            append(&mut image, program)?;
        }
        let mut pools = self.pools;
        pools.heap = self.heap.unwrap_or(pools.heap);
        let kind = self.device.kind();
        // The CPU engine's workers are compiled with their measurements.
        image.traced = kind == EngineKind::Cuda && self.level == Level::Trace;
        image.measured = kind == EngineKind::Cuda && self.level == Level::Measure;
        if kind == EngineKind::Wgpu && self.level != Level::Off {
            everwarp_telemetry::warn_unmeasured(&kind.to_string());
        }
        let engine: Box<dyn TaskEngine> = match &self.device.opened {
            Opened::Cpu => {
                let engine = CpuEngine::start_measured(&image, self.size, pools, self.level)?;
                Box::new(engine)
            }
            Opened::Cuda(device) => Box::new(device.start(&image, self.size, pools)?),
            #[cfg(feature = "wgpu")]
            Opened::Wgpu(device) => Box::new(device.start(&image, self.size, pools)?),
        };
        let core = EngineCore::new(engine, image, self.watchdog);
        if self.shown {
            core.show();
        }
        Ok(Engine { core, region: None })
    }
}
