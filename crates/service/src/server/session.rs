//! One client and its processes.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Scope;
use std::time::Instant;

use everwarp_engine::sync::lock;
use everwarp_engine::trace::{span, spanned};
use everwarp_process::{
    Budget, ChannelEnd, ChannelError, Directory, Grants, HostBudgets, HostConfig, HostStreams,
    Input, InputLines, Listener, Listing, LoadConfig, Module, ModuleId, Output, Pid, ProcessEngine,
    StartError,
};

use super::backend::{Backend, Quotas};
use super::cancellation::Cancellation;
use super::modules::{ModuleCache, read_file};
use super::output::{ClientOutput, OutputGate};
use super::requests::{Instances, PendingSpawn, reply, send_captured, wait_each};
use super::stdin::ClientInput;
use super::waits::WaitQueue;
use crate::log::{Level, log};
use crate::protocol::{
    ChannelFault, Counts, FromEngine, HostFault, HostSettings, InputGrant, LineCounts,
    LoadSettings, LoadedProgram, OutputGrant, ProcessExit, Reply, Row, SharedGrants, SpawnFault,
    StartFault, StartedHost, SystemError, ToEngine, body,
};
use crate::wire::codec::decoded;
use crate::wire::socket::{Frame, FrameReceiver, FrameSender, shut_down};

/// Requests of one client that may be under way at the same time, each with a thread.
const REQUESTS_MOST: usize = 256;
/// Sets of lines and channel ends of one client.
const SETS_MOST: usize = 1024;
const ENDS_MOST: usize = 1 << 16;
/// The rows of one message.
const ROWS_MOST: usize = 4 << 10;

