//! The first process of the service: it owns the socket, greets clients and passes them on.

mod engines;
mod greet;
mod listen;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use everwarp_engine::EngineKind;
use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_telemetry::control::{Folder, FolderError};

use engines::{EngineEntry, Phase};
use listen::Listener;

use crate::control::Answer;
use crate::descriptors;
use crate::log::{Level, log};
use crate::spawn;

/// Where the service listens.
#[derive(Debug)]
pub enum Listening {
    /// At the socket of its folder.
    Folder,
    /// At a socket that another program listens on too, such as a service manager.
    Given(OwnedFd),
}

/// How the service runs.
pub struct Settings {
    /// Its folder.
    pub folder: Folder,
    /// Where it listens.
    pub listening: Listening,
    /// The engines that it has.
    pub engines: Vec<EngineKind>,
    /// Whether the engines are started at once, or when the first client asks for them.
    pub ahead: bool,
    /// The command that calls [`engine_child`](crate::engine_child) for an engine.
    pub command: Box<dyn Fn(EngineKind) -> Command>,
    /// How long it runs without clients.
    pub idle_exit: Option<Duration>,
}

/// Why there is no service.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Another program is the service.
    #[error("a service is up already")]
    Already,
    /// The socket.
    #[error("{path}: {source}")]
    Socket {
        /// The socket.
        path: std::path::PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system refused a request.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// How the service ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// When its last client has gone. It accepts no others.
    WhenIdle,
    /// At once.
    Now,
}

/// Ends the service, from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle(Sender<Event>);

impl StopHandle {
    /// Asks the service to end.
    pub fn stop(&self, stop: Stop) {
        // A service that has ended needs no other request.
        drop(self.0.send(Event::Stop(stop)));
    }
}

/// What the main thread reacts to.
#[derive(Debug)]
enum Event {
    /// A client waits for this engine.
    Start(EngineKind),
    /// The child of an engine has closed its socket.
    Ended(EngineKind, u32),
    /// The number of clients or connections has changed.
    Changed,
    Stop(Stop),
}

#[derive(Default)]
struct State {
    engines: Vec<EngineEntry>,
    /// Connections that have not been passed on, operators among them.
    connections: usize,
    /// The service accepts no clients any more.
    stopping: bool,
    /// It has let go of its socket.
    released: bool,
    /// Its children have ended.
    ended: bool,
    /// Operators that wait for the end.
    leaving: usize,
    /// Operators that wait for answers of children.
    answers: HashMap<u32, Sender<Answer>>,
    next_answer: u32,
}

/// What the threads of the service share.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    events: Sender<Event>,
    begin: Instant,
    idle_exit: Option<Duration>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits for the next change.
    fn wait<'m>(&self, state: MutexGuard<'m, State>) -> MutexGuard<'m, State> {
        ignore_poison(self.changed.wait(state))
    }

    fn event(&self, event: Event) {
        // The main thread receives until the program ends.
        drop(self.events.send(event));
    }

    /// Notes a change of the state that threads wait for.
    fn notify(&self) {
        self.changed.notify_all();
        self.event(Event::Changed);
    }
}

/// How long connections of operators may outlast the service.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Runs the service until it is stopped. `ready` is called when it accepts clients.
///
/// # Errors
/// [`SupervisorError`]; then no client was accepted.
pub fn supervise(
    settings: Settings,
    ready: impl FnOnce(StopHandle),
) -> Result<(), SupervisorError> {
    descriptors::allow_all();
    settings.folder.make()?;
    let (events, received) = channel();
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            engines: settings
                .engines
                .iter()
                .map(|kind| EngineEntry::new(*kind))
                .collect(),
            ..State::default()
        }),
        changed: Condvar::new(),
        events: events.clone(),
        begin: Instant::now(),
        idle_exit: settings.idle_exit,
    });
    let listener = Listener::open(&settings.folder, settings.listening)?;
    let listener = listener.start(&shared)?;
    if settings.ahead {
        settings
            .engines
            .iter()
            .for_each(|kind| shared.event(Event::Start(*kind)));
    }
    log(
        Level::Info,
        &format!("the service is up at {}", listener.place()),
    );
    ready(StopHandle(events));
    let mut main = Main {
        shared,
        command: settings.command,
        ahead: settings.ahead,
        children: HashMap::new(),
        listener: Some(listener),
        idle_since: Instant::now(),
    };
    main.run(&received);
    Ok(())
}

