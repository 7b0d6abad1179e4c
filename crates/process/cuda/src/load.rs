//! Loading modules into an engine that runs.

use std::ops::Range;
use std::sync::Arc;

use everwarp_process::{LoadConfig, LoadedModule, Module, ModuleId, StartError};
use everwarp_runtime::{DevPtr, Error, LinkedEngine};

use crate::code::stack_use;
use crate::config::PlaceConfig;
use crate::error::not_started;
use crate::family::{FamilyHead, FamilyMemory, JoinedModule};
use crate::host_core::{HostCore, HostedModule};
use crate::layout::family::DevWorld;
use crate::module::{CompileChoice, CompiledModule};
use crate::places::{CommonParameters, Places};
use crate::queue::ModuleQueue;
use crate::quota::MemoryQuota;
use crate::resident::{ResidentProcesses, ShareLease};
use crate::shared_code::LoadedSet;
use crate::supply;

/// The state that later loads start from. Its lock is held while a module is loaded.
pub(crate) struct ModuleLoader {
    pub(crate) common: CommonParameters,
    /// How the modules that the host started with are compiled.
    pub(crate) choice: CompileChoice,
    /// How many channels there can be at the same time.
    pub(crate) channels: u32,
    /// The bytes of stack that the host asks for.
    pub(crate) stack: Option<u32>,
    /// The places that no module has.
    pub(crate) spare: Range<u32>,
    /// What the host may take of the device's memory.
    pub(crate) quota: MemoryQuota,
}

impl ModuleLoader {
    /// Loads a module while processes run. The module is compiled while the engine runs; then all processes that run are
    /// suspended at their next safepoint, the engine gets the module next to its image, or another image, and they continue. A suspended
    /// process is described by positions in its module, not by addresses in the image.
    ///
    /// Calls in modules that were loaded before nest as deep as they did. A module whose frames are too large for the
    /// stack of the device's threads is refused.
    ///
    /// The module may import `everwarp:gpu` or have threads. Its processes and those of earlier modules find each other's
    /// modules by name if both have places for children. A module that the host started with has such places if a module
    /// that the host started with imports `everwarp:gpu`.
    ///
    /// After an error the engine continues as before, unless it was lost.
    pub(crate) fn load(
        &mut self,
        resident: &Arc<ResidentProcesses>,
        share: &ShareLease,
        core: &HostCore,
        module: &Module,
        config: &LoadConfig,
    ) -> Result<LoadedModule, StartError> {
        let number = core.modules.len();
        if !core.modules.has_room() {
            return Err(StartError::Modules { most: number });
        }
        let id = ModuleId(number as u32);
        let choice = CompileChoice {
            interleaved: false,
            ..self.choice
        };
        let LoadedSet { set, codes, times } =
            resident.load_code(std::slice::from_ref(module), choice)?;
        let frames = core.engine.frames();
        let depth = stack_use(&frames, &codes).depth(set.stack_bytes())?;
        let code = &codes[0];
        code.nests(depth);
        drop(set);
        supply::expect(resident, &codes)?;
        let module = &code.module;
        let config = self.place_config(resident, module, config)?;
        let meets_others = module.needs_family() || config.children > 0;
        let family = meets_others.then(|| FoundFamily::of(core)).transpose();
        let family = family.map_err(not_started)?;
        let common = CommonParameters {
            depth,
            family: family.as_ref().map_or(DevPtr::NULL, FoundFamily::address),
            ..self.common.clone()
        };
        let first = self.spare.start;
        let places = Places::new(&core.engine, code, first, &config, &common)?;
        let joined = family.map(|family| {
            let hosted = (&**module, &places);
            family.join(core, self.spare.clone(), self.channels, id, hosted)
        });
        let joined = joined.transpose().map_err(not_started)?;
        self.spare.start += places.total();
        share.settle(share.parts().0 + places.bytes());
        self.quota.count(places.bytes());
        // A thread that finds the module must find its queue too.
        core.queues.add(ModuleQueue::new(places.count()));
        let hosted = HostedModule {
            code: Arc::clone(code),
            module: Arc::clone(module),
            places,
        };
        let pushed = core.modules.push(hosted);
        assert!(pushed.is_ok(), "there was room, and only one thread loads");
        if let Some(joined) = joined {
            // From here on, processes that run may spawn processes of the module.
            joined.admit(core, id).map_err(not_started)?;
        }
        Ok(LoadedModule::new(id, times.compiling, times.pause))
    }

    /// The limits of a module's places, if enough places are left.
    fn place_config(
        &self,
        resident: &ResidentProcesses,
        module: &CompiledModule,
        config: &LoadConfig,
    ) -> Result<PlaceConfig, StartError> {
        let left = resident.room.memory_left().min(self.quota.left());
        let config = PlaceConfig::of(&self.quota.limit(config, 1), self.stack, left);
        let config = PlaceConfig {
            places: config.places.max(1),
            children: match module.threads {
                None => config.children,
                Some(_) => 0,
            },
            ..config
        };
        let places = config.places_with(module, config.children);
        let spare = self.spare.len() as u32;
        if places > u64::from(spare) {
            return Err(StartError::Spare { places, spare });
        }
        Ok(config)
    }
}

/// The family memory that a module is to join.
enum FoundFamily {
    /// An earlier module has needed it; this is its address.
    Existing(DevPtr<DevWorld>),
    /// No module has needed it. Places need its address before it can be laid out.
    New(FamilyHead),
}

impl FoundFamily {
    fn of(core: &HostCore) -> Result<Self, Error> {
        match core.family.memory() {
            Some(memory) => Ok(Self::Existing(memory.address())),
            None => FamilyHead::reserve(&core.engine).map(Self::New),
        }
    }

    fn address(&self) -> DevPtr<DevWorld> {
        match self {
            Self::Existing(address) => *address,
            Self::New(head) => head.address(),
        }
    }

    /// Lets a module join. Memory that does not exist yet is laid out for all the spare places.
    fn join(
        self,
        core: &HostCore,
        spare: Range<u32>,
        channels: u32,
        id: ModuleId,
        (module, places): (&CompiledModule, &Places),
    ) -> Result<JoinedFamily, Error> {
        let engine = &core.engine;
        let memory = match self {
            Self::Existing(_) => None,
            Self::New(head) => Some(FamilyMemory::lay_out(
                engine, head, spare, channels, places,
            )?),
        };
        let module = match &memory {
            Some(memory) => memory.join(engine, id, module, places)?,
            None => {
                let memory = core.family.memory();
                let memory = memory.expect("it existed before, and stays");
                memory.join(engine, id, module, places)?
            }
        };
        Ok(JoinedFamily { memory, module })
    }
}

/// The family memory that a module has joined, before processes can find the module.
struct JoinedFamily {
    /// The memory, if this module is the first one that needs it.
    memory: Option<FamilyMemory>,
    module: JoinedModule,
}

impl JoinedFamily {
    /// Lets processes find the module.
    fn admit(self, core: &HostCore, id: ModuleId) -> Result<(), Error> {
        if let Some(memory) = self.memory {
            core.family.set(memory);
        }
        let memory = core.family.memory();
        let mut memory = memory.expect("it exists by now");
        memory.admit(id, self.module)
    }
}
