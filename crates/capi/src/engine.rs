//! `ew_engine`.

use std::ffi::c_char;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use everwarp::process::{Host, LoadConfig, Module};
use everwarp::{Device, Select};

use crate::objects::{free, give};
use crate::status::{Failure, Status, guard};
use crate::text;

/// The places of a GPU that are kept for modules which come after the first.
const SPARE_PLACES: u32 = 16_384;

/// A device, and what is resident there.
#[derive(Debug)]
pub struct Engine {
    pub(crate) device: Device,
    /// Whether the device was left to everwarp.
    pub(crate) auto: bool,
    resident: Mutex<Resident>,
}

/// What an engine has on its device. A GPU has room for one of them.
#[derive(Debug, Default)]
pub(crate) struct Resident {
    /// The host with its modules, from the first process on.
    processes: Option<(Host, Vec<Loaded>)>,
    /// Alive while a system of actors has the GPU.
    actors: Weak<()>,
}

impl Resident {
    /// What keeps actors from a GPU, if anything does.
    pub(crate) fn blocks_actors(&self) -> Option<&'static str> {
        if self.processes.is_some() {
            return Some("processes were started on this engine, and the GPU is theirs");
        }
        (self.actors.strong_count() > 0).then_some("the GPU has other actors of this engine")
    }
    /// Gives the GPU to actors, for as long as they keep the result.
    pub(crate) fn give_to_actors(&mut self) -> Arc<()> {
        let held = Arc::new(());
        self.actors = Arc::downgrade(&held);
        held
    }
}

/// A module as it was loaded: with which limit of memory.
#[derive(Debug)]
struct Loaded {
    module: Module,
    memory: Option<u64>,
    /// The clone that the host knows.
    own: Module,
}

impl Engine {
    /// What is resident; it does not change while this is held.
    pub(crate) fn resident(&self) -> MutexGuard<'_, Resident> {
        self.resident.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host with a module, and the clone of the module that the host knows.
    pub(crate) fn load(
        &self,
        module: &Module,
        memory: Option<u64>,
        metered: bool,
    ) -> Result<(Host, Module), Failure> {
        let mut resident = self.resident();
        if resident.actors.strong_count() > 0 {
            return Err(Failure::start(
                "actors of this engine run on the GPU and need it alone: close them first, or open an engine \"cpu\" for the \
                 processes"
                    .to_owned(),
            ));
        }
        let Some((host, modules)) = &mut resident.processes else {
            let builder = Host::builder(&self.device).module(module).metered(metered);
            let builder = builder.spare_places(SPARE_PLACES);
            let builder = match memory {
                Some(bytes) => builder.memory(bytes),
                None => builder,
            };
            let host = builder.start()?;
            let (module, own) = (module.clone(), module.clone());
            let first = Loaded {
                module,
                memory,
                own: own.clone(),
            };
            resident.processes = Some((host.clone(), vec![first]));
            return Ok((host, own));
        };
        let same = |l: &&Loaded| l.module.is(module) && l.memory == memory;
        if let Some(found) = modules.iter().find(same) {
            return Ok((host.clone(), found.own.clone()));
        }
        // A host knows a module with one limit of memory. Another limit takes another copy.
        let own = match modules.iter().any(|l| l.module.is(module)) {
            true => Module::new(module.name(), module.bytes().clone())?,
            false => module.clone(),
        };
        let config = LoadConfig {
            memory,
            metered,
            ..LoadConfig::default()
        };
        host.load(&own, &config)?;
        modules.push(Loaded {
            module: module.clone(),
            memory,
            own: own.clone(),
        });
        Ok((host.clone(), own))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let resident = self.resident.get_mut();
        let resident = resident.unwrap_or_else(PoisonError::into_inner);
        if let Some((host, _)) = resident.processes.take() {
            // Handles of processes keep the host; its processes must not run on.
            drop(host.kill_all());
        }
    }
}

/// Opens a device.
///
/// # Safety
/// - `kind` is null or a text that ends with a zero byte; `engine` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_engine_open(kind: *const c_char, engine: *mut *mut Engine) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let kind = unsafe { text(kind, "kind") }?;
        let select: Select = kind
            .parse()
            .map_err(|e: everwarp::Error| Failure::argument(e.to_string()))?;
        let device = Device::open(select).map_err(|e| Failure::device(&e))?;
        let opened = Engine {
            device,
            auto: matches!(select, Select::Auto),
            resident: Mutex::default(),
        };
        // SAFETY: the caller vouches for it.
        unsafe { give(opened, engine) }
    })
}

/// Ends all processes and frees the device.
///
/// # Safety
/// - `engine` is null or was made by [`ew_engine_open`], is not closed, and nothing uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_engine_close(engine: *mut Engine) {
    // SAFETY: the caller vouches for it.
    unsafe { free(engine) }
}
