//! Opening a host: its modules are loaded, and tables and threads are made for it.

use std::fs::File;
use std::io::Read;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use everwarp_engine::sync::lock;
use everwarp_hostcalls::{Attached, ServerConfig, Service, Streams, reserve_descriptors};
use everwarp_process::{HostConfig, HostStreams, LoadConfig, Module, ModuleId, StartError};
use everwarp_runtime::cuda::ahead::Ahead;
use everwarp_runtime::cuda::cache::Cache;
use everwarp_runtime::trace::{span, spanned};
use everwarp_runtime::{DevPtr, Device, Engine, EngineKind, Error, Image, LinkedEngine, Pools};

use crate::code::{CodeSet, LoadedCode, stack_use, stack_wanted};
use crate::config::{PlaceConfig, PlaceKey, STACK_BYTES, stack_most};
use crate::directory::DirectoryCache;
use crate::engine::CudaProcesses;
use crate::error::{not_started, system};
use crate::family::{FamilyHead, FamilyMemory, SharedFamily};
use crate::host_core::{HostCore, HostedModule};
use crate::link::pools;
use crate::listener::ServiceListener;
use crate::load::ModuleLoader;
use crate::module::CompileChoice;
use crate::places::{CommonParameters, Places};
use crate::program;
use crate::queue::{ModuleQueue, Queues};
use crate::quota::MemoryQuota;
use crate::resident::{Residency, ResidentProcesses, ShareLease};
use crate::share::Wanted;
use crate::shared_code::LoadedSet;
use crate::supply;

/// An engine for one host whose modules are translated, and not yet assembled.
pub struct Preparation {
    code: CodeSet,
    pools: Pools,
}

impl std::fmt::Debug for Preparation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Preparation").finish_non_exhaustive()
    }
}

impl Preparation {
    /// What is left to assemble for this device: none if the cache has it, or if the driver assembles.
    pub fn ahead(&self, device: &Device) -> Option<Ahead> {
        let image = Image {
            linked: self.code.linked().clone(),
            ..Image::of(vec![&program::PROGRAM])
        };
        Ahead::of(image, device.cuda()?.arch(), Cache::user())
    }

    /// Starts the engine, as [`CudaProcesses::start`] does with the same device, modules and settings.
    ///
    /// # Errors
    /// As [`CudaProcesses::start`].
    pub fn start(
        self,
        device: &Device,
        modules: &[Module],
        config: &HostConfig,
        streams: Streams,
    ) -> Result<CudaProcesses, StartError> {
        let Self { mut code, pools } = self;
        code.expect_stack(config.stack_bytes, stack_most(device)?);
        let resident = spanned("host: start the engine", || {
            ResidentProcesses::with_code(device, code, None, pools, false)
        })?;
        CudaProcesses::open(&resident, modules, config, streams, Some(modules.len()))
    }
}

/// Where the places of a host's modules come from.
struct PlaceSource<'r> {
    resident: &'r ResidentProcesses,
    /// The host's handle.
    engine: &'r Engine,
    /// The host's share of the device's memory.
    memory: u64,
    config: PlaceConfig,
    common: &'r CommonParameters,
}

impl ResidentProcesses {
    /// Opens a host with these modules, whose ids are their positions. What its processes inherit are `streams`, or this
    /// program's own. Modules that no other host has loaded are compiled, while other processes run, and then all
    /// processes pause for some milliseconds.
    ///
    /// # Errors
    /// [`StartError`]: a module is refused, or there is too little memory or stack.
    pub fn open(
        self: &Arc<Self>,
        modules: &[Module],
        config: &HostConfig,
        streams: Option<&HostStreams>,
    ) -> Result<CudaProcesses, StartError> {
        let streams = streams.map_or_else(Streams::inherit, Streams::of_host);
        CudaProcesses::open(self, modules, config, streams, None)
    }
}

impl CudaProcesses {
    /// Starts an engine on `device` for one host with these modules, whose ids are their positions. Standard streams that
    /// processes inherit are `streams`.
    ///
    /// Without [`HostConfig::stack_bytes`] the stack is made larger if the frames of the modules need more than usual.
    ///
    /// # Errors
    /// [`StartError`]: a module is refused, or there is too little memory or stack.
    pub fn start(
        device: &Device,
        modules: &[Module],
        config: &HostConfig,
        streams: Streams,
    ) -> Result<Self, StartError> {
        Self::prepare(modules, config)?.start(device, modules, config, streams)
    }

