//! The engine of the service as a process engine of this program.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Deref};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use everwarp_engine::EngineKind;
use everwarp_engine::sync::lock;
use everwarp_engine::trace::spanned;
use everwarp_process::{
    AddressRule, ChannelError, Exit, Grants, HostConfig, HostError, Input, InputLines, Listing,
    LoadConfig, LoadedModule, Module, ModuleId, OutputErrors, Pid, ProcessEngine, Receiver, Sender,
    SpawnError, SpawnRequest, StartError,
};

use super::channel::RemoteEnd;
use super::connection::Connection;
use crate::connect::Connected;
use crate::convert::kind_of;
use crate::protocol::{DirectoryGrant, InputGrant, NetworkGrant, Reply, SharedGrants, ToEngine};
use crate::records::{Records, RemoteLines, no_sockets};

/// The bytes of one part of a request's data.
const PART: usize = 512 << 10;
/// The pids of one request for exits.
const PIDS: usize = 64 << 10;

/// The processes of one request to which a service gives events: each takes a descriptor of the request's message.
pub const EVENTS_MOST: u32 = 64;

/// A stream of events for each process of a request, which this program serves.
fn open_streams(
    request: &SpawnRequest<'_>,
) -> Result<Vec<everwarp_process::Connection>, SpawnError> {
    let Some(events) = &request.grants.events else {
        return Ok(Vec::new());
    };
    if request.count > EVENTS_MOST {
        return Err(SpawnError::Service(format!(
            "a service gives events to {EVENTS_MOST} processes of a request, not to {}: start fewer, or add --alone",
            request.count
        )));
    }
    let streams: io::Result<Vec<_>> = (0..request.count).map(|_| events.open()).collect();
    streams.map_err(|error| SpawnError::Service(format!("no stream of events: {error}")))
}

/// The standard streams that a client passes on.
#[derive(Clone, Copy, Debug)]
pub struct ClientFiles<'f> {
    /// Standard input.
    pub stdin: BorrowedFd<'f>,
    /// Standard output.
    pub stdout: BorrowedFd<'f>,
    /// Standard error.
    pub stderr: BorrowedFd<'f>,
}

/// The owner of a connection, which ends it.
#[derive(Debug)]
struct Link(Arc<Connection>);

impl Deref for Link {
    type Target = Arc<Connection>;
    fn deref(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A connection to an engine of the service that has started nothing yet.
#[derive(Debug)]
pub struct ClientConnection {
    connection: Link,
    kind: EngineKind,
    os_pid: u32,
    /// How many sets of lines the service has read.
    sets: Mutex<u32>,
}

/// An engine of the service, with the processes that this program has started there.
pub struct ClientEngine {
    connection: Link,
    kind: EngineKind,
    device: String,
    widths: Mutex<Vec<u32>>,
}

impl fmt::Debug for ClientEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientEngine({} of the service)", self.kind)
    }
}

fn start_error(error: HostError) -> StartError {
    StartError::Service(error.to_string())
}

/// A module's bytes as a file that another program can read.
fn module_file(module: &Module) -> io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("module", flags)?);
    io::Write::write_all(&mut file, module.bytes())?;
    Ok(file)
}

fn module_error(source: io::Error) -> StartError {
    StartError::System {
        what: "the module's bytes in memory".to_owned(),
        source,
    }
}

