//! The service of this user, which keeps engines resident.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};

use everwarp_process::sync::lock;
use everwarp_process::{HostConfig, InputLines, Module, ProcessEngine, StartError};
use everwarp_runtime::trace::spanned;
use everwarp_runtime::{EngineKind, Select};
use everwarp_service::{
    ClientConnection, ClientFiles, ConnectError, Folder, Purpose, Wanted, connect_in,
};

use crate::process::{HostBuilder, Place};

/// Why a service cannot be used, or was not started.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ServiceError(#[from] Inner);

#[derive(Debug, thiserror::Error)]
enum Inner {
    #[error(transparent)]
    Connect(ConnectError),
    #[error("the service did not start: {0}")]
    NotStarted(String),
}

impl ServiceError {
    /// Whether the folder of the socket is not one that only this user can use.
    #[doc(hidden)]
    pub fn is_folder(&self) -> bool {
        matches!(self.0, Inner::Connect(ConnectError::Folder(_)))
    }
}

/// The service of this user: `everwarp up` has started it, and it keeps engines resident.
///
/// A [`Host`](crate::process::Host) that is started through [`host`](Self::host) runs its processes in the service, on an
/// engine that is there already. Everything else is as on a [`Device`](crate::Device): the processes write to this
/// program's standard streams, and they end when the host is dropped or this program ends. Several programs share an
/// engine, and none sees the processes of another.
///
/// ```no_run
/// use everwarp::process::{Command, Module};
/// use everwarp::{Select, Service};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hello = Module::from_file("hello.wasm")?;
/// let Some(service) = Service::connect(Select::Auto)? else {
///     return Err("start the service with `everwarp up`".into());
/// };
/// let host = service.host().module(&hello).start()?;
/// assert!(Command::new(&host, &hello).arg("world").status()?.success());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Service {
    folder: Folder,
    wanted: Wanted,
    kind: EngineKind,
    os_pid: u32,
    program: String,
    /// The connection for the next host.
    connection: Mutex<Option<ClientConnection>>,
}

/// The standard input of this program, for processes that inherit it.
fn own_stdin() -> io::Result<std::os::fd::OwnedFd> {
    io::stdin().as_fd().try_clone_to_owned()
}

impl Service {
    /// The processes of one request to which a service gives [events](crate::process::Command::events).
    pub const EVENTS_MOST: u32 = everwarp_service::EVENTS_MOST;

    /// Connects to the service of this user; `None` if none is up. [`Select::Auto`] takes a GPU if the service has one.
    ///
    /// # Errors
    /// A service is up and cannot be used: it speaks another version of the protocol, has no such engine, or has too many
    /// clients.
    pub fn connect(select: Select) -> Result<Option<Self>, ServiceError> {
        Self::connect_in(Folder::of_user(), select)
    }

    /// Connects to the service of this user, and starts one with `everwarp up --detach` if none is up. The command must be
    /// in a folder of `PATH`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), or the command cannot be started or says why there is no service.
    pub fn start(select: Select) -> Result<Self, ServiceError> {
        if let Some(service) = Self::connect(select)? {
            return Ok(service);
        }
        let up = std::process::Command::new("everwarp")
            .args(["up", "--detach"])
            .stdin(std::process::Stdio::null())
            .output();
        let reason = match up {
            Ok(up) if up.status.success() => match Self::connect(select)? {
                Some(service) => return Ok(service),
                None => "it has ended at once".to_owned(),
            },
            // Another program may have started one at the same moment.
            Ok(up) => match Self::connect(select)? {
                Some(service) => return Ok(service),
                None => String::from_utf8_lossy(&up.stderr).trim().to_owned(),
            },
            Err(error) => format!("the command `everwarp`: {error}"),
        };
        Err(ServiceError(Inner::NotStarted(reason)))
    }

