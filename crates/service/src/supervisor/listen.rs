//! The socket of the service.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everwarp_telemetry::control::{Folder, Lock};
use rustix::event::{PollFd, PollFlags, poll};

use super::greet::greet;
use super::{Listening, Shared, SupervisorError};
use crate::log::{Level, log};

/// Connections that have not been passed on; further ones are closed.
const CONNECTIONS_MOST: usize = 1024;

/// The socket, before the service accepts clients.
pub(super) struct Listener {
    socket: UnixListener,
    /// The path to remove at the end; `None` if the socket belongs to another program too.
    path: Option<PathBuf>,
    lock: Option<Lock>,
    place: String,
}

impl Listener {
    pub(super) fn open(folder: &Folder, listening: Listening) -> Result<Self, SupervisorError> {
        let lock = take_lock(folder)?;
        let path = folder.socket();
        let failed = |source| SupervisorError::Socket {
            path: path.clone(),
            source,
        };
        if let Listening::Given(socket) = listening {
            let socket = UnixListener::from(socket);
            let place = "the socket that it was given".to_owned();
            return Ok(Self {
                socket,
                path: None,
                lock: Some(lock),
                place,
            });
        }
        // With the lock no other service has it, so a socket that is there is an old one.
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let socket = UnixListener::bind(&path).map_err(failed)?;
        // The folder keeps others out until this is done.
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&path, mode).map_err(failed)?;
        Ok(Self {
            socket,
            place: path.display().to_string(),
            path: Some(path),
            lock: Some(lock),
        })
    }

    /// Starts to accept clients, on a thread of its own.
    pub(super) fn start(self, shared: &Arc<Shared>) -> Result<Running, SupervisorError> {
        let system = |what| move |source| SupervisorError::System { what, source };
        let (wake, woken) = UnixStream::pair().map_err(system("a socket pair"))?;
        let nonblocking = self.socket.set_nonblocking(true);
        nonblocking.map_err(system("the service's socket"))?;
        let (socket, shared) = (self.socket, Arc::clone(shared));
        let builder = std::thread::Builder::new().name("listener".to_owned());
        let thread = builder.spawn(move || accept(&socket, &woken, &shared));
        Ok(Running {
            wake,
            thread: thread.map_err(system("a thread"))?,
            path: self.path,
            lock: self.lock,
            place: self.place,
        })
    }
}

/// The socket of a service that accepts clients.
pub(super) struct Running {
    wake: UnixStream,
    thread: JoinHandle<()>,
    path: Option<PathBuf>,
    lock: Option<Lock>,
    place: String,
}

impl Running {
    /// Where clients find it.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Closes the socket, removes it, and gives the lock back.
    pub(super) fn stop(self) {
        if let Some(path) = self.path {
            drop(fs::remove_file(path));
        }
        drop(self.wake);
        drop(self.thread.join());
        drop(self.lock);
    }
}

/// How long a service waits for a lock that no service has.
const LOCK_TIME: Duration = Duration::from_secs(2);

/// Takes the lock. A command that removes an old socket has it for a moment; a service that has it listens, or will.
fn take_lock(folder: &Folder) -> Result<Lock, SupervisorError> {
    let begin = Instant::now();
    loop {
        if let Some(lock) = folder.lock()? {
            return Ok(lock);
        }
        let listens = UnixStream::connect(folder.socket()).is_ok();
        if listens || begin.elapsed() > LOCK_TIME {
            return Err(SupervisorError::Already);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn accept(socket: &UnixListener, woken: &UnixStream, shared: &Arc<Shared>) {
    loop {
        let mut fds = [
            PollFd::new(socket, PollFlags::IN),
            PollFd::from_borrowed_fd(woken.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                log(Level::Error, &format!("waiting for clients: {error}"));
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if !fds[1].revents().is_empty() {
            return;
        }
        match socket.accept() {
            Ok((stream, _)) => begin(stream, shared),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                // Probably there are no free descriptors, until some client has gone.
                log(Level::Warn, &format!("a client cannot connect: {error}"));
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Greets a client on a thread of its own, because it may be slow or wait for an engine.
fn begin(stream: UnixStream, shared: &Arc<Shared>) {
    {
        let mut state = shared.state();
        if state.connections >= CONNECTIONS_MOST || state.stopping {
            return;
        }
        state.connections += 1;
    }
    let greeting = Arc::clone(shared);
    let work = move || {
        if stream.set_nonblocking(false).is_ok() {
            greet(&greeting, stream);
        }
        greeting.state().connections -= 1;
        greeting.notify();
    };
    let builder = std::thread::Builder::new().name("client".to_owned());
    if let Err(error) = builder.spawn(work) {
        log(Level::Error, &format!("a thread for a client: {error}"));
        shared.state().connections -= 1;
    }
}
