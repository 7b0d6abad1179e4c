//! The standard streams of the host program, to which its processes write.
//!
//! Many threads have lines to write, and each write is a system call that keeps the other threads out. So a thread that
//! comes while another one writes leaves its lines with that writer and goes on; the writer takes all waiting lines with
//! its next write. A line that comes alone is written at once.
//!
//! A left line can still be lost: the disk is full, or the reader has closed the pipe. So each process has a
//! [`Delivery`], which learns whether its lines were written, and the process does not exit before they were.

use std::io::{self, Write};
use std::mem::take;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tokio::sync::Notify;

use crate::lock::{lock, wait};

/// Bytes of waiting lines beyond which a thread waits instead of leaving more.
const WAITING_MOST: usize = 1 << 20;

/// Why lines were not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LostLines {
    kind: io::ErrorKind,
    code: Option<i32>,
}

impl LostLines {
    fn of(error: &io::Error) -> Self {
        Self {
            kind: error.kind(),
            code: error.raw_os_error(),
        }
    }

    /// The system's error.
    pub(crate) fn error(self) -> io::Error {
        match self.code {
            Some(code) => io::Error::from_raw_os_error(code),
            None => self.kind.into(),
        }
    }
}

#[derive(Default)]
struct DeliveryState {
    /// Batches that hold lines of this stream and have not been written.
    pending: usize,
    /// The last error.
    lost: Option<LostLines>,
    /// Whether the process has not received that error from a write.
    unreported: bool,
}

/// The lines of one process on one stream, on their way.
#[derive(Default)]
pub(crate) struct Delivery(Mutex<DeliveryState>);

impl Delivery {
    fn fail(&self, error: &io::Error, unreported: bool) {
        let mut state = lock(&self.0);
        state.lost = Some(LostLines::of(error));
        state.unreported = unreported;
    }

    /// A batch with lines of this stream was written, or was not.
    fn settle(&self, error: Option<&io::Error>) {
        if let Some(error) = error {
            self.fail(error, true);
        }
        lock(&self.0).pending -= 1;
    }

    /// An error that the process has not received yet.
    fn take_unreported(&self) -> Option<LostLines> {
        let mut state = lock(&self.0);
        let unreported = take(&mut state.unreported);
        state.lost.filter(|_| unreported)
    }
}

/// One standard stream of the host program.
pub(crate) struct HostStream {
    /// Writes all bytes.
    write: fn(&[u8]) -> io::Result<()>,
    batch: Mutex<Batch>,
    /// The writer has taken the waiting lines, so there is room for more.
    taken: Condvar,
    /// The writer has written left lines, or has failed to.
    written: Notify,
    /// The reader has closed the pipe.
    closed: AtomicBool,
}

/// The lines that wait for the writer.
struct Batch {
    waiting: Vec<u8>,
    /// The streams with lines in `waiting`.
    deliveries: Vec<Arc<Delivery>>,
    /// A thread writes, and looks for more before it stops.
    writing: bool,
}

/// Standard output.
pub(crate) static STDOUT: HostStream = HostStream::new(|text| {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
});
/// Standard error.
pub(crate) static STDERR: HostStream = HostStream::new(|text| io::stderr().lock().write_all(text));

