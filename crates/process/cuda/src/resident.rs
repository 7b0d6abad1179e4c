//! An engine that stays resident, with the hosts that share it.
//!
//! The hosts share the grid, the host-call ring with the thread that polls it, and the code of modules. Each host has its own
//! pids, places, channels, standard streams, service of host calls and threads, so that no host sees another one or waits
//! for it. A host that ends leaves its places to the next host with the same settings.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use everwarp_contract::device::BLOCKS_PER_SM;
use everwarp_contract::hostcall::HOSTCALL_SLOTS_MOST;
use everwarp_engine::sync::lock;
use everwarp_hostcalls::{Ring, RingMemory, Server, ServerConfig};
use everwarp_process::{Module, StartError};
use everwarp_runtime::trace::spanned;
use everwarp_runtime::{Device, Engine, Error, LinkedEngine, LinkedEngineBuilder, Pools};

use crate::clock::clock_offset;
use crate::code::CodeSet;
use crate::config::{STACK_BYTES, free_bytes, memory_budget, stack_most};
use crate::error::{not_started, system};
use crate::idle::IdlePlaces;
use crate::link::shared_pools;
use crate::making::Making;
use crate::module::CompileChoice;
use crate::program;
use crate::share::{Room, Share, Wanted};
use crate::wishes::Wishes;

/// A process may run for as long as it likes: the engine's own watchdog must not take it for stuck.
const WATCHDOG: Duration = Duration::from_secs(1 << 32);
/// The module that an engine starts with before any host has one: `(module (func (export "_start")))`.
const EMPTY: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x04\x01\x02\0\x0b";
/// The places of all hosts together, unless a configuration says otherwise. Each has a slot of the host-call ring.
const PLACES: u32 = 1 << 18;

/// How long a shared engine keeps memory for the next host after the last one has left. To get as much again takes up to
/// 20 ms.
const IDLE: Duration = Duration::from_secs(10);

/// The settings of an engine that hosts share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentConfig {
    /// The places of all hosts together, which is a power of two up to 2^20. Each takes 328 bytes of page-locked memory and
    /// 1.5 KiB of device memory besides those of the processes.
    pub places: u32,
    /// Bytes of stack of each thread of the device at first. It grows when a host wants more.
    pub stack_bytes: u32,
}

impl Default for ResidentConfig {
    fn default() -> Self {
        Self {
            places: PLACES,
            stack_bytes: STACK_BYTES,
        }
    }
}

/// An engine on a GPU, which stays resident while hosts come and go.
pub struct ResidentProcesses {
    /// Ends before the engine, whose memory it reads.
    pub(crate) server: Server,
    pub(crate) engine: Engine,
    /// Locked while an image is exchanged.
    code: Mutex<CodeSet>,
    pub(crate) making: Making,
    /// What processes ask for whose modules have functions left out.
    pub(crate) wishes: Arc<Wishes>,
    pub(crate) idle: Mutex<IdlePlaces>,
    pub(crate) room: Room,
    /// Nanoseconds from the device's clock to the time of day.
    pub(crate) clock_offset: u64,
    /// The largest stack of a thread that a host gets which asks for none.
    pub(crate) stack_most: u32,
    /// How many hosts there are. The engine is parked while there is none, if it is shared.
    users: Mutex<u32>,
    shared: bool,
    /// Tells a thread of a shared engine that the last host has left.
    left: Mutex<Option<Sender<()>>>,
    /// Why the engine has failed.
    failure: OnceLock<String>,
}

impl std::fmt::Debug for ResidentProcesses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResidentProcesses").finish_non_exhaustive()
    }
}

impl ResidentProcesses {
    /// Starts an engine on `device`. Hosts are opened on it later.
    ///
    /// # Errors
    /// There is too little memory, or the device cannot hold an engine.
    pub fn start(device: &Device, config: ResidentConfig) -> Result<Arc<Self>, StartError> {
        let empty = Module::new("empty", EMPTY).expect("it is a module");
        let slots = config
            .places
            .clamp(32, HOSTCALL_SLOTS_MOST)
            .next_power_of_two();
        let code = CodeSet::new(
            &[empty],
            CompileChoice::default(),
            config.stack_bytes,
            true,
            |_| slots,
        )?;
        let gpu = device
            .cuda()
            .map(everwarp_runtime::cuda::CudaDevice::multiprocessors);
        // As many blocks as every later image allows.
        let size = gpu.map(|multiprocessors| multiprocessors * BLOCKS_PER_SM);
        let resident = Self::with_code(device, code, size, shared_pools(slots), true)?;
        // No host has come yet.
        resident.engine.park().map_err(not_started)?;
        let (sender, left) = channel();
        let weak = Arc::downgrade(&resident);
        let thread = std::thread::Builder::new().name("everwarp-idle".into());
        let thread = thread.spawn(move || trim_when_idle(&weak, &left));
        thread.map_err(system("a thread that gives memory back"))?;
        *lock(&resident.left) = Some(sender);
        Ok(resident)
    }

