//! The host of processes on one GPU.

use std::fs::File;
use std::io::Read;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everwarp_hostcalls::{
    Ring, RingMemory, Server, ServerConfig, Service, Streams, reserve_descriptors,
};
use everwarp_runtime::{DevPtr, Device, Engine};

use everwarp_contract::hostcall::HOSTCALL_SLOTS_MOST;
use everwarp_process::{ChannelError, Pid};

use crate::channel::{Receiver, Sender};
use crate::config::HostConfig;
use crate::dispatch::{Ears, Shared, Taken};
use crate::error::StartError;
use crate::exit::Exit;
use crate::layout::DevProcessTable;
use crate::link::{depth, link, pools};
use crate::load::Loads;
use crate::module::{Loaded, Module};
use crate::places::{Common, Places};
use crate::program;
use crate::state::{Line, Phase, State};
use crate::world::World;

/// A process may run for as long as it likes: the engine's own watchdog must not take it for stuck.
const WATCHDOG: Duration = Duration::from_secs(1 << 32);
/// How long processes have to end when their host does.
const GRACE: Duration = Duration::from_secs(5);
/// Ends that are taken together.
const TOGETHER: usize = 1024;

/// A running engine with modules linked to it, and their processes.
pub struct Host {
    shared: Arc<Shared>,
    server: Option<Server>,
    dispatcher: Option<JoinHandle<()>>,
    depth: u32,
    /// What the tables point to, as long as processes run, and what else later loads begin from.
    pub(crate) loads: Mutex<Loads>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

impl Host {
    /// Compiles modules, links them to an engine on `device`, and starts it.
    ///
    /// # Errors
    /// [`StartError`]: a module is refused, or there is too little memory or stack.
    pub fn start(
        device: &Device,
        modules: &[Module],
        config: &HostConfig,
        streams: Streams,
    ) -> Result<Self, StartError> {
        // It takes some 16 ms, and what follows takes longer.
        reserve_descriptors(config.places.saturating_mul(modules.len() as u32));
        let (loaded, linked) = link(modules, config)?;
        let engine = device
            .engine()
            .program(&program::PROGRAM)
            .linked(linked.clone())
            .pools(pools(config, &loaded))
            .watchdog(WATCHDOG)
            .start()?;
        if let Ok(bytes @ 1..) = usize::try_from(config.given_bytes) {
            // What is freed stays mapped.
            drop(engine.buffer_uncleared::<u8>(bytes)?);
        }
        let depth = depth(config.stack_bytes, engine.largest_frame())?;
        let shares = loaded.iter().any(Loaded::uses_gpu);
        let meets = loaded.iter().any(Loaded::needs_world);
        let head = meets.then(|| World::head(&engine)).transpose()?;
        let common = Common {
            depth,
            clock_offset: clock_offset(&engine)?,
            random_key: random_key().map_err(|source| StartError::System {
                what: "/dev/urandom",
                source,
            })?,
            world: head
                .as_ref()
                .map_or(DevPtr::NULL, |head| DevPtr::new(head.ptr().address())),
        };
        let mut places = Vec::new();
        let mut state = State::default();
        let mut first = 0;
        for (number, module) in loaded.iter().enumerate() {
            // Each place has a slot of the ring.
            let slots = HOSTCALL_SLOTS_MOST / loaded.len() as u32;
            let children = match shares {
                true if module.threads.is_none() => config.children.min(slots / 2),
                _ => 0,
            };
            let threads = config.threads_of(module);
            let share = HostConfig {
                memory_budget: config.memory_budget / loaded.len() as u64,
                places: config.places.min((slots - children) / (1 + threads)),
                children,
                ..config.clone()
            };
            let of = Places::new(&engine, module, number, first, &share, &common)?;
            first += of.total();
            state.lines.push(Line::of(of.count));
            places.push(of);
        }
        // A place without a slot could not call the host.
        let spare = config.spare_places.min(HOSTCALL_SLOTS_MOST - first);
        let world = match head {
            None => None,
            Some(head) => {
                let mut world = World::new(&engine, head, 0..first + spare, config, 0)?;
                world.anchor(&engine, &places[0])?;
                for (number, (module, of)) in loaded.iter().zip(&places).enumerate() {
                    let joined = world.join(&engine, number, module, of)?;
                    world.admit(number, joined)?;
                }
                Some(world)
            }
        };
        let ears = Arc::new(Ears::default());
        let system = |what| move |source| StartError::System { what, source };
        let service = Service::new(first + spare, streams, ears.clone());
        let service = Arc::new(service.map_err(system("a thread that waits"))?);
        // Spare places may be children's one day.
        let children = places.iter().map(Places::of_children);
        let children = children
            .chain(std::iter::once(first..first + spare))
            .collect();
        let shared = Shared::new(engine, loaded, places, service, world, children, state);
        let shared = Arc::new(shared);
        ears.hear(&shared);
        let server = serve(&shared, config)?;
        let of_thread = Arc::clone(&shared);
        let dispatcher = std::thread::Builder::new()
            .name("everwarp-dispatch".into())
            .spawn(move || of_thread.dispatch())
            .map_err(system("a thread that dispatches"))?;
        Ok(Self {
            shared,
            server: Some(server),
            dispatcher: Some(dispatcher),
            depth,
            loads: Mutex::new(Loads {
                linked,
                common,
                config: config.clone(),
                next: first,
                spare,
            }),
        })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// How deep calls of a process may nest.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// How many processes of a module can be on the GPU at once.
    ///
    /// # Panics
    /// There is no module of that number.
    pub fn places(&self, module: usize) -> u32 {
        self.shared.places[module].count
    }

    /// Makes a channel of so many messages of up to so many bytes, whose ends the host holds and may give to
    /// processes ([`Config::ends`](crate::Config::ends)). A side is open as long as somebody has an end of it.
    ///
    /// # Errors
    /// [`ChannelError`]: it is too large, there are too many, or no module of this host imports `everwarp:gpu` yet.
    pub fn channel(&self, capacity: u32, bytes: u32) -> Result<(Sender, Receiver), ChannelError> {
        self.shared.channel(capacity, bytes)
    }

    /// Lets processes have so many files and directories open together, rather than as many as the system grants; two
    /// at least. Who has none open and wants one waits until others have closed theirs. To be called while no
    /// process has anything open.
    pub fn limit_files(&self, files: u64) {
        self.shared.service.limit_files(files);
    }

    /// Waits for the end of a process; its pid means nothing afterwards. Nothing if it has been waited for.
    ///
    /// # Errors
    /// The engine has ended.
    pub fn wait(&self, pid: Pid) -> Result<Option<Exit>, everwarp_runtime::Error> {
        self.wait_until(pid, None)
    }

    /// Waits for a limited time.
    ///
    /// # Errors
    /// [`everwarp_runtime::Error::Timeout`], and the process goes on; or the engine has ended.
    pub fn wait_timeout(
        &self,
        pid: Pid,
        timeout: Duration,
    ) -> Result<Option<Exit>, everwarp_runtime::Error> {
        self.wait_until(pid, Some(timeout))
    }

    fn wait_until(
        &self,
        pid: Pid,
        timeout: Option<Duration>,
    ) -> Result<Option<Exit>, everwarp_runtime::Error> {
        let begin = Instant::now();
        loop {
            match self.shared.take(pid) {
                Taken::Unknown => return Ok(None),
                Taken::Exit(exit) => return Ok(Some(exit)),
                Taken::NotYet => {}
            }
            let failed = self.shared.state().failed.clone();
            if let Some(reason) = failed {
                return Err(everwarp_runtime::BackendError::Lost { reason }.into());
            }
            if let Some(after) = timeout.filter(|t| begin.elapsed() >= *t) {
                return Err(everwarp_runtime::Error::Timeout { after });
            }
            let most = timeout.map_or(Duration::MAX, |t| t.saturating_sub(begin.elapsed()));
            self.shared.await_end(pid, most);
        }
    }

    /// Waits for the ends of processes, and hands each over in this order; their pids mean nothing afterwards. Those
    /// that have been waited for are passed over.
    ///
    /// # Errors
    /// The engine has ended.
    pub fn wait_each(
        &self,
        pids: &[Pid],
        mut each: impl FnMut(Pid, Exit),
    ) -> Result<(), everwarp_runtime::Error> {
        let mut rest = pids;
        let mut ended = Vec::with_capacity(TOGETHER);
        while let Some(first) = rest.first() {
            // Not too many at a time: others need the locks too.
            let mut taken = 0;
            let mut cursor = self.shared.table.cursor();
            for pid in rest.iter().take(TOGETHER) {
                match self.shared.take_from(&mut cursor, *pid) {
                    Taken::Exit(exit) => ended.push((*pid, exit)),
                    Taken::NotYet => break,
                    Taken::Unknown => {}
                }
                taken += 1;
            }
            drop(cursor);
            let slots = ended.iter().map(|(pid, _)| pid.slot());
            self.shared.table.release(slots);
            rest = &rest[taken..];
            ended.drain(..).for_each(|(pid, exit)| each(pid, exit));
            if taken == 0
                && let Some(exit) = self.wait(*first)?
            {
                each(*first, exit);
                rest = &rest[1..];
            }
        }
        Ok(())
    }

    /// Asks a process to end, also one that another one has spawned. It does so at its next look: within some thousand
    /// rounds of a loop, or when its call of the host is answered, which is at once for those that wait. One that has
    /// ended is left.
    ///
    /// # Errors
    /// The engine has ended.
    pub fn kill(&self, pid: Pid) -> Result<(), everwarp_runtime::Error> {
        self.shared.kill(pid)
    }

    fn all(&self) -> Vec<Pid> {
        let mut alive = Vec::new();
        self.shared.table.each(|pid, phase| {
            if matches!(phase, Phase::Queued(_) | Phase::Running(_)) {
                alive.push(pid);
            }
        });
        alive
    }
}

impl Drop for Host {
    /// Ends what runs.
    fn drop(&mut self) {
        let alive = self.all();
        for pid in &alive {
            // The engine may be lost; then there is nothing to end.
            drop(self.shared.kill(*pid));
        }
        let end = Instant::now() + GRACE;
        for pid in alive {
            let left = end.saturating_duration_since(Instant::now());
            drop(self.wait_timeout(pid, left));
        }
        self.shared.state().stop = true;
        self.shared.call_dispatcher();
        if let Some(dispatcher) = self.dispatcher.take() {
            drop(dispatcher.join());
        }
        // Before the engine, whose memory it reads.
        self.server.take();
    }
}

fn serve(shared: &Arc<Shared>, config: &HostConfig) -> Result<Server, StartError> {
    let memory = shared.engine.host_calls().ok_or(StartError::NoRing)?;
    let address = "the engine's memory is nowhere at 0";
    let memory = RingMemory {
        slots: NonNull::new(memory.slots).expect(address),
        areas: NonNull::new(memory.areas).expect(address),
        entries: NonNull::new(memory.entries).expect(address),
        slot_count: memory.slot_count,
        area_count: memory.area_count,
        entry_count: memory.entry_count,
    };
    // SAFETY: the engine has these counts at these addresses, zeroed, as long as it lives; `Host` ends the
    // server first. Nothing else of this program accesses them.
    let ring = unsafe { Ring::new(memory) };
    let ring = ring.expect("the engine makes rings of powers of two");
    let config = ServerConfig {
        workers: config.workers,
        reads: config.reads,
        ..ServerConfig::default()
    };
    Server::start(ring, &shared.service, config).map_err(|source| StartError::System {
        what: "threads that serve host calls",
        source,
    })
}

/// What is to be added to the device's clock: the time of day in the middle of a task that reads it.
fn clock_offset(engine: &Engine) -> Result<u64, StartError> {
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
