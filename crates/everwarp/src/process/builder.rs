//! Starting a host.

use std::num::NonZeroUsize;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::atomic::Ordering;
#[cfg(target_os = "linux")]
use std::time::Duration;

use everwarp_process::{
    HostConfig, HostStreams, Module, ModuleId, ProcessEngine, Reads, Rehearsal, StartError, Tier,
};
use everwarp_runtime::{Device, EngineKind};

use super::host::{Host, HostEngine, ModuleSet};
#[cfg(target_os = "linux")]
use super::two_engines::TwoEngines;

/// The modules and settings that a [`Host`] starts with, made by [`Host::builder`].
///
/// Some settings exist on one engine only. [`start`](Self::start) refuses [`workers`](Self::workers) on a GPU, and
/// [`stack`](Self::stack), [`interleaved`](Self::interleaved) and [`contract`](Self::contract) on the CPU engine. The
/// CPU engine ignores the other settings for a GPU, because they size memory that it does not reserve.
#[derive(Clone, Debug)]
#[must_use = "a host runs only after `start`"]
pub struct HostBuilder<'d> {
    place: Place<'d>,
    modules: Vec<Module>,
    config: HostConfig,
    shown: bool,
    meanwhile: bool,
    rehearsals: Vec<(Module, Vec<Rehearsal>)>,
}