impl ClientConnection {
    /// Uses a socket that has been greeted. Processes that inherit standard input get the bytes of `stdin`.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn new(connected: Connected, stdin: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            connection: Link(Connection::start(connected.socket, stdin)?),
            kind: connected.kind,
            os_pid: connected.os_pid,
            sets: Mutex::new(0),
        })
    }

    /// The kind of the engine.
    pub fn kind(&self) -> EngineKind {
        self.kind
    }

    /// The process that serves the connection.
    pub fn os_pid(&self) -> u32 {
        self.os_pid
    }

    /// Lets the service read the lines of a file, for processes of this connection.
    ///
    /// # Errors
    /// The system's, in the service.
    pub fn lines(&self, file: &File) -> io::Result<InputLines> {
        let failed = |error: HostError| io::Error::other(error.to_string());
        // The sets are numbered in the order of the requests.
        let mut sets = lock(&self.sets);
        let make = |request| ToEngine::ReadLines { request };
        let request = self.connection.request(make, &[file.as_fd()]);
        let request = request.map_err(failed)?;
        let Reply::LinesRead { result } = request.reply().map_err(failed)? else {
            return Err(failed(self.connection.garbled("another reply")));
        };
        let counts = result?;
        let set = *sets;
        *sets += 1;
        Ok(InputLines::new(RemoteLines {
            set,
            lines: counts.lines,
            bytes: counts.bytes,
        }))
    }

    /// Runs a native program. `files` are those that the request names.
    ///
    /// # Errors
    /// [`HostError::Lost`]: the service has ended.
    pub fn native(&self, body: Bytes, files: &[BorrowedFd<'_>]) -> Result<Bytes, HostError> {
        let make = |request| ToEngine::Native { request, body };
        let request = self.connection.request(make, files)?;
        match request.reply()? {
            Reply::NativeDone { body } => Ok(body),
            _ => Err(self.connection.garbled("another reply")),
        }
    }

    /// Starts a host.
    ///
    /// # Errors
    /// The service refuses a module or a setting, or has ended.
    pub fn start(
        self,
        files: ClientFiles<'_>,
        program: &str,
        modules: &[Module],
        config: &HostConfig,
    ) -> Result<ClientEngine, StartError> {
        let opened: Vec<File> = modules
            .iter()
            .map(|module| module_file(module).map_err(module_error))
            .collect::<Result<_, _>>()?;
        let mut passed = vec![files.stdin, files.stdout, files.stderr];
        passed.extend(opened.iter().map(AsFd::as_fd));
        let names = modules.iter().map(|m| m.name().to_owned()).collect();
        let make = |request| ToEngine::Start {
            request,
            host: config.into(),
            modules: names,
            program: program.to_owned(),
        };
        let connection = self.connection;
        let reply = connection
            .request(make, &passed)
            .and_then(|request| request.reply());
        let Reply::Started { result } = reply.map_err(start_error)? else {
            return Err(start_error(connection.garbled("another reply")));
        };
        let started = result?;
        Ok(ClientEngine {
            connection,
            kind: kind_of(started.cuda),
            device: started.device,
            widths: Mutex::new(started.widths),
        })
    }
}

impl ClientEngine {
    /// The name of the device.
    pub fn device_name(&self) -> &str {
        &self.device
    }

    /// What `count` processes get together.
    fn shared(&self, grants: &Grants, count: u32) -> Result<SharedGrants, SpawnError> {
        let end = |end: &everwarp_process::ChannelEnd| {
            let remote = end.endpoint().as_any().downcast_ref::<RemoteEnd>();
            let number = remote.and_then(|remote| remote.number_on(&self.connection));
            number.ok_or(SpawnError::ForeignEnd)
        };
        let directory = |directory: &everwarp_process::Directory| DirectoryGrant {
            path: directory.path().to_string_lossy().into_owned(),
            guest: directory.guest().to_owned(),
            read_only: directory.is_read_only(),
        };
        if grants.launcher.is_some() {
            return Err(no_sockets());
        }
        let texts = |rules: &[AddressRule]| rules.iter().map(AddressRule::to_string).collect();
        let network = grants.network.as_ref().map(|network| NetworkGrant {
            connect: texts(network.connect_rules()),
            bind: texts(network.bind_rules()),
            reports: network.is_reporting(),
        });
        Ok(SharedGrants {
            directories: grants.directories.iter().map(directory).collect(),
            listeners: grants.listeners.len() as u32,
            network,
            events: if grants.events.is_some() { count } else { 0 },
            stdin: match &grants.stdin {
                Input::Empty => InputGrant::Empty,
                Input::Inherit => InputGrant::Inherit,
                Input::Bytes(bytes) => InputGrant::Bytes { count: bytes.len() },
            },
            stdout: grants.stdout.into(),
            stderr: grants.stderr.into(),
            fuel: grants.fuel,
            handles: grants.handles,
            ends: grants.ends.iter().map(end).collect::<Result<_, _>>()?,
        })
    }

