//! Starting a host.

use std::num::NonZeroUsize;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(target_os = "linux")]
use std::time::Duration;

use everwarp_process::{
    HostConfig, HostStreams, Module, ModuleId, ProcessEngine, Reads, Rehearsal, StartError, Tier,
};
use everwarp_runtime::{Device, EngineKind, Select};

use super::host::{Host, HostEngine, ModuleSet};
use super::opening::Source;
#[cfg(target_os = "linux")]
use super::rehearse::{is_any_left, rehearse, rehearse_for_service};
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
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "GPUs need Linux")
    )]
    rehearsals: Vec<(Module, Vec<Rehearsal>)>,
}

/// Where a host runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'d> {
    /// On a device, in this program.
    Device(&'d Device),
    /// On a device that is opened when the host starts.
    Opened(Select),
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

    /// Sets which functions of a module a GPU's image has before processes start. With [`Tier::Lazy`], the default, the first process
    /// of a large module starts sooner if it is [known](Self::rehearse) what it calls, and processes wait for other functions, which are
    /// compiled when they are called. With [`Tier::Best`] no process waits after the start.
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
    /// for half a second together at most: so the GPU's code has the functions that they call from the beginning. Of a module that was
    /// never rehearsed all functions are compiled. What was called is kept in the cache, and processes that are given the same are
    /// not rehearsed again.
    ///
    /// Modules that are compiled as a whole are not rehearsed. A host that [starts on the CPU engine](Self::meanwhile) does so first and
    /// rehearses then; for a host in a service this program rehearses.
    pub fn rehearse(mut self, module: &Module, given: impl IntoIterator<Item = Rehearsal>) -> Self {
        let given = given.into_iter().collect();
        self.rehearsals.push((module.clone(), given));
        self
    }

    /// Compiles the modules and starts the engine of the device's kind.
    ///
    /// # Errors
    /// [`StartError`]: a module is refused, a setting does not exist on this engine, the device cannot be opened, or memory is short.
    pub fn start(self) -> Result<Host, StartError> {
        // The service shows the processes of its clients itself.
        #[cfg(target_os = "linux")]
        let shown = self.shown && !matches!(self.place, Place::Service(_));
        #[cfg(not(target_os = "linux"))]
        let shown = self.shown;
        let modules = self.modules.clone();
        let (engine, device) = match self.place {
            Place::Device(device) => self.start_on(Source::Opened(device.clone()))?,
            Place::Opened(select) => self.start_on(Source::open(select)?)?,
            #[cfg(target_os = "linux")]
            Place::Service(service) => {
                let config = match service.kind() {
                    EngineKind::Cuda => {
                        rehearse_for_service(&self.modules, &self.rehearsals, &self.config)
                    }
                    _ => self.config,
                };
                let (engine, device) = service.start_host(&self.modules, &config)?;
                (engine.into(), device)
            }
        };
        let set = ModuleSet::default();
        for (number, module) in modules.into_iter().enumerate() {
            set.add(module, ModuleId(number as u32));
        }
        Ok(Host::new(engine, set, device, shown))
    }

    /// Starts an engine of this program's own. Returns the name of the device as well.
    fn start_on(self, device: Source) -> Result<(HostEngine, String), StartError> {
        if self.may_start_on_cpu(device.kind()) {
            return self.start_soon(device);
        }
        match device.kind() {
            EngineKind::Cuda => self.start_on_gpu(device),
            _ => {
                let device = device.device()?;
                let engine = start_engine(&device, &self.modules, &self.config, None)?;
                Ok((engine.into(), device.name()))
            }
        }
    }

    /// Whether processes may start on the CPU engine before the device's engine has started.
    fn may_start_on_cpu(&self, device: EngineKind) -> bool {
        let config = &self.config;
        self.meanwhile
            && device == EngineKind::Cuda
            && !self.modules.iter().any(Module::uses_gpu)
            && !config.load.metered
            && !config.contract
            && !config.interleaved
    }
}

#[cfg(target_os = "linux")]
impl HostBuilder<'_> {
    /// Starts an engine on a GPU. What needs no device is done before it is open.
    fn start_on_gpu(self, mut device: Source) -> Result<(HostEngine, String), StartError> {
        use everwarp_process_cuda::{CudaProcesses, Streams};
        rehearse(&self.rehearsals, &self.config);
        device.check()?;
        let preparation = CudaProcesses::prepare(&self.modules, &self.config)?;
        let device = device.device()?;
        let (modules, config) = (&self.modules, &self.config);
        let engine = preparation.start(&device, modules, config, Streams::inherit())?;
        Ok((HostEngine::One(Arc::new(engine)), device.name()))
    }

    /// Starts an engine on a GPU, or both engines if the GPU's code has to be assembled.
    fn start_soon(self, device: Source) -> Result<(HostEngine, String), StartError> {
        use everwarp_process_cuda::{Ahead, CudaProcesses, Streams};
        let Self {
            modules,
            config,
            rehearsals,
            ..
        } = self;
        // Code that depends on what a rehearsal will show is not in the cache.
        let prepared = match is_any_left(&rehearsals, &config) {
            true => None,
            false => Some(CudaProcesses::prepare(&modules, &config)?),
        };
        let device = device.device()?;
        let name = device.name();
        let prepared = match prepared {
            None => None,
            Some(preparation) => {
                let ahead = preparation.ahead(&device);
                let ahead = ahead.filter(|ahead: &Ahead| ahead.expected() >= WORTH_A_CHANGE);
                if ahead.is_none() {
                    let engine =
                        preparation.start(&device, &modules, &config, Streams::inherit())?;
                    return Ok((HostEngine::One(Arc::new(engine)), name));
                }
                Some((preparation, ahead))
            }
        };
        let (own, settings) = (modules.clone(), config.clone());
        let engines = TwoEngines::start(&modules, &config, move |streams, unwanted| {
            let (preparation, ahead) = match prepared {
                Some(prepared) => prepared,
                None => {
                    rehearse(&rehearsals, &settings);
                    check_wanted(unwanted)?;
                    let preparation = CudaProcesses::prepare(&own, &settings)?;
                    let ahead = preparation.ahead(&device);
                    (preparation, ahead)
                }
            };
            if let Some(ahead) = ahead {
                ahead.make(unwanted);
            }
            check_wanted(unwanted)?;
            let engine = preparation.start(&device, &own, &settings, Streams::of_host(streams))?;
            Ok(Arc::new(engine))
        });
        Ok((HostEngine::Two(Arc::new(engines?)), name))
    }
}

#[cfg(target_os = "linux")]
fn check_wanted(unwanted: &AtomicBool) -> Result<(), StartError> {
    match unwanted.load(Ordering::Relaxed) {
        false => Ok(()),
        true => Err(StartError::System {
            what: "an engine that is not wanted any more".to_owned(),
            source: std::io::ErrorKind::Interrupted.into(),
        }),
    }
}

#[cfg(not(target_os = "linux"))]
impl HostBuilder<'_> {
    fn start_on_gpu(self, device: Source) -> Result<(HostEngine, String), StartError> {
        let device = device.device()?;
        let engine = start_on_gpu(&device, &self.modules, &self.config, None)?;
        Ok((engine.into(), device.name()))
    }

    fn start_soon(self, device: Source) -> Result<(HostEngine, String), StartError> {
        self.start_on_gpu(device)
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
