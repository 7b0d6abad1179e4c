//! What a running process has used, for other threads to read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Numbers that other threads read while the process runs. Each is valid by itself, so no order between them is needed.
#[derive(Default)]
pub(crate) struct LiveUsage {
    fuel_used: AtomicU64,
    fuel_counted: AtomicBool,
    memory_bytes: AtomicU64,
    in_host_call: AtomicBool,
    /// How often the other numbers were brought up to date.
    updates: AtomicU64,
}

/// The numbers of [`LiveUsage`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsageReading {
    /// `None` if fuel is not counted.
    pub(crate) fuel_used: Option<u64>,
    /// Bytes of linear memory and tables.
    pub(crate) memory_bytes: u64,
}

impl LiveUsage {
    /// Brings the numbers up to date.
    pub(crate) fn update(&self, reading: UsageReading) {
        if let Some(fuel) = reading.fuel_used {
            self.fuel_used.store(fuel, Ordering::Relaxed);
            self.fuel_counted.store(true, Ordering::Relaxed);
        }
        self.memory_bytes
            .store(reading.memory_bytes, Ordering::Relaxed);
        // Release, with the Acquire in `updates`: a reader that sees the new count sees the numbers before it.
        self.updates.fetch_add(1, Ordering::Release);
    }

    /// Notes that the process enters a host call, or returns to its own code.
    pub(crate) fn set_in_host_call(&self, in_host_call: bool) {
        self.in_host_call.store(in_host_call, Ordering::Relaxed);
    }

    /// How often the numbers were brought up to date.
    pub(crate) fn updates(&self) -> u64 {
        self.updates.load(Ordering::Acquire)
    }

    /// Whether the process is in a host call.
    pub(crate) fn in_host_call(&self) -> bool {
        self.in_host_call.load(Ordering::Relaxed)
    }

    /// The numbers, once there are any.
    pub(crate) fn read(&self) -> Option<UsageReading> {
        (self.updates() > 0).then(|| {
            let fuel = self.fuel_used.load(Ordering::Relaxed);
            let counted = self.fuel_counted.load(Ordering::Relaxed);
            UsageReading {
                fuel_used: counted.then_some(fuel),
                memory_bytes: self.memory_bytes.load(Ordering::Relaxed),
            }
        })
    }
}