    /// Starts an engine with these modules. One that is `shared` is parked by its last host.
    pub(crate) fn with_code(
        device: &Device,
        mut code: CodeSet,
        size: Option<u32>,
        pools: Pools,
        shared: bool,
    ) -> Result<Arc<Self>, StartError> {
        let most = memory_budget(free_bytes(device)?, 1);
        let builder = device
            .engine()
            .program(&program::PROGRAM)
            .linked(code.linked().clone());
        // Processes are measured by the host. What tasks take is of no use here, and the image that is compiled ahead measures none.
        let builder = builder.pools(pools).watchdog(WATCHDOG).measure(false);
        let builder = match size {
            Some(size) => builder.size(size),
            None => builder,
        };
        let engine = builder.start().map_err(not_started)?;
        code.started(&engine.frames());
        let clock_offset = spanned("host: clock", || clock_offset(&engine)).map_err(not_started)?;
        let server = server(&engine)?;
        let slots = engine.host_calls().map_or(0, |memory| memory.slot_count);
        Ok(Arc::new(Self {
            server,
            code: Mutex::new(code),
            making: Making::default(),
            wishes: Arc::default(),
            idle: Mutex::default(),
            room: Room::new(most, slots),
            clock_offset,
            stack_most: stack_most(device)?,
            users: Mutex::new(0),
            shared,
            left: Mutex::default(),
            failure: OnceLock::new(),
            engine,
        }))
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How many modules the engine's image has, including those that no host uses and that are kept for a while.
    pub fn module_count(&self) -> usize {
        self.code().len()
    }

    /// How many of them are next to the image, because they came later than it.
    pub fn joined_count(&self) -> usize {
        self.code().joined_count()
    }

    /// Why the engine has failed, if a host has found that it has. No other host can be opened on it; a new engine needs a
    /// new process.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Gives back the memory that was kept for the next host, unless there is a host.
    fn trim(&self) {
        // A host that comes now waits for some milliseconds.
        let users = lock(&self.users);
        if *users == 0 {
            lock(&self.idle).forget_all();
            // No process pauses for it. Where it fails, modules stay as they are, or the next host finds that the engine has failed.
            let _ = spanned("host: link everything", || self.code().tidy(&self.engine));
            self.engine.trim();
        }
    }

    /// Gives memory back that is mapped and that no host has, so that it can be mapped elsewhere. All processes pause
    /// meanwhile.
    ///
    /// # Errors
    /// The engine has failed.
    pub(crate) fn compact(&self) -> Result<(), Error> {
        // The lock keeps the image as it is, and the caller's host keeps the engine from being parked for good.
        let _code = self.code();
        self.engine.park()?;
        self.engine.trim();
        self.engine.resume()
    }

    /// Ends what the engine does for its last host besides running processes, if it is not shared.
    pub(crate) fn end_alone(&self) {
        if !self.shared {
            self.wishes.stop();
        }
    }

    /// Notes that the engine has failed.
    pub(crate) fn fail(&self, reason: String) {
        // The first reason is the one that explains the others.
        drop(self.failure.set(reason));
    }

    pub(crate) fn code(&self) -> MutexGuard<'_, CodeSet> {
        lock(&self.code)
    }
}

impl Drop for ResidentProcesses {
    fn drop(&mut self) {
        self.wishes.stop();
    }
}

/// Starts the thread that polls the engine's ring.
fn server(engine: &Engine) -> Result<Server, StartError> {
    let memory = engine.host_calls().ok_or_else(|| {
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
    // SAFETY: the engine has these counts at these addresses, zeroed, as long as it lives; `ResidentProcesses` ends the
    // server first. Nothing else of this program accesses them.
    let ring = unsafe { Ring::new(memory) };
    let ring = ring.expect("the engine makes rings of powers of two");
    let server = Server::without_services(ring, ServerConfig::default());
    server.map_err(system("a thread that polls for host calls"))
}

/// Gives memory back each time that no host has come for a while.
fn trim_when_idle(resident: &Weak<ResidentProcesses>, left: &Receiver<()>) {
    while left.recv().is_ok() {
        while left.recv_timeout(IDLE).is_ok() {}
        if let Some(resident) = resident.upgrade() {
            resident.trim();
        }
    }
}

/// What a host has of an engine, until it ends.
pub(crate) struct ShareLease {
    resident: Arc<ResidentProcesses>,
    share: Mutex<Share>,
}

impl ShareLease {
    /// Takes a share. One that is `alone` on its engine gets everything.
    pub(crate) fn take(resident: &Arc<ResidentProcesses>, wanted: Wanted, alone: bool) -> Self {
        let share = resident.room.take(wanted, alone);
        Self {
            resident: Arc::clone(resident),
            share: Mutex::new(share),
        }
    }

    /// Bytes of device memory, and slots of the ring.
    pub(crate) fn parts(&self) -> (u64, Range<u32>) {
        let share = lock(&self.share);
        (share.memory, share.slots.clone())
    }

    /// Sets the memory to what the host's places take.
    pub(crate) fn settle(&self, memory: u64) {
        self.resident.room.settle(&mut lock(&self.share), memory);
    }
}

impl Drop for ShareLease {
    fn drop(&mut self) {
        self.resident.room.give_back(&lock(&self.share));
    }
}

/// Keeps an engine resident. When the last one is dropped, a shared engine is parked: it occupies no multiprocessor until
/// the next host comes, for which it goes on within some 20 microseconds.
pub(crate) struct Residency(Arc<ResidentProcesses>);

impl Residency {
    pub(crate) fn enter(resident: &Arc<ResidentProcesses>) -> Result<Self, StartError> {
        let mut users = lock(&resident.users);
        if *users == 0 && resident.shared {
            let resumed = spanned("host: resume the engine", || resident.engine.resume());
            resumed.map_err(|error| {
                resident.fail(error.to_string());
                not_started(error)
            })?;
        }
        *users += 1;
        drop(users);
        Ok(Self(Arc::clone(resident)))
    }
}

impl Drop for Residency {
    fn drop(&mut self) {
        let mut users = lock(&self.0.users);
        *users -= 1;
        if *users == 0 && self.0.shared {
            match spanned("host: park the engine", || self.0.engine.park()) {
                Ok(()) => {
                    if let Some(left) = &*lock(&self.0.left) {
                        // The thread ends only with the engine.
                        let _ = left.send(());
                    }
                }
                Err(error) => self.0.fail(error.to_string()),
            }
        }
    }
}
