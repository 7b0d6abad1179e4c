//! What the threads of one process have in common.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use everwarp_process::{ExitStatus, HostBudgets};
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use wasmtime::{InstancePre, Linker, MemoryType, Module, SharedMemory, Store};
use wasmtime_wasi::p1::WasiP1Ctx;

use super::parking::ParkingLot;
use crate::epoch;
use crate::facts::ModuleFacts;
use crate::host_input::HostStdin;
use crate::limits::{ELEMENT_BYTES, MemoryBound, MemoryCounter};
use crate::lock::lock;
use crate::numbers::Numbers;

/// What changes while the threads run.
struct Membership {
    /// Which thread numbers are taken, from 1 on.
    taken: Vec<bool>,
    /// How the process has ended: the first end counts.
    end: Option<ExitStatus>,
    /// Fuel that ended threads have left, where there is a limit.
    fuel_left: u64,
}

/// A process with a shared memory. `G` is the data of its instances' stores.
pub(crate) struct ThreadGroup<G: 'static> {
    memory: SharedMemory,
    linked: InstancePre<G>,
    wasi: Arc<AsyncMutex<WasiP1Ctx>>,
    pub(crate) parking: ParkingLot,
    tables: MemoryBound,
    /// The bytes of the memory at its largest, taken from what all processes of the host may have.
    taken: Option<TakenMemory>,
    /// Whether its standard input is the host's, so that a read may take long.
    inherits_stdin: bool,
    /// The host's standard input.
    stdin: HostStdin,
    numbers: Option<Arc<Numbers>>,
    descriptor_limit: Option<u32>,
    facts: Arc<ModuleFacts>,
    limited: bool,
    membership: Mutex<Membership>,
    /// Whether the process has ended, for code that runs.
    ended: AtomicBool,
    /// The same for threads that wait.
    end_signal: watch::Sender<bool>,
    /// A thread has left.
    left: Notify,
}

/// A part of a host's budget, until it is dropped.
struct TakenMemory {
    budgets: Arc<HostBudgets>,
    bytes: u64,
}

impl Drop for TakenMemory {
    fn drop(&mut self) {
        self.budgets.memory.give(self.bytes);
    }
}

impl TakenMemory {
    /// Takes what a memory may grow to, or as much of it as there is; `None` if it is too little to start with.
    fn take(budgets: &Arc<HostBudgets>, start: u64, most: u64) -> Option<Self> {
        let found = budgets.memory.take_up_to(most);
        let bytes = found & !0xffff;
        budgets.memory.give(found - bytes);
        let taken = Self {
            budgets: Arc::clone(budgets),
            bytes,
        };
        Some(taken).filter(|taken| taken.bytes >= start)
    }
}

/// What a process gives its threads.
pub(crate) struct ThreadGroupConfig {
    pub(crate) wasi: WasiP1Ctx,
    pub(crate) inherits_stdin: bool,
    pub(crate) stdin: HostStdin,
    pub(crate) numbers: Option<Arc<Numbers>>,
    pub(crate) descriptor_limit: Option<u32>,
    /// Bytes of memory and tables that the process may have.
    pub(crate) memory_limit: Option<u64>,
    /// Whether fuel is limited.
    pub(crate) limited: bool,
    /// Threads that there may be at a time in addition to the first.
    pub(crate) threads: u32,
    /// What all processes of the host may have together.
    pub(crate) budgets: Option<Arc<HostBudgets>>,
}

