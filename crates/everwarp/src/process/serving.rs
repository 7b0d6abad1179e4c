//! The engine of a service's child. Not a stable API.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;

use everwarp_process::{HostConfig, HostStreams, InputLines, Module, ProcessEngine, StartError};
pub use everwarp_process_cpu::{answer_parent, compile_in_children, rehearse_in_children};
use everwarp_process_cuda::{ResidentConfig, ResidentProcesses, recall_rehearsal};
use everwarp_runtime::{Device, EngineKind};
pub use everwarp_service::*;

use super::builder::start_engine;
use super::lines::{read_lines, read_plain_lines};

/// Runs a native program: the request of the client's command, and the files that it names. It ends when the client has
/// gone.
pub type Native = dyn Fn(&Device, &[u8], Vec<OwnedFd>, &Cancellation) -> Vec<u8> + Send + Sync;

/// A device that serves clients.
pub struct DeviceBackend {
    device: Device,
    native: Box<Native>,
    shared: Option<Shared>,
}

/// What clients share on a GPU.
struct Shared {
    resident: Arc<ResidentProcesses>,
    /// The processes that run native programs.
    runners: Runners,
}

impl DeviceBackend {
    /// Serves with a device. On a GPU this starts the engine, and `runner` starts a process that runs a native program.
    ///
    /// # Errors
    /// The engine cannot be started.
    pub fn new(
        device: Device,
        native: Box<Native>,
        runner: impl Fn() -> Command + Send + 'static,
    ) -> Result<Self, StartError> {
        let shared = match device.kind() {
            EngineKind::Cpu | EngineKind::Wgpu => None,
            EngineKind::Cuda => Some(Shared {
                resident: ResidentProcesses::start(&device, ResidentConfig::default())?,
                runners: Runners::start(runner).map_err(|source| StartError::System {
                    what: "a thread that starts processes".to_owned(),
                    source,
                })?,
            }),
        };
        Ok(Self {
            device,
            native,
            shared,
        })
    }
}

impl Backend for DeviceBackend {
    fn kind(&self) -> EngineKind {
        self.device.kind()
    }

    fn device_name(&self) -> String {
        self.device.name()
    }

    fn start(
        &self,
        modules: &[Module],
        config: &HostConfig,
        streams: &HostStreams,
    ) -> Result<Arc<dyn ProcessEngine>, StartError> {
        match &self.shared {
            None => start_engine(&self.device, modules, config, Some(streams)),
            Some(shared) => {
                // The client has rehearsed them, if it asks for functions that are known to be called.
                modules.iter().for_each(recall_rehearsal);
                let host = shared.resident.open(modules, config, Some(streams))?;
                Ok(Arc::new(host))
            }
        }
    }

    fn lines(&self, file: File) -> io::Result<InputLines> {
        match &self.shared {
            None => read_lines(file, &self.device),
            // Page-locked memory cannot be had next to a resident engine.
            Some(_) => read_plain_lines(file),
        }
    }

    fn failure(&self) -> Option<String> {
        let shared = self.shared.as_ref()?;
        shared.resident.failure().map(str::to_owned)
    }

    fn native(
        &self,
        body: &[u8],
        files: Vec<OwnedFd>,
        cancellation: &Cancellation,
    ) -> io::Result<Vec<u8>> {
        match &self.shared {
            None => Ok((self.native)(&self.device, body, files, cancellation)),
            Some(shared) => shared.runners.run(body, &files, cancellation),
        }
    }
}
