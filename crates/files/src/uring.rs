//! Reads and syncs that are on their way through an io_uring, of one thread.
//!
//! When reads are submitted, the system copies the bytes that are in its cache, and goes on with the others while a disk works. So
//! a thread has as many of them on their way as there are places here, and many take one call.
//!
//! **Memory.** From [`push`](Mover::push) until its end was taken with [`take_ended`](Mover::take_ended), what is in a place is the system's:
//! the range or the frames that are filled, the vector of parts and the file. A place is not left before that, and a drop waits for all.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use io_uring::{IoUring, opcode, types};

/// What is on its way together, at most.
pub(crate) const PLACES: usize = 128;
/// What ends that is not in a place.
const BELL: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

/// Wakes a thread that waits for its ring.
#[derive(Debug)]
pub(crate) struct Wake {
    event: OwnedFd,
}

impl Wake {
    fn new() -> io::Result<Self> {
        // SAFETY: the call has no arguments that could be wrong.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened, and no one else has it.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { event })
    }
    /// Wakes the thread, now or when it waits next.
    pub(crate) fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the bytes are there. The call fails only if the counter is full, and then it is readable as well.
        unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
    fn clear(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: the bytes are there. Without a wake there is nothing to be read, and the call returns at once.
        unsafe {
            libc::read(
                self.event.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
    }
}

/// A ring that no thread uses yet.
pub(crate) struct Ring {
    ring: IoUring,
    wake: Arc<Wake>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring for a thread.
    ///
    /// # Errors
    /// The system has no io_uring, or does not allow it.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            ring: IoUring::new(2 * PLACES as u32)?,
            wake: Arc::new(Wake::new()?),
        })
    }
    pub(crate) fn wake(&self) -> Arc<Wake> {
        self.wake.clone()
    }
}

/// What a place asks of the system. The ranges are those that the place owns or keeps.
pub(crate) enum Asked {
    /// Fills a range from an offset on.
    Read {
        to: *mut u8,
        len: usize,
        from: u64,
    },
    /// Fills these parts, which the mover keeps, one after the other.
    ReadParts {
        parts: Vec<libc::iovec>,
        from: u64,
    },
    Sync,
}

/// What is on its way, and what has ended. `T` is what the caller has of each.
pub(crate) struct Mover<T> {
    ring: IoUring,
    wake: Arc<Wake>,
    places: Vec<Option<(T, Vec<libc::iovec>)>>,
    free: Vec<usize>,
    /// Entries that were not submitted.
    prepared: usize,
    /// The bell is watched.
    watched: bool,
    ended: Vec<(T, i32)>,
}

impl<T> Mover<T> {
    pub(crate) fn new(ring: Ring) -> Self {
        Self {
            ring: ring.ring,
            wake: ring.wake,
            places: (0..PLACES).map(|_| None).collect(),
            free: (0..PLACES).rev().collect(),
            prepared: 0,
            watched: false,
            ended: Vec::new(),
        }
    }
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == PLACES
    }
    fn enter(&mut self, entry: &io_uring::squeue::Entry) {
        // SAFETY: what an entry names is kept in its place until it has ended: see the module's documentation.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit(0);
        }
        self.prepared += 1;
    }
    fn submit(&mut self, wanted: usize) {
        if self.prepared == 0 && wanted == 0 {
            return self.reap();
        }
        let submitted = self.ring.submit_and_wait(wanted);
        self.prepared = self.ring.submission().len();
        if let Err(error) = submitted {
            // A signal, or no memory for more: those that have ended are taken first.
            let again = [libc::EINTR, libc::EAGAIN, libc::EBUSY].map(Some);
            assert!(again.contains(&error.raw_os_error()), "io_uring: {error}");
        }
        self.reap();
    }
    fn reap(&mut self) {
        let ends: Vec<(u64, i32)> = self
            .ring
            .completion()
            .map(|end| (end.user_data(), end.result()))
            .collect();
        for (data, result) in ends {
            match data {
                BELL => self.watched = false,
                CANCEL => {}
                place => {
                    let place = place as usize;
                    let (what, _) = self.places[place].take().expect("a place ends once");
                    self.free.push(place);
                    self.ended.push((what, result));
                }
            }
        }
    }
    /// Prepares something. The next [`turn`](Self::turn) submits it.
    ///
    /// # Panics
    /// There is no room.
    ///
    /// # Safety
    /// - The ranges are valid for writes as long as `what` lives, and nothing else uses them.
    /// - The descriptor is open as long as `what` lives.
    pub(crate) unsafe fn push(&mut self, what: T, file: RawFd, asked: Asked) {
        let place = self.free.pop().expect("the caller looks for room");
        let fd = types::Fd(file);
        let mut kept = Vec::new();
        let entry = match asked {
            Asked::Read { to, len, from } => {
                let len = u32::try_from(len).expect("reads are made in pieces");
                opcode::Read::new(fd, to, len).offset(from).build()
            }
            Asked::ReadParts { parts, from } => {
                kept = parts;
                let count = kept.len() as u32;
                // The vector's elements stay where they are when it moves into its place.
                opcode::Readv::new(fd, kept.as_ptr(), count)
                    .offset(from)
                    .build()
            }
            Asked::Sync => opcode::Fsync::new(fd).build(),
        };
        self.places[place] = Some((what, kept));
        self.enter(&entry.user_data(place as u64));
    }
    /// Asks the system to give up what `is` says. What has gone too far ends as ever. Returns how many were asked for.
    pub(crate) fn cancel(&mut self, mut is: impl FnMut(&mut T) -> bool) -> usize {
        let mut found = Vec::new();
        for (number, place) in self.places.iter_mut().enumerate() {
            if place.as_mut().is_some_and(|(what, _)| is(what)) {
                found.push(number);
            }
        }
        for &number in &found {
            // A place that ends while others are entered may get another number's cancel, which then finds nothing: no place is
            // filled here.
            let cancel = opcode::AsyncCancel::new(number as u64).build();
            self.enter(&cancel.user_data(CANCEL));
        }
        found.len()
    }
    /// Submits what was prepared. With `waits` it returns when something has ended or the thread was woken.
    pub(crate) fn turn(&mut self, waits: bool) {
        if !waits {
            return self.submit(0);
        }
        if !self.watched {
            let fd = types::Fd(self.wake.event.as_raw_fd());
            let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
            self.enter(&entry.user_data(BELL));
            self.watched = true;
        }
        while self.watched && self.ended.is_empty() {
            self.submit(1);
        }
        if !self.watched {
            self.wake.clear();
        }
    }
    /// Takes what has ended, each with its result: a count, or an error number that is negative.
    pub(crate) fn take_ended(&mut self) -> Vec<(T, i32)> {
        std::mem::take(&mut self.ended)
    }
}

