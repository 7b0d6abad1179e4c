//! The engine of a service's child. Not a stable API.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use everwarp_process::{HostConfig, HostStreams, InputLines, Module, ProcessEngine, StartError};
use everwarp_runtime::{Device, EngineKind};
pub use everwarp_service::*;

use super::builder::start_engine;
use super::exclusive::{Exclusive, Permit, Turn};
use super::lines::{read_lines, read_plain_lines};

/// Runs a native program: the request of the client's command, and the files that it names. It ends when the client has
/// gone.
pub type Native = dyn Fn(&Device, &[u8], Vec<OwnedFd>, &Cancellation) -> Vec<u8> + Send + Sync;

/// A device that serves clients.
pub struct DeviceBackend {
    device: Device,
    native: Box<Native>,
    turn: Arc<Turn>,
}

impl DeviceBackend {
    /// Serves with a device.
    pub fn new(device: Device, native: Box<Native>) -> Self {
        Self {
            device,
            native,
            turn: Arc::default(),
        }
    }

    /// The right to start an engine; the CPU engine needs none.
    fn permit(&self) -> Option<Permit> {
        (self.device.kind() == EngineKind::Cuda).then(|| self.turn.take())
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
        let permit = self.permit();
        let engine = start_engine(&self.device, modules, config, Some(streams))?;
        Ok(match permit {
            None => engine,
            Some(permit) => Arc::new(Exclusive {
                engine,
                _permit: permit,
            }),
        })
    }

    fn lines(&self, file: File) -> io::Result<InputLines> {
        // Page-locked memory cannot be had while an engine is resident.
        match self.device.kind() == EngineKind::Cuda {
            true => match self.turn.try_take() {
                Some(_permit) => read_lines(file, &self.device),
                None => read_plain_lines(file),
            },
            false => read_lines(file, &self.device),
        }
    }

    fn native(&self, body: &[u8], files: Vec<OwnedFd>, cancellation: &Cancellation) -> Vec<u8> {
        let _permit = self.permit();
        (self.native)(&self.device, body, files, cancellation)
    }
}