    /// The first half of [`start`](Self::start), which needs no device.
    ///
    /// # Errors
    /// A module or an option is refused.
    pub fn prepare(modules: &[Module], config: &HostConfig) -> Result<Preparation, StartError> {
        check_options(config)?;
        // The budget reduces the number of places, but not the number of their slots.
        let wanted = PlaceConfig::of(&config.load, config.stack_bytes, 0);
        let mut engine_pools = None;
        let code = spanned("host: translate modules", || {
            CodeSet::new(
                modules,
                CompileChoice::of(config),
                STACK_BYTES,
                config.spare_places > 0,
                |codes| {
                    // Equal modules have places of their own.
                    let all = modules.iter().map(|module| {
                        let found = codes.iter().find(|code| code.is_of(module));
                        Arc::clone(&found.expect("each module was compiled").module)
                    });
                    let all: Vec<_> = all.collect();
                    engine_pools = Some(pools(&wanted, config.spare_places, &all));
                    wanted.slots(&all, config.spare_places)
                },
            )
        })?;
        Ok(Preparation {
            code,
            pools: engine_pools.expect("the sizes were asked for"),
        })
    }

    /// Opens a host on an engine. `alone` is the number of its modules if no other host will share the engine.
    pub(crate) fn open(
        resident: &Arc<ResidentProcesses>,
        modules: &[Module],
        config: &HostConfig,
        streams: Streams,
        alone: Option<usize>,
    ) -> Result<Self, StartError> {
        check_options(config)?;
        // What is made for this host waits, when it is freed, for tasks of this host alone.
        let engine = &resident.engine.region();
        let residency = Residency::enter(resident)?;
        let mut quota = MemoryQuota::new(streams.budgets());
        let load = quota.limit(&config.load, modules.len());
        let choice = CompileChoice::of(config);
        let LoadedSet { mut set, codes, .. } = resident.load_code(modules, choice)?;
        let depth = stack_depth(&mut set, resident, &codes, config)?;
        codes.iter().for_each(|code| code.nests(depth));
        drop(set);
        supply::expect(resident, &codes)?;
        let share = spanned("host: share of the engine", || {
            let wanted = wanted(&codes, &load, config, depth)?;
            let share = ShareLease::take(resident, wanted, alone.is_some());
            Ok::<_, StartError>(share)
        })?;
        let (memory, slots) = share.parts();
        let memory = memory.min(quota.left());
        let each = memory / (modules.len().max(1) as u64);
        let place_config = PlaceConfig::of(&load, config.stack_bytes, each);
        // It takes some 16 ms when the table of descriptors has to grow later, while processes run.
        spanned("host: descriptors", || {
            reserve_descriptors(place_config.places.saturating_mul(modules.len() as u32));
        });
        spanned("host: memory for inputs", || {
            map_given_bytes(engine, config.given_bytes)
        })?;
        let head = codes.iter().any(|code| code.module.needs_family());
        let head = head.then(|| FamilyHead::reserve(engine)).transpose();
        let head = head.map_err(not_started)?;
        let common = CommonParameters {
            depth,
            clock_offset: resident.clock_offset,
            random_key: random_key().map_err(system("/dev/urandom"))?,
            family: head.as_ref().map_or(DevPtr::NULL, FamilyHead::address),
        };
        let source = PlaceSource {
            resident,
            engine,
            memory,
            config: place_config,
            common: &common,
        };
        let listener = Arc::new(ServiceListener::default());
        let serving = ServerConfig {
            workers: config.servers,
            reads: config.reads,
            ..ServerConfig::default()
        };
        // The tables and threads for host calls do not wait for the device.
        let (served, made) = std::thread::scope(|scope| {
            let range = slots.clone();
            let served = scope.spawn(|| {
                let _span = span("host: host calls");
                serve(resident, range, streams, listener.clone(), serving)
            });
            let made = spanned("host: places", || source.make(&codes, &slots));
            (served.join().unwrap_or_else(|e| resume_unwind(e)), made)
        });
        let ((service, attached), (hosted, queues)) = (served?, made?);
        let taken = hosted.iter().map(|h| h.places.bytes()).sum();
        share.settle(taken);
        quota.count(taken);
        let first_spare = slots.start + hosted.iter().map(|h| h.places.total()).sum::<u32>();
        // A place without a slot of the ring could not call the host.
        let spare = config.spare_places.min(slots.end - first_spare);
        let spare = first_spare..first_spare + spare;
        let places = slots.start..spare.end;
        let family = make_family(engine, head, places, config.channels, &hosted);
        let family = SharedFamily::new(engine.clone(), family.map_err(not_started)?);
        // Spare places may become places for children, whose numbers are in the pids of children.
        let children = hosted.iter().map(|h| h.places.of_children());
        let children = children.chain([spare.clone()]).collect();
        let queues = Queues::new(queues);
        resident.wishes.add_service(&service);
        let serves = (service, Arc::clone(&resident.wishes));
        let core = HostCore::new(engine.clone(), hosted, serves, family, children, queues);
        let core = Arc::new(core);
        listener.connect(&core);
        Ok(Self {
            dispatcher: Some(start_dispatcher(&core)?),
            attached: Some(attached),
            core: ManuallyDrop::new(core),
            depth,
            loader: Mutex::new(ModuleLoader {
                common,
                choice,
                channels: config.channels,
                stack: config.stack_bytes,
                spare,
                quota,
            }),
            directories: DirectoryCache::default(),
            share,
            _residency: residency,
            resident: Arc::clone(resident),
        })
    }
}

