//! The engines of the service, as the supervisor sees them.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp_engine::EngineKind;

use super::{Event, Shared, State};
use crate::control::{EngineHead, FromChild, ToChild};
use crate::log::{Level, log};
use crate::protocol::body;
use crate::wire::codec::decoded;
use crate::wire::socket::{FrameReceiver, FrameSender};

/// An engine that has failed is tried again after this time.
const RETRY: Duration = Duration::from_secs(5);

/// What an engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    NotStarted,
    Starting,
    Ready,
    Failed(Instant),
}

/// An engine of the service.
pub(super) struct EngineEntry {
    pub(super) kind: EngineKind,
    pub(super) phase: Phase,
    pub(super) clients: u32,
    /// How often it was started; it tells its children apart.
    pub(super) starts: u32,
    os_pid: Option<u32>,
    device: String,
    reason: String,
    control: Option<Arc<FrameSender>>,
}

impl EngineEntry {
    pub(super) fn new(kind: EngineKind) -> Self {
        Self {
            kind,
            phase: Phase::NotStarted,
            clients: 0,
            starts: 0,
            os_pid: None,
            device: String::new(),
            reason: String::new(),
            control: None,
        }
    }

    pub(super) fn may_start(&self) -> bool {
        match self.phase {
            Phase::NotStarted => true,
            Phase::Failed(since) => since.elapsed() >= RETRY,
            Phase::Starting | Phase::Ready => false,
        }
    }

    /// Its description for operators.
    pub(super) fn head(&self) -> EngineHead {
        EngineHead {
            cuda: self.kind == EngineKind::Cuda,
            state: match self.phase {
                Phase::NotStarted => 0,
                Phase::Starting => 1,
                Phase::Ready => 2,
                Phase::Failed(_) => 3,
            },
            os_pid: self.os_pid,
            device: self.device.clone(),
            clients: self.clients,
            starts: self.starts,
            reason: self.reason.clone(),
        }
    }
}

fn find(state: &mut State, kind: EngineKind) -> Option<&mut EngineEntry> {
    state.engines.iter_mut().find(|entry| entry.kind == kind)
}

/// The child of an engine that was started last.
pub(super) fn generation(shared: &Shared, kind: EngineKind) -> Option<u32> {
    find(&mut shared.state(), kind).map(|entry| entry.starts)
}

/// Notes that an engine cannot be started.
pub(super) fn fail(shared: &Shared, kind: EngineKind, generation: u32, reason: String) {
    if let Some(entry) = find(&mut shared.state(), kind)
        && entry.starts == generation
    {
        entry.phase = Phase::Failed(Instant::now());
        entry.reason = reason;
        entry.control = None;
    }
    shared.notify();
}

/// Notes that the child of an engine has ended.
pub(super) fn ended(shared: &Shared, kind: EngineKind, generation: u32, how: &str) {
    if let Some(entry) = find(&mut shared.state(), kind)
        && entry.starts == generation
    {
        (entry.control, entry.os_pid, entry.clients) = (None, None, 0);
        match entry.phase {
            // It has said why.
            Phase::Failed(_) => {}
            // A child that does not get ready would be started again and again.
            Phase::Starting => {
                entry.reason = format!("its child ended while it started: {how}");
                entry.phase = Phase::Failed(Instant::now());
                log(
                    Level::Error,
                    &format!("the {kind} engine: {}", entry.reason),
                );
            }
            Phase::Ready | Phase::NotStarted => {
                entry.reason = format!("its child ended: {how}");
                entry.phase = Phase::NotStarted;
                log(
                    Level::Error,
                    &format!("the {kind} engine: {}", entry.reason),
                );
            }
        }
    }
    shared.notify();
}

