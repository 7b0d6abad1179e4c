//! The child of an engine: it runs the sessions of the engine's clients.

use std::collections::HashMap;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use everwarp_engine::EngineKind;
use everwarp_engine::sync::lock;
use everwarp_process::{HostConfig, HostStreams, Module, Pid};

use crate::control::{Answer, ClientHead, FromChild, Question, ToChild};
use crate::hello::{self, Refusal};
use crate::log::{Level, log};
use crate::protocol::{Row, body};
use crate::server::{Backend, ModuleCache, Quotas, Session, SessionSettings, install_interrupt};
use crate::wire::codec::decoded;
use crate::wire::socket::{FrameReceiver, FrameSender};

/// The descriptor over which a child and its supervisor talk.
pub const CONTROL_FD: i32 = 3;
/// The rows of one message.
const ROWS_MOST: usize = 4 << 10;

/// The sessions of a child, by a number of their own.
struct Sessions {
    settings: Arc<SessionSettings>,
    control: FrameSender,
    all: Mutex<HashMap<u64, Arc<Session>>>,
    next: AtomicU64,
    /// Held while the number of clients is reported, so that the last report has the last number.
    reporting: Mutex<()>,
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, Arc<Session>>> {
        lock(&self.all)
    }

    fn tell(&self, message: &FromChild) {
        // A supervisor that has gone is noticed where its messages are received.
        drop(self.control.send(&body(message), &[]));
    }

    /// Serves a client on a thread of its own.
    fn accept(self: &Arc<Self>, socket: OwnedFd, client: u32, version: u32) {
        let kind = self.settings.backend.kind();
        let mut stream = UnixStream::from(socket);
        let most = self.settings.quotas.clients as usize;
        if self.all().len() >= most {
            let text =
                format!("the service has {most} clients on this engine already: try again later");
            drop(hello::refuse(&mut stream, Refusal::Full, &text));
            return;
        }
        // The number orders nothing else.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if hello::welcome(&mut stream, version, kind).is_err() {
            return;
        }
        let session = Session::new(stream.into(), client, &self.settings);
        self.all().insert(number, Arc::clone(&session));
        self.report();
        let sessions = Arc::clone(self);
        let serve = move || {
            log(Level::Debug, &format!("client {client} has connected"));
            match session.serve() {
                Ok(()) => log(Level::Debug, &format!("client {client} has gone")),
                Err(misbehaved) => {
                    let text = format!("client {client} is cut off: it sent {}", misbehaved.0);
                    log(Level::Warn, &text);
                }
            }
            // The host ends before the client counts as gone.
            let removed = sessions.all().remove(&number);
            drop((session, removed));
            sessions.report();
            if let Some(reason) = sessions.settings.backend.failure() {
                // Its other clients learn of it by the end of their connections.
                log(Level::Error, &format!("the engine has failed: {reason}"));
                std::process::exit(1);
            }
            // A service is ended by a signal, which leaves no time to do it then.
            everwarp_engine::trace::write();
        };
        let builder = std::thread::Builder::new().name("session".to_owned());
        if let Err(error) = builder.spawn(serve) {
            log(Level::Error, &format!("a thread for a client: {error}"));
            self.all().remove(&number);
            self.report();
        }
    }

    fn report(&self) {
        // The lock protects no data.
        let _reporting = lock(&self.reporting);
        let count = u32::try_from(self.all().len()).unwrap_or(u32::MAX);
        self.tell(&FromChild::Clients { count });
    }

    fn answer(&self, number: u32, answer: Answer) {
        self.tell(&FromChild::Answer { number, answer });
    }

    fn ask(&self, number: u32, question: Question) {
        match question {
            Question::List { limit } => self.list(number, limit as usize),
            Question::Kill { client, pid } => self.kill(number, client, pid),
            // The supervisor answers these itself.
            Question::Status | Question::Down { .. } => {}
        }
        self.answer(number, Answer::End);
    }

    fn list(&self, number: u32, limit: usize) {
        let mut sessions: Vec<_> = self.all().values().cloned().collect();
        sessions.sort_by_key(|session| session.client);
        for session in sessions {
            let (listing, numbers) = match session.list(limit) {
                Ok(listed) => listed,
                Err(reason) => {
                    let text = format!("client {}: {reason}", session.client);
                    log(Level::Warn, &text);
                    continue;
                }
            };
            let client = ClientHead {
                os_pid: session.client,
                cuda: self.settings.backend.kind() == EngineKind::Cuda,
                program: session.program().to_owned(),
                age_ms: (session.age_s() * 1e3) as u64,
                waiting: listing.waiting as u64,
                running: listing.running as u64,
                ended: listing.ended as u64,
            };
            self.answer(number, Answer::Client { client });
            for rows in listing.rows.chunks(ROWS_MOST) {
                let rows = rows.iter();
                let rows = rows.map(|row| (Row::from(row), numbers.get(&row.pid).copied()));
                let rows = rows.collect();
                self.answer(number, Answer::Rows { rows });
            }
        }
    }

    fn kill(&self, number: u32, client: u32, pid: Pid) {
        let sessions: Vec<_> = self.all().values().cloned().collect();
        for session in sessions.iter().filter(|session| session.client == client) {
            match session.kill(pid) {
                Ok(found) => self.answer(number, Answer::Killed { found }),
                Err(reason) => self.answer(number, Answer::Refused { reason }),
            }
        }
    }
}

