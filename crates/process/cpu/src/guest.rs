//! What belongs to one instance of a module: the data of its wasmtime store.

use std::sync::Arc;

use wasmtime::{AsContext, Memory, StoreContext};

use crate::family::Family;
use crate::limits::{MemoryBound, MemoryCounter};
use crate::numbers::Numbers;
use crate::permits::WaitingPermit;
use crate::threads::{Descriptors, ThreadGroup};
use crate::usage::UsageReading;

/// The threads of a process with a shared memory.
pub(crate) type Threads = Arc<ThreadGroup<Guest>>;

/// What belongs to one instance.
pub(crate) struct Guest {
    pub(crate) wasi: Descriptors,
    /// Threads other than the first have none: modules with threads do not import `everwarp:gpu`.
    pub(crate) family: Option<Box<Family>>,
    pub(crate) memory: MemoryCounter,
    /// The memory that the instance exports, once it exists and unless it is shared.
    pub(crate) exported: Option<Memory>,
    /// What the instance shares with the other threads of its process.
    pub(crate) threads: Option<Threads>,
    /// The descriptors by number, if the process has sockets; its threads share them.
    pub(crate) numbers: Option<Arc<Numbers>>,
    /// Its own instance, if its thread takes other processes while it waits for sockets.
    pub(crate) permit: Option<WaitingPermit>,
    /// Descriptors that the process may have at a time.
    pub(crate) descriptor_limit: Option<u32>,
    /// The fuel that the instance began with, if it is limited.
    pub(crate) fuel: Option<u64>,
}

impl Guest {
    /// Bytes of memory and tables now.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let shared = self
            .threads
            .as_ref()
            .map_or(0, |group| group.memory_bytes());
        self.memory.bytes() + shared
    }

    /// The family of a process.
    ///
    /// # Panics
    /// The instance is a further thread of a process.
    pub(crate) fn family(&mut self) -> &mut Family {
        let family = self.family.as_deref_mut();
        family.expect("modules with threads do not import `everwarp:gpu`")
    }
}

/// What an instance has used so far.
pub(crate) fn reading(store: StoreContext<'_, Guest>) -> UsageReading {
    let guest = store.data();
    let used = |given: u64| given.saturating_sub(fuel_left(store.as_context()));
    UsageReading {
        fuel_used: guest.fuel.map(used),
        memory_bytes: guest.memory_bytes(),
    }
}

/// The fuel that an instance with a limit has left.
pub(crate) fn fuel_left(store: StoreContext<'_, Guest>) -> u64 {
    store
        .get_fuel()
        .expect("the engine of a limited process counts fuel")
}

impl Guest {
    /// A guest that is given nothing, for linking.
    pub(crate) fn bare() -> Self {
        let wasi = wasmtime_wasi::WasiCtxBuilder::new().build_p1();
        Self {
            wasi: Descriptors::Own(Box::new(wasi)),
            family: None,
            memory: MemoryCounter::new(MemoryBound::new(None, 0), None),
            exported: None,
            threads: None,
            numbers: None,
            permit: None,
            descriptor_limit: None,
            fuel: None,
        }
    }
}