impl HostStream {
    pub(crate) const fn new(write: fn(&[u8]) -> io::Result<()>) -> Self {
        Self {
            write,
            batch: Mutex::new(Batch {
                waiting: Vec::new(),
                deliveries: Vec::new(),
                writing: false,
            }),
            taken: Condvar::new(),
            written: Notify::const_new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Whether a write has found that the reader has closed the pipe.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Writes bytes at once.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let written = (self.write)(bytes);
        if matches!(&written, Err(error) if error.kind() == io::ErrorKind::BrokenPipe) {
            self.closed.store(true, Ordering::Relaxed);
        }
        written
    }

    /// Writes whole lines. If another thread is writing, leaves the lines with it: it writes them before its own call
    /// returns, and `delivery` learns of an error.
    ///
    /// # Errors
    /// The lines were not written, or lines that this stream left before were not. In the second case these lines were
    /// not written either.
    pub(crate) fn write_lines(&self, lines: &[u8], delivery: &Arc<Delivery>) -> io::Result<()> {
        let mut batch = lock(&self.batch);
        while batch.writing && batch.waiting.len() >= WAITING_MOST {
            batch = wait(&self.taken, batch);
        }
        if let Some(lost) = delivery.take_unreported() {
            return Err(lost.error());
        }
        if batch.writing {
            batch.waiting.extend_from_slice(lines);
            let is_in = batch.deliveries.last().is_some_and(|d| Arc::ptr_eq(d, delivery));
            if !is_in {
                lock(&delivery.0).pending += 1;
                batch.deliveries.push(Arc::clone(delivery));
            }
            return Ok(());
        }
        batch.writing = true;
        drop(batch);
        let own = self.write(lines);
        if let Err(error) = &own {
            delivery.fail(error, false);
        }
        self.write_waiting();
        own
    }

    /// Writes what other threads leave until nothing is left.
    fn write_waiting(&self) {
        loop {
            let mut batch = lock(&self.batch);
            let lines = take(&mut batch.waiting);
            let deliveries = take(&mut batch.deliveries);
            if lines.is_empty() {
                batch.writing = false;
                return;
            }
            drop(batch);
            self.taken.notify_all();
            let written = self.write(&lines);
            for delivery in deliveries {
                delivery.settle(written.as_ref().err());
            }
            self.written.notify_waiters();
        }
    }

    /// Waits until the lines that a stream has left were written. Returns why some of its lines were lost, if any were.
    pub(crate) async fn delivered(&self, delivery: &Delivery) -> Option<LostLines> {
        loop {
            // Enabled before the check, so that a write after the check wakes this waiter.
            let mut written = pin!(self.written.notified());
            written.as_mut().enable();
            {
                let state = lock(&delivery.0);
                if state.pending == 0 {
                    return state.lost;
                }
            }
            written.await;
        }
    }

    /// Whether [`Self::delivered`] has to wait.
    pub(crate) fn is_pending(delivery: &Delivery) -> bool {
        lock(&delivery.0).pending > 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn lines_of_many_threads_are_written_once_and_in_each_threads_order() {
        static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        static WRITES: AtomicUsize = AtomicUsize::new(0);
        static STREAM: HostStream = HostStream::new(|text| {
            WRITES.fetch_add(1, Ordering::Relaxed);
            lock(&WRITTEN).extend(text);
            Ok(())
        });
        const THREADS: usize = 8;
        const LINES: usize = 2000;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    let delivery = Arc::default();
                    for line in 0..LINES {
                        let text = format!("{thread} {line}\n");
                        let written = STREAM.write_lines(text.as_bytes(), &delivery);
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
    }

    /// The state of a delivery, without waiting for it.
    fn poll(stream: &HostStream, delivery: &Delivery) -> Poll<Option<LostLines>> {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(stream.delivered(delivery)).as_mut().poll(&mut cx)
    }

    #[test]
    fn lost_lines_are_reported_to_their_own_process_and_to_no_other() {
        static HELD: Mutex<()> = Mutex::new(());
        static STREAM: HostStream = HostStream::new(|text| match text {
            b"first\n" => {
                drop(lock(&HELD));
                Ok(())
            }
            b"lost\n" => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        });
        let (first, loser): (Arc<Delivery>, Arc<Delivery>) = Default::default();
        std::thread::scope(|scope| {
            let held = lock(&HELD);
            let writer = scope.spawn(|| STREAM.write_lines(b"first\n", &first));
            while !lock(&STREAM.batch).writing {
                std::thread::yield_now();
            }
            STREAM.write_lines(b"lost\n", &loser).expect("it was left with the writer");
            assert_eq!(poll(&STREAM, &loser), Poll::Pending);
            drop(held);
            let written = writer.join().expect("the writer does not panic");
            written.expect("its own line was written");
        });
        assert_eq!(poll(&STREAM, &first), Poll::Ready(None));
        let lost = LostLines::of(&io::ErrorKind::BrokenPipe.into());
        assert_eq!(poll(&STREAM, &loser), Poll::Ready(Some(lost)));
        assert!(STREAM.is_closed());
        let next = STREAM.write_lines(b"next\n", &loser);
        let error = next.expect_err("the line before was lost");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        STREAM.write_lines(b"next\n", &loser).expect("the process knows of the loss");
        assert_eq!(poll(&STREAM, &loser), Poll::Ready(Some(lost)), "it stays lost");
        STREAM.write_lines(b"other\n", &first).expect("nothing of it was lost");
    }

    /// Half of the lines used to vanish without a trace: the error of a left line went to the next writer, if any came.
    #[test]
    fn full_device_is_reported_to_every_process_that_wrote() {
        static STREAM: HostStream =
            HostStream::new(|_| Err(io::Error::from_raw_os_error(28)));
        for _ in 0..100 {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let delivery = Arc::default();
                        // The error arrives here or at the end, but it arrives.
                        drop(STREAM.write_lines(b"line\n", &delivery));
                        let lost = loop {
                            match poll(&STREAM, &delivery) {
                                Poll::Ready(lost) => break lost,
                                Poll::Pending => std::thread::yield_now(),
                            }
                        };
                        let code = lost.expect("the line was lost").error().raw_os_error();
                        assert_eq!(code, Some(28));
                    });
                }
            });
        }
        assert!(!STREAM.is_closed(), "a full device has no reader that left");
    }
}
