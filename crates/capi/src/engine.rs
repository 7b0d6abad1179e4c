//! `ew_engine`.

use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

use everwarp::process::{Host, LoadConfig, Module};
use everwarp::{Device, Select};

use crate::objects::{free, give};
use crate::status::{Failure, Status, guard};
use crate::text;

/// The places of a GPU that are kept for modules which come after the first.
const SPARE_PLACES: u32 = 16_384;

/// A device, and the host with its modules once there is one.
#[derive(Debug)]
pub struct Engine {
    pub(crate) device: Device,
    /// Whether the device was left to everwarp.
    pub(crate) auto: bool,
    loaded: Mutex<Option<(Host, Vec<Loaded>)>>,
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
    /// The host with a module, and the clone of the module that the host knows.
    pub(crate) fn load(
        &self,
        module: &Module,
        memory: Option<u64>,
        metered: bool,
    ) -> Result<(Host, Module), Failure> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((host, modules)) = &mut *loaded else {
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
            *loaded = Some((host.clone(), vec![first]));
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
        let loaded = self
            .loaded
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((host, _)) = loaded.take() {
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
            loaded: Mutex::default(),
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
