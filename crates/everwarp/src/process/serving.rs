//! The engine of a service's child. Not a stable API.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use everwarp_process::{HostConfig, HostStreams, InputLines, Module, ProcessEngine, StartError};
use everwarp_process_cuda::{ResidentConfig, ResidentProcesses};
use everwarp_runtime::{Device, EngineKind};
pub use everwarp_service::*;

use super::builder::start_engine;
use super::lines::{read_lines, read_plain_lines};

/// Runs a native program: the request of the client's command, and the files that it names.
pub type Native = dyn Fn(&Device, &[u8], Vec<OwnedFd>) -> Vec<u8> + Send + Sync;

/// A device that serves clients.
pub struct DeviceBackend {
    device: Device,
    native: Box<Native>,
    /// On a GPU, the engine that the hosts of all clients share.
    resident: Option<Arc<ResidentProcesses>>,
}

impl DeviceBackend {
    /// Serves with a device. On a GPU this starts the engine.
    ///
    /// # Errors
    /// The engine cannot be started.
    pub fn new(device: Device, native: Box<Native>) -> Result<Self, StartError> {
        let resident = match device.kind() {
            EngineKind::Cpu | EngineKind::Wgpu => None,
            EngineKind::Cuda => Some(ResidentProcesses::start(
                &device,
                ResidentConfig::default(),
            )?),
        };
        Ok(Self {
            device,
            native,
            resident,
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
        match &self.resident {
            None => start_engine(&self.device, modules, config, Some(streams)),
            Some(resident) => Ok(Arc::new(resident.open(modules, config, Some(streams))?)),
        }
    }

    fn lines(&self, file: File) -> io::Result<InputLines> {
        match &self.resident {
            None => read_lines(file, &self.device),
            // Page-locked memory cannot be had next to a resident engine.
            Some(_) => read_plain_lines(file),
        }
    }

    fn native(&self, body: &[u8], files: Vec<OwnedFd>) -> Vec<u8> {
        (self.native)(&self.device, body, files)
    }
}