impl<T> Drop for Mover<T> {
    fn drop(&mut self) {
        // The system may write to what is in a place.
        while !self.is_empty() {
            self.submit(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::time::{Duration, Instant};

    use super::*;

    /// A ring, unless this system has none; the test prints that.
    fn mover<T>() -> Option<Mover<T>> {
        let ring = Ring::new();
        if let Err(error) = &ring {
            eprintln!("skipped: no io_uring: {error}");
        }
        ring.ok().map(Mover::new)
    }
    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).expect("it is writable");
        file
    }

    #[test]
    fn a_read_for_every_place_is_done_together() {
        let Some(mut mover) = mover::<(usize, Vec<u8>)>() else {
            return;
        };
        let bytes: Vec<u8> = (0..PLACES * 1000).map(|at| (at * 7 / 3) as u8).collect();
        let file = file(&bytes);
        for round in 0..3 {
            for place in 0..PLACES {
                let mut to = vec![0; 100 + place];
                let (len, from) = (to.len(), (place * 1000 + round) as u64);
                let asked = match place % 2 {
                    0 => Asked::Read {
                        to: to.as_mut_ptr(),
                        len,
                        from,
                    },
                    _ => {
                        let part = |at: usize, len| libc::iovec {
                            iov_base: to.as_ptr().wrapping_add(at).cast_mut().cast(),
                            iov_len: len,
                        };
                        let parts = vec![part(0, 7), part(7, len - 7)];
                        Asked::ReadParts { parts, from }
                    }
                };
                // SAFETY: the vector's bytes stay where they are, and the file outlives the mover's use.
                unsafe { mover.push((place, to), file.as_raw_fd(), asked) };
            }
            assert_eq!(mover.room(), 0);
            let mut count = 0;
            while !mover.is_empty() || count < PLACES {
                mover.turn(!mover.is_empty());
                for ((place, to), result) in mover.take_ended() {
                    assert_eq!(result as usize, to.len());
                    assert_eq!(to, bytes[place * 1000 + round..][..to.len()]);
                    count += 1;
                }
            }
            assert_eq!(count, PLACES);
        }
    }

    #[test]
    fn errors_ends_and_syncs_are_reported() {
        let Some(mut mover) = mover::<Vec<u8>>() else {
            return;
        };
        let file = file(b"ten bytes!");
        for (from, found) in [(0, 10), (7, 3), (10, 0)] {
            let mut to = vec![0; 100];
            let asked = Asked::Read {
                to: to.as_mut_ptr(),
                len: 100,
                from,
            };
            // SAFETY: as above.
            unsafe { mover.push(to, file.as_raw_fd(), asked) };
            mover.turn(true);
            let ended = mover.take_ended();
            assert_eq!(ended.iter().map(|end| end.1).collect::<Vec<_>>(), [found]);
        }
        // SAFETY: nothing is written.
        unsafe { mover.push(Vec::new(), file.as_raw_fd(), Asked::Sync) };
        mover.turn(true);
        assert_eq!(mover.take_ended(), [(Vec::new(), 0)]);
    }

    #[test]
    fn a_thread_that_waits_is_woken_and_cancels() {
        let Some(mut mover) = mover::<Vec<u8>>() else {
            return;
        };
        // A pipe that no one writes to: the read waits.
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let mut to = vec![0; 8];
        let asked = Asked::Read {
            to: to.as_mut_ptr(),
            len: 8,
            from: u64::MAX,
        };
        // SAFETY: as above.
        unsafe { mover.push(to, reader.as_raw_fd(), asked) };
        let wake = mover.wake.clone();
        let begin = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                wake.wake();
            });
            mover.turn(true);
        });
        assert!(begin.elapsed() >= Duration::from_millis(20));
        assert!(mover.take_ended().is_empty() && !mover.is_empty());
        assert_eq!(mover.cancel(|_| true), 1);
        while !mover.is_empty() {
            mover.turn(true);
        }
        let ended = mover.take_ended();
        assert_eq!((ended.len(), ended[0].1), (1, -libc::ECANCELED));
    }
}