    fn wait_part(&self, pids: &[Pid], each: &mut dyn FnMut(Pid, Exit)) -> Result<(), HostError> {
        let pids = pids.to_vec();
        let make = |request| ToEngine::WaitEach { request, pids };
        let request = self.connection.request(make, &[])?;
        loop {
            match request.reply()? {
                Reply::Exits { exits } => {
                    for (pid, exit) in exits {
                        each(pid, self.connection.waits.complete(pid, exit));
                    }
                }
                Reply::WaitedEach { result } => return result.map_err(Into::into),
                _ => return Err(self.connection.garbled("another reply")),
            }
        }
    }

    fn ask_for(&self, pid: Pid) -> Result<(), HostError> {
        match self.connection.waits.register(pid) {
            true => self.connection.tell(&ToEngine::Wait { pid }),
            false => Ok(()),
        }
    }
}

impl ProcessEngine for ClientEngine {
    fn kind(&self) -> EngineKind {
        self.kind
    }

    fn width(&self, module: ModuleId) -> u32 {
        let widths = lock(&self.widths);
        widths.get(module.0 as usize).copied().unwrap_or(0)
    }

    fn load(&self, module: &Module, config: &LoadConfig) -> Result<LoadedModule, StartError> {
        let file = module_file(module).map_err(module_error)?;
        let make = |request| ToEngine::Load {
            request,
            name: module.name().to_owned(),
            settings: config.into(),
        };
        let request = self.connection.request(make, &[file.as_fd()]);
        let reply = request.and_then(|request| request.reply());
        let Reply::Loaded { result } = reply.map_err(start_error)? else {
            return Err(start_error(self.connection.garbled("another reply")));
        };
        let loaded = result?;
        let mut widths = lock(&self.widths);
        let index = loaded.id as usize;
        // Modules are numbered in the order of loading.
        if index >= widths.len() {
            widths.resize(index.min(1 << 20) + 1, 0);
        }
        if let Some(width) = widths.get_mut(index) {
            *width = loaded.width;
        }
        Ok(LoadedModule::new(
            ModuleId(loaded.id),
            loaded.compiling,
            loaded.pause,
        ))
    }

    fn spawn(&self, request: &SpawnRequest<'_>) -> Result<(), SpawnError> {
        let grants = self.shared(request.grants, request.count)?;
        let streams = open_streams(request)?;
        if let Some(network) = &request.grants.network {
            self.connection.report_to(network);
        }
        let records = spanned("client: write records", || {
            Records::of_all(request.count, request.write)
        })?;
        let shared_input = match &request.grants.stdin {
            Input::Bytes(bytes) => bytes.clone(),
            _ => Bytes::new(),
        };
        let data = std::iter::once(&shared_input[..]).chain(records.iter().map(|r| &r.bytes[..]));
        let total = data.clone().map(|part| part.len() as u64).sum();
        let directories = request.grants.directories.iter();
        let listeners = request.grants.listeners.iter();
        let listeners = listeners.map(|listener| listener.socket().as_fd());
        let files: Vec<_> = directories
            .map(|d| d.handle().as_fd())
            .chain(listeners)
            .chain(streams.iter().map(|stream| stream.socket().as_fd()))
            .collect();
        let make = |number| ToEngine::Spawn {
            request: number,
            module: request.module.0,
            count: request.count,
            grants,
            data: total,
        };
        let asked = self.connection.request(make, &files)?;
        // A stream ends with its process, so nothing here may keep it open.
        drop(files);
        drop(streams);
        for part in data.flat_map(|part| part.chunks(PART)) {
            self.connection.tell(&ToEngine::SpawnData {
                request: asked.number,
                bytes: Bytes::copy_from_slice(part),
            })?;
        }
        let mut stopped = false;
        loop {
            match asked.reply()? {
                Reply::Pids { first, pids } => {
                    let flow = (request.started)(first, &pids);
                    if flow == ControlFlow::Break(()) && !stopped {
                        stopped = true;
                        let request = asked.number;
                        self.connection.tell(&ToEngine::StopSpawn { request })?;
                    }
                }
                Reply::Spawned { result } => return result.map_err(Into::into),
                _ => return Err(self.connection.garbled("another reply").into()),
            }
        }
    }

