//! What a running process lets others know of itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wasmtime::{AsContext, CallHook, StoreContext};

use crate::run::Guest;

/// Numbers for others to read while the process runs. Each stands for itself, so nothing is ordered by them.
#[derive(Default)]
pub(crate) struct Live {
    fuel_used: AtomicU64,
    memory_bytes: AtomicU64,
    calling: AtomicBool,
    /// How often the other numbers were brought up to date.
    looks: AtomicU64,
}

impl Live {
    /// The process has come to a look of its own.
    pub(crate) fn look(&self, fuel: u64, store: StoreContext<'_, Guest>) {
        let left = store.get_fuel().expect("the engine counts fuel");
        self.fuel_used.store(fuel - left, Ordering::Relaxed);
        let memory = store.data().memory_bytes();
        self.memory_bytes.store(memory, Ordering::Relaxed);
        // Release: whoever sees this sees the numbers.
        self.looks.fetch_add(1, Ordering::Release);
    }

    /// The process passes from its own code to the host's, or back.
    pub(crate) fn pass(&self, fuel: u64, store: impl AsContext<Data = Guest>, hook: CallHook) {
        self.look(fuel, store.as_context());
        let calling = matches!(hook, CallHook::CallingHost);
        self.calling.store(calling, Ordering::Relaxed);
    }

    /// How often the process has looked.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Acquire)
    }

    /// Whether it is in a host call.
    pub(crate) fn calling(&self) -> bool {
        self.calling.load(Ordering::Relaxed)
    }

    /// Fuel used and bytes of memory, if it has looked at all.
    pub(crate) fn numbers(&self) -> Option<(u64, Option<u64>)> {
        (self.looks() > 0).then(|| {
            let fuel_used = self.fuel_used.load(Ordering::Relaxed);
            (fuel_used, Some(self.memory_bytes.load(Ordering::Relaxed)))
        })
    }
}
