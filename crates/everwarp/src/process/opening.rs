//! A device that is opened while the modules of a host are translated.

use std::thread::JoinHandle;

use everwarp_process::StartError;
use everwarp_runtime::trace::spanned;
use everwarp_runtime::{Device, EngineKind, Error, Select};

/// An NVIDIA GPU that a thread opens. It takes the driver two tenths of a second.
pub(super) struct Opening {
    thread: Option<JoinHandle<Result<Device, Error>>>,
}

impl Opening {
    fn begin() -> Self {
        let open = || spanned("device: open", || Device::open(Select::Cuda));
        let thread = std::thread::Builder::new().name("everwarp-opener".into());
        Self {
            // Without a thread it is opened when it is needed.
            thread: thread.spawn(open).ok(),
        }
    }

    fn wait(&mut self) -> Result<Device, Error> {
        match self.thread.take() {
            Some(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Device::open(Select::Cuda),
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        // A driver that is being started must not be unloaded.
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// The device that a host starts on.
pub(super) enum Source {
    Opened(Device),
    Opening(Opening),
}

impl Source {
    /// Begins to open a device.
    ///
    /// # Errors
    /// There is none, or it is not known yet.
    pub(super) fn open(select: Select) -> Result<Self, StartError> {
        match select {
            Select::Cuda => Ok(Self::Opening(Opening::begin())),
            other => Device::open(other).map(Self::Opened).map_err(not_open),
        }
    }

    pub(super) fn kind(&self) -> EngineKind {
        match self {
            Self::Opened(device) => device.kind(),
            Self::Opening(_) => EngineKind::Cuda,
        }
    }

    /// Reports that the device cannot be opened, if that is known already.
    pub(super) fn check(&mut self) -> Result<(), StartError> {
        let Self::Opening(opening) = self else {
            return Ok(());
        };
        if opening.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            *self = Self::Opened(opening.wait().map_err(not_open)?);
        }
        Ok(())
    }

    /// The device, as soon as it is open.
    pub(super) fn device(self) -> Result<Device, StartError> {
        match self {
            Self::Opened(device) => Ok(device),
            Self::Opening(mut opening) => opening.wait().map_err(not_open),
        }
    }
}

fn not_open(error: Error) -> StartError {
    StartError::Engine(Box::new(error))
}
