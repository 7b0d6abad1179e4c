//! Starting a host: modules are compiled and linked, the engine starts, and tables and threads are made for it.

use std::fs::File;
use std::io::Read;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everwarp_contract::hostcall::HOSTCALL_SLOTS_MOST;
use everwarp_hostcalls::{
    Ring, RingMemory, Server, ServerConfig, Service, Streams, reserve_descriptors,
};
use everwarp_process::{HostConfig, Module, ModuleId, StartError};
use everwarp_runtime::trace::spanned;
use everwarp_runtime::{
    DevPtr, DevType, Device, Engine, EngineKind, Error, Linked, LinkedEngine, LinkedEngineBuilder,
    Pools,
};

use crate::config::{PlaceConfig, free_bytes, memory_budget};
use crate::directory::DirectoryCache;
use crate::engine::CudaProcesses;
use crate::error::{not_started, system};
use crate::family::{FamilyHead, FamilyMemory, SharedFamily};
use crate::host_core::{HostCore, HostedModule};
use crate::layout::DevProcessTable;
use crate::link::{depth, link, pools, stack_wanted};
use crate::listener::ServiceListener;
use crate::load::ModuleLoader;
use crate::module::CompiledModule;
use crate::places::{CommonParameters, Places};
use crate::program;
use crate::queue::{ModuleQueue, Queues};

/// A process may run for as long as it likes: the engine's own watchdog must not take it for stuck.
const WATCHDOG: Duration = Duration::from_secs(1 << 32);

impl CudaProcesses {
    /// Compiles modules, links them to an engine on `device`, and starts it. The modules have the ids from 0 on. Standard
    /// streams that processes inherit are `streams`.
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
        if config.workers.is_some() {
            return Err(StartError::Option {
                option: "workers",
                engine: EngineKind::Cuda,
            });
        }
        let budget = memory_budget(
            spanned("host: ask for free memory", || free_bytes(device))?,
            modules.len(),
        );
        let place_config = PlaceConfig::of(&config.load, budget);
        // It takes some 16 ms, and what follows takes longer.
        spanned("host: descriptors", || {
            reserve_descriptors(place_config.places.saturating_mul(modules.len() as u32));
        });
        let (compiled, mut linked) = spanned("host: translate modules", || link(modules, config))?;
        let pools = pools(&place_config, config.spare_places, &compiled);
        let (engine, depth) = spanned("host: start the engine", || {
            start_engine(device, &mut linked, pools, config)
        })?;
        spanned("host: memory for inputs", || {
            map_given_bytes(&engine, config.given_bytes)
        })?;
        let head = compiled.iter().any(CompiledModule::needs_family);
        let head = head.then(|| FamilyHead::reserve(&engine)).transpose();
        let head = head.map_err(not_started)?;
        let common = spanned("host: clock", || common(&engine, depth, head.as_ref()))?;
        let hosted = spanned("host: places", || {
            make_places(&engine, compiled, &place_config, &common)
        })?;
        let first_spare = hosted.iter().map(|h| h.places.total()).sum::<u32>();
        // A place without a slot of the ring could not call the host.
        let spare = config.spare_places.min(HOSTCALL_SLOTS_MOST - first_spare);
        let spare = first_spare..first_spare + spare;
        let family = make_family(&engine, head, spare.end, config.channels, &hosted);
        let family = SharedFamily::new(engine.clone(), family.map_err(not_started)?);
        let _span = everwarp_runtime::trace::span("host: tables and threads");
        let listener = Arc::new(ServiceListener::default());
        let service = Service::new(spare.end, streams, listener.clone());
        let service = service.map_err(system("a thread that waits"))?;
        // Spare places may become places for children, whose numbers are in the pids of children.
        let children = hosted.iter().map(|h| h.places.of_children());
        let children = children.chain([spare.clone()]).collect();
        let queues = hosted.iter().map(|h| ModuleQueue::new(h.places.count()));
        let queues = Queues::new(queues.collect());
        let core = HostCore::new(engine, hosted, Arc::new(service), family, children, queues);
        let core = Arc::new(core);
        listener.connect(&core);
        Ok(Self {
            server: Some(serve(&core, config)?),
            dispatcher: Some(start_dispatcher(&core)?),
            core,
            depth,
            loader: Mutex::new(ModuleLoader {
                linked,
                common,
                contract: config.contract,
                channels: config.channels,
                spare,
            }),
            directories: DirectoryCache::default(),
        })
    }
}

/// Starts the engine, and says how deep calls may nest on its stack. How large the frames are is known only once the
/// image is compiled, so an engine whose stack turns out too small is started once more with a larger one, unless the
/// configuration sets the stack.
fn start_engine(
    device: &Device,
    linked: &mut Linked,
    pools: Pools,
    config: &HostConfig,
) -> Result<(Engine, u32), StartError> {
    let start = |linked: &Linked| {
        let engine = device
            .engine()
            .program(&program::PROGRAM)
            .linked(linked.clone())
            .pools(pools)
            .watchdog(WATCHDOG)
            .start();
        let engine = engine.map_err(not_started)?;
        let nests = depth(linked.stack_bytes, engine.largest_frame());
        Ok((engine, nests))
    };
    let (engine, nests) = start(linked)?;
    let wanted = match &nests {
        Err(StartError::Stack { frame, .. }) if config.stack_bytes.is_none() => {
            stack_wanted(*frame)
        }
        _ => None,
    };
    let Some(wanted) = wanted else {
        return Ok((engine, nests?));
    };
    drop(engine);
    linked.stack_bytes = wanted;
    let (engine, nests) = start(linked)?;
    Ok((engine, nests?))
}

