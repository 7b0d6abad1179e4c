//! The start of a client's host, and the modules that it loads.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use everwarp_engine::trace::spanned;
use everwarp_process::{HostConfig, HostStreams, LoadConfig, Module, ModuleId, StartError};

use super::{Misbehaved, Session, SessionHost};
use crate::protocol::{HostSettings, LoadSettings, LoadedProgram, StartedHost};
use crate::server::modules::read_file;
use crate::server::output::{ClientOutput, OutputGate};
use crate::server::stdin::ClientInput;

impl Session {
    /// The settings of a client within the service's limits.
    pub(super) fn limited(&self, load: LoadSettings) -> LoadConfig {
        let mut load = LoadConfig::from(load);
        if let Some(most) = self.settings.quotas.process_memory {
            load.memory = Some(load.memory.map_or(most, |memory| memory.min(most)));
        }
        load
    }

    pub(super) fn module(&self, name: &str, file: OwnedFd) -> Result<Module, StartError> {
        let read = read_file(&File::from(file));
        let bytes = read.map_err(|source| StartError::System {
            what: name.to_owned(),
            source,
        })?;
        let module = self.settings.modules.get(name, bytes);
        module.map_err(|source| StartError::Load {
            module: name.to_owned(),
            source,
        })
    }

    pub(super) fn start(
        &self,
        settings: HostSettings,
        names: &[String],
        program: String,
        files: Vec<OwnedFd>,
    ) -> Result<StartedHost, StartError> {
        let refused = |text: &str| StartError::Service(text.to_owned());
        let mut files = files.into_iter();
        let (Some(stdin), Some(stdout), Some(stderr)) = (files.next(), files.next(), files.next())
        else {
            return Err(refused("the standard streams are missing"));
        };
        if files.len() != names.len() {
            return Err(refused("there is not one file for each module"));
        }
        let modules: Vec<Module> = names
            .iter()
            .zip(files)
            .map(|(name, file)| self.module(name, file))
            .collect::<Result<_, _>>()?;
        let load = self.limited(settings.load.clone());
        let config = HostConfig {
            load,
            ..HostConfig::from(settings)
        };
        let gate = Arc::<OutputGate>::default();
        let input = Arc::new(ClientInput::new(stdin, &self.sender));
        let streams = HostStreams {
            stdin: input.clone(),
            stdout: Arc::new(ClientOutput::new(stdout, false, &gate, &self.sender)),
            stderr: Arc::new(ClientOutput::new(stderr, true, &gate, &self.sender)),
            budgets: Some(Arc::clone(&self.budgets)),
        };
        let backend = &self.settings.backend;
        let engine = spanned("service: open a host", || {
            backend.start(&modules, &config, &streams)
        })?;
        let widths = (0..modules.len() as u32).map(|id| engine.width(ModuleId(id)));
        let started = StartedHost {
            cuda: engine.kind() == everwarp_engine::EngineKind::Cuda,
            device: backend.device_name(),
            widths: widths.collect(),
        };
        let host = SessionHost {
            engine,
            program,
            input,
            gate,
            waits: Arc::default(),
            ends: Mutex::default(),
            next_end: AtomicU32::new(0),
            waiting: AtomicBool::new(false),
            data: AtomicU64::new(0),
        };
        match self.host.set(host) {
            Ok(()) => Ok(started),
            Err(_) => unreachable!("messages are dispatched one after the other"),
        }
    }

    pub(super) fn load(
        &self,
        name: &str,
        settings: LoadSettings,
        files: Vec<OwnedFd>,
    ) -> Result<Result<LoadedProgram, StartError>, Misbehaved> {
        let host = self.host()?;
        let file = files.into_iter().next();
        let file = file.ok_or_else(|| Misbehaved("a module without its file".to_owned()))?;
        let load = || {
            let module = self.module(name, file)?;
            let loaded = host.engine.load(&module, &self.limited(settings))?;
            Ok(LoadedProgram {
                id: loaded.id.0,
                compiling: loaded.compiling,
                pause: loaded.pause,
                width: host.engine.width(loaded.id),
            })
        };
        Ok(load())
    }
}