/// The main thread. Only it starts children: the system ends a child when the thread that started it ends.
struct Main {
    shared: Arc<Shared>,
    command: Box<dyn Fn(EngineKind) -> Command>,
    ahead: bool,
    children: HashMap<EngineKind, Child>,
    listener: Option<listen::Running>,
    idle_since: Instant,
}

impl Main {
    fn run(&mut self, events: &Receiver<Event>) {
        loop {
            let timeout = self.until_idle_exit();
            match events.recv_timeout(timeout.unwrap_or(Duration::from_secs(3600))) {
                Ok(Event::Start(kind)) => self.start(kind),
                Ok(Event::Ended(kind, generation)) => self.ended(kind, generation),
                Ok(Event::Changed) => {}
                Ok(Event::Stop(Stop::WhenIdle)) => self.release(),
                Ok(Event::Stop(Stop::Now)) => {
                    self.release();
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.is_idle() {
                let released = self.listener.is_none();
                if released {
                    break;
                }
                if self.until_idle_exit() == Some(Duration::ZERO) {
                    log(Level::Info, "no client has come for the idle time");
                    self.release();
                    break;
                }
            } else {
                self.idle_since = Instant::now();
            }
        }
        self.finish();
    }

    fn is_idle(&self) -> bool {
        let state = self.shared.state();
        state.connections == state.leaving && state.engines.iter().all(|engine| engine.clients == 0)
    }

    /// The time until the service ends by itself.
    fn until_idle_exit(&self) -> Option<Duration> {
        let idle_exit = self.shared.idle_exit?;
        Some(idle_exit.saturating_sub(self.idle_since.elapsed()))
    }

    /// Lets go of the socket and the lock, so that another service can take its place.
    fn release(&mut self) {
        self.shared.state().stopping = true;
        self.shared.changed.notify_all();
        if let Some(listener) = self.listener.take() {
            log(Level::Info, "the service accepts no further clients");
            listener.stop();
        }
        self.shared.state().released = true;
        self.shared.changed.notify_all();
    }

    fn start(&mut self, kind: EngineKind) {
        let mut state = self.shared.state();
        let Some(entry) = state.engines.iter_mut().find(|entry| entry.kind == kind) else {
            return;
        };
        if !entry.may_start() {
            return;
        }
        entry.phase = Phase::Starting;
        entry.starts += 1;
        let generation = entry.starts;
        drop(state);
        match spawn::spawn((self.command)(kind)) {
            Ok((child, socket)) => {
                log(
                    Level::Info,
                    &format!("the {kind} engine starts in process {}", child.id()),
                );
                let os_pid = child.id();
                self.children.insert(kind, child);
                engines::attach(&self.shared, kind, generation, os_pid, socket);
            }
            Err(error) => {
                let reason = format!("the child of the {kind} engine: {error}");
                log(Level::Error, &reason);
                engines::fail(&self.shared, kind, generation, reason);
            }
        }
    }

    fn ended(&mut self, kind: EngineKind, generation: u32) {
        if engines::generation(&self.shared, kind) != Some(generation) {
            return;
        }
        let Some(mut child) = self.children.remove(&kind) else {
            return;
        };
        // Its socket is closed, so it has ended or is about to.
        drop(child.kill());
        let status = child.wait();
        let how = status.map_or_else(|e| e.to_string(), |status| status.to_string());
        engines::ended(&self.shared, kind, generation, &how);
        if self.ahead && !self.shared.state().stopping {
            self.start(kind);
        }
    }

    /// Ends the children, and lets operators get their last answers.
    fn finish(&mut self) {
        for (kind, mut child) in self.children.drain() {
            drop(child.kill());
            if let Err(error) = child.wait() {
                log(
                    Level::Warn,
                    &format!("the child of the {kind} engine: {error}"),
                );
            }
        }
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
        let until = Instant::now() + LAST_ANSWERS;
        let mut state = self.shared.state();
        while state.connections > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = ignore_poison(waited).0;
        }
        drop(state);
        log(Level::Info, "the service has ended");
    }
}