/// Starts what serves the host calls of these slots.
fn serve(
    resident: &ResidentProcesses,
    slots: Range<u32>,
    streams: Streams,
    listener: Arc<ServiceListener>,
    config: ServerConfig,
) -> Result<(Arc<Service>, Attached), StartError> {
    let service = Service::for_slots(slots, streams, listener);
    let service = Arc::new(service.map_err(system("a thread that waits"))?);
    let attached = resident.server.attach(&service, config);
    let attached = attached.map_err(system("threads that serve host calls"))?;
    Ok((service, attached))
}

/// Refuses the options that a GPU does not have.
fn check_options(config: &HostConfig) -> Result<(), StartError> {
    match config.workers {
        None => Ok(()),
        Some(_) => Err(StartError::Option {
            option: "workers",
            engine: EngineKind::Cuda,
        }),
    }
}

/// The fewest processes of each module that a host starts with, if it asks for as many.
const PLACES_LEAST: u32 = 32;

/// What a host of these modules asks for, with this many places that no module has yet.
fn wanted(
    codes: &[Arc<LoadedCode>],
    load: &LoadConfig,
    config: &HostConfig,
    depth: u32,
) -> Result<Wanted, StartError> {
    let compiled: Vec<_> = codes.iter().map(|code| Arc::clone(&code.module)).collect();
    let all = PlaceConfig::of(load, config.stack_bytes, 0);
    let few = PlaceConfig {
        places: all.places.min(PLACES_LEAST),
        children: all.children.min(PLACES_LEAST),
        ..all
    };
    let slots_of = |config: &PlaceConfig| {
        let slots = config.places_of(&compiled);
        u32::try_from(slots).unwrap_or(u32::MAX)
    };
    let mut least_memory = 0;
    for code in codes {
        let module = &code.module;
        // Without a limit a process gets more than its module starts with only if there is enough.
        let least = module.memory_bytes() + module.table_bytes();
        let few = PlaceConfig {
            memory: few.memory.or(Some(least)),
            memory_budget: u64::MAX,
            ..few
        };
        least_memory += Places::wanted_bytes(module, &few, depth)?;
    }
    let modules = codes.len() as u64;
    Ok(Wanted {
        memory: load.memory_budget.map(|each| each.saturating_mul(modules)),
        least_memory,
        slots: slots_of(&all).saturating_add(config.spare_places),
        least_slots: slots_of(&few),
    })
}

/// How deep calls of these modules may nest on the device's stack.
fn stack_depth(
    code: &mut CodeSet,
    resident: &ResidentProcesses,
    codes: &[Arc<LoadedCode>],
    config: &HostConfig,
) -> Result<u32, StartError> {
    let engine = &resident.engine;
    let calls = stack_use(&engine.frames(), codes);
    let stack = stack_wanted(&calls, config.stack_bytes, resident.stack_most);
    let nests = calls.depth(stack)?;
    code.grow_stack(engine, stack)?;
    Ok(nests)
}

