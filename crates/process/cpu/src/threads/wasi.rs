//! The descriptors of a process: its own, or shared by its threads.
//!
//! wasmtime's WASI wants its state for itself as long as a call lasts. So threads hold a lock for each call: calls of
//! two threads are done one after the other. What may wait for long is done by this crate and lets the lock go: see
//! `poll.rs`.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};
use wasmtime::{AsContext, CallHook, CallHookHandler, StoreContextMut};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p1::WasiP1Ctx;

use crate::live::Live;
use crate::run::Guest;

/// What an instance has of its process's descriptors.
pub(crate) enum Wasi {
    /// They are its own.
    Own(Box<WasiP1Ctx>),
    /// They are shared, and held as long as a call lasts.
    Shared(Option<OwnedMutexGuard<WasiP1Ctx>>),
}

impl Wasi {
    /// For a call of the host.
    ///
    /// # Panics
    /// Outside of one, if they are shared.
    pub(crate) fn get(&mut self) -> &mut WasiP1Ctx {
        match self {
            Self::Own(wasi) => wasi,
            Self::Shared(held) => held.as_mut().expect("whoever calls the host holds it"),
        }
    }

    /// Lets others call.
    pub(super) fn let_go(&mut self) {
        if let Self::Shared(held) = self {
            *held = None;
        }
    }
}

/// Holds the descriptors for each call of an instance that shares them, and tells of calls as for any process.
pub(crate) struct Hook {
    pub(crate) wasi: Arc<Mutex<WasiP1Ctx>>,
    /// Of the first thread, whose numbers are the process's, with the fuel that it began with.
    pub(crate) live: Option<(Arc<Live>, u64)>,
}

#[async_trait]
impl CallHookHandler<Guest> for Hook {
    async fn handle_call_event(
        &self,
        mut store: StoreContextMut<'_, Guest>,
        hook: CallHook,
    ) -> wasmtime::Result<()> {
        match hook {
            CallHook::CallingHost => {
                let held = Arc::clone(&self.wasi).lock_owned().await;
                store.data_mut().wasi = Wasi::Shared(Some(held));
            }
            CallHook::ReturningFromHost => store.data_mut().wasi.let_go(),
            CallHook::CallingWasm | CallHook::ReturningFromWasm => {}
        }
        if let Some((live, fuel)) = &self.live {
            live.pass(*fuel, store.as_context(), hook);
        }
        Ok(())
    }
}
