//! The error that a program may return from `main`.

use everwarp_process::{ChannelError, HostError, LoadError, OutputError, SpawnError, StartError};

/// Any error of this module, and of opening a device. Each function returns the narrower type; `?` converts it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device cannot be opened.
    #[error(transparent)]
    Device(#[from] everwarp_runtime::Error),
    /// The bytes are no module that can be a process.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The host did not start, or did not load a module.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A process did not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The host failed, or does not know a process.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A message was not sent or received.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// Output of processes was lost.
    #[error(transparent)]
    Output(#[from] OutputError),
}