    fn wait(&self, pid: Pid, timeout: Option<Duration>) -> Result<Exit, HostError> {
        self.ask_for(pid)?;
        self.connection.waits.wait(pid, timeout)
    }

    fn wait_each(&self, pids: &[Pid], each: &mut dyn FnMut(Pid, Exit)) -> Result<(), HostError> {
        for part in pids.chunks(PIDS) {
            self.wait_part(part, each)?;
        }
        Ok(())
    }

    fn poll_wait(&self, pid: Pid, cx: &mut Context<'_>) -> Poll<Result<Exit, HostError>> {
        if let Err(error) = self.ask_for(pid) {
            return Poll::Ready(Err(error));
        }
        self.connection.waits.poll(pid, cx.waker())
    }

    fn kill(&self, pid: Pid) -> Result<bool, HostError> {
        match self
            .connection
            .ask(|request| ToEngine::Kill { request, pid })?
        {
            Reply::Killed { result } => result.map_err(Into::into),
            _ => Err(self.connection.garbled("another reply")),
        }
    }

    fn kill_all(&self) -> Result<(), HostError> {
        match self
            .connection
            .ask(|request| ToEngine::KillAll { request })?
        {
            Reply::Killed { result } => result.map(drop).map_err(Into::into),
            _ => Err(self.connection.garbled("another reply")),
        }
    }

    fn list(&self, limit: usize) -> Result<Listing, HostError> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let make = |request| ToEngine::List { request, limit };
        let request = self.connection.request(make, &[])?;
        let mut listing = Listing::default();
        loop {
            match request.reply()? {
                Reply::Rows { rows } => listing.rows.extend(rows.into_iter().map(Into::into)),
                Reply::Listed { result } => {
                    let counts = result?;
                    return Ok(Listing {
                        waiting: counts.waiting,
                        running: counts.running,
                        ended: counts.ended,
                        ..listing
                    });
                }
                _ => return Err(self.connection.garbled("another reply")),
            }
        }
    }

    fn pause(&self) -> Result<Duration, HostError> {
        match self.connection.ask(|request| ToEngine::Pause { request })? {
            Reply::Paused { result } => result.map_err(Into::into),
            _ => Err(self.connection.garbled("another reply")),
        }
    }

    fn hold_output(&self, held: bool) -> Result<(), HostError> {
        let make = |request| ToEngine::HoldOutput { request, held };
        match self.connection.ask(make)? {
            Reply::Done => Ok(()),
            _ => Err(self.connection.garbled("another reply")),
        }
    }

    fn channel(&self, capacity: u32, bytes: u32) -> Result<(Sender, Receiver), ChannelError> {
        let make = |request| ToEngine::MakeChannel {
            request,
            capacity,
            bytes,
        };
        let lost = |error: HostError| ChannelError::Lost(error.to_string());
        let Reply::ChannelMade { result } = self.connection.ask(make).map_err(lost)? else {
            return Err(lost(self.connection.garbled("another reply")));
        };
        let (sender, receiver) = result?;
        let end = |number| Box::new(RemoteEnd::new(&self.connection, number));
        Ok((Sender::new(end(sender)), Receiver::new(end(receiver))))
    }

    fn output_errors(&self) -> &OutputErrors {
        &self.connection.errors
    }
}
