//! The host of processes on one GPU.

use std::fs::File;
use std::io::Read;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everwarp::{Buffer, DevPtr, Device, Engine, HeapConfig, Image, Linked, LinkedPart, Pools};
use everwarp_wasi::{Input, Output, Ring, RingMemory, Server, ServerConfig, Service, Streams};

use everwarp_contract::hostcall::HOSTCALL_SLOTS_MOST;
use everwarp_interface::{Bytes, ChannelError, Pid};

use crate::channel::{End, Receiver, Sender};
use crate::config::{Config, HostConfig, Strings};
use crate::dispatch::{Ears, Shared};
use crate::error::{SpawnError, StartError};
use crate::exit::Exit;
use crate::kin::HANDLES;
use crate::layout::{DevProcessTable, PROCESS_COLLECTS, PROCESS_INPUT, PROCESS_TALKS};
use crate::load::Loads;
use crate::module::{Loaded, Module};
use crate::places::{Common, Places};
use crate::state::{Job, Line, Phase, State};
use crate::world::World;
use crate::{program, strings};

/// The least depth of calls with which ordinary programs run.
const DEPTH_LEAST: u32 = 24;
/// Frames on a thread's stack that are not compiled functions: the engine's own, and an import's.
const OTHER_FRAMES: u32 = 12;
/// A process may run for as long as it likes: the engine's own watchdog must not take it for stuck.
const WATCHDOG: Duration = Duration::from_secs(1 << 32);
/// A start holds a token until what it started has ended or parked, so there are as many tokens as lanes.
const POOLS: Pools = Pools {
    submission_slots: 1 << 14,
    tokens: 1 << 17,
    arena_tasks: 1 << 12,
    tasks: 2 << 20,
    groups: 2 << 20,
    heap: HeapConfig::of(0),
};
/// How long processes have to end when their host does.
const GRACE: Duration = Duration::from_secs(5);

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
        let (loaded, linked) = link(modules, config)?;
        let engine = device
            .engine()
            .program(&program::PROGRAM)
            .linked(linked.clone())
            .pools(pools(config, &loaded))
            .watchdog(WATCHDOG)
            .start()?;
        let depth = depth(config.stack_bytes, engine.largest_frame())?;
        let shares = loaded.iter().any(Loaded::uses_gpu);
        let head = shares.then(|| World::head(&engine)).transpose()?;
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
                true => config.children.min(slots / 2),
                false => 0,
            };
            let share = HostConfig {
                memory_budget: config.memory_budget / loaded.len() as u64,
                places: config.places.min(slots - children),
                children,
                ..config.clone()
            };
            let of = Places::new(&engine, module, number, first, &share, &common)?;
            first += of.total();
            state.lines.push(Line::of(of.count));
            places.push(of);
        }
        let world = head.map(|head| World::new(&engine, head, &loaded, &places, config));
        let world = world.transpose()?;
        let ears = Arc::new(Ears::default());
        let system = |what| move |source| StartError::System { what, source };
        // A place without a slot could not call the host.
        let spare = config.spare_places.min(HOSTCALL_SLOTS_MOST - first);
        let service = Service::new(first + spare, streams, ears.clone());
        let service = Arc::new(service.map_err(system("a thread that waits"))?);
        let shared = Shared::new(engine, loaded, places, service, world, state);
        let shared = Arc::new(shared);
        ears.hear(&shared);
        let server = serve(&shared, config.workers)?;
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

    /// Copies what processes are given to the device, all at once; equal neighbours share. Answers where each
    /// one's lies, and its standard input if it has one of its own.
    fn strings(
        &self,
        all: impl Iterator<Item = Strings>,
        ends: &[End],
    ) -> Result<(Arc<Buffer<u8>>, Vec<Own>), SpawnError> {
        let (mut bytes, mut own) = (Vec::new(), Vec::new());
        let mut last: Option<(Strings, u64)> = None;
        for strings in all {
            // What is read counts up in there.
            let shared = last.as_ref().filter(|_| strings.stdin.is_none());
            let same = shared.filter(|(before, _)| *before == strings);
            let begin = match same {
                Some((_, begin)) => *begin,
                None => {
                    // The ends stand in front of the rest, the first one last.
                    let begin = (bytes.len() + 4 * ends.len()).next_multiple_of(16);
                    bytes.resize(begin - 4 * ends.len(), 0);
                    let entries = ends.iter().rev().map(End::entry);
                    bytes.extend(entries.flat_map(u32::to_le_bytes));
                    strings::encode(&strings, &mut bytes)?;
                    last = Some((strings, begin as u64));
                    begin as u64
                }
            };
            let stdin = last.as_ref().and_then(|(strings, _)| strings.stdin.clone());
            own.push(Own { begin, stdin });
        }
        Ok((Arc::new(self.shared.engine.buffer_from(&bytes)?), own))
    }

    fn fuel(config: &Config) -> Result<i64, SpawnError> {
        let fuel = config.fuel.unwrap_or(i64::MAX as u64);
        match i64::try_from(fuel) {
            Ok(fuel) if fuel > 0 => Ok(fuel),
            _ => Err(SpawnError::Fuel { fuel }),
        }
    }

    /// Starts a process, as soon as there is a place for it.
    ///
    /// # Panics
    /// There is no module of that number.
    ///
    /// # Errors
    /// [`SpawnError`]; then nothing was started.
    pub fn spawn(&self, module: usize, config: &Config) -> Result<Pid, SpawnError> {
        let pids = self.spawn_many(module, config, 1)?;
        Ok(pids[0])
    }

    /// Starts `count` processes with the same configuration.
    ///
    /// # Panics
    /// There is no module of that number.
    ///
    /// # Errors
    /// [`SpawnError`]; then nothing was started.
    pub fn spawn_many(
        &self,
        module: usize,
        config: &Config,
        count: usize,
    ) -> Result<Vec<Pid>, SpawnError> {
        let same = std::iter::repeat_n(config.strings.clone(), count);
        self.spawn_each(module, config, same)
    }

    /// Starts a process for each of these arguments and environments, which stand in the place of the
    /// configuration's own.
    ///
    /// # Panics
    /// There is no module of that number.
    ///
    /// # Errors
    /// [`SpawnError`]; then nothing was started.
    pub fn spawn_each(
        &self,
        module: usize,
        config: &Config,
        each: impl Iterator<Item = Strings>,
    ) -> Result<Vec<Pid>, SpawnError> {
        assert!(
            module < self.shared.modules.len(),
            "there is no module {module}"
        );
        let fuel = Self::fuel(config)?;
        let most = HANDLES as usize;
        if config.ends.len() > most {
            let ends = config.ends.len();
            return Err(SpawnError::Ends { ends, most });
        }
        if !config.ends.is_empty() && self.shared.world.is_none() {
            return Err(SpawnError::Ends {
                ends: config.ends.len(),
                most: 0,
            });
        }
        let ends: Arc<[End]> = config.ends.as_slice().into();
        let (strings, each) = self.strings(each, &ends)?;
        // What somebody reads while it is written goes out at once.
        let collects = !matches!(config.stdout, Output::Inherit);
        let tagged = |output| matches!(output, Output::Lines { tag: true, .. });
        let tagged = tagged(config.stdout) || tagged(config.stderr);
        let wasi = |name, stdin: Option<Bytes>| {
            Arc::new(everwarp_wasi::Config {
                name,
                directories: config.directories.clone(),
                stdin: stdin.map_or_else(|| config.stdin.clone(), Input::Bytes),
                stdout: config.stdout,
                stderr: config.stderr,
                handles: config.handles.max(3 + config.directories.len() as u32),
            })
        };
        // Only tags say the name; without them all have the same.
        let nameless = wasi(String::new(), None);
        let collects = if collects { PROCESS_COLLECTS } else { 0 };
        let mut state = self.shared.state();
        let mut pids = Vec::with_capacity(each.len());
        for (instance, Own { begin, stdin }) in each.into_iter().enumerate() {
            let pid = state.insert(Phase::Free);
            let job = Job {
                strings: Arc::clone(&strings),
                strings_at: begin,
                fuel,
                flags: collects | reads(&config.stdin, stdin.is_some()),
                instance: instance as u32,
                ends: Arc::clone(&ends),
                wasi: match (tagged, stdin) {
                    (true, stdin) => wasi(pid.to_string(), stdin),
                    (false, Some(stdin)) => wasi(String::new(), Some(stdin)),
                    (false, None) => Arc::clone(&nameless),
                },
            };
            state.entries[pid.slot() as usize].phase = Phase::Queued(job);
            state.lines[module].waiting.push_back(pid);
            pids.push(pid);
        }
        drop(state);
        self.shared.call_dispatcher();
        Ok(pids)
    }

    /// Makes a channel of so many messages of up to so many bytes, whose ends the host holds and may give to
    /// processes ([`Config::ends`]). A side is open as long as somebody has an end of it.
    ///
    /// # Errors
    /// [`ChannelError`]: it is too large, there are too many, or no module of this host imports `everwarp:gpu`.
    pub fn channel(&self, capacity: u32, bytes: u32) -> Result<(Sender, Receiver), ChannelError> {
        self.shared.channel(capacity, bytes)
    }

    /// Waits for the end of a process; its pid means nothing afterwards. Nothing if it has been waited for.
    ///
    /// # Errors
    /// The engine has ended.
    pub fn wait(&self, pid: Pid) -> Result<Option<Exit>, everwarp::Error> {
        self.wait_until(pid, None)
    }

    /// Waits for a limited time.
    ///
    /// # Errors
    /// [`everwarp::Error::Timeout`], and the process goes on; or the engine has ended.
    pub fn wait_timeout(
        &self,
        pid: Pid,
        timeout: Duration,
    ) -> Result<Option<Exit>, everwarp::Error> {
        self.wait_until(pid, Some(timeout))
    }

    fn wait_until(
        &self,
        pid: Pid,
        timeout: Option<Duration>,
    ) -> Result<Option<Exit>, everwarp::Error> {
        let begin = Instant::now();
        let mut state = self.shared.state();
        loop {
            if state.entry(pid).is_none() {
                return Ok(None);
            }
            if let Some(exit) = state.take(pid) {
                return Ok(Some(exit));
            }
            if let Some(reason) = &state.failed {
                let reason = reason.clone();
                return Err(everwarp::BackendError::Lost { reason }.into());
            }
            if let Some(after) = timeout.filter(|t| begin.elapsed() >= *t) {
                return Err(everwarp::Error::Timeout { after });
            }
            let most = timeout.map_or(Duration::MAX, |t| t.saturating_sub(begin.elapsed()));
            state = self.shared.await_end(state, pid, most);
        }
    }

    /// Asks a process to end. It does so at its next look: within some thousand rounds of a loop, or when
    /// its call of the host is answered, which is at once for those that wait. One that has ended is left.
    ///
    /// # Errors
    /// The engine has ended.
    pub fn kill(&self, pid: Pid) -> Result<(), everwarp::Error> {
        self.shared.kill(pid)
    }

    fn all(&self) -> Vec<Pid> {
        let state = self.shared.state();
        let entries = state.entries.iter().enumerate();
        let alive =
            entries.filter(|(_, e)| matches!(e.phase, Phase::Queued(_) | Phase::Running(_)));
        let pid = |(slot, e): (usize, &crate::state::Entry)| Pid::new(slot as u32, e.generation);
        alive.map(pid).collect()
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

/// A task that a process submits takes a chunk of 32 tasks alone, and there may be one for each place and one more
/// for each start.
fn pools(config: &HostConfig, modules: &[Loaded]) -> Pools {
    if !modules.iter().any(Loaded::uses_gpu) {
        return POOLS;
    }
    let places = (u64::from(config.places) + u64::from(config.children)) * modules.len() as u64;
    let tasks = u64::from(POOLS.tasks) + 2 * 32 * places;
    Pools {
        tasks: u32::try_from(tasks).unwrap_or(u32::MAX),
        ..POOLS
    }
}

/// What of a module is linked.
pub(crate) fn part(loaded: &Loaded) -> LinkedPart {
    LinkedPart {
        name: loaded.name.as_str().into(),
        ptx: loaded.compiled.ptx.as_str().into(),
    }
}

/// Compiles modules and says how they are linked.
fn link(modules: &[Module], config: &HostConfig) -> Result<(Vec<Loaded>, Linked), StartError> {
    let loaded = modules.iter().enumerate().map(|(number, module)| {
        module
            .compile(number, config.interleaved)
            .map_err(|source| StartError::Load {
                module: module.name.clone(),
                source,
            })
    });
    let loaded: Vec<_> = loaded.collect::<Result<_, _>>()?;
    let linked = Linked {
        parts: loaded.iter().map(part).collect(),
        declarations: program::declarations(loaded.len()),
        stack_bytes: config.stack_bytes,
        host_call_slots: config.slots(loaded.len(), loaded.iter().any(Loaded::uses_gpu)),
    };
    Ok((loaded, linked))
}

/// The image that a host of these modules would start, for tests that compile it without a GPU.
///
/// # Errors
/// [`StartError`]: a module is refused.
#[doc(hidden)]
pub fn image(modules: &[Module], config: &HostConfig) -> Result<Image, StartError> {
    let linked = link(modules, config)?.1;
    let programs = vec![&program::PROGRAM];
    Ok(Image { programs, linked })
}

/// How deep calls may nest on a stack: see the stack's rule of `everwarp-wasm`.
pub(crate) fn depth(stack: u32, frame: u32) -> Result<u32, StartError> {
    let frames = stack / frame.max(16);
    let depth = frames.saturating_sub(OTHER_FRAMES) / 2;
    if depth < DEPTH_LEAST {
        return Err(StartError::Stack {
            stack,
            frame,
            depth,
            least: DEPTH_LEAST,
        });
    }
    Ok(depth)
}

fn serve(shared: &Arc<Shared>, workers: usize) -> Result<Server, StartError> {
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
        workers,
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

/// What one process has of its own on the device.
struct Own {
    /// Where it begins, among that of all.
    begin: u64,
    stdin: Option<Bytes>,
}

/// The flags that say where a process reads its standard input: what it was given is read where it runs.
fn reads(stdin: &Input, has_own: bool) -> u32 {
    match stdin {
        _ if has_own => PROCESS_INPUT,
        Input::Empty => PROCESS_INPUT,
        Input::Bytes(_) => 0,
        Input::Inherit => PROCESS_TALKS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_leaves_room_for_what_is_not_compiled() {
        let depth_of = |stack, frame| depth(stack, frame).expect("it is enough");
        assert_eq!(depth_of(32 << 10, 128), 122);
        assert!((2 * depth_of(65_536, 400) + 3) * 400 <= 65_536);
        let error = depth(1024, 200).expect_err("too little").to_string();
        assert!(error.contains("1024") && error.contains("200"), "{error}");
    }
}
