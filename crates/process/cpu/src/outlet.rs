//! What all processes write to the streams of the program itself.
//!
//! Many threads have lines to write, and each write is a call of the system that keeps the others out. So whoever comes
//! while somebody writes leaves its lines with those that wait, and goes on; who writes takes all of them with its
//! next write. Alone, a line is written at once.

use std::io::{self, Write};
use std::mem::take;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes beyond which nobody leaves more.
const WAITING_MOST: usize = 1 << 20;

/// One stream of the program's.
pub(crate) struct Outlet {
    /// Writes all of it.
    write: fn(&[u8]) -> io::Result<()>,
    state: Mutex<State>,
    /// What waited is being written.
    taken: Condvar,
}

struct State {
    waiting: Vec<u8>,
    /// Somebody writes, and looks for more before it stops.
    writes: bool,
    /// Why what was left could not be written, to be told to who comes next.
    failed: Option<io::Error>,
}

/// Standard output.
pub(crate) static STDOUT: Outlet = Outlet::new(|text| {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
});
/// Standard error.
pub(crate) static STDERR: Outlet = Outlet::new(|text| io::stderr().lock().write_all(text));

impl Outlet {
    const fn new(write: fn(&[u8]) -> io::Result<()>) -> Self {
        Self {
            write,
            state: Mutex::new(State {
                waiting: Vec::new(),
                writes: false,
                failed: None,
            }),
            taken: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes whole lines, or leaves them with who writes: then they are written before that one's call returns.
    ///
    /// # Errors
    /// They could not be written, or what was left before.
    pub(crate) fn add(&self, lines: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        while state.writes && state.waiting.len() >= WAITING_MOST {
            state = (self.taken.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        if state.writes {
            state.waiting.extend_from_slice(lines);
            return Ok(());
        }
        state.writes = true;
        drop(state);
        let own = (self.write)(lines);
        loop {
            let mut state = self.state();
            let others = take(&mut state.waiting);
            if others.is_empty() {
                state.writes = false;
                return own;
            }
            drop(state);
            self.taken.notify_all();
            if let Err(error) = (self.write)(&others) {
                self.state().failed = Some(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_line_of_many_threads_is_written_once_and_in_its_threads_order() {
        static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        static WRITES: AtomicUsize = AtomicUsize::new(0);
        static OUTLET: Outlet = Outlet::new(|text| {
            WRITES.fetch_add(1, Ordering::Relaxed);
            WRITTEN.lock().expect("nobody panics").extend(text);
            Ok(())
        });
        const THREADS: usize = 8;
        const LINES: usize = 2000;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for line in 0..LINES {
                        let text = format!("{thread} {line}\n");
                        OUTLET.add(text.as_bytes()).expect("it is writable");
                    }
                });
            }
        });
        let written = String::from_utf8(WRITTEN.lock().expect("nobody panics").clone());
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

    #[test]
    fn who_comes_next_hears_that_what_was_left_is_lost() {
        static OTHER: Mutex<()> = Mutex::new(());
        static OUTLET: Outlet = Outlet::new(|text| match text {
            b"first\n" => {
                drop(OTHER.lock().expect("nobody panics"));
                Ok(())
            }
            b"lost\n" => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        });
        std::thread::scope(|scope| {
            let held = OTHER.lock().expect("nobody panics");
            let first = scope.spawn(|| OUTLET.add(b"first\n"));
            while !OUTLET.state().writes {
                std::thread::yield_now();
            }
            OUTLET.add(b"lost\n").expect("it waits");
            drop(held);
            let first = first.join().expect("nobody panics");
            first.expect("its own line was written");
        });
        let next = OUTLET.add(b"next\n").expect_err("the one before was lost");
        assert_eq!(next.kind(), io::ErrorKind::BrokenPipe);
        OUTLET.add(b"next\n").expect("it has been told");
    }
}
