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
use everwarp_process::{HostConfig, Module, OutputErrors, StartError};
use everwarp_runtime::{Buffer, DevPtr, Device, Engine, EngineKind, Linked};

use crate::config::{PlaceConfig, memory_budget, server_reads};
use crate::directory::DirectoryCache;
use crate::dispatch::{Ears, Shared};
use crate::engine::CudaProcesses;
use crate::error::{not_started, system};
use crate::layout::DevProcessTable;
use crate::link::{depth, link, pools, stack_wanted};
use crate::load::Loads;
use crate::module::Loaded;
use crate::places::{Common, Places};
use crate::program;
use crate::state::{Line, State};
use crate::world::World;

/// A process may run for as long as it likes: the engine's own watchdog must not take it for stuck.
const WATCHDOG: Duration = Duration::from_secs(1 << 32);

/// Starts a host: see [`CudaProcesses::start`].
pub(crate) fn start(
    device: &Device,
    modules: &[Module],
    config: &HostConfig,
    streams: Streams,
) -> Result<CudaProcesses, StartError> {
    if config.workers.is_some() {
        return Err(StartError::Option {
            option: "workers",
            engine: EngineKind::Cuda,
        });
    }
    let budget = memory_budget(free_bytes(device)?, modules.len());
    let place_config = PlaceConfig::of(&config.load, budget);
    // It takes some 16 ms, and what follows takes longer.
    reserve_descriptors(place_config.places.saturating_mul(modules.len() as u32));
    let (loaded, mut linked) = link(modules, config)?;
    let pools = pools(&place_config, config.spare_places, &loaded);
    let (engine, depth) = start_engine(device, &mut linked, pools, config)?;
    map_given_bytes(&engine, config.given_bytes)?;
    let head = loaded.iter().any(Loaded::needs_world);
    let head = head.then(|| World::head(&engine)).transpose();
    let head = head.map_err(not_started)?;
    let common = common(&engine, depth, head.as_ref())?;
    let (places, state) = make_places(&engine, &loaded, &place_config, &common)?;
    let first_spare = places.iter().map(Places::total).sum::<u32>();
    // A place without a slot of the ring could not call the host.
    let spare = config.spare_places.min(HOSTCALL_SLOTS_MOST - first_spare);
    let all = 0..first_spare + spare;
    let world = head.map(|head| {
        let mut world = World::new(&engine, head, all.clone(), config.channels, 0)?;
        world.anchor(&engine, &places[0])?;
        for (number, (module, of)) in loaded.iter().zip(&places).enumerate() {
            let joined = world.join(&engine, number, module, of)?;
            world.admit(number, joined)?;
        }
        Ok(world)
    });
    let world = world.transpose().map_err(not_started)?;
    let ears = Arc::new(Ears::default());
    let service = Service::new(all.end, streams, ears.clone());
    let service = Arc::new(service.map_err(system("a thread that waits"))?);
    // Spare places may be children's one day, whose pids name their places.
    let children = places.iter().map(Places::of_children);
    let children = children.chain(std::iter::once(first_spare..all.end));
    let children = children.collect();
    let shared = Shared::new(engine, loaded, places, service, world, children, state);
    let shared = Arc::new(shared);
    ears.hear(&shared);
    Ok(CudaProcesses {
        server: Some(serve(&shared, config)?),
        dispatcher: Some(start_dispatcher(&shared)?),
        shared,
        depth,
        loads: Mutex::new(Loads {
            linked,
            common,
            contract: config.contract,
            channels: config.channels,
            next: first_spare,
            spare,
        }),
        directories: DirectoryCache::default(),
        output_errors: OutputErrors::new(),
    })
}

/// Bytes of device memory that are free.
pub(crate) fn free_bytes(device: &Device) -> Result<u64, StartError> {
    let Some(gpu) = device.cuda() else {
        let message = format!("the CUDA engine needs a GPU, and {} is none", device.name());
        return Err(StartError::Engine(message.into()));
    };
    let (free, _) = gpu.memory().map_err(|e| not_started(e.into()))?;
    Ok(free)
}

/// Starts the engine, and says how deep calls may nest on its stack. How large the frames are is known only once the
/// image is compiled, so an engine whose stack turns out too small is started once more with a larger one, unless the
/// configuration sets the stack.
fn start_engine(
    device: &Device,
    linked: &mut Linked,
    pools: everwarp_runtime::Pools,
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

/// What the places of all modules share.
fn common(engine: &Engine, depth: u32, head: Option<&Buffer<u8>>) -> Result<Common, StartError> {
    Ok(Common {
        depth,
        clock_offset: clock_offset(engine).map_err(not_started)?,
        random_key: random_key().map_err(system("/dev/urandom"))?,
        world: head.map_or(DevPtr::NULL, |head| DevPtr::new(head.ptr().address())),
    })
}

/// Makes the places of the modules that the host starts with.
fn make_places(
    engine: &Engine,
    loaded: &[Loaded],
    config: &PlaceConfig,
    common: &Common,
) -> Result<(Vec<Places>, State), StartError> {
    let shares = loaded.iter().any(Loaded::uses_gpu);
    // Each place has a slot of the ring.
    let slots = HOSTCALL_SLOTS_MOST / (loaded.len().max(1) as u32);
    let (mut places, mut state) = (Vec::with_capacity(loaded.len()), State::default());
    let mut first = 0;
    for (number, module) in loaded.iter().enumerate() {
        let children = match shares {
            true if module.threads.is_none() => config.children.min(slots / 2),
            _ => 0,
        };
        let threads = config.threads_of(module);
        let share = PlaceConfig {
            places: config.places.min((slots - children) / (1 + threads)),
            children,
            ..*config
        };
        let of = Places::new(engine, module, number, first, &share, common)?;
        first += of.total();
        state.lines.push(Line::of(of.count));
        places.push(of);
    }
    Ok((places, state))
}

fn start_dispatcher(shared: &Arc<Shared>) -> Result<JoinHandle<()>, StartError> {
    let of_thread = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("everwarp-dispatch".into());
    let thread = thread.spawn(move || of_thread.dispatch());
    thread.map_err(system("a thread that dispatches"))
}

/// Starts the threads that serve host calls.
fn serve(shared: &Arc<Shared>, config: &HostConfig) -> Result<Server, StartError> {
    let memory = shared.engine.host_calls().ok_or_else(|| {
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
        reads: server_reads(config.reads),
        ..ServerConfig::default()
    };
    Server::start(ring, &shared.service, config).map_err(system("threads that serve host calls"))
}

/// What is to be added to the device's clock: the time of day in the middle of a task that reads it.
fn clock_offset(engine: &Engine) -> Result<u64, everwarp_runtime::Error> {
    // SAFETY: all zero, which `DevProcessTable`'s numbers and null addresses may be.
    let nothing: DevProcessTable = unsafe { std::mem::zeroed() };
    // SAFETY: the task that reads the clock follows no address.
    let instance = unsafe { engine.instance(&program::PROGRAM, &nothing) }?;
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
