//! An engine that stays resident, with the hosts that share it.
//!
//! The hosts share the grid, the host-call ring with the thread that polls it, and the code of modules. Each host has its own
//! pids, places, channels, standard streams, service of host calls and threads, so that no host sees another one or waits
//! for it. A host that ends leaves its places to the next host with the same settings.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everwarp_contract::device::BLOCKS_PER_SM;
use everwarp_contract::hostcall::HOSTCALL_SLOTS_MOST;
use everwarp_engine::sync::lock;
use everwarp_hostcalls::{Ring, RingMemory, Server, ServerConfig};
use everwarp_process::{Module, StartError};
use everwarp_runtime::trace::spanned;
use everwarp_runtime::{Device, Engine, LinkedEngine, LinkedEngineBuilder, Pools};

use crate::clock::clock_offset;
use crate::code::CodeSet;
use crate::config::{STACK_BYTES, free_bytes, memory_budget};
use crate::error::{not_started, system};
use crate::family::Anchor;
use crate::idle::IdlePlaces;
use crate::link::shared_pools;
use crate::module::CompileChoice;
use crate::program;
use crate::slots::FreeSlots;

/// A process may run for as long as it likes: the engine's own watchdog must not take it for stuck.
const WATCHDOG: Duration = Duration::from_secs(1 << 32);
/// The module that an engine starts with before any host has one: `(module (func (export "_start")))`.
const EMPTY: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x04\x01\x02\0\x0b";
/// The places of all hosts together, unless a configuration says otherwise. Each has a slot of the host-call ring.
const PLACES: u32 = 1 << 18;

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

/// Device memory for places.
#[derive(Debug)]
pub(crate) struct Budget {
    /// For the places of all hosts together.
    pub(crate) most: u64,
    /// What the places of hosts take.
    pub(crate) used: u64,
}

/// An engine on a GPU, which stays resident while hosts come and go.
pub struct ResidentProcesses {
    /// Ends before the engine, whose memory it reads.
    pub(crate) server: Server,
    pub(crate) engine: Engine,
    pub(crate) slots: Mutex<FreeSlots>,
    /// Locked while modules are loaded.
    code: Mutex<CodeSet>,
    pub(crate) idle: Mutex<IdlePlaces>,
    pub(crate) budget: Mutex<Budget>,
    pub(crate) anchor: Anchor,
    /// Nanoseconds from the device's clock to the time of day.
    pub(crate) clock_offset: u64,
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
            |_| slots,
        )?;
        let gpu = device
            .cuda()
            .map(everwarp_runtime::cuda::CudaDevice::multiprocessors);
        // As many blocks as every later image allows.
        let size = gpu.map(|multiprocessors| multiprocessors * BLOCKS_PER_SM);
        Self::with_code(device, code, size, shared_pools(slots))
    }

    /// Starts an engine with these modules.
    pub(crate) fn with_code(
        device: &Device,
        code: CodeSet,
        size: Option<u32>,
        pools: Pools,
    ) -> Result<Arc<Self>, StartError> {
        let most = memory_budget(free_bytes(device)?, 1);
        let builder = device
            .engine()
            .program(&program::PROGRAM)
            .linked(code.linked().clone());
        let builder = builder.pools(pools).watchdog(WATCHDOG);
        let builder = match size {
            Some(size) => builder.size(size),
            None => builder,
        };
        let engine = builder.start().map_err(not_started)?;
        let clock_offset = spanned("host: clock", || clock_offset(&engine)).map_err(not_started)?;
        let server = server(&engine)?;
        let slots = engine.host_calls().map_or(0, |memory| memory.slot_count);
        Ok(Arc::new(Self {
            server,
            slots: Mutex::new(FreeSlots::new(slots)),
            code: Mutex::new(code),
            idle: Mutex::default(),
            budget: Mutex::new(Budget { most, used: 0 }),
            anchor: Anchor::default(),
            clock_offset,
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

    pub(crate) fn code(&self) -> MutexGuard<'_, CodeSet> {
        lock(&self.code)
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

/// Slots of an engine's ring that a host has.
pub(crate) struct SlotLease {
    resident: Arc<ResidentProcesses>,
    pub(crate) range: Range<u32>,
}

impl SlotLease {
    pub(crate) fn take(resident: &Arc<ResidentProcesses>, wanted: u32) -> Self {
        let range = lock(&resident.slots).take_up_to(wanted.max(1));
        Self {
            resident: Arc::clone(resident),
            range,
        }
    }
}

impl Drop for SlotLease {
    fn drop(&mut self) {
        lock(&self.resident.slots).give_back(self.range.clone());
    }
}