/// A descriptor that a client has passed as a listener. A TCP socket that does not listen is none, nor is anything else.
fn listener(file: OwnedFd) -> io::Result<Listener> {
    match rustix::net::sockopt::socket_acceptconn(&file)? {
        // A listener of another family has no address of this one.
        true => Listener::from_std(file.into()),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// What all sessions of an engine share.
pub(crate) struct SessionSettings {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) quotas: Quotas,
    pub(crate) modules: ModuleCache,
}

/// A client and its processes.
pub(crate) struct Session {
    /// The process id of the client.
    pub(crate) client: u32,
    begin: Instant,
    settings: Arc<SessionSettings>,
    socket: Arc<OwnedFd>,
    sender: Arc<FrameSender>,
    host: OnceLock<SessionHost>,
    lines: Mutex<Vec<InputLines>>,
    /// Processes that have started and have not been waited for.
    live: AtomicU32,
    requests: AtomicUsize,
    instances: Instances,
    ending: AtomicBool,
    /// Ends the native program that the client runs.
    cancellation: Arc<Cancellation>,
    budgets: Arc<HostBudgets>,
}

/// What exists once a client has started its host.
struct SessionHost {
    engine: Arc<dyn ProcessEngine>,
    program: String,
    input: Arc<ClientInput>,
    gate: Arc<OutputGate>,
    waits: Arc<WaitQueue>,
    ends: Mutex<HashMap<u32, Arc<ChannelEnd>>>,
    next_end: AtomicU32,
    waiting: AtomicBool,
    /// Bytes of data on their way to processes.
    data: AtomicU64,
}

/// Why a client is not served any longer.
#[derive(Debug)]
pub(crate) struct Misbehaved(pub(crate) String);

fn host_fault(error: &everwarp_process::HostError) -> HostFault {
    error.into()
}

/// Why a native request is refused.
const STARTED: &str = "a message that belongs before the start of a host";

impl Session {
    pub(crate) fn new(socket: OwnedFd, client: u32, settings: &Arc<SessionSettings>) -> Arc<Self> {
        let socket = Arc::new(socket);
        Arc::new(Self {
            client,
            begin: Instant::now(),
            settings: Arc::clone(settings),
            sender: Arc::new(FrameSender::new(Arc::clone(&socket))),
            socket,
            host: OnceLock::new(),
            lines: Mutex::default(),
            live: AtomicU32::new(0),
            requests: AtomicUsize::new(0),
            instances: Instances::default(),
            ending: AtomicBool::new(false),
            cancellation: Arc::default(),
            budgets: Arc::new(HostBudgets {
                memory: Budget::new(settings.quotas.memory.unwrap_or(u64::MAX)),
                output: Budget::new(settings.quotas.output_bytes),
            }),
        })
    }

    /// What the client calls its program; empty until it has started a host.
    pub(crate) fn program(&self) -> &str {
        self.host.get().map_or("", |host| &host.program)
    }

    /// Seconds since the client has connected.
    pub(crate) fn age_s(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// The client's processes, and their numbers in the client's requests.
    pub(crate) fn list(&self, limit: usize) -> Result<(Listing, HashMap<Pid, u32>), String> {
        let Some(host) = self.host.get() else {
            return Ok((Listing::default(), HashMap::new()));
        };
        let listing = host.engine.list(limit).map_err(|e| e.to_string())?;
        let instances = lock(&self.instances);
        let numbers = listing.rows.iter();
        let numbers = numbers.filter_map(|row| Some((row.pid, *instances.get(&row.pid)?)));
        let numbers = numbers.collect();
        drop(instances);
        Ok((listing, numbers))
    }

    /// Asks a process of the client to end; `false` if there is none with this pid.
    pub(crate) fn kill(&self, pid: Pid) -> Result<bool, String> {
        match self.host.get() {
            Some(host) => host.engine.kill(pid).map_err(|e| e.to_string()),
            None => Ok(false),
        }
    }

    /// Ends the session from outside.
    pub(crate) fn shut_down(&self) {
        shut_down(&self.socket);
    }

    /// Serves the client until it has gone, and ends its processes.
    pub(crate) fn serve(self: &Arc<Self>) -> Result<(), Misbehaved> {
        let mut receiver = FrameReceiver::new(Arc::clone(&self.socket));
        std::thread::scope(|scope| {
            let mut pending = HashMap::new();
            let served = loop {
                match receiver.receive() {
                    Ok(None) => break Ok(()),
                    Ok(Some(frame)) => {
                        if let Err(misbehaved) = self.dispatch(frame, &mut pending, scope) {
                            break Err(misbehaved);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        break Err(Misbehaved(error.to_string()));
                    }
                    // The client has died in the middle of a message.
                    Err(_) => break Ok(()),
                }
            };
            self.end(&pending);
            served
        })
    }

    /// Ends what the client has started. Threads of the session return.
    fn end(&self, pending: &HashMap<u32, PendingSpawn>) {
        let _span = span("service: end a session");
        self.ending.store(true, Ordering::Release);
        for spawn in pending.values() {
            spawn.stop.store(true, Ordering::Release);
        }
        self.shut_down();
        self.cancellation.cancel();
        let Some(host) = self.host.get() else { return };
        host.gate.close();
        host.input.end();
        host.waits.close();
        lock(&host.ends).clear();
        // If the engine has failed, its processes have ended.
        drop(host.engine.kill_all());
    }

    fn reply(&self, request: u32, with: Reply) {
        reply(&self.sender, request, with);
    }

    fn host(&self) -> Result<&SessionHost, Misbehaved> {
        let missing = || Misbehaved("a message that belongs after the start of a host".to_owned());
        self.host.get().ok_or_else(missing)
    }

    /// Runs `work` on a thread of its own.
    fn run<'s, 'e>(
        self: &Arc<Self>,
        scope: &'s Scope<'s, 'e>,
        work: impl FnOnce(&Self) + Send + 's,
    ) -> Result<(), Misbehaved> {
        let under_way = self.requests.fetch_add(1, Ordering::AcqRel);
        if under_way >= REQUESTS_MOST {
            let text = format!("more than {REQUESTS_MOST} requests at the same time");
            return Err(Misbehaved(text));
        }
        let session = Arc::clone(self);
        let builder = std::thread::Builder::new().name("request".to_owned());
        let spawned = builder.spawn_scoped(scope, move || {
            work(&session);
            session.requests.fetch_sub(1, Ordering::AcqRel);
        });
        match spawned {
            Ok(_) => Ok(()),
            Err(error) => Err(Misbehaved(format!("a thread for its request: {error}"))),
        }
    }

    fn dispatch<'s, 'e>(
        self: &Arc<Self>,
        frame: Frame,
        pending: &mut HashMap<u32, PendingSpawn>,
        scope: &'s Scope<'s, 'e>,
    ) -> Result<(), Misbehaved> {
        let files = frame.descriptors;
        let message = decoded(&frame.body).map_err(|error| Misbehaved(error.to_string()))?;
        match message {
            ToEngine::Start {
                request,
                host,
                modules,
                program,
            } => {
                if self.host.get().is_some() {
                    return Err(Misbehaved("a second host".to_owned()));
                }
                let result = self.start(host, &modules, program, files);
                let result = result.map_err(|error| StartFault::from(&error));
                self.reply(request, Reply::Started { result });
            }
            ToEngine::Native { request, body } => {
                if self.host.get().is_some() {
                    return Err(Misbehaved(STARTED.to_owned()));
                }
                self.run(scope, move |session| {
                    let cancellation = &session.cancellation;
                    match session.settings.backend.native(&body, files, cancellation) {
                        Ok(body) => {
                            let body = body.into();
                            session.reply(request, Reply::NativeDone { body });
                        }
                        Err(error) => {
                            let text = format!("client {}: a program: {error}", session.client);
                            log(Level::Info, &text);
                            session.shut_down();
                        }
                    }
                })?;
            }
            ToEngine::Load {
                request,
                name,
                settings,
            } => {
                let result = self.load(&name, settings, files)?;
                let result = result.map_err(|error| StartFault::from(&error));
                self.reply(request, Reply::Loaded { result });
            }
            ToEngine::Spawn {
                request,
                module,
                count,
                grants,
                data,
            } => {
                match self.prepare(module, count, grants, data, files)? {
                    Ok(spawn) => drop(pending.insert(request, spawn)),
                    Err(text) => {
                        let result = Err(SpawnFault::Other { text });
                        self.reply(request, Reply::Spawned { result });
                    }
                }
                self.begin_spawn(request, pending, scope)?;
            }
            ToEngine::SpawnData { request, bytes } => {
                // The data of a request that was refused comes all the same.
                if let Some(spawn) = pending.get_mut(&request) {
                    if (spawn.data.len() + bytes.len()) as u64 > spawn.expected {
                        return Err(Misbehaved("more data than was announced".to_owned()));
                    }
                    spawn.data.extend_from_slice(&bytes);
                    self.begin_spawn(request, pending, scope)?;
                }
            }
            ToEngine::StopSpawn { request } => {
                if let Some(spawn) = pending.get(&request) {
                    spawn.stop.store(true, Ordering::Release);
                }
            }
            ToEngine::Wait { pid } => self.wait(pid, scope)?,
            ToEngine::WaitEach { request, pids } => {
                self.host()?;
                self.run(scope, move |session| session.wait_each(request, &pids))?;
            }
            ToEngine::Kill { request, pid } => {
                let killed = self.host()?.engine.kill(pid);
                let result = killed.map_err(|e| host_fault(&e));
                self.reply(request, Reply::Killed { result });
            }
            ToEngine::KillAll { request } => {
                let killed = self.host()?.engine.kill_all();
                let result = killed.map(|()| true).map_err(|e| host_fault(&e));
                self.reply(request, Reply::Killed { result });
            }
            ToEngine::List { request, limit } => self.send_list(request, limit)?,
            ToEngine::Pause { request } => {
                let paused = self.host()?.engine.pause();
                let result = paused.map_err(|e| host_fault(&e));
                self.reply(request, Reply::Paused { result });
            }
            ToEngine::ReadLines { request } => self.read_lines(request, files)?,
            ToEngine::MakeChannel {
                request,
                capacity,
                bytes,
            } => {
                let result = self.make_channel(capacity, bytes)?;
                let result = result.map_err(|e| ChannelFault::from(&e));
                self.reply(request, Reply::ChannelMade { result });
            }
            ToEngine::SendMessage {
                request,
                end,
                message,
                timeout,
            } => {
                let end = self.end_of(end)?;
                self.run(scope, move |session| {
                    let sent = end.endpoint().send(&message, timeout);
                    let result = sent.map_err(|e| ChannelFault::from(&e));
                    session.reply(request, Reply::Sent { result });
                })?;
            }
            ToEngine::ReceiveMessage {
                request,
                end,
                timeout,
            } => {
                let end = self.end_of(end)?;
                self.run(scope, move |session| {
                    let received = end.endpoint().receive(timeout);
                    let result = received.map(Into::into);
                    let result = result.map_err(|e| ChannelFault::from(&e));
                    session.reply(request, Reply::Received { result });
                })?;
            }
            ToEngine::CloseEnd { end } => {
                lock(&self.host()?.ends).remove(&end);
            }
            ToEngine::Input { bytes } => {
                if !self.host()?.input.add(bytes) {
                    return Err(Misbehaved("input that was not asked for".to_owned()));
                }
            }
            ToEngine::InputEnd => self.host()?.input.end(),
            ToEngine::InputFailed { error } => self.host()?.input.fail(error),
            ToEngine::HoldOutput { request, held } => {
                self.host()?.gate.hold(held);
                self.reply(request, Reply::Done);
            }
        }
        Ok(())
    }

    /// The settings of a client within the service's limits.
    fn limited(&self, load: LoadSettings) -> LoadConfig {
        let mut load = LoadConfig::from(load);
        if let Some(most) = self.settings.quotas.process_memory {
            load.memory = Some(load.memory.map_or(most, |memory| memory.min(most)));
        }
        load
    }

    fn module(&self, name: &str, file: OwnedFd) -> Result<Module, StartError> {
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

    fn start(
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

    fn load(
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

    /// Checks a request for processes. The inner error is the client's to see.
    fn prepare(
        &self,
        module: u32,
        count: u32,
        shared: SharedGrants,
        data: u64,
        mut files: Vec<OwnedFd>,
    ) -> Result<Result<PendingSpawn, String>, Misbehaved> {
        let host = self.host()?;
        let wanted = (shared.directories.len() as u64) + u64::from(shared.listeners);
        if files.len() as u64 != wanted {
            let text = "not one file for each directory and each listener";
            return Err(Misbehaved(text.to_owned()));
        }
        let listeners = files.split_off(shared.directories.len()).into_iter();
        let listeners: io::Result<Vec<_>> = listeners.map(listener).collect();
        let Ok(listeners) = listeners else {
            return Err(Misbehaved("a listener that is none".to_owned()));
        };
        let quotas = &self.settings.quotas;
        let live = self.live.load(Ordering::Acquire);
        if live.checked_add(count).is_none_or(|n| n > quotas.processes) {
            let most = quotas.processes;
            return Ok(Err(format!(
                "the service allows each client {most} processes: wait for some of them"
            )));
        }
        let under_way = host.data.load(Ordering::Acquire);
        if under_way
            .checked_add(data)
            .is_none_or(|n| n > quotas.input_bytes)
        {
            let most = quotas.input_bytes;
            return Ok(Err(format!(
                "the service allows each client {most} bytes of arguments and input at the same time"
            )));
        }
        let output = |grant: OutputGrant| match grant.into() {
            Output::Capture { limit } => Output::Capture {
                limit: limit.min(quotas.capture_bytes as usize),
            },
            other => other,
        };
        let directories = shared.directories.into_iter().zip(files);
        let directories: Result<Vec<_>, _> = directories
            .map(|(grant, file)| {
                let directory = Directory::from_file(file.into(), grant.path, grant.guest)?;
                io::Result::Ok(directory.read_only(grant.read_only))
            })
            .collect();
        let Ok(directories) = directories else {
            return Err(Misbehaved("a directory that is none".to_owned()));
        };
        let (stdin, shared_input) = match shared.stdin {
            InputGrant::Empty => (Input::Empty, None),
            InputGrant::Inherit => (Input::Inherit, None),
            InputGrant::Bytes { count } => (Input::Empty, Some(count)),
        };
        let held = lock(&host.ends);
        let ends = shared.ends.iter().map(|number| held.get(number));
        let ends: Option<Vec<_>> = ends.map(|end| Some(ChannelEnd::clone(end?))).collect();
        let Some(ends) = ends else {
            return Err(Misbehaved("a channel end that it does not have".to_owned()));
        };
        self.live.fetch_add(count, Ordering::AcqRel);
        host.data.fetch_add(data, Ordering::AcqRel);
        Ok(Ok(PendingSpawn {
            module,
            count,
            grants: Grants {
                directories,
                listeners,
                launcher: None,
                network: None,
                stdin,
                stdout: output(shared.stdout),
                stderr: output(shared.stderr),
                fuel: shared.fuel,
                handles: shared.handles,
                ends,
            },
            shared: shared_input,
            expected: data,
            data: Vec::new(),
            stop: Arc::default(),
        }))
    }

    /// Starts the processes of a request whose data has all come.
    fn begin_spawn<'s, 'e>(
        self: &Arc<Self>,
        request: u32,
        pending: &mut HashMap<u32, PendingSpawn>,
        scope: &'s Scope<'s, 'e>,
    ) -> Result<(), Misbehaved> {
        let complete = |spawn: &PendingSpawn| spawn.data.len() as u64 == spawn.expected;
        if !pending.get(&request).is_some_and(complete) {
            return Ok(());
        }
        let spawn = pending.remove(&request).expect("it was found");
        self.run(scope, move |session| {
            let Ok(host) = session.host() else { return };
            let (data, count) = (spawn.expected, spawn.count);
            let stop = Arc::clone(&spawn.stop);
            let lines = lock(&session.lines).clone();
            let _span = span("service: spawn");
            let started = AtomicU32::new(0);
            spawn.run(&*host.engine, lines, &session.instances, &|with| {
                if let Reply::Pids { pids, .. } = &with {
                    started.fetch_add(pids.len() as u32, Ordering::AcqRel);
                    // A client that has gone needs no more of them.
                    let ending = session.ending.load(Ordering::Acquire);
                    stop.fetch_or(ending, Ordering::AcqRel);
                }
                session.reply(request, with);
            });
            let missing = count - started.load(Ordering::Acquire).min(count);
            session.live.fetch_sub(missing, Ordering::AcqRel);
            host.data.fetch_sub(data, Ordering::AcqRel);
            if session.ending.load(Ordering::Acquire) {
                // The last of them may have started after the others were killed.
                drop(host.engine.kill_all());
            }
        })
    }

    fn wait<'s, 'e>(
        self: &Arc<Self>,
        pid: Pid,
        scope: &'s Scope<'s, 'e>,
    ) -> Result<(), Misbehaved> {
        let host = self.host()?;
        host.waits.add(pid);
        if host.waiting.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.run(scope, |session| {
            let Ok(host) = session.host() else { return };
            host.waits.run(&*host.engine, |pid, exit| {
                if let Ok(exit) = &exit {
                    session.waited([pid]);
                    send_captured(&session.sender, pid, exit, &session.budgets.output);
                }
                let exit = match &exit {
                    Ok(exit) => Ok(ProcessExit::from(exit)),
                    Err(error) => Err(HostFault::from(error)),
                };
                let message = FromEngine::Exited { pid, exit };
                drop(session.sender.send(&body(&message), &[]));
            });
        })
    }

    /// Notes that these processes have been waited for. Those that the client has started count no longer; it may also
    /// wait for their children, which never did.
    fn waited(&self, pids: impl IntoIterator<Item = Pid>) {
        let mut instances = lock(&self.instances);
        let started = pids
            .into_iter()
            .filter(|pid| instances.remove(pid).is_some());
        let started = started.count() as u32;
        drop(instances);
        self.live.fetch_sub(started, Ordering::AcqRel);
    }

    fn wait_each(&self, request: u32, pids: &[Pid]) {
        let Ok(host) = self.host() else { return };
        let _span = span("service: wait for processes");
        let (sender, output) = (&self.sender, &self.budgets.output);
        let waited = |exits: &[(Pid, everwarp_process::Exit)]| {
            self.waited(exits.iter().map(|(pid, _)| *pid))
        };
        let result = wait_each(&*host.engine, pids, sender, request, output, &waited);
        let result = result.map_err(|e| host_fault(&e));
        self.reply(request, Reply::WaitedEach { result });
    }

    fn send_list(&self, request: u32, limit: u32) -> Result<(), Misbehaved> {
        let result = match self.host()?.engine.list(limit as usize) {
            Ok(listing) => {
                for part in listing.rows.chunks(ROWS_MOST) {
                    let rows = part.iter().map(Row::from).collect();
                    self.reply(request, Reply::Rows { rows });
                }
                Ok(Counts::from(&listing))
            }
            Err(error) => Err(host_fault(&error)),
        };
        self.reply(request, Reply::Listed { result });
        Ok(())
    }

    fn read_lines(&self, request: u32, files: Vec<OwnedFd>) -> Result<(), Misbehaved> {
        let file = files.into_iter().next();
        let file = file.ok_or_else(|| Misbehaved("lines without their file".to_owned()))?;
        let mut sets = lock(&self.lines);
        if sets.len() >= SETS_MOST {
            return Err(Misbehaved(format!("more than {SETS_MOST} sets of lines")));
        }
        let lines = || self.settings.backend.lines(File::from(file));
        let read = spanned("service: read lines", lines);
        let result = match read {
            Ok(lines) => {
                let counts = LineCounts {
                    lines: lines.count(),
                    bytes: lines.bytes(),
                };
                sets.push(lines);
                Ok(counts)
            }
            Err(error) => Err(SystemError::from(&error)),
        };
        drop(sets);
        self.reply(request, Reply::LinesRead { result });
        Ok(())
    }

    fn make_channel(
        &self,
        capacity: u32,
        bytes: u32,
    ) -> Result<Result<(u32, u32), ChannelError>, Misbehaved> {
        let host = self.host()?;
        let mut ends = lock(&host.ends);
        if ends.len() + 2 > ENDS_MOST {
            return Ok(Err(ChannelError::Limit));
        }
        let (sender, receiver) = match host.engine.channel(capacity, bytes) {
            Ok(made) => made,
            Err(error) => return Ok(Err(error)),
        };
        let first = host.next_end.fetch_add(2, Ordering::AcqRel);
        ends.insert(first, Arc::new(sender.end()));
        ends.insert(first + 1, Arc::new(receiver.end()));
        Ok(Ok((first, first + 1)))
    }

    fn end_of(&self, number: u32) -> Result<Arc<ChannelEnd>, Misbehaved> {
        let end = lock(&self.host()?.ends).get(&number).cloned();
        end.ok_or_else(|| Misbehaved("a channel end that it does not have".to_owned()))
    }
}