/// Where a host runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'d> {
    /// On a device, in this program.
    Device(&'d Device),
    /// In the service.
    #[cfg(target_os = "linux")]
    Service(&'d crate::Service),
}

impl<'d> HostBuilder<'d> {
    pub(crate) fn new(place: Place<'d>) -> Self {
        Self {
            place,
            modules: Vec::new(),
            config: HostConfig::default(),
            shown: true,
            meanwhile: false,
            rehearsals: Vec::new(),
        }
    }

    /// Adds a module. Processes can spawn it by its name; if two modules have the same name, they get the later one.
    pub fn module(mut self, module: &Module) -> Self {
        self.modules.push(module.clone());
        self
    }

    /// Sets how many bytes of memory each process may have: its linear memory and its tables (8 bytes an element).
    ///
    /// On a GPU each place reserves this much. By default a process gets as much as its module declares on the CPU
    /// engine, and up to 64 MiB more than its module starts with on a GPU.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.config.load.memory = Some(bytes);
        self
    }

    /// Says that the processes will have a fuel limit ([`Command::fuel`](super::Command::fuel)), so that the CPU engine
    /// compiles the modules with fuel counting from the start and not when the first such process starts. Counting costs
    /// 15 to 30 % of the run time. A GPU always counts.
    pub fn metered(mut self, metered: bool) -> Self {
        self.config.load.metered = metered;
        self
    }

    /// Sets how many threads each process may have besides its first one, if its module starts threads (up to 1,024;
    /// 64 by default).
    pub fn threads(mut self, threads: u32) -> Self {
        self.config.load.threads = threads;
        self
    }

    /// Sets how many threads of the CPU engine run processes at most; by default one for each core. They are started when
    /// there are processes for them. A GPU has no such setting.
    pub fn workers(mut self, workers: NonZeroUsize) -> Self {
        self.config.workers = Some(workers);
        self
    }

    /// Sets how many processes may wait for sockets at the same time on the CPU engine, of all hosts of this program
    /// together (1,024 by default). Further ones wait until one of these ends. Only the first host of a program can ask for
    /// more, and Linux's default limits have room for some 9,500; a service takes the default. A GPU has a place for
    /// each process.
    pub fn waiting(mut self, processes: u32) -> Self {
        self.config.waiting = processes;
        self
    }

    /// Sets how many processes of each module are on a GPU at the same time (1,024 by default). Further processes wait.
    /// Fewer fit if the memory does not suffice: [`Host::width`] returns how many there are.
    pub fn places(mut self, places: u32) -> Self {
        self.config.load.places = places;
        self
    }

    /// Sets how many places each module has on a GPU for processes that other processes spawn (1,024 by default).
    pub fn children(mut self, places: u32) -> Self {
        self.config.load.children = places;
        self
    }

    /// Sets how many bytes of a GPU's memory the places of all modules may take; by default seven tenths of what is
    /// free.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.config.load.memory_budget = Some(bytes);
        self
    }

    /// Sets how many bytes of stack calls nest on. On the CPU engine that is the stack of each process, 8 MiB by default
    /// and otherwise rounded up to a power of two. On a GPU it is the stack of each thread, by default 32 KiB, or more if a
    /// module's frames need more; the driver reserves it for every thread that the GPU can hold.
    pub fn stack(mut self, bytes: u32) -> Self {
        self.config.stack_bytes = Some(bytes);
        self
    }

    /// Interleaves the memories of every 32 processes on a GPU. This is faster for processes that run in step, and
    /// slower for processes that each do something else.
    pub fn interleaved(mut self, interleaved: bool) -> Self {
        self.config.interleaved = interleaved;
        self
    }

    /// Lets a GPU round a product and a sum once, as CUDA C++ does by default. This is faster, and the last bits of
    /// results may differ from those of other engines.
    pub fn contract(mut self, contract: bool) -> Self {
        self.config.contract = contract;
        self
    }

    /// Sets which functions of a module a GPU's image has before processes start: all of them by default. With [`Tier::Lazy`] the
    /// first process of a large module starts sooner, and processes wait for functions that are compiled when they are called.
    pub fn tier(mut self, tier: Tier) -> Self {
        self.config.tier = tier;
        self
    }

    /// Reserves places on a GPU for modules that [`Host::load`] adds later, with their children and threads (0 by
    /// default).
    pub fn spare_places(mut self, places: u32) -> Self {
        self.config.spare_places = places;
        self
    }

    /// Tells a GPU how many bytes of arguments and standard input all processes will get together, if this is known:
    /// memory for them is then mapped at the start and not while processes run.
    pub fn input_bytes(mut self, bytes: u64) -> Self {
        self.config.given_bytes = bytes;
        self
    }

    /// Sets how many threads serve the host calls of a GPU's processes; by default half of the cores, from 4 to 8.
    pub fn servers(mut self, threads: usize) -> Self {
        self.config.servers = threads;
        self
    }

    /// Sets how these threads read files; by default through an io_uring from two reads on.
    pub fn reads(mut self, reads: Reads) -> Self {
        self.config.reads = reads;
        self
    }

    /// Sets how many channels there can be at the same time on a GPU (1,024 by default; each takes 16 KiB).
    pub fn channels(mut self, channels: u32) -> Self {
        self.config.channels = channels;
        self
    }

    /// Sets whether `everwarp ps`, `top` and other programs of the same user can look at the processes and end them; they
    /// can by default.
    pub fn shown(mut self, shown: bool) -> Self {
        self.shown = shown;
        self
    }

    /// On a GPU, lets processes start on the CPU engine while the code of the modules is assembled, which takes seconds the
    /// first time. What has not started when the code is there goes to the GPU: [`Command::spawn_many`](super::Command::spawn_many)
    /// and its like return when each process has an engine. [`Host::meanwhile`] says how many started where.
    ///
    /// Processes on the CPU engine may have more memory than those on the GPU. The host waits for the GPU, as without this
    /// option, if the code is in the cache or takes less than a third of a second; if a module imports `everwarp:gpu`, whose
    /// processes reach each other; with [`metered`](Self::metered), [`contract`](Self::contract) and
    /// [`interleaved`](Self::interleaved), which are not alike on both engines; and in a service.
    pub fn meanwhile(mut self, meanwhile: bool) -> Self {
        self.meanwhile = meanwhile;
        self
    }

    /// On a GPU with [`Tier::Lazy`], runs processes of a module that are given this on the CPU engine first, without effects and
    /// for half a second together at most: so the GPU's code has the functions that they call from the beginning, and not those
    /// that direct calls lead to. What they called is kept in the cache, and a module that was rehearsed is not rehearsed again.
    /// Modules that are compiled as a whole are not rehearsed either, and neither are those of a service and of a host that
    /// [starts on the CPU engine](Self::meanwhile).
    pub fn rehearse(mut self, module: &Module, given: impl IntoIterator<Item = Rehearsal>) -> Self {
        let given = given.into_iter().collect();
        self.rehearsals.push((module.clone(), given));
        self
    }

    /// Compiles the modules and starts the engine of the device's kind.
    ///
    /// # Errors
    /// [`StartError`]: a module is refused, a setting does not exist on this engine, or memory is short.
    pub fn start(self) -> Result<Host, StartError> {
        // The service shows the processes of its clients itself.
        let shown = self.shown && matches!(self.place, Place::Device(_));
        let (engine, device) = match self.place {
            Place::Device(device) => {
                let engine = match self.may_start_on_cpu(device) {
                    true => start_soon(device, &self.modules, &self.config)?,
                    false => {
                        self.rehearse_for(device);
                        start_engine(device, &self.modules, &self.config, None)?.into()
                    }
                };
                (engine, device.name())
            }
            #[cfg(target_os = "linux")]
            Place::Service(service) => {
                let (engine, device) = service.start_host(&self.modules, &self.config)?;
                (engine.into(), device)
            }
        };
        let modules = ModuleSet::default();
        for (number, module) in self.modules.into_iter().enumerate() {
            modules.add(module, ModuleId(number as u32));
        }
        Ok(Host::new(engine, modules, device, shown))
    }

    #[cfg(target_os = "linux")]
    fn rehearse_for(&self, device: &Device) {
        if device.kind() == EngineKind::Cuda {
            for (module, given) in &self.rehearsals {
                super::rehearse::rehearse(module, given, &self.config);
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn rehearse_for(&self, _: &Device) {}

    /// Whether processes may start on the CPU engine before the device's engine has started.
    fn may_start_on_cpu(&self, device: &Device) -> bool {
        let config = &self.config;
        self.meanwhile
            && device.kind() == EngineKind::Cuda
            && !self.modules.iter().any(Module::uses_gpu)
            && !config.load.metered
            && !config.contract
            && !config.interleaved
    }
}

/// Starts an engine. What processes inherit are `streams`, or this program's own.
pub(crate) fn start_engine(
    device: &Device,
    modules: &[Module],
    config: &HostConfig,
    streams: Option<&HostStreams>,
) -> Result<Arc<dyn ProcessEngine>, StartError> {
    match device.kind() {
        EngineKind::Cpu => Ok(Arc::new(everwarp_process_cpu::CpuProcesses::start_with(
            modules, config, streams,
        )?)),
        EngineKind::Cuda => start_on_gpu(device, modules, config, streams),
        EngineKind::Wgpu => Err(StartError::Engine(Box::new(
            everwarp_runtime::EngineError::NotHere {
                what: "WebAssembly processes",
                engine: EngineKind::Wgpu,
            },
        ))),
    }
}

#[cfg(target_os = "linux")]
fn start_on_gpu(
    device: &Device,
    modules: &[Module],
    config: &HostConfig,
    streams: Option<&HostStreams>,
) -> Result<Arc<dyn ProcessEngine>, StartError> {
    use everwarp_process_cuda::{CudaProcesses, Streams};
    let streams = streams.map_or_else(Streams::inherit, Streams::of_host);
    let engine = CudaProcesses::start(device, modules, config, streams)?;
    Ok(Arc::new(engine))
}

/// Assembling that takes less time is waited for.
#[cfg(target_os = "linux")]
const WORTH_A_CHANGE: Duration = Duration::from_millis(300);

/// Starts an engine on a GPU, or both engines if the GPU's code has to be assembled.
#[cfg(target_os = "linux")]
fn start_soon(
    device: &Device,
    modules: &[Module],
    config: &HostConfig,
) -> Result<HostEngine, StartError> {
    use everwarp_process_cuda::{Ahead, CudaProcesses, Streams};
    let preparation = CudaProcesses::prepare(modules, config)?;
    let ahead = preparation.ahead(device);
    let ahead = ahead.filter(|ahead: &Ahead| ahead.expected() >= WORTH_A_CHANGE);
    let Some(ahead) = ahead else {
        let engine = preparation.start(device, modules, config, Streams::inherit())?;
        return Ok(HostEngine::One(Arc::new(engine)));
    };
    let (device, own, settings) = (device.clone(), modules.to_vec(), config.clone());
    let engines = TwoEngines::start(modules, config, move |streams, unwanted| {
        ahead.make(unwanted);
        if unwanted.load(Ordering::Relaxed) {
            return Err(StartError::System {
                what: "an engine that is not wanted any more".to_owned(),
                source: std::io::ErrorKind::Interrupted.into(),
            });
        }
        let engine = preparation.start(&device, &own, &settings, Streams::of_host(streams))?;
        Ok(Arc::new(engine))
    });
    Ok(HostEngine::Two(Arc::new(engines?)))
}

#[cfg(not(target_os = "linux"))]
fn start_soon(
    device: &Device,
    modules: &[Module],
    config: &HostConfig,
) -> Result<HostEngine, StartError> {
    start_on_gpu(device, modules, config, None).map(Into::into)
}

#[cfg(not(target_os = "linux"))]
fn start_on_gpu(
    _: &Device,
    _: &[Module],
    _: &HostConfig,
    _: Option<&HostStreams>,
) -> Result<Arc<dyn ProcessEngine>, StartError> {
    let source = std::io::Error::from(std::io::ErrorKind::Unsupported);
    Err(StartError::System {
        what: "processes on a GPU need Linux".to_owned(),
        source,
    })
}