impl PlaceSource<'_> {
    /// Makes the places of the modules that a host opens with, with their queues. `slots` are the numbers that they may
    /// have.
    fn make(
        &self,
        codes: &[Arc<LoadedCode>],
        slots: &Range<u32>,
    ) -> Result<(Vec<HostedModule>, Vec<ModuleQueue>), StartError> {
        let shares = codes.iter().any(|code| code.module.uses_gpu());
        let config = &self.config;
        // Each place has a slot of the ring.
        let each = slots.len() as u32 / (codes.len().max(1) as u32);
        let (mut hosted, mut queues) = (Vec::with_capacity(codes.len()), Vec::new());
        let mut first = slots.start;
        for code in codes {
            let children = match shares {
                true if code.module.threads.is_none() => config.children.min(each / 2),
                _ => 0,
            };
            let threads = config.threads_of(&code.module);
            let share = PlaceConfig {
                places: config.places.min((each - children) / (1 + threads)),
                children,
                ..*config
            };
            let (places, queue) = self.places(code, &share, first)?;
            first += places.total();
            hosted.push(HostedModule {
                code: Arc::clone(code),
                module: Arc::clone(&code.module),
                places,
            });
            queues.push(queue);
        }
        Ok((hosted, queues))
    }

    /// Places that an earlier host has left, or new ones.
    fn places(
        &self,
        code: &Arc<LoadedCode>,
        config: &PlaceConfig,
        first: u32,
    ) -> Result<(Places, ModuleQueue), StartError> {
        let resident = self.resident;
        let plain = self.common.family.address() == 0 && config.children == 0;
        let key = PlaceKey::new(config, self.common.depth);
        let wanted = Places::wanted_bytes(&code.module, config, self.common.depth)?;
        let fitting = wanted..=self.memory.max(wanted);
        let kept = plain
            .then(|| lock(&resident.idle).take(code, key, fitting))
            .flatten();
        let (places, queue) = match kept {
            Some((mut places, generations)) => {
                let moved = places.move_to(self.engine, first, self.common);
                moved.map_err(not_started)?;
                let queue = ModuleQueue::with_generations(generations);
                (places, queue)
            }
            None => {
                let places = self.new_places(code, config, first, wanted)?;
                let queue = ModuleQueue::new(places.count());
                (places, queue)
            }
        };
        Ok((places, queue))
    }

    /// New places that take `wanted` bytes. Places that are kept for later give way to them.
    fn new_places(
        &self,
        code: &Arc<LoadedCode>,
        config: &PlaceConfig,
        first: u32,
        wanted: u64,
    ) -> Result<Places, StartError> {
        let resident = self.resident;
        loop {
            // What this host may take, and what no host has.
            let left = self.memory + resident.room.memory_left();
            let mut idle = lock(&resident.idle);
            if idle.bytes() + wanted <= left || !idle.forget_oldest() {
                break;
            }
        }
        let mut compacted = false;
        loop {
            let made = Places::new(self.engine, code, first, config, self.common);
            match made {
                Err(StartError::Engine(_)) if lock(&resident.idle).forget_oldest() => {}
                // What hosts have left may be in pieces that are too small.
                Err(StartError::Engine(_)) if !compacted => {
                    resident.compact().map_err(not_started)?;
                    compacted = true;
                }
                made => return made,
            }
        }
    }
}

/// Maps memory for what processes will be given: next to a running engine that takes 2 ms for 64 MiB.
fn map_given_bytes(engine: &Engine, bytes: u64) -> Result<(), StartError> {
    if let Ok(bytes @ 1..) = usize::try_from(bytes) {
        // Memory that is freed stays mapped.
        drop(engine.buffer_uncleared::<u8>(bytes).map_err(not_started)?);
    }
    Ok(())
}

/// Lays out the family memory for these places, if a module needs it; all modules join it.
fn make_family(
    engine: &Engine,
    head: Option<FamilyHead>,
    places: Range<u32>,
    channels: u32,
    hosted: &[HostedModule],
) -> Result<Option<FamilyMemory>, Error> {
    let (Some(head), Some(first)) = (head, hosted.first()) else {
        return Ok(None);
    };
    let mut family = FamilyMemory::lay_out(engine, head, places, channels, &first.places)?;
    for (id, HostedModule { module, places, .. }) in (0..).map(ModuleId).zip(hosted) {
        let joined = family.join(engine, id, module, places)?;
        family.admit(id, joined)?;
    }
    Ok(Some(family))
}

fn start_dispatcher(core: &Arc<HostCore>) -> Result<JoinHandle<()>, StartError> {
    let of_thread = Arc::clone(core);
    let thread = std::thread::Builder::new().name("everwarp-dispatch".into());
    let thread = thread.spawn(move || of_thread.dispatch());
    thread.map_err(system("a thread that dispatches"))
}

fn random_key() -> std::io::Result<[u32; 8]> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(std::array::from_fn(|i| {
        u32::from_le_bytes(std::array::from_fn(|k| bytes[4 * i + k]))
    }))
}