/// Listens to the child of an engine on a thread of its own.
pub(super) fn attach(
    shared: &Arc<Shared>,
    kind: EngineKind,
    generation: u32,
    os_pid: u32,
    socket: OwnedFd,
) {
    let socket = Arc::new(socket);
    if let Some(entry) = find(&mut shared.state(), kind) {
        entry.os_pid = Some(os_pid);
        entry.control = Some(Arc::new(FrameSender::new(Arc::clone(&socket))));
    }
    let listening = Arc::clone(shared);
    let listen = move || {
        let mut receiver = FrameReceiver::new(socket);
        while let Ok(Some(frame)) = receiver.receive() {
            match decoded(&frame.body) {
                Ok(message) => receive(&listening, kind, message),
                Err(error) => {
                    let text = format!("the child of the {kind} engine sent no message: {error}");
                    log(Level::Error, &text);
                    break;
                }
            }
        }
        listening.event(Event::Ended(kind, generation));
    };
    let builder = std::thread::Builder::new().name("engine".to_owned());
    if let Err(error) = builder.spawn(listen) {
        log(
            Level::Error,
            &format!("a thread for the {kind} engine: {error}"),
        );
        shared.event(Event::Ended(kind, generation));
    }
}

fn receive(shared: &Shared, kind: EngineKind, message: FromChild) {
    let mut state = shared.state();
    match message {
        FromChild::Ready { device } => {
            if let Some(entry) = find(&mut state, kind) {
                entry.phase = Phase::Ready;
                entry.reason.clear();
                entry.device = device;
            }
            log(Level::Info, &format!("the {kind} engine is ready"));
        }
        FromChild::Failed { reason } => {
            log(Level::Info, &format!("there is no {kind} engine: {reason}"));
            if let Some(entry) = find(&mut state, kind) {
                entry.phase = Phase::Failed(Instant::now());
                entry.reason = reason;
            }
        }
        FromChild::Clients { count } => {
            if let Some(entry) = find(&mut state, kind) {
                entry.clients = count;
            }
        }
        FromChild::Answer { number, answer } => {
            // An operator that has gone needs no answer.
            if let Some(operator) = state.answers.get(&number) {
                drop(operator.send(answer));
            }
            return;
        }
    }
    drop(state);
    shared.notify();
}

/// Waits until an engine is ready.
///
/// # Errors
/// It does not exist, or cannot be started; the text says why.
fn ready(shared: &Shared, kind: EngineKind) -> Result<Arc<FrameSender>, String> {
    let mut state = shared.state();
    loop {
        if state.stopping {
            return Err("the service ends".to_owned());
        }
        let Some(entry) = find(&mut state, kind) else {
            return Err(format!("the service was started without the {kind} engine"));
        };
        match (entry.phase, &entry.control) {
            (Phase::Ready, Some(control)) => return Ok(Arc::clone(control)),
            (Phase::Failed(_), _) if !entry.may_start() => return Err(entry.reason.clone()),
            (Phase::Failed(_) | Phase::NotStarted, _) => shared.event(Event::Start(kind)),
            (Phase::Starting | Phase::Ready, _) => {}
        }
        state = shared.wait(state);
    }
}

/// Whether the service has a GPU that can be used.
pub(super) fn has_gpu(shared: &Shared) -> bool {
    ready(shared, EngineKind::Cuda).is_ok()
}

/// Passes a client to its engine.
///
/// # Errors
/// There is no such engine; the client's stream comes back with the reason.
pub(super) fn pass_on(
    shared: &Shared,
    kind: EngineKind,
    client: u32,
    version: u32,
    stream: UnixStream,
) -> Result<(), (UnixStream, String)> {
    // An engine that ends at this moment is started again, once.
    for _ in 0..2 {
        let control = match ready(shared, kind) {
            Ok(control) => control,
            Err(reason) => return Err((stream, reason)),
        };
        let message = ToChild::Client {
            os_pid: client,
            version,
        };
        if control.send(&body(&message), &[stream.as_fd()]).is_ok() {
            return Ok(());
        }
        let mut state = shared.state();
        let same = |entry: &EngineEntry| {
            let control_now = entry.control.as_ref();
            control_now.is_some_and(|now| Arc::ptr_eq(now, &control))
        };
        while find(&mut state, kind).is_some_and(|entry| same(entry)) && !state.stopping {
            state = shared.wait(state);
        }
    }
    Err((stream, format!("the {kind} engine ends again and again")))
}

/// The senders to all engines that are ready.
pub(super) fn controls(state: &State) -> Vec<Arc<FrameSender>> {
    let ready = state.engines.iter();
    let ready = ready.filter(|entry| entry.phase == Phase::Ready);
    ready.filter_map(|entry| entry.control.clone()).collect()
}
