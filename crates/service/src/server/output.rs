//! The standard output and standard error of a client, which the service writes itself.
//!
//! The descriptors are the client's: their flags are never changed, and a write may block for as long as the client's
//! terminal or pipe does. When the client has gone, a signal without meaning interrupts such writes, so that no thread
//! waits for a reader that may never read.

use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_process::OutputTarget;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::protocol::{FromEngine, SystemError, body};
use crate::wire::socket::FrameSender;

/// The time between two attempts to interrupt a write.
const RETRY: Duration = Duration::from_millis(1);

/// The signal that interrupts writes.
const INTERRUPT: libc::c_int = libc::SIGUSR1;

/// Lets [`INTERRUPT`] interrupt calls of the system and do nothing else in this program.
pub(crate) fn install_interrupt() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the action is zeroed, which is a valid value, and the handler does nothing, so it may run at any time.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        // Without SA_RESTART, so that calls return.
        action.sa_flags = 0;
        libc::sigaction(INTERRUPT, &action, std::ptr::null_mut());
    }
}

#[derive(Debug, Default)]
struct GateState {
    /// The client is stopped, and writes wait.
    held: bool,
    /// The client has gone, and writes fail.
    closed: bool,
    /// The client has been told of a failed write.
    told: bool,
    /// The threads that are in a call of the system.
    writers: Vec<libc::pthread_t>,
}

/// What the output streams of one client have in common.
#[derive(Debug, Default)]
pub(crate) struct OutputGate {
    state: Mutex<GateState>,
    changed: Condvar,
}

/// A thread in a call of the system, until it is dropped.
struct Writing<'g>(&'g OutputGate);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // SAFETY: it takes nothing and cannot fail.
        let own = unsafe { libc::pthread_self() };
        let mut state = self.0.state();
        if let Some(at) = state.writers.iter().position(|writer| *writer == own) {
            state.writers.swap_remove(at);
        }
        if state.closed {
            self.0.changed.notify_all();
        }
    }
}

impl OutputGate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        lock(&self.state)
    }

    /// Enters a call that may block, once the client is not stopped.
    fn enter(&self) -> io::Result<Writing<'_>> {
        let mut state = self.state();
        while state.held && !state.closed {
            state = ignore_poison(self.changed.wait(state));
        }
        if state.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // SAFETY: it takes nothing and cannot fail.
        state.writers.push(unsafe { libc::pthread_self() });
        Ok(Writing(self))
    }

    /// Holds writes back, or lets them go on.
    pub(crate) fn hold(&self, held: bool) {
        self.state().held = held;
        self.changed.notify_all();
    }

    /// Ends all present and future writes.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        self.changed.notify_all();
        while !state.writers.is_empty() {
            for writer in &state.writers {
                // SAFETY: the thread lives: it takes itself off the list, under the lock, before it goes on.
                unsafe { libc::pthread_kill(*writer, INTERRUPT) };
            }
            // A thread that was not in its call yet when the signal came gets another one.
            let waited = self.changed.wait_timeout(state, RETRY);
            state = ignore_poison(waited).0;
        }
    }
}

/// A stream of a client.
pub(crate) struct ClientOutput {
    file: OwnedFd,
    is_stderr: bool,
    sender: Arc<FrameSender>,
    terminal: bool,
    gate: Arc<OutputGate>,
}

impl ClientOutput {
    /// The client learns of the first failed write through `sender`.
    pub(crate) fn new(
        file: OwnedFd,
        is_stderr: bool,
        gate: &Arc<OutputGate>,
        sender: &Arc<FrameSender>,
    ) -> Self {
        Self {
            terminal: file.is_terminal(),
            file,
            is_stderr,
            sender: Arc::clone(sender),
            gate: Arc::clone(gate),
        }
    }

    /// Tells the client of a failed write before it learns of the exit of any process that has lost something by it.
    fn tell(&self, error: &io::Error) {
        {
            let mut state = self.gate.state();
            if state.told || state.closed {
                return;
            }
            state.told = true;
        }
        let message = FromEngine::OutputFailed {
            stderr: self.is_stderr,
            error: SystemError::from(error),
        };
        // A client that has gone need not know.
        drop(self.sender.send(&body(&message), &[]));
    }

    fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let writing = self.gate.enter()?;
            match rustix::io::write(&self.file, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                // The client has made its descriptor non-blocking, or shares it with a program that has.
                Err(Errno::AGAIN) => {
                    let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
                    match poll(&mut fds, None) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                // A program whose standard output is closed writes to nothing, here as without a service.
                Err(Errno::BADF) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            drop(writing);
        }
        Ok(())
    }
}

impl OutputTarget for ClientOutput {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let written = self.write(bytes);
        written.inspect_err(|error| self.tell(error))
    }

    fn is_terminal(&self) -> bool {
        self.terminal
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;

    fn output() -> (ClientOutput, UnixStream, Arc<OutputGate>) {
        let (ours, theirs) = UnixStream::pair().expect("sockets can be made");
        let gate = Arc::<OutputGate>::default();
        let (socket, _) = UnixStream::pair().expect("sockets can be made");
        let sender = Arc::new(FrameSender::new(Arc::new(socket.into())));
        let output = ClientOutput::new(ours.into(), false, &gate, &sender);
        (output, theirs, gate)
    }

    #[test]
    fn writes_to_a_client_that_has_gone_end() {
        install_interrupt();
        let (output, reader, gate) = output();
        std::thread::scope(|scope| {
            // More than the socket holds, and the reader does not read.
            let writer = scope.spawn(|| output.write_all(&vec![0; 16 << 20]));
            while gate.state().writers.is_empty() {
                std::thread::yield_now();
            }
            gate.close();
            let written = writer.join().expect("it does not panic");
            let kind = written.expect_err("the client has gone").kind();
            assert_eq!(kind, io::ErrorKind::BrokenPipe);
        });
        drop(reader);
    }

    #[test]
    fn output_of_a_stopped_client_waits() {
        let (output, mut reader, gate) = output();
        gate.hold(true);
        let (done, finished) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                output.write_all(b"later").expect("it is read");
                done.send(()).expect("the test waits");
            });
            reader.set_nonblocking(true).expect("a socket can be");
            let mut bytes = [0; 5];
            let early = reader.read(&mut bytes).expect_err("nothing was written");
            assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
            assert!(finished.try_recv().is_err());
            gate.hold(false);
            finished.recv().expect("it goes on");
            assert_eq!(reader.read(&mut bytes).expect("it was written"), 5);
            assert_eq!(&bytes, b"later");
        });
    }

    #[test]
    fn a_descriptor_that_does_not_block_is_waited_for_and_left_as_it_is() {
        let (output, mut reader, _) = output();
        rustix::io::ioctl_fionbio(&output.file, true).expect("a socket can be");
        std::thread::scope(|scope| {
            let written = scope.spawn(|| output.write_all(&vec![7; 4 << 20]));
            let mut bytes = vec![0; 4 << 20];
            reader.read_exact(&mut bytes).expect("all of it comes");
            assert!(bytes.iter().all(|byte| *byte == 7));
            written.join().expect("no panic").expect("it is written");
        });
        let flags = rustix::fs::fcntl_getfl(&output.file).expect("it has flags");
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
    }
}
