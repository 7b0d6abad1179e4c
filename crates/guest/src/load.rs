//! Loading modules into an engine that runs.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use everwarp::{DevPtr, Exchanged, Linked};

use crate::config::HostConfig;
use crate::error::StartError;
use crate::host::Host;
use crate::link::{depth, part};
use crate::module::Module;
use crate::places::{Common, Places};
use crate::program;
use crate::state::Line;

/// What the places of a module that is loaded later may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// As [`HostConfig::places`], out of [`HostConfig::spare_places`].
    pub places: u32,
    /// As [`HostConfig::memory`].
    pub memory: Option<u64>,
    /// As [`HostConfig::memory_budget`].
    pub memory_budget: u64,
}

/// A module that was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedModule {
    /// Its number.
    pub module: usize,
    /// How long it took to compile and to link it, beside the engine.
    pub compiling: Duration,
    /// How long the engine took to go on with it.
    pub exchanged: Exchanged,
}

/// What a later load begins from. Who holds it loads.
pub(crate) struct Loads {
    pub(crate) linked: Linked,
    pub(crate) common: Common,
    pub(crate) config: HostConfig,
    /// The number of the first place that no module has.
    pub(crate) next: u32,
    /// How many there are from there on.
    pub(crate) spare: u32,
}

impl Host {
    /// Loads a module while processes run. It is compiled beside the engine; then all processes that run are
    /// suspended at their next safepoint, the engine goes on with the new image, and they go on in it: what was
    /// suspended is known by positions in the module, not by addresses in the image.
    ///
    /// Calls of modules that were loaded before nest as deep as they did. The stack of the device's threads cannot
    /// change, so a module whose frames are too large for it is refused.
    ///
    /// # Errors
    /// [`StartError`]: the module is refused, or there is no room for its places. The engine goes on as before, unless
    /// it was lost.
    pub fn load(&self, module: &Module, config: &LoadConfig) -> Result<LoadedModule, StartError> {
        let shared = self.shared();
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = Instant::now();
        let number = shared.modules.len();
        if loads.spare < config.places.max(1) || !shared.modules.has_room() {
            return Err(StartError::Spare {
                places: config.places,
                spare: loads.spare,
            });
        }
        let loaded = module
            .compile(number, false)
            .map_err(|source| StartError::Load {
                module: module.name.clone(),
                source,
            })?;
        if loaded.needs_world() {
            let module = module.name.clone();
            return Err(StartError::LateGpu { module });
        }
        let mut linked = loads.linked.clone();
        linked.parts.push(part(&loaded));
        linked.declarations = program::declarations(number + 1);
        let prepared = shared.engine.prepare_linked(linked.clone())?;
        let compiling = begin.elapsed();
        let common = Common {
            depth: depth(linked.stack_bytes, prepared.largest_frame)?,
            // It was laid out for the modules that were there then.
            world: DevPtr::NULL,
            ..loads.common.clone()
        };
        let config = HostConfig {
            places: config.places,
            memory: config.memory,
            memory_budget: config.memory_budget,
            children: 0,
            ..loads.config.clone()
        };
        let places = Places::new(
            &shared.engine,
            &loaded,
            number,
            loads.next,
            &config,
            &common,
        )?;
        let exchanged = shared.engine.exchange(&prepared)?;
        loads.next += places.count;
        loads.spare -= places.count;
        loads.linked = linked;
        // Who finds the module finds its line and its places too.
        shared.state().lines.push(Line::of(places.count));
        let room = "there was room, and only one loads at a time";
        assert!(shared.places.push(places).is_ok(), "{room}");
        assert!(shared.modules.push(loaded).is_ok(), "{room}");
        Ok(LoadedModule {
            module: number,
            compiling,
            exchanged,
        })
    }
}

impl Line {
    /// The line of a module with so many places, all of them free.
    pub(crate) fn of(count: u32) -> Self {
        Self {
            generations: vec![0; count as usize],
            free: (0..count).collect(),
            ..Self::default()
        }
    }
}
