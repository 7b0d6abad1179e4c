//! One client and its processes.

mod channels;
mod processes;
mod start;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Scope;
use std::time::Instant;

use everwarp_engine::sync::lock;
use everwarp_engine::trace::span;
use everwarp_process::{Budget, ChannelEnd, HostBudgets, InputLines, Listing, Pid, ProcessEngine};

use super::backend::{Backend, Quotas};
use super::cancellation::Cancellation;
use super::modules::ModuleCache;
use super::output::OutputGate;
use super::requests::{Instances, PendingSpawn, reply};
use super::stdin::ClientInput;
use super::waits::WaitQueue;
use crate::log::{Level, log};
use crate::protocol::{
    ChannelFault, Counts, HostFault, Reply, Row, SpawnFault, StartFault, ToEngine,
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
                sockets: Budget::new(settings.quotas.sockets.into()),
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
}
