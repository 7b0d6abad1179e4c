//! What the threads of one process have in common.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;

use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use wasmtime::{InstancePre, MemoryType, SharedMemory, Store};
use wasmtime_wasi::p1::WasiP1Ctx;

use crate::exit::Reason;
use crate::host::Shared;
use crate::program::Sharing;
use crate::run::Guest;

use super::wait::Waits;

/// What changes.
struct State {
    /// Which numbers are taken, from 1 on.
    numbers: Vec<bool>,
    /// How the process has ended: the first end counts.
    end: Option<Reason>,
    /// Fuel that threads have left behind, where there is a limit.
    pot: u64,
    /// Fuel that threads have used which have ended, where there is none.
    used: u64,
}

/// A process with a shared memory.
pub(crate) struct Team {
    pub(super) memory: SharedMemory,
    pub(super) linked: InstancePre<Guest>,
    pub(super) wasi: Arc<AsyncMutex<WasiP1Ctx>>,
    pub(super) waits: Waits,
    tables_limit: Option<u64>,
    /// Whether its standard input is the host's, so that reading it may take long.
    pub(super) talks: bool,
    program: Arc<crate::program::Inner>,
    host: Weak<Shared>,
    limited: bool,
    state: Mutex<State>,
    /// Whether the process has ended, for code that runs.
    over: AtomicBool,
    /// The same for what waits.
    told: watch::Sender<bool>,
    /// A thread has ended.
    left: Notify,
}

/// What a team is made from.
pub(crate) struct Given {
    pub(crate) wasi: WasiP1Ctx,
    pub(crate) talks: bool,
    pub(crate) memory_limit: Option<u64>,
    /// Whether fuel is limited.
    pub(crate) limited: bool,
    /// Threads that there may be at a time beside the first.
    pub(crate) threads: u32,
    pub(crate) host: Weak<Shared>,
}

impl Team {
    /// A team with a memory of its own.
    ///
    /// # Errors
    /// The machine has no room for the memory.
    pub(crate) fn new(
        program: &Arc<crate::program::Inner>,
        sharing: &Sharing,
        given: Given,
    ) -> wasmtime::Result<Arc<Self>> {
        let engine = sharing.module.engine();
        let declared = &sharing.threads;
        let tables = program.start_bytes - (declared.initial << 16);
        let most = given
            .memory_limit
            .map(|limit| limit.saturating_sub(tables) >> 16);
        let most = declared.maximum.min(most.unwrap_or(u64::MAX));
        let pages = |pages: u64| u32::try_from(pages).unwrap_or(u32::MAX);
        let ty = MemoryType::shared(pages(declared.initial), pages(most.max(declared.initial)));
        let memory = SharedMemory::new(engine, ty)?;
        let mut linker = sharing.linker.clone();
        let store = Store::new(engine, Guest::bare());
        linker.define(&store, &declared.module, &declared.name, memory.clone())?;
        let state = State {
            numbers: vec![false; given.threads as usize],
            end: None,
            pot: 0,
            used: 0,
        };
        Ok(Arc::new(Self {
            memory,
            linked: linker.instantiate_pre(&sharing.module)?,
            wasi: Arc::new(AsyncMutex::new(given.wasi)),
            waits: Waits::default(),
            tables_limit: given
                .memory_limit
                .map(|limit| limit - (declared.initial << 16)),
            talks: given.talks,
            program: Arc::clone(program),
            host: given.host,
            limited: given.limited,
            state: Mutex::new(state),
            over: AtomicBool::new(false),
            told: watch::Sender::new(false),
            left: Notify::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What instances of it are made from.
    pub(crate) fn linked(&self) -> &InstancePre<Guest> {
        &self.linked
    }

    /// Bytes that the tables of one thread may take: what the limit leaves beside the memory at the start.
    pub(crate) fn tables_limit(&self) -> Option<u64> {
        self.tables_limit
    }

    /// Its descriptors.
    pub(crate) fn wasi(&self) -> &Arc<AsyncMutex<WasiP1Ctx>> {
        &self.wasi
    }

    /// Bytes of the memory now.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.data_size() as u64
    }

    /// What is known of its module.
    pub(crate) fn program(&self) -> &crate::program::Inner {
        &self.program
    }

    /// A number for another thread, if there may be one.
    pub(super) fn enter(&self) -> Option<u32> {
        let mut state = self.state();
        if state.end.is_some() {
            return None;
        }
        let free = state.numbers.iter().position(|taken| !taken)?;
        state.numbers[free] = true;
        Some(free as u32 + 1)
    }

    /// What a new thread gets of its spawner's fuel, which is `left`, and what the spawner keeps: half of it and of
    /// what others have left behind. Without a limit there is no end of it.
    pub(super) fn divide(&self, left: u64) -> (u64, u64) {
        if !self.limited {
            return (u64::MAX, left);
        }
        let all = left + std::mem::take(&mut self.state().pot);
        (all / 2, all - all / 2)
    }

    /// A thread has ended, or could not begin.
    pub(super) fn leave(&self, number: u32, given: u64, left: u64) {
        let mut state = self.state();
        state.numbers[number as usize - 1] = false;
        match self.limited {
            true => state.pot += left,
            false => state.used = state.used.saturating_add(given - left),
        }
        drop(state);
        self.left.notify_waiters();
    }

    /// Ends the process, unless it has ended before.
    pub(crate) fn end(&self, reason: Reason) {
        let mut state = self.state();
        if state.end.is_some() {
            return;
        }
        state.end = Some(reason);
        if let Some(host) = self.host.upgrade() {
            host.kills.begin();
        }
        // Release: who sees it sees why.
        self.over.store(true, Ordering::Release);
        drop(state);
        self.told.send_replace(true);
    }

    /// Whether the process has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Runs `work` unless the process ends, which drops it wherever it waits.
    pub(crate) async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut told = self.told.subscribe();
        let mut over = pin!(told.wait_for(|over| *over));
        let mut work = pin!(work);
        poll_fn(|cx| match over.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(cx).map(Some),
        })
        .await
    }

    /// Waits until all threads have ended, of a process that has: how, and what fuel it has used. The first thread
    /// began with `fuel` and has `left` of it.
    pub(crate) async fn retire(&self, fuel: u64, left: u64) -> (Reason, u64) {
        loop {
            let mut changed = pin!(self.left.notified());
            changed.as_mut().enable();
            if self.state().numbers.iter().all(|taken| !taken) {
                break;
            }
            changed.await;
        }
        if let Some(host) = self.host.upgrade() {
            host.kills.end();
        }
        let mut state = self.state();
        let left = left.saturating_add(state.pot);
        let reason = state.end.take().expect("it has ended");
        (reason, fuel.saturating_sub(left).saturating_add(state.used))
    }
}
