//! Loading modules into an engine that runs.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use everwarp_process::{LoadConfig, LoadedModule, Module, ModuleId, StartError};
use everwarp_runtime::{Buffer, DevPtr, Device, Linked, Select};

use crate::config::{PlaceConfig, memory_budget};
use crate::dispatch::Shared;
use crate::error::not_started;
use crate::kin::DevWorld;
use crate::link::{depth, part};
use crate::module::{Choice, Loaded, compile_module};
use crate::places::{Common, Places};
use crate::program;
use crate::start::free_bytes;
use crate::state::Line;
use crate::world::World;

/// What later loads start from. Its lock is held while a module is loaded.
pub(crate) struct Loads {
    pub(crate) linked: Linked,
    pub(crate) common: Common,
    /// Whether a product and a sum may be rounded once.
    pub(crate) contract: bool,
    /// How many channels there can be at a time.
    pub(crate) channels: u32,
    /// The number of the first place that no module has.
    pub(crate) next: u32,
    /// How many there are from there on.
    pub(crate) spare: u32,
}

impl Loads {
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
    /// After an error the engine goes on as before, unless it was lost.
    pub(crate) fn load(
        &mut self,
        shared: &Shared,
        module: &Module,
        config: &LoadConfig,
    ) -> Result<LoadedModule, StartError> {
        let begin = Instant::now();
        let number = shared.modules.len();
        if !shared.modules.has_room() {
            return Err(StartError::Modules { most: number });
        }
        let loaded = self.compile(module, number)?;
        let config = self.places_for(&loaded, config)?;
        let mut linked = self.linked.clone();
        linked.parts.push(part(&loaded));
        linked.declarations = program::declarations(number + 1);
        let prepared = shared.engine.prepare_linked(linked.clone());
        let prepared = prepared.map_err(not_started)?;
        let compiling = begin.elapsed();
        let meets = loaded.needs_world() || config.children > 0;
        let head = meets.then(|| Head::of(shared)).transpose();
        let head = head.map_err(not_started)?;
        let common = Common {
            depth: depth(linked.stack_bytes, prepared.largest_frame)?,
            world: head.as_ref().map_or(DevPtr::NULL, Head::address),
            ..self.common.clone()
        };
        let places = Places::new(&shared.engine, &loaded, number, self.next, &config, &common)?;
        let all = self.next..self.next + self.spare;
        let met = head.map(|head| {
            let meeting = head.lay_out(shared, all, self.channels, number, &places)?;
            let join = |world: &World| world.join(&shared.engine, number, &loaded, &places);
            let joined = meeting.with(join)?;
            Ok((meeting, joined))
        });
        let met = met.transpose().map_err(not_started)?;
        let exchanged = shared.engine.exchange(&prepared).map_err(not_started)?;
        self.next += places.total();
        self.spare -= places.total();
        self.linked = linked;
        // A thread that finds the module must find its line and its places too.
        shared.state().lines.push(Line::of(places.count));
        let room = "there was room, and only one loads at a time";
        assert!(shared.places.push(places).is_ok(), "{room}");
        assert!(shared.modules.push(loaded).is_ok(), "{room}");
        if let Some((meeting, joined)) = met {
            // Processes that run may spawn some of it from here on.
            let admitted = meeting.settle(shared).admit(number, joined);
            admitted.map_err(not_started)?;
        }
        let id = ModuleId(number as u32);
        Ok(LoadedModule::new(id, compiling, exchanged.total()))
    }

    fn compile(&self, module: &Module, number: usize) -> Result<Loaded, StartError> {
        let choice = Choice {
            interleaved: false,
            contract: self.contract,
        };
        compile_module(module, number, choice).map_err(|source| StartError::Load {
            module: module.name().to_owned(),
            source,
        })
    }

    /// What the places of a module may take, if as many as it asks for are left.
    fn places_for(&self, loaded: &Loaded, config: &LoadConfig) -> Result<PlaceConfig, StartError> {
        let budget = match config.memory_budget {
            Some(bytes) => bytes,
            None => {
                let device = Device::open(Select::Cuda).map_err(not_started)?;
                memory_budget(free_bytes(&device)?, 1)
            }
        };
        let config = PlaceConfig::of(config, budget);
        let config = PlaceConfig {
            places: config.places.max(1),
            children: match loaded.threads {
                None => config.children,
                Some(_) => 0,
            },
            ..config
        };
        let places = config.places_with(loaded, config.children);
        if places > u64::from(self.spare) {
            return Err(StartError::Spare {
                places,
                spare: self.spare,
            });
        }
        Ok(config)
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
        channels: u32,
        number: usize,
        places: &Places,
    ) -> Result<Meeting<'h>, everwarp_runtime::Error> {
        match self {
            Self::There(world) => Ok(Meeting::There(world)),
            Self::Begun(head) => {
                let world = World::new(&shared.engine, head, all, channels, number)?;
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
