//! A further thread of a process, from its start to its end, and what all threads of a process do at host calls.

use std::sync::Arc;

use everwarp_process::ExitStatus;
use everwarp_process::threads::START;
use everwarp_telemetry::processes;
use tokio::sync::Mutex;
use wasmtime::{
    AsContext, CallHook, CallHookHandler, Store, StoreContext, StoreContextMut, UpdateDeadline,
};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p1::WasiP1Ctx;

use crate::guest::{Guest, Threads, fuel_left, reading};
use crate::process::{Process, host_call_failed};
use crate::status::exit_status;
use crate::threads::Descriptors;

/// Notes that a process passes from its own code to the host's, or back.
pub(crate) fn note_call(process: &Process, store: StoreContext<'_, Guest>, hook: CallHook) {
    process.usage.update(reading(store));
    let in_host_call = matches!(hook, CallHook::CallingHost);
    process.usage.set_in_host_call(in_host_call);
    match hook {
        CallHook::CallingHost => processes::host_call(true, process.pid.slot()),
        CallHook::ReturningFromHost => processes::host_call(false, process.pid.slot()),
        CallHook::CallingWasm | CallHook::ReturningFromWasm => {}
    }
}

/// Locks the shared descriptors for each host call of a thread.
pub(crate) struct SharedDescriptorsHook {
    pub(crate) wasi: Arc<Mutex<WasiP1Ctx>>,
    /// The process, in its first thread: that thread's numbers are shown as the process's.
    pub(crate) process: Option<Arc<Process>>,
}

#[async_trait]
impl CallHookHandler<Guest> for SharedDescriptorsHook {
    async fn handle_call_event(
        &self,
        mut store: StoreContextMut<'_, Guest>,
        hook: CallHook,
    ) -> wasmtime::Result<()> {
        match hook {
            CallHook::CallingHost => {
                let locked = Descriptors::lock(&self.wasi).await;
                store.data_mut().wasi = locked;
            }
            CallHook::ReturningFromHost => store.data_mut().wasi.unlock(),
            CallHook::CallingWasm | CallHook::ReturningFromWasm => {}
        }
        if let Some(process) = &self.process {
            note_call(process, store.as_context(), hook);
        }
        Ok(())
    }
}

/// A thread that has a number in its group, until it is dropped.
pub(crate) struct GuestThread {
    group: Threads,
    number: u32,
    /// The fuel that it begins with, if that is limited.
    fuel: Option<u64>,
    /// The fuel that it has left.
    left: u64,
}

impl Drop for GuestThread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A defect, but the waiters for the process must learn of its end.
            let status = host_call_failed("the host call panicked".to_owned());
            self.group.end(status);
        }
        self.group.leave(self.number, self.left);
    }
}

impl GuestThread {
    /// Reserves a number for a thread with this fuel; `None` if there may be no further thread.
    pub(crate) fn reserve(group: &Threads) -> Option<Self> {
        Some(Self {
            group: Arc::clone(group),
            number: group.join()?,
            fuel: None,
            left: 0,
        })
    }

    /// Gives the thread its fuel.
    pub(crate) fn with_fuel(self, fuel: u64) -> Self {
        let mut thread = self;
        (thread.fuel, thread.left) = (Some(fuel), fuel);
        thread
    }

    /// The thread's number in its group.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Starts a thread of the system that runs it.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub(crate) fn start(self, argument: i32) -> std::io::Result<()> {
        let name = format!("thread-{}", self.number);
        let thread = std::thread::Builder::new().name(name);
        thread.spawn(move || self.run(argument)).map(drop)
    }

    fn run(mut self, argument: i32) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return self.group.end(host_call_failed(error.to_string())),
        };
        let (end, left) = runtime.block_on(self.execute(argument));
        self.left = left;
        if let Some(status) = end {
            self.group.end(status);
        }
        // A file operation of an ended process may still be under way; its result is not needed.
        runtime.shutdown_background();
    }

    fn store(&self) -> Store<Guest> {
        let group = &self.group;
        let guest = Guest {
            wasi: Descriptors::Shared(None),
            family: None,
            memory: group.table_counter(),
            exported: None,
            threads: Some(Arc::clone(group)),
            numbers: group.numbers().cloned(),
            permit: None,
            descriptor_limit: group.descriptor_limit(),
            fuel: self.fuel,
        };
        let mut store = Store::new(group.linked().module().engine(), guest);
        store.limiter(|guest| &mut guest.memory);
        if let Some(fuel) = self.fuel {
            store
                .set_fuel(fuel)
                .expect("the engine of a limited process counts fuel");
        }
        let watched = Arc::clone(group);
        store.epoch_deadline_callback(move |_| {
            Ok(match watched.has_ended() {
                true => UpdateDeadline::Interrupt,
                false => UpdateDeadline::Continue(1),
            })
        });
        store.set_epoch_deadline(1);
        store.call_hook_async(SharedDescriptorsHook {
            wasi: Arc::clone(group.wasi()),
            process: None,
        });
        store
    }

    /// Returns how the thread has ended its process, if it has, and the fuel that it has left.
    async fn execute(&self, argument: i32) -> (Option<ExitStatus>, u64) {
        let group = &self.group;
        let mut store = self.store();
        let mut started = false;
        let number = self.number as i32;
        let work = async {
            let instance = group.linked().instantiate_async(&mut store).await?;
            started = true;
            let start = instance.get_typed_func::<(i32, i32), ()>(&mut store, START)?;
            start.call_async(&mut store, (number, argument)).await
        };
        let end = match group.unless_ended(work).await {
            None | Some(Ok(())) => None,
            Some(Err(error)) => Some(exit_status(&error, started, group.facts())),
        };
        let left = self.fuel.map_or(0, |_| fuel_left(store.as_context()));
        (end, left)
    }
}