/// Maps memory for what processes will be given: next to a running engine that takes 2 ms for 64 MiB.
fn map_given_bytes(engine: &Engine, bytes: u64) -> Result<(), StartError> {
    if let Ok(bytes @ 1..) = usize::try_from(bytes) {
        // Memory that is freed stays mapped.
        drop(engine.buffer_uncleared::<u8>(bytes).map_err(not_started)?);
    }
    Ok(())
}

/// The settings that the places of all modules share.
fn common(
    engine: &Engine,
    depth: u32,
    head: Option<&FamilyHead>,
) -> Result<CommonParameters, StartError> {
    Ok(CommonParameters {
        depth,
        clock_offset: clock_offset(engine).map_err(not_started)?,
        random_key: random_key().map_err(system("/dev/urandom"))?,
        family: head.map_or(DevPtr::NULL, FamilyHead::address),
    })
}

/// Makes the places of the modules that the host starts with.
fn make_places(
    engine: &Engine,
    compiled: Vec<CompiledModule>,
    config: &PlaceConfig,
    common: &CommonParameters,
) -> Result<Vec<HostedModule>, StartError> {
    let shares = compiled.iter().any(CompiledModule::uses_gpu);
    // Each place has a slot of the ring.
    let slots = HOSTCALL_SLOTS_MOST / (compiled.len().max(1) as u32);
    let mut hosted = Vec::with_capacity(compiled.len());
    let mut first = 0;
    for (id, module) in (0..).map(ModuleId).zip(compiled) {
        let children = match shares {
            true if module.threads.is_none() => config.children.min(slots / 2),
            _ => 0,
        };
        let threads = config.threads_of(&module);
        let share = PlaceConfig {
            places: config.places.min((slots - children) / (1 + threads)),
            children,
            ..*config
        };
        let places = Places::new(engine, &module, id, first, &share, common)?;
        first += places.total();
        hosted.push(HostedModule { module, places });
    }
    Ok(hosted)
}

/// Lays out the family memory for this many places, if a module needs it; all modules join it.
fn make_family(
    engine: &Engine,
    head: Option<FamilyHead>,
    places: u32,
    channels: u32,
    hosted: &[HostedModule],
) -> Result<Option<FamilyMemory>, Error> {
    let (Some(head), Some(first)) = (head, hosted.first()) else {
        return Ok(None);
    };
    let mut family = FamilyMemory::lay_out(engine, head, 0..places, channels, &first.places)?;
    for (id, HostedModule { module, places }) in (0..).map(ModuleId).zip(hosted) {
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

/// Starts the threads that serve host calls.
fn serve(core: &Arc<HostCore>, config: &HostConfig) -> Result<Server, StartError> {
    let memory = core.engine.host_calls().ok_or_else(|| {
        let message = "the engine serves no host calls: only an engine on a GPU does";
        StartError::Engine(message.into())
    })?;
    let address = "the engine's memory is nowhere at 0";
    let memory = RingMemory {
        slots: NonNull::new(memory.slots).expect(address),
        areas: NonNull::new(memory.areas).expect(address),
        entries: NonNull::new(memory.entries).expect(address),
        slot_count: memory.slot_count,
        area_count: memory.area_count,
        entry_count: memory.entry_count,
    };
    // SAFETY: the engine has these counts at these addresses, zeroed, as long as it lives; `CudaProcesses` ends the
    // server first. Nothing else of this program accesses them.
    let ring = unsafe { Ring::new(memory) };
    let ring = ring.expect("the engine makes rings of powers of two");
    let config = ServerConfig {
        workers: config.servers,
        reads: config.reads,
        ..ServerConfig::default()
    };
    Server::start(ring, &core.service, config).map_err(system("threads that serve host calls"))
}

/// The offset to add to the device's clock: the time of day in the middle of a task that reads it.
fn clock_offset(engine: &Engine) -> Result<u64, Error> {
    // SAFETY: the task that reads the clock follows no address.
    let instance = unsafe { engine.instance(&program::PROGRAM, &DevProcessTable::ZERO) }?;
    let before = SystemTime::now();
    let device = engine.submit(instance.task(program::CLOCK))?.wait()?.value;
    let half = before.elapsed().unwrap_or_default() / 2;
    let middle = (before + half)
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok((middle.as_nanos() as u64).wrapping_sub(device))
}

fn random_key() -> std::io::Result<[u32; 8]> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(std::array::from_fn(|i| {
        u32::from_le_bytes(std::array::from_fn(|k| bytes[4 * i + k]))
    }))
}
