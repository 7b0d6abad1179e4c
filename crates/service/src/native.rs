//! Processes that run one native program each, next to an engine that stays resident.
//!
//! A native program is an image of its own. It cannot be loaded next to a resident engine, and two resident engines of one
//! process cannot share a GPU: the second one waits for the first to end. Between two processes the driver divides the
//! GPU's time. So the child of a GPU's engine keeps one process ready, the runner, which has opened the device and does
//! nothing else. It runs one program and ends, and it is killed if its client ends before.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};

use everwarp_engine::sync::{ignore_poison, lock};

use crate::child::CONTROL_FD;
use crate::server::Cancellation;
use crate::spawn::spawn;
use crate::wire::socket::{FrameReceiver, FrameSender, shut_down};

/// Programs that run at the same time. Each has a context, which takes half a gigabyte of a GPU's memory, and what its
/// engine takes.
const RUNNERS_MOST: u32 = 8;

/// A process that is ready for a program, or runs it. It is killed when this is dropped.
struct Runner {
    child: Child,
    socket: Arc<OwnedFd>,
}

impl Drop for Runner {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Runner {
    fn start(command: Command) -> io::Result<Self> {
        let (child, socket) = spawn(command)?;
        let socket = Arc::new(socket);
        Ok(Self { child, socket })
    }

    /// Runs a program, until its client has gone.
    fn run(
        &self,
        body: &[u8],
        files: &[OwnedFd],
        cancellation: &Cancellation,
    ) -> io::Result<Vec<u8>> {
        let socket = Arc::clone(&self.socket);
        cancellation.on_cancel(move || shut_down(&socket));
        let sender = FrameSender::new(Arc::clone(&self.socket));
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        sender.send(body, &files)?;
        let frame = FrameReceiver::new(Arc::clone(&self.socket)).receive()?;
        let frame = frame.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(frame.body)
    }
}

type Started = io::Result<Runner>;

/// The runners of a child.
pub struct Runners {
    /// Each request for a runner, with where it goes.
    requests: Mutex<Sender<Sender<Started>>>,
    running: Mutex<u32>,
    ended: Condvar,
}

impl std::fmt::Debug for Runners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runners").finish_non_exhaustive()
    }
}

impl Runners {
    /// Keeps a process ready, which `command` starts: it calls [`native_runner`].
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(command: impl Fn() -> Command + Send + 'static) -> io::Result<Self> {
        let (requests, received) = channel();
        let builder = std::thread::Builder::new().name("runners".to_owned());
        // The system ends a runner when the thread that started it ends, so all are started by one that stays.
        builder.spawn(move || keep_ready(&command, &received))?;
        Ok(Self {
            requests: Mutex::new(requests),
            running: Mutex::new(0),
            ended: Condvar::new(),
        })
    }

    /// Runs a program in a process of its own. Waits if many run already.
    ///
    /// # Errors
    /// The client has gone, or the process cannot be started or has died.
    pub fn run(
        &self,
        body: &[u8],
        files: &[OwnedFd],
        cancellation: &Cancellation,
    ) -> io::Result<Vec<u8>> {
        let mut running = lock(&self.running);
        while *running >= RUNNERS_MOST {
            running = ignore_poison(self.ended.wait(running));
        }
        *running += 1;
        drop(running);
        let ran = self
            .take()
            .and_then(|runner| runner.run(body, files, cancellation));
        *lock(&self.running) -= 1;
        self.ended.notify_one();
        ran
    }

    fn take(&self) -> Started {
        let (sender, runner) = channel();
        let gone = || io::Error::other("the thread that starts processes has ended");
        lock(&self.requests).send(sender).map_err(|_| gone())?;
        runner.recv().map_err(|_| gone())?
    }
}

/// Hands runners out, and has the next one ready.
fn keep_ready(command: &dyn Fn() -> Command, requests: &Receiver<Sender<Started>>) {
    let mut ready = Runner::start(command());
    while let Ok(request) = requests.recv() {
        // One that has ended meanwhile, or could not be started, is no answer.
        let runner = match ready {
            Ok(mut runner) => match runner.child.try_wait() {
                Ok(None) => Ok(runner),
                _ => Runner::start(command()),
            },
            Err(_) => Runner::start(command()),
        };
        drop(request.send(runner));
        ready = Runner::start(command());
    }
}

/// Runs one program in the process that [`Runners`] has started: `open` is called at once, and `serve` with the request
/// when it comes. The program should end when this returns.
///
/// # Errors
/// The process that started this one has gone.
pub fn native_runner<D>(
    open: impl FnOnce() -> D,
    serve: impl FnOnce(D, &[u8], Vec<OwnedFd>) -> Vec<u8>,
) -> io::Result<()> {
    // SAFETY: the process that started this one has put its socket there, and nothing else in this program owns the number.
    let control = unsafe { OwnedFd::from_raw_fd(CONTROL_FD) };
    rustix::io::fcntl_setfd(control.as_fd(), rustix::io::FdFlags::CLOEXEC)?;
    let control = Arc::new(control);
    let opened = open();
    let Some(frame) = FrameReceiver::new(Arc::clone(&control)).receive()? else {
        return Ok(());
    };
    let answer = serve(opened, &frame.body, frame.descriptors);
    FrameSender::new(control).send(&answer, &[])
}
