//! Preparing an engine.

use std::time::Duration;

use everwarp_backend::{Backend, Image, Pools, Program};
use everwarp_cpu::CpuEngine;

use crate::core::Core;
use crate::device::{Device, Opened};
use crate::engine::Engine;
use crate::error::Error;

/// What an engine starts with. Made by [`Device::engine`].
#[derive(Debug)]
pub struct EngineBuilder<'d> {
    device: &'d Device,
    image: Image,
    pools: Pools,
    size: Option<u32>,
    watchdog: Duration,
}

impl<'d> EngineBuilder<'d> {
    pub(crate) fn new(device: &'d Device) -> Self {
        let (image, pools) = (Image::default(), Pools::default());
        Self { device, image, pools, size: None, watchdog: Duration::from_secs(10) }
    }
    /// Adds a program. Naming one twice does nothing.
    pub fn program(mut self, program: &'static Program) -> Self {
        if self.image.base(program.name).is_none() {
            self.image.programs.push(program);
        }
        self
    }
    /// Sets the sizes of rings and pools.
    pub fn pools(mut self, pools: Pools) -> Self {
        self.pools = pools;
        self
    }
    /// Sets the size: blocks on a GPU, threads on a CPU. By default, as many as the device holds.
    pub fn size(mut self, size: u32) -> Self {
        self.size = Some(size);
        self
    }
    /// Sets how long nothing may move before a wait ends with an error; 10 s by default.
    pub fn watchdog(mut self, watchdog: Duration) -> Self {
        self.watchdog = watchdog;
        self
    }
    /// Starts the engine. On a GPU this compiles the image, unless it is in the cache.
    ///
    /// # Errors
    /// The image does not compile, memory is short, or a size is impossible.
    pub fn start(self) -> Result<Engine, Error> {
        let backend: Box<dyn Backend> = match &self.device.opened {
            Opened::Cpu => Box::new(CpuEngine::start(&self.image, self.size, self.pools)?),
            Opened::Cuda(device) => Box::new(device.start(&self.image, self.size, self.pools)?),
        };
        Ok(Engine { core: Core::new(backend, self.image, self.watchdog) })
    }
}
