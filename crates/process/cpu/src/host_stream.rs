//! The standard streams of a host, to which its processes write.
//!
//! Many threads have lines to write, and each write is a system call that keeps the other threads out. So a thread that
//! comes while another one writes leaves its lines with that writer and goes on; the writer takes all waiting lines with
//! its next write. A line that comes alone is written at once.
//!
//! A left line can still be lost: the disk is full, or the reader has closed the pipe. Its process may have exited by
//! then. So every failed write is recorded with the host of each process that has lost something by it.

use std::io;
use std::mem::take;
use std::sync::{Arc, Condvar, LazyLock, Mutex};

use everwarp_process::{OutputErrors, OutputStream, OutputTarget, ProgramStderr, ProgramStdout};

use crate::lock::{lock, wait};

/// Bytes of waiting lines beyond which a thread waits instead of leaving more.
const WAITING_MOST: usize = 1 << 20;

/// One standard stream of a host.
pub(crate) struct HostStream {
    name: OutputStream,
    target: Arc<dyn OutputTarget>,
    batch: Mutex<Batch>,
    /// The writer has taken the waiting lines, so there is room for more.
    taken: Condvar,
}

/// The lines that wait for the writer.
struct Batch {
    waiting: Vec<u8>,
    /// The hosts whose processes have lines in `waiting`.
    hosts: Vec<Arc<OutputErrors>>,
    /// A thread writes, and looks for more before it stops.
    writing: bool,
    /// Why left lines were not written; the next process that writes gets this error.
    failed: Option<io::Error>,
}

/// The streams of this program. All hosts that write to them share the batches, so that their lines do not mix.
static PROGRAM: LazyLock<[Arc<HostStream>; 2]> = LazyLock::new(|| {
    [
        HostStream::new(OutputStream::Stdout, Arc::new(ProgramStdout)),
        HostStream::new(OutputStream::Stderr, Arc::new(ProgramStderr)),
    ]
});

impl HostStream {
    pub(crate) fn new(name: OutputStream, target: Arc<dyn OutputTarget>) -> Arc<Self> {
        Arc::new(Self {
            name,
            target,
            batch: Mutex::new(Batch {
                waiting: Vec::new(),
                hosts: Vec::new(),
                writing: false,
                failed: None,
            }),
            taken: Condvar::new(),
        })
    }

    /// Standard output and standard error of this program.
    pub(crate) fn of_program() -> [Arc<Self>; 2] {
        PROGRAM.clone()
    }

