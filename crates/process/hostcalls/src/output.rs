//! The host's output streams, to which processes write.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use everwarp_engine::sync::lock;
use everwarp_process::{OutputErrors, OutputStream};

use crate::errno::Errno;

/// Bytes of lines that wait at most.
const PENDING_MOST: usize = 64 << 10;

/// The error of a process's lines that could not be written later, after the process's write had succeeded. The
/// process's next write to the stream gets it.
#[derive(Debug, Default)]
pub(crate) struct LostLines(AtomicU32);

impl LostLines {
    /// Takes the error, if lines were lost since the last call.
    pub(crate) fn take(&self) -> Option<Errno> {
        // Most writes find none, and a load is cheaper than an exchange.
        if self.0.load(SeqCst) == 0 {
            return None;
        }
        Errno::of_number(self.0.swap(0, SeqCst))
    }

    fn set(&self, errno: Errno) {
        self.0.store(errno.number(), SeqCst);
    }
}

/// A stream of the host that processes share.
pub struct HostOutput {
    state: Mutex<WriterState>,
    /// How many threads are serving requests that they have got together. Whole lines may wait until these threads
    /// have served them, because each write is a call of the system.
    deferring: AtomicUsize,
    terminal: bool,
    stream: OutputStream,
    errors: Arc<OutputErrors>,
}

struct WriterState {
    writer: Box<dyn Write + Send>,
    /// Lines that have not been written yet.
    pending: Vec<u8>,
    /// The processes whose lines they are. Neighbours in the list differ.
    owners: Vec<Arc<LostLines>>,
    /// The reader has closed the pipe: every later write fails at once.
    closed: bool,
}

impl WriterState {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)?;
        self.writer.flush()
    }
}

/// Whole lines may wait to be written as long as it lives.
pub(crate) struct Deferred<'a>(&'a HostOutput);

impl Drop for Deferred<'_> {
    fn drop(&mut self) {
        self.0.deferring.fetch_sub(1, SeqCst);
        self.0.settle();
    }
}

impl HostOutput {
    /// A stream; `terminal` says what processes that write to it directly learn about it.
    pub fn new(writer: impl Write + Send + 'static, terminal: bool) -> Self {
        Self {
            state: Mutex::new(WriterState {
                writer: Box::new(writer),
                pending: Vec::new(),
                owners: Vec::new(),
                closed: false,
            }),
            deferring: AtomicUsize::new(0),
            terminal,
            stream: OutputStream::Stdout,
            errors: Arc::default(),
        }
    }

    /// The same stream, whose errors are recorded as those of `stream`.
    pub(crate) fn recording(self, stream: OutputStream, errors: &Arc<OutputErrors>) -> Self {
        Self {
            stream,
            errors: Arc::clone(errors),
            ..self
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Lets whole lines wait until the result is dropped.
    pub(crate) fn defer(&self) -> Deferred<'_> {
        self.deferring.fetch_add(1, SeqCst);
        Deferred(self)
    }

    /// Writes the lines that wait. An error is recorded.
    pub(crate) fn settle(&self) {
        let mut state = lock(&self.state);
        if !state.pending.is_empty() {
            drop(self.write_pending(&mut state));
        }
    }

    /// Records an error of the writer.
    fn failed(&self, state: &mut WriterState, error: &io::Error) {
        state.closed |= error.kind() == io::ErrorKind::BrokenPipe;
        self.errors.report(self.stream, error);
    }

    fn write_pending(&self, state: &mut WriterState) -> io::Result<()> {
        let pending = std::mem::take(&mut state.pending);
        let written = state.write(&pending);
        if let Err(error) = &written {
            self.failed(state, error);
            let errno = Errno::of(error);
            state.owners.iter().for_each(|owner| owner.set(errno));
        }
        // The buffer is used again.
        state.pending = pending;
        state.pending.clear();
        state.owners.clear();
        written
    }

    /// Writes bytes, after the lines that wait.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if !state.pending.is_empty() {
            state.pending.extend_from_slice(bytes);
            return self.write_pending(&mut state);
        }
        let written = state.write(bytes);
        if let Err(error) = &written {
            self.failed(&mut state, error);
        }
        written
    }

    /// Writes whole lines of a process, perhaps a little later.
    pub(crate) fn write_lines(&self, bytes: &[u8], owner: &Arc<LostLines>) -> io::Result<()> {
        if self.deferring.load(SeqCst) == 0 {
            return self.write(bytes);
        }
        let mut state = lock(&self.state);
        if state.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.pending.extend_from_slice(bytes);
        // The last thread that defers may have settled before these were added.
        if state.pending.len() >= PENDING_MOST || self.deferring.load(SeqCst) == 0 {
            return self.write_pending(&mut state);
        }
        let is_last = state.owners.last().is_some_and(|o| Arc::ptr_eq(o, owner));
        if !is_last {
            state.owners.push(Arc::clone(owner));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for some bytes, or a pipe whose reader reads as many.
    struct Limited {
        room: usize,
        error: io::ErrorKind,
    }

    impl Write for Limited {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.room);
            self.room -= fits;
            match fits {
                0 => Err(self.error.into()),
                fits => Ok(fits),
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn limited(room: usize, error: io::ErrorKind) -> (HostOutput, Arc<OutputErrors>) {
        let errors = Arc::new(OutputErrors::new());
        let output = HostOutput::new(Limited { room, error }, false);
        (output.recording(OutputStream::Stdout, &errors), errors)
    }

    #[test]
    fn lines_that_are_lost_later_fail_the_next_write_of_their_own_process() {
        let (output, errors) = limited(4, io::ErrorKind::StorageFull);
        let [early, late, other]: [Arc<LostLines>; 3] = Default::default();
        let deferred = output.defer();
        assert!(output.write_lines(b"one\n", &early).is_ok());
        assert!(output.write_lines(b"two\n", &late).is_ok());
        assert_eq!(errors.first(), None);
        drop(deferred);
        // How many of the bytes were written is not known, so both lines count as lost.
        assert!(early.take().is_some());
        assert!(late.take().is_some());
        assert_eq!(late.take(), None, "an error is reported once");
        assert_eq!(other.take(), None);
        let first = errors.first().expect("the error was recorded");
        assert_eq!(first.kind, io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_closed_pipe_fails_every_later_write() {
        let (output, errors) = limited(0, io::ErrorKind::BrokenPipe);
        let owner = Arc::default();
        let deferred = output.defer();
        assert!(output.write_lines(b"lost\n", &owner).is_ok());
        output.settle();
        for _ in 0..3 {
            let kind = |written: io::Result<()>| written.map_err(|e| e.kind());
            let broken = Err(io::ErrorKind::BrokenPipe);
            assert_eq!(kind(output.write(b"x")), broken);
            assert_eq!(kind(output.write_lines(b"x\n", &owner)), broken);
        }
        drop(deferred);
        let first = errors.first().expect("the error was recorded");
        assert_eq!(first.kind, io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_full_disk_that_has_room_again_is_written_to() {
        let (output, errors) = limited(2, io::ErrorKind::StorageFull);
        assert!(output.write(b"abc").is_err());
        lock(&output.state).writer = Box::new(io::sink());
        assert!(output.write(b"def").is_ok());
        assert!(errors.first().is_some(), "what was lost stays recorded");
    }
}