/// Compiles modules before a client comes. One that the engine refuses is logged, and left to its clients.
fn compile_ahead(backend: &dyn Backend, cache: &ModuleCache, ahead: Vec<Module>) {
    for module in ahead {
        let streams = HostStreams::closed();
        let name = module.name().to_owned();
        let modules = std::slice::from_ref(&module);
        match backend.start(modules, &HostConfig::default(), &streams) {
            Ok(_) => {
                log(Level::Info, &format!("{name} is compiled"));
                cache.add(module);
            }
            Err(error) => log(Level::Warn, &format!("{name} is not compiled: {error}")),
        }
    }
}

/// Runs the child of an engine, whose supervisor is at the other end of [`CONTROL_FD`]. Clients that load a module of
/// `ahead` find it compiled. It returns when the supervisor
/// has gone; then the program should end at once, and its clients with it.
///
/// # Errors
/// The engine cannot be started. The supervisor has been told.
pub fn engine_child(
    quotas: Quotas,
    ahead: Vec<Module>,
    start: impl FnOnce() -> Result<Arc<dyn Backend>, String>,
) -> Result<(), String> {
    // SAFETY: the supervisor has put its socket there, and nothing else in this program owns that number.
    let control = unsafe { OwnedFd::from_raw_fd(CONTROL_FD) };
    let flags = rustix::io::FdFlags::CLOEXEC;
    rustix::io::fcntl_setfd(control.as_fd(), flags)
        .map_err(|e| format!("this is the service's own command: descriptor {CONTROL_FD}: {e}"))?;
    install_interrupt();
    let control = Arc::new(control);
    let sender = FrameSender::new(Arc::clone(&control));
    let backend = match start() {
        Ok(backend) => backend,
        Err(reason) => {
            let text = reason.clone();
            drop(sender.send(&body(&FromChild::Failed { reason: text }), &[]));
            return Err(reason);
        }
    };
    let device = backend.device_name();
    let modules = ModuleCache::default();
    compile_ahead(&*backend, &modules, ahead);
    let sessions = Arc::new(Sessions {
        settings: Arc::new(SessionSettings {
            backend,
            quotas,
            modules,
        }),
        control: sender,
        all: Mutex::default(),
        next: AtomicU64::new(0),
        reporting: Mutex::new(()),
    });
    sessions.tell(&FromChild::Ready { device });
    let mut receiver = FrameReceiver::new(control);
    while let Ok(Some(frame)) = receiver.receive() {
        match decoded(&frame.body) {
            Ok(ToChild::Client { os_pid, version }) => {
                if let Some(socket) = frame.descriptors.into_iter().next() {
                    sessions.accept(socket, os_pid, version);
                }
            }
            Ok(ToChild::Ask { number, question }) => {
                // A list may take long, and clients must not wait for it.
                let sessions = Arc::clone(&sessions);
                std::thread::spawn(move || sessions.ask(number, question));
            }
            Err(error) => return Err(format!("the supervisor sent what is no message: {error}")),
        }
    }
    Ok(())
}
