//! The modules of a host, by the order of loading and by name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use everwarp_process::{Input, LoadConfig, Module, Output, StartError};

use crate::engines::{Metering, Stack};
use crate::family::{ChildLauncher, ChildRefused, ChildRequest, HostAccess, ModuleIndex};
use crate::grants::{CheckedGrants, StartValues};
use crate::lock::lock;
use crate::process::Process;
use crate::program::Program;
use crate::run::ProcessWork;

#[derive(Default)]
struct LoadedPrograms {
    all: Vec<Arc<Program>>,
    /// What processes may spawn.
    by_name: HashMap<String, Arc<Program>>,
}

/// The modules of a host.
pub(crate) struct ModuleSet {
    programs: Mutex<LoadedPrograms>,
    stack: Stack,
    host: HostAccess,
}

impl ModuleSet {
    /// A set without modules, for processes of a host, which `host` describes for the processes' launcher.
    pub(crate) fn new(
        stack: Stack,
        host: impl FnOnce(Weak<dyn ChildLauncher>) -> HostAccess,
    ) -> Arc<Self> {
        Arc::new_cyclic(|set: &Weak<Self>| {
            let launcher: Weak<dyn ChildLauncher> = set.clone();
            Self {
                programs: Mutex::default(),
                stack,
                host: host(launcher),
            }
        })
    }

    /// What a process may use of its host.
    pub(crate) fn host(&self) -> &HostAccess {
        &self.host
    }

    /// Compiles a module and adds it. A module that had its name loses it.
    pub(crate) fn load(
        &self,
        module: &Module,
        config: &LoadConfig,
    ) -> Result<ModuleIndex, StartError> {
        // Compiling takes long, so the number is given afterwards.
        let mut program = Program::load(ModuleIndex(0), module, config, self.stack)?;
        let mut programs = lock(&self.programs);
        let most = u32::MAX as usize;
        let index = u32::try_from(programs.all.len()).map_err(|_| StartError::Modules { most })?;
        program.index = ModuleIndex(index);
        let program = Arc::new(program);
        programs.all.push(Arc::clone(&program));
        programs.by_name.insert(program.name().to_owned(), program);
        Ok(ModuleIndex(index))
    }

    /// The module with this number.
    pub(crate) fn get(&self, index: ModuleIndex) -> Option<Arc<Program>> {
        lock(&self.programs).all.get(index.0 as usize).cloned()
    }

    fn find(&self, own: ModuleIndex, name: &[u8]) -> Result<Arc<Program>, ChildRefused> {
        let found = match name.is_empty() {
            true => self.get(own),
            false => {
                let name = std::str::from_utf8(name).ok();
                name.and_then(|name| lock(&self.programs).by_name.get(name).cloned())
            }
        };
        let program = found.ok_or(ChildRefused::UnknownModule)?;
        // A GPU has places for the threads only of processes that the host has spawned.
        match program.facts.threads {
            Some(_) => Err(ChildRefused::Limit),
            None => Ok(program),
        }
    }
}

impl ChildLauncher for ModuleSet {
    fn check(&self, own: ModuleIndex, name: &[u8]) -> Result<(), ChildRefused> {
        self.find(own, name).map(drop)
    }

    fn launch(
        &self,
        own: ModuleIndex,
        request: ChildRequest,
    ) -> Result<Arc<Process>, ChildRefused> {
        let program = self.find(own, &request.module)?;
        program.expect(1);
        let code = program.code(Metering::of(request.fuel));
        code.map_err(|_| ChildRefused::Limit)?;
        let parent = request.inheritance.parent;
        let work = ProcessWork {
            program,
            grants: Arc::new(CheckedGrants {
                directories: request.directories,
                listeners: Arc::default(),
                launcher: None,
                network: None,
                events: None,
                stdin: Input::Empty,
                stdout: Output::Inherit,
                stderr: Output::Inherit,
                fuel: request.fuel,
                handles: None,
            }),
            values: StartValues {
                args: request.args,
                ..StartValues::default()
            },
            ends: request.ends,
            instance: request.instance,
            host: self.host.clone(),
            inheritance: Some(request.inheritance),
        };
        let scheduler = self.host.scheduler.upgrade().ok_or(ChildRefused::Limit)?;
        let spawned = scheduler.spawn(parent, Box::new(work));
        spawned.ok_or(ChildRefused::Limit)
    }
}