    /// Whether the stream is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.target.is_terminal()
    }

    /// Writes bytes at once, for a process of the host with these errors.
    pub(crate) fn write(&self, bytes: &[u8], errors: &OutputErrors) -> io::Result<()> {
        let written = self.target.write_all(bytes);
        if let Err(error) = &written {
            errors.report(self.name, error);
        }
        written
    }

    /// Writes whole lines. If another thread is writing, leaves the lines with it: it writes them before its own call
    /// returns, or records the error.
    ///
    /// # Errors
    /// The lines were not written, or lines that another process has left before were not. In the second case these
    /// lines were not written either.
    pub(crate) fn write_lines(&self, lines: &[u8], errors: &Arc<OutputErrors>) -> io::Result<()> {
        let mut batch = lock(&self.batch);
        while batch.writing && batch.waiting.len() >= WAITING_MOST {
            batch = wait(&self.taken, batch);
        }
        if let Some(error) = batch.failed.take() {
            errors.report(self.name, &error);
            return Err(error);
        }
        if batch.writing {
            batch.waiting.extend_from_slice(lines);
            if !batch.hosts.iter().any(|host| Arc::ptr_eq(host, errors)) {
                batch.hosts.push(Arc::clone(errors));
            }
            return Ok(());
        }
        batch.writing = true;
        drop(batch);
        let own = self.write(lines, errors);
        self.write_waiting();
        own
    }

    /// Writes what other threads leave until nothing is left.
    fn write_waiting(&self) {
        loop {
            let mut batch = lock(&self.batch);
            let lines = take(&mut batch.waiting);
            let hosts = take(&mut batch.hosts);
            if lines.is_empty() {
                batch.writing = false;
                return;
            }
            drop(batch);
            self.taken.notify_all();
            if let Err(error) = self.target.write_all(&lines) {
                hosts.iter().for_each(|host| host.report(self.name, &error));
                lock(&self.batch).failed = Some(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A stream that a function writes.
    struct Written(fn(&[u8]) -> io::Result<()>);

    impl OutputTarget for Written {
        fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
            (self.0)(bytes)
        }

        fn is_terminal(&self) -> bool {
            false
        }
    }

    fn stream(name: OutputStream, write: fn(&[u8]) -> io::Result<()>) -> Arc<HostStream> {
        HostStream::new(name, Arc::new(Written(write)))
    }

    #[test]
    fn lines_of_many_threads_are_written_once_and_in_each_threads_order() {
        static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        static WRITES: AtomicUsize = AtomicUsize::new(0);
        let target = stream(OutputStream::Stdout, |text| {
            WRITES.fetch_add(1, Ordering::Relaxed);
            lock(&WRITTEN).extend(text);
            Ok(())
        });
        const THREADS: usize = 8;
        const LINES: usize = 2000;
        let errors = Arc::new(OutputErrors::new());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (errors, target) = (&errors, &target);
                scope.spawn(move || {
                    for line in 0..LINES {
                        let text = format!("{thread} {line}\n");
                        let written = target.write_lines(text.as_bytes(), errors);
                        written.expect("it is writable");
                    }
                });
            }
        });
        let written = String::from_utf8(lock(&WRITTEN).clone());
        let mut next = [0; THREADS];
        for line in written.expect("it is text").lines() {
            let (thread, number) = line.split_once(' ').expect("two numbers");
            let thread: usize = thread.parse().expect("a number");
            assert_eq!(number.parse(), Ok(next[thread]));
            next[thread] += 1;
        }
        assert_eq!(next, [LINES; THREADS]);
        assert!(WRITES.load(Ordering::Relaxed) <= THREADS * LINES);
        assert_eq!(errors.first(), None);
    }

    /// The lost lines of a process used to be reported only to the next writer, if any came.
    #[test]
    fn lost_lines_are_recorded_with_their_host_and_reported_to_the_next_writer() {
        static HELD: Mutex<()> = Mutex::new(());
        let target = stream(OutputStream::Stderr, |text| match text {
            b"first\n" => {
                drop(lock(&HELD));
                Ok(())
            }
            b"lost\n" => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        });
        let [writer, loser] = [(); 2].map(|()| Arc::new(OutputErrors::new()));
        std::thread::scope(|scope| {
            let held = lock(&HELD);
            let written = scope.spawn(|| target.write_lines(b"first\n", &writer));
            while !lock(&target.batch).writing {
                std::thread::yield_now();
            }
            let left = target.write_lines(b"lost\n", &loser);
            left.expect("it was left with the writer");
            assert_eq!(loser.first(), None);
            drop(held);
            let written = written.join().expect("the writer does not panic");
            written.expect("its own line was written");
        });
        // The writer's call has returned, so everything that was left with it is decided.
        assert_eq!(writer.first(), None, "it has lost nothing");
        let lost = loser.first().expect("its line was lost");
        assert_eq!(lost.stream, OutputStream::Stderr);
        assert_eq!(lost.kind, io::ErrorKind::BrokenPipe);
        let next = target.write_lines(b"next\n", &loser);
        let error = next.expect_err("the line before was lost");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let next = target.write_lines(b"next\n", &loser);
        next.expect("the error was reported once");
    }

    /// With four processes on a full device, some runs reported success with half of the output missing.
    #[test]
    fn full_device_is_recorded_whichever_thread_finds_it() {
        static WRITES: AtomicUsize = AtomicUsize::new(0);
        let target = stream(OutputStream::Stdout, |_| {
            // Every second write fails, as at the end of a device whose blocks are freed now and then.
            match WRITES.fetch_add(1, Ordering::Relaxed) % 2 {
                0 => Ok(()),
                _ => Err(io::Error::from_raw_os_error(28)),
            }
        });
        for _ in 0..200 {
            let before = WRITES.load(Ordering::Relaxed);
            let errors = Arc::new(OutputErrors::new());
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    // The processes ignore the errors of their writes.
                    scope.spawn(|| drop(target.write_lines(b"line\n", &errors)));
                }
            });
            let writes = WRITES.load(Ordering::Relaxed) - before;
            let lost = errors.first().map(|error| error.kind);
            assert!(
                writes < 2 || lost == Some(io::ErrorKind::StorageFull),
                "{writes}"
            );
        }
    }
}