impl<G: 'static> ThreadGroup<G> {
    /// Makes a group with a memory of its own, for instances of `module` in stores such as `store`.
    ///
    /// # Errors
    /// The machine has no room for the memory.
    pub(crate) fn new(
        module: &Module,
        linker: &Linker<G>,
        store: &Store<G>,
        facts: &Arc<ModuleFacts>,
        config: ThreadGroupConfig,
    ) -> wasmtime::Result<Arc<Self>> {
        let declared = facts.threads.as_ref().expect("the module has threads");
        let start = declared.initial << 16;
        let tables = facts.start_elements * ELEMENT_BYTES;
        let limit = config.memory_limit;
        let most = limit.map_or(u64::MAX, |limit| limit.saturating_sub(tables) >> 16);
        let most = declared.maximum.min(most).max(declared.initial);
        // A shared memory grows without asking, so it counts with the most that it may have.
        let taken = match &config.budgets {
            None => None,
            Some(budgets) => {
                let taken = TakenMemory::take(budgets, start, most << 16);
                Some(taken.ok_or_else(|| wasmtime::Error::msg("the host's memory is used up"))?)
            }
        };
        let most = taken.as_ref().map_or(most, |taken| taken.bytes >> 16);
        let pages = |pages: u64| u32::try_from(pages).unwrap_or(u32::MAX);
        let ty = MemoryType::shared(pages(declared.initial), pages(most));
        let memory = SharedMemory::new(module.engine(), ty)?;
        let mut linker = linker.clone();
        linker.define(store, &declared.module, &declared.name, memory.clone())?;
        let limit = limit.map(|limit| limit.saturating_sub(start));
        Ok(Arc::new(Self {
            memory,
            linked: linker.instantiate_pre(module)?,
            wasi: Arc::new(AsyncMutex::new(config.wasi)),
            parking: ParkingLot::default(),
            tables: MemoryBound::new(limit, facts.start_elements),
            taken,
            inherits_stdin: config.inherits_stdin,
            stdin: config.stdin,
            numbers: config.numbers,
            descriptor_limit: config.descriptor_limit,
            facts: Arc::clone(facts),
            limited: config.limited,
            membership: Mutex::new(Membership {
                taken: vec![false; config.threads as usize],
                end: None,
                fuel_left: 0,
            }),
            ended: AtomicBool::new(false),
            end_signal: watch::Sender::new(false),
            left: Notify::new(),
        }))
    }

    /// What instances are made from.
    pub(crate) fn linked(&self) -> &InstancePre<G> {
        &self.linked
    }

    /// The memory that all threads share.
    pub(crate) fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Counts the tables of one thread, which may take the limit less the memory at the start.
    pub(crate) fn table_counter(&self) -> MemoryCounter {
        let budgets = self.taken.as_ref().map(|taken| Arc::clone(&taken.budgets));
        MemoryCounter::new(self.tables, budgets)
    }

    /// The process's descriptors.
    pub(crate) fn wasi(&self) -> &Arc<AsyncMutex<WasiP1Ctx>> {
        &self.wasi
    }

    /// Whether a read of standard input may take long.
    pub(crate) fn inherits_stdin(&self) -> bool {
        self.inherits_stdin
    }

    /// The host's standard input.
    pub(crate) fn stdin(&self) -> &HostStdin {
        &self.stdin
    }

    /// The descriptors by number, if the process has sockets.
    pub(crate) fn numbers(&self) -> Option<&Arc<Numbers>> {
        self.numbers.as_ref()
    }

    /// Descriptors that the process may have at a time.
    pub(crate) fn descriptor_limit(&self) -> Option<u32> {
        self.descriptor_limit
    }

    /// Bytes of the memory now.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.data_size() as u64
    }

    /// What the module needs.
    pub(crate) fn facts(&self) -> &ModuleFacts {
        &self.facts
    }

    /// A number for another thread, if there may be one.
    pub(crate) fn join(&self) -> Option<u32> {
        let mut membership = lock(&self.membership);
        if membership.end.is_some() {
            return None;
        }
        let free = membership.taken.iter().position(|taken| !taken)?;
        membership.taken[free] = true;
        Some(free as u32 + 1)
    }

    /// Divides the fuel of a thread, which has `left`, and the fuel that ended threads have left: returns what a new
    /// thread gets and what the spawner keeps.
    pub(crate) fn divide_fuel(&self, left: u64) -> (u64, u64) {
        let all = left + std::mem::take(&mut lock(&self.membership).fuel_left);
        (all / 2, all - all / 2)
    }

    /// A thread has ended, or could not start. `fuel_left` is 0 where fuel is not counted.
    pub(crate) fn leave(&self, number: u32, fuel_left: u64) {
        let mut membership = lock(&self.membership);
        membership.taken[number as usize - 1] = false;
        membership.fuel_left += fuel_left;
        drop(membership);
        self.left.notify_waiters();
    }

    /// Whether fuel is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }

    /// Ends the process, unless it has ended before.
    pub(crate) fn end(&self, status: ExitStatus) {
        let mut membership = lock(&self.membership);
        if membership.end.is_some() {
            return;
        }
        membership.end = Some(status);
        epoch::demand();
        // Release, with the Acquire in `has_ended`: a thread that sees the end sees the status.
        self.ended.store(true, Ordering::Release);
        drop(membership);
        self.end_signal.send_replace(true);
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Runs `work` unless the process ends, which drops it wherever it waits.
    pub(crate) async fn unless_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut signal = self.end_signal.subscribe();
        let mut ended = pin!(signal.wait_for(|ended| *ended));
        let mut work = pin!(work);
        poll_fn(|cx| match ended.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(cx).map(Some),
        })
        .await
    }

    /// Waits until all threads of an ended process have left. Returns how the process ended and the fuel that its
    /// further threads have left.
    pub(crate) async fn dissolve(&self) -> (ExitStatus, u64) {
        loop {
            // Enabled before the check, so that a thread that leaves after the check wakes this waiter.
            let mut left = pin!(self.left.notified());
            left.as_mut().enable();
            if lock(&self.membership).taken.iter().all(|taken| !taken) {
                break;
            }
            left.await;
        }
        epoch::release();
        let mut membership = lock(&self.membership);
        let status = membership.end.take().expect("the process has ended");
        (status, membership.fuel_left)
    }
}
