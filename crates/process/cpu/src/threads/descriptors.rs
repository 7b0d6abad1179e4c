//! The descriptors of a process, which its threads share.
//!
//! wasmtime's WASI needs its state exclusively for the length of a call. So threads hold a lock for each call, and calls
//! of two threads are carried out one after the other. `imports/waiting.rs` carries out the calls that may wait for long,
//! and releases the lock while they wait.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};
use wasmtime_wasi::p1::WasiP1Ctx;

/// The descriptors of an instance's process.
pub(crate) enum Descriptors {
    /// They are its own.
    Own(Box<WasiP1Ctx>),
    /// They are shared, and locked for the length of a host call.
    Shared(Option<OwnedMutexGuard<WasiP1Ctx>>),
}

impl Descriptors {
    /// The descriptors during a host call.
    ///
    /// # Panics
    /// They are shared and not locked: there is no host call.
    pub(crate) fn get(&mut self) -> &mut WasiP1Ctx {
        match self {
            Self::Own(wasi) => wasi,
            Self::Shared(held) => held.as_mut().expect("a host call holds the lock"),
        }
    }

    /// Locks shared descriptors for a host call.
    pub(crate) async fn lock(shared: &Arc<Mutex<WasiP1Ctx>>) -> Self {
        Self::Shared(Some(Arc::clone(shared).lock_owned().await))
    }

    /// Lets the other threads call.
    pub(crate) fn unlock(&mut self) {
        if let Self::Shared(held) = self {
            *held = None;
        }
    }
}
