//! Loading modules into an engine that runs.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everwarp_runtime::{Buffer, DevPtr, Exchanged, Linked};

use crate::config::HostConfig;
use crate::dispatch::Shared;
use crate::error::StartError;
use crate::host::Host;
use crate::kin::DevWorld;
use crate::link::{depth, part};
use crate::module::{Choice, Module};
use crate::places::{Common, Places};
use crate::program;
use crate::state::Line;
use crate::world::World;

/// What the places of a module that is loaded later may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// As [`HostConfig::places`], out of [`HostConfig::spare_places`].
    pub places: u32,
    /// Places for processes of it that others spawn, out of the same. Those with threads cannot be spawned.
    pub children: u32,
    /// As [`HostConfig::threads`], out of the same.
    pub threads: u32,
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
    /// It may import `everwarp:gpu` or have threads. Its processes find the modules that are there by their names, and
    /// those find it, if both have places for children: a module that was given to the host at its start has some if
    /// another one that was imports `everwarp:gpu`.
    ///
    /// # Errors
    /// [`StartError`]: the module is refused, or there is no room for its places. The engine goes on as before, unless
    /// it was lost.
    pub fn load(&self, module: &Module, config: &LoadConfig) -> Result<LoadedModule, StartError> {
        let shared = self.shared();
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = Instant::now();
        let number = shared.modules.len();
        if !shared.modules.has_room() {
            return Err(StartError::Modules { most: number });
        }
        let choice = Choice {
            interleaved: false,
            contract: loads.config.contract,
        };
        let loaded = module
            .compile(number, choice)
            .map_err(|source| StartError::Load {
                module: module.name.clone(),
                source,
            })?;
        let children = match loaded.threads {
            None => config.children,
            Some(_) => 0,
        };
        let config = HostConfig {
            places: config.places.max(1),
            memory: config.memory,
            memory_budget: config.memory_budget,
            children,
            threads: config.threads,
            ..loads.config.clone()
        };
        let wanted = config.places_with(&loaded, children);
        if wanted > u64::from(loads.spare) {
            return Err(StartError::Spare {
                places: wanted,
                spare: loads.spare,
            });
        }
        let mut linked = loads.linked.clone();
        linked.parts.push(part(&loaded));
        linked.declarations = program::declarations(number + 1);
        let prepared = shared.engine.prepare_linked(linked.clone())?;
        let compiling = begin.elapsed();
        let meets = loaded.needs_world() || children > 0;
        let head = meets.then(|| Head::of(shared)).transpose()?;
        let common = Common {
            depth: depth(linked.stack_bytes, prepared.largest_frame)?,
            world: head.as_ref().map_or(DevPtr::NULL, Head::address),
            ..loads.common.clone()
        };
        let places = Places::new(
            &shared.engine,
            &loaded,
            number,
            loads.next,
            &config,
            &common,
        )?;
        let all = loads.next..loads.next + loads.spare;
        let met = match head {
            None => None,
            Some(head) => {
                let meeting = head.lay_out(shared, all, &config, number, &places)?;
                let join = |world: &World| world.join(&shared.engine, number, &loaded, &places);
                let joined = meeting.with(join)?;
                Some((meeting, joined))
            }
        };
        let exchanged = shared.engine.exchange(&prepared)?;
        loads.next += places.total();
        loads.spare -= places.total();
        loads.linked = linked;
        // Who finds the module finds its line and its places too.
        shared.state().lines.push(Line::of(places.count));
        let room = "there was room, and only one loads at a time";
        assert!(shared.places.push(places).is_ok(), "{room}");
        assert!(shared.modules.push(loaded).is_ok(), "{room}");
        if let Some((meeting, joined)) = met {
            // Processes that run may spawn some of it from here on.
            meeting.settle(shared).admit(number, joined)?;
        }
        Ok(LoadedModule {
            module: number,
            compiling,
            exchanged,
        })
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the world is that a module is to join.
enum Head<'h> {
    There(&'h Mutex<World>),
    /// The first module that asks for it has it laid out: places have to be told its address before it can be.
    Begun(Buffer<u8>),
}

impl<'h> Head<'h> {
    fn of(shared: &'h Shared) -> Result<Self, everwarp_runtime::Error> {
        Ok(match shared.world.get() {
            Some(world) => Self::There(world),
            None => Self::Begun(World::head(&shared.engine)?),
        })
    }

    fn address(&self) -> DevPtr<DevWorld> {
        match self {
            Self::There(world) => lock(world).address(),
            Self::Begun(head) => DevPtr::new(head.ptr().address()),
        }
    }

    /// Lays it out for all places that are left, if it is not there: the module of this number is the first, and has
    /// these.
    fn lay_out(
        self,
        shared: &Shared,
        all: Range<u32>,
        config: &HostConfig,
        number: usize,
        places: &Places,
    ) -> Result<Meeting<'h>, StartError> {
        match self {
            Self::There(world) => Ok(Meeting::There(world)),
            Self::Begun(head) => {
                let world = World::new(&shared.engine, head, all, config, number)?;
                world.anchor(&shared.engine, places)?;
                Ok(Meeting::New(Box::new(world)))
            }
        }
    }
}

/// The world that a module joins.
enum Meeting<'h> {
    There(&'h Mutex<World>),
    /// It is the host's when the module has been loaded.
    New(Box<World>),
}

impl<'h> Meeting<'h> {
    fn with<T>(&self, act: impl FnOnce(&World) -> T) -> T {
        match self {
            Self::There(world) => act(&lock(world)),
            Self::New(world) => act(world),
        }
    }

    /// The host's, which it is from here on.
    fn settle(self, shared: &'h Shared) -> MutexGuard<'h, World> {
        match self {
            Self::There(world) => lock(world),
            Self::New(world) => lock(shared.world.get_or_init(|| Mutex::new(*world))),
        }
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
