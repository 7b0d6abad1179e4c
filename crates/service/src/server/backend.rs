//! What a program must provide to serve clients with an engine.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use everwarp_engine::EngineKind;
use everwarp_process::{HostConfig, HostStreams, InputLines, Module, ProcessEngine, StartError};

use super::cancellation::Cancellation;

/// An engine that serves clients.
pub trait Backend: Send + Sync {
    /// The kind of the engine.
    fn kind(&self) -> EngineKind;

    /// The name of its device.
    fn device_name(&self) -> String;

    /// Starts a host for a client.
    ///
    /// # Errors
    /// A module or a setting is refused, or the engine has failed.
    fn start(
        &self,
        modules: &[Module],
        config: &HostConfig,
        streams: &HostStreams,
    ) -> Result<Arc<dyn ProcessEngine>, StartError>;

    /// Reads the lines of a file to where the engine can use them.
    ///
    /// # Errors
    /// The system's.
    fn lines(&self, file: File) -> io::Result<InputLines>;

    /// Why the engine has failed for good, if it has: its process ends then, and the service starts another one.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Runs a native program. `body` is the request of the client's command, and `files` are the files that it names. The
    /// program ends when its client has gone.
    ///
    /// # Errors
    /// The client has gone, or the program's process has died.
    fn native(
        &self,
        body: &[u8],
        files: Vec<OwnedFd>,
        cancellation: &Cancellation,
    ) -> io::Result<Vec<u8>>;
}

/// What each client may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Clients at the same time.
    pub clients: u32,
    /// Processes that have started or wait, and have not been waited for.
    pub processes: u32,
    /// Bytes of memory that each process may have at most, if it is limited at all.
    pub process_memory: Option<u64>,
    /// Bytes of arguments, variables and standard input on their way to processes.
    pub input_bytes: u64,
    /// Bytes of a captured stream of one process.
    pub capture_bytes: u64,
    /// Bytes of linear memory and tables of all processes that run at the same time, if they are limited.
    pub memory: Option<u64>,
    /// Bytes of captured output that the client has not received.
    pub output_bytes: u64,
    /// Sockets that processes of the CPU engine have opened or accepted: descriptors are the whole service's.
    pub sockets: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            clients: 1024,
            processes: 1 << 22,
            process_memory: None,
            input_bytes: 4 << 30,
            capture_bytes: 1 << 30,
            memory: None,
            output_bytes: 4 << 30,
            sockets: 4096,
        }
    }
}