    /// Connects to the service of a folder. Not a stable API.
    #[doc(hidden)]
    pub fn connect_in(folder: Folder, select: Select) -> Result<Option<Self>, ServiceError> {
        let wanted = match select {
            Select::Auto => Wanted::Any,
            Select::Cpu => Wanted::Cpu,
            Select::Cuda => Wanted::Cuda,
            // The service keeps no such engine, so the caller starts its own.
            Select::Wgpu => return Ok(None),
        };
        let Some(connection) = open(&folder, wanted).map_err(Inner::Connect)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            folder,
            wanted,
            kind: connection.kind(),
            os_pid: connection.os_pid(),
            program: std::env::args().next().unwrap_or_default(),
            connection: Mutex::new(Some(connection)),
        }))
    }

    /// Sets what `everwarp ps` calls the processes of this program; by default the program's name.
    #[must_use]
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.program = name.into();
        self
    }

    /// The kind of the engine that was chosen.
    pub fn kind(&self) -> EngineKind {
        self.kind
    }

    /// The process id of the service's engine.
    pub fn os_pid(&self) -> u32 {
        self.os_pid
    }

    /// Prepares a host in the service. Each host has a connection of its own.
    pub fn host(&self) -> HostBuilder<'_> {
        HostBuilder::new(Place::Service(self))
    }

    fn connection(&self) -> MutexGuard<'_, Option<ClientConnection>> {
        lock(&self.connection)
    }

    /// Lets the service read the lines of a file, for processes of the next host.
    /// [`StartWriter::stdin_line`](crate::process::StartWriter::stdin_line) gives one to a process.
    ///
    /// # Errors
    /// The file cannot be read, or the service has ended.
    pub fn lines(&self, file: &File) -> io::Result<InputLines> {
        let mut connection = self.connection();
        if connection.is_none() {
            *connection = Some(self.reopen().map_err(|e| io::Error::other(e.to_string()))?);
        }
        match &*connection {
            Some(connection) => connection.lines(file),
            None => unreachable!("it was opened"),
        }
    }

    /// Runs a native program. Not a stable API.
    #[doc(hidden)]
    pub fn native(
        &self,
        body: Vec<u8>,
        files: &[std::os::fd::BorrowedFd<'_>],
    ) -> Result<Vec<u8>, everwarp_process::HostError> {
        let connection = self.connection().take();
        let connection = match connection {
            Some(connection) => Ok(connection),
            None => self.reopen(),
        };
        let lost = |error: StartError| everwarp_process::HostError::Lost {
            reason: error.to_string(),
        };
        let reply = connection.map_err(lost)?.native(body.into(), files)?;
        Ok(reply.to_vec())
    }

    fn reopen(&self) -> Result<ClientConnection, StartError> {
        let connection = open(&self.folder, self.wanted);
        let connection = connection.map_err(|error| StartError::Service(error.to_string()))?;
        connection.ok_or_else(|| StartError::Service("the service has ended".to_owned()))
    }

    /// Starts a host, and returns the name of its device too.
    pub(crate) fn start_host(
        &self,
        modules: &[Module],
        config: &HostConfig,
    ) -> Result<(Arc<dyn ProcessEngine>, String), StartError> {
        let connection = self.connection().take();
        let connection = match connection {
            Some(connection) => connection,
            None => self.reopen()?,
        };
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let files = ClientFiles {
            stdin: stdin.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
        };
        let engine = connection.start(files, &self.program, modules, config)?;
        let device = engine.device_name().to_owned();
        Ok((Arc::new(engine), device))
    }
}

fn open(folder: &Folder, wanted: Wanted) -> Result<Option<ClientConnection>, ConnectError> {
    let connected = spanned("client: connect", || {
        connect_in(folder, Purpose::Processes, wanted)
    })?;
    let Some(connected) = connected else {
        return Ok(None);
    };
    let system = |source| ConnectError::Socket {
        path: folder.socket(),
        source,
    };
    let stdin = own_stdin().map_err(system)?;
    let connection = ClientConnection::new(connected, stdin).map_err(system)?;
    Ok(Some(connection))
}
