//! The system calls that serve requests, and the faults that are injected into them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::errno::FileErrno;
use crate::faults::Faults;
use crate::record::Record;

/// How often a file may refuse for now before its request fails.
pub(crate) const PATIENCE: u32 = 1000;

/// The system.
#[derive(Debug)]
pub(crate) struct System {
    record: Option<Arc<Record>>,
    faults: Option<(Faults, Mutex<u64>)>,
}

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reads,
    Writes,
    Other,
    OfSocket(SocketCall),
}

/// What a call of a socket does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketCall {
    Accepts,
    /// Learns whether a connection was made.
    Connects,
    Receives,
    Sends,
    /// Receives or sends a datagram, which moves whole or not at all.
    Datagram,
    /// Has the socket watched.
    Watches,
}

impl Kind {
    /// Whether it may be refused for now.
    fn may_wait(self) -> bool {
        !matches!(self, Self::Other | Self::OfSocket(SocketCall::Watches))
    }
    /// Whether it may move fewer bytes than it could.
    fn may_be_short(self) -> bool {
        use SocketCall::{Receives, Sends};
        let of_socket = matches!(self, Self::OfSocket(Receives | Sends));
        of_socket || matches!(self, Self::Reads | Self::Writes)
    }
    /// The error of one that finds no room; accepting has one for descriptors and one for memory.
    fn no_room(self, amount: u64) -> Option<i32> {
        match self {
            Self::Writes | Self::OfSocket(SocketCall::Watches) => Some(libc::ENOSPC),
            Self::OfSocket(SocketCall::Accepts) if amount & 1 == 0 => Some(libc::EMFILE),
            Self::OfSocket(SocketCall::Accepts | SocketCall::Sends) => Some(libc::ENOBUFS),
            _ => None,
        }
    }
}

/// The next of a sequence of random numbers (Marsaglia's xorshift).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// An offset as the system has it. There it must not be negative: -1 is the file's own position.
pub(crate) fn offset(at: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(at).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// The result of a call that moves bytes.
fn moved(count: isize) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// The ranges without their first `skip` bytes, and no more than `len` bytes of the rest.
pub(crate) fn part_of(
    ranges: &[(*mut u8, usize)],
    mut skip: usize,
    mut len: usize,
) -> Vec<libc::iovec> {
    let mut parts = Vec::new();
    for &(first, bytes) in ranges {
        let before = skip.min(bytes);
        skip -= before;
        let bytes = (bytes - before).min(len);
        len -= bytes;
        if bytes > 0 {
            parts.push(libc::iovec {
                iov_base: first.wrapping_add(before).cast(),
                iov_len: bytes,
            });
        }
    }
    parts
}

/// Writes at an offset with one call; without one, after the file's last byte.
///
/// # Safety
/// - `from` is valid for reads of `len` bytes, and stays so during the call.
unsafe fn write_once(
    file: &File,
    from: *const u8,
    len: usize,
    to: Option<u64>,
) -> io::Result<usize> {
    let fd = file.as_raw_fd();
    moved(match to {
        Some(to) => {
            let at = offset(to)?;
            // SAFETY: by the caller's word.
            unsafe { libc::pwrite(fd, from.cast(), len, at) }
        }
        None => {
            let part = libc::iovec {
                iov_base: from.cast_mut().cast(),
                iov_len: len,
            };
            // SAFETY: as above; the offset is ignored.
            unsafe { libc::pwritev2(fd, &raw const part, 1, 0, libc::RWF_APPEND) }
        }
    })
}

impl System {
    /// The system with these faults. What changes files is recorded.
    pub(crate) fn new(faults: Option<Faults>, record: Option<Arc<Record>>) -> Self {
        // The state of the generator must not be 0.
        let faults = faults.map(|faults| (faults, Mutex::new(faults.seed.wrapping_mul(2) | 1)));
        Self { record, faults }
    }

    /// Whether a call happens, and how many of its bytes.
    fn fate(&self, kind: Kind, len: usize) -> io::Result<usize> {
        let Some((faults, state)) = &self.faults else {
            return Ok(len);
        };
        let (chances, amount) = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let chances: [u64; 7] = std::array::from_fn(|_| next(&mut state) % 1000);
            (chances, next(&mut state))
        };
        let hit = |at: usize, chance: u32| chances[at] < chance.into();
        if hit(0, faults.delayed) {
            let half = (faults.delay.as_micros() as u64).div_ceil(2).max(1);
            std::thread::sleep(Duration::from_micros(half + amount % half));
        }
        let error = |number| Err(io::Error::from_raw_os_error(number));
        if hit(1, faults.interrupted) {
            return error(libc::EINTR);
        }
        if hit(2, faults.failed) {
            return error(libc::EIO);
        }
        if kind.may_wait() && hit(3, faults.again) {
            return error(libc::EAGAIN);
        }
        if hit(4, faults.full)
            && let Some(number) = kind.no_room(amount)
        {
            return error(number);
        }
        let moves = [SocketCall::Receives, SocketCall::Sends].map(Kind::OfSocket);
        if moves.contains(&kind) && hit(6, faults.reset) {
            return error(libc::ECONNRESET);
        }
        if len > 1 && kind.may_be_short() && hit(5, faults.short) {
            return Ok(match amount & 1 {
                0 => 1,
                _ => 1 + (amount >> 1) as usize % (len - 1),
            });
        }
        Ok(len)
    }

    /// How many bytes of a part are read with one call through an io_uring.
    pub(crate) fn read_part(&self, len: usize) -> Result<usize, FileErrno> {
        self.patiently(|| self.fate(Kind::Reads, len))
    }
    /// Whether a call that moves no bytes happens.
    pub(crate) fn happens(&self) -> Result<(), FileErrno> {
        self.patiently(|| self.fate(Kind::Other, 0)).map(drop)
    }
    /// Whether what changes files is recorded.
    pub(crate) fn records(&self) -> bool {
        self.record.is_some()
    }
    /// Whether calls are just calls: without faults and without a record.
    pub(crate) fn is_plain(&self) -> bool {
        self.faults.is_none() && self.record.is_none()
    }
    /// Reads what is in the system's cache, if that is all; `None` if it has to wait.
    ///
    /// # Safety
    /// - Every range is valid for writes, and stays so during the call.
    pub(crate) unsafe fn read_now(
        &self,
        file: &File,
        ranges: &[(*mut u8, usize)],
        from: u64,
    ) -> Option<usize> {
        let len: usize = ranges.iter().map(|(_, len)| len).sum();
        let parts = part_of(ranges, 0, len);
        let (fd, at) = (file.as_raw_fd(), offset(from).ok()?);
        let count = parts.len() as libc::c_int;
        // SAFETY: the parts are the ranges, by the caller's word.
        let got = unsafe { libc::preadv2(fd, parts.as_ptr(), count, at, libc::RWF_NOWAIT) };
        // Fewer may be the end of the file, or the end of what is in the cache.
        (moved(got).ok()? == len).then_some(len)
    }
    /// What becomes of a call of a socket: how many of its bytes move, or an error. A call that was interrupted was made again.
    pub(crate) fn socket_fate(&self, call: SocketCall, len: usize) -> io::Result<usize> {
        loop {
            match self.fate(Kind::OfSocket(call), len) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                fate => return fate,
            }
        }
    }
    /// Whether a wait for times and peers ends at once and without a reason, as a signal makes it do. It may be late.
    pub(crate) fn ends_wait(&self) -> bool {
        let fate = self.fate(Kind::OfSocket(SocketCall::Datagram), 0);
        fate.is_err_and(|error| {
            use io::ErrorKind::{Interrupted, WouldBlock};
            matches!(error.kind(), Interrupted | WouldBlock)
        })
    }

    /// Makes a call until it neither was interrupted nor is refused for now.
    fn patiently<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> Result<T, FileErrno> {
        let mut refused = 0;
        loop {
            let error = match call() {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) if refused < PATIENCE => {
                    refused += 1;
                    std::thread::sleep(Duration::from_micros(u64::from(refused)));
                }
                _ => return Err(error.into()),
            }
        }
    }

    /// Moves bytes until all have moved or a call moves none. An error after some bytes is left to the next request.
    fn transfer(
        &self,
        kind: Kind,
        len: usize,
        mut step: impl FnMut(usize, usize) -> io::Result<usize>,
    ) -> Result<usize, FileErrno> {
        let mut done = 0;
        while done < len {
            let moved = self.patiently(|| step(done, self.fate(kind, len - done)?));
            match moved {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Reads from an offset on, until `len` bytes are there or the file ends.
    ///
    /// # Safety
    /// - `to` is valid for writes of `len` bytes, and stays so during the call.
    pub(crate) unsafe fn read(
        &self,
        file: &File,
        to: *mut u8,
        len: usize,
        from: u64,
    ) -> Result<usize, FileErrno> {
        self.transfer(Kind::Reads, len, |done, part| {
            let at = offset(from.saturating_add(done as u64))?;
            // SAFETY: the part is inside the range, by the caller's word.
            moved(unsafe { libc::pread(file.as_raw_fd(), to.add(done).cast(), part, at) })
        })
    }

    /// Writes at an offset; without one, after the file's last byte.
    ///
    /// # Safety
    /// - `from` is valid for reads of `len` bytes, and stays so during the call.
    pub(crate) unsafe fn write(
        &self,
        file: &File,
        from: *const u8,
        len: usize,
        to: Option<u64>,
    ) -> Result<usize, FileErrno> {
        self.transfer(Kind::Writes, len, |done, part| {
            // SAFETY: the part is inside the range, by the caller's word.
            let part_at = unsafe { from.add(done) };
            let at = to.map(|to| to.saturating_add(done as u64));
            let Some(record) = &self.record else {
                // SAFETY: as above.
                return unsafe { write_once(file, part_at, part, at) };
            };
            // Tasks may write to pages meanwhile, so the bytes are those of one moment.
            let mut bytes = vec![0; part];
            // SAFETY: as above, and the vector has that many bytes.
            unsafe { bytes.as_mut_ptr().copy_from(part_at, part) };
            record.write(file, at, bytes, |bytes| {
                // SAFETY: the range is that of the slice.
                unsafe { write_once(file, bytes.as_ptr(), bytes.len(), at) }
            })
        })
    }

    /// Fills ranges one after the other from an offset on. Returns how many bytes there were, and the error that ended it.
    ///
    /// # Safety
    /// - Every range is valid for writes, and stays so during the call.
    pub(crate) unsafe fn read_ranges(
        &self,
        file: &File,
        ranges: &[(*mut u8, usize)],
        from: u64,
    ) -> (usize, Option<FileErrno>) {
        let len = ranges.iter().map(|(_, len)| len).sum();
        let mut done = 0;
        while done < len {
            let moved = self.patiently(|| {
                let part = self.fate(Kind::Reads, len - done)?;
                let at = offset(from.saturating_add(done as u64))?;
                let parts = part_of(ranges, done, part);
                let fd = file.as_raw_fd();
                // SAFETY: the parts are inside the ranges, by the caller's word.
                moved(unsafe { libc::preadv(fd, parts.as_ptr(), parts.len() as libc::c_int, at) })
            });
            match moved {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) => return (done, Some(error)),
            }
        }
        (done, None)
    }

    /// Writes all of a range at an offset.
    ///
    /// # Safety
    /// - As of [`write`](Self::write).
    pub(crate) unsafe fn write_all(
        &self,
        file: &File,
        from: *const u8,
        len: usize,
        to: u64,
    ) -> Result<(), FileErrno> {
        let mut done = 0;
        while done < len {
            // SAFETY: the part is inside the range, by the caller's word.
            match unsafe { self.write(file, from.add(done), len - done, Some(to + done as u64)) }? {
                0 => return Err(FileErrno::IO),
                count => done += count,
            }
        }
        Ok(())
    }

    pub(crate) fn truncate(&self, file: &File, size: u64) -> Result<(), FileErrno> {
        self.patiently(|| {
            self.fate(Kind::Other, 0)?;
            offset(size)?;
            let call = || file.set_len(size);
            match &self.record {
                Some(record) => record.truncate(file, size, call),
                None => call(),
            }
        })
    }

    pub(crate) fn sync(&self, file: &File) -> Result<(), FileErrno> {
        self.patiently(|| {
            self.fate(Kind::Other, 0)?;
            let call = || file.sync_all();
            match &self.record {
                Some(record) => record.sync(file, call),
                None => call(),
            }
        })
    }

    pub(crate) fn metadata(&self, file: &File) -> Result<std::fs::Metadata, FileErrno> {
        self.patiently(|| {
            self.fate(Kind::Other, 0)?;
            file.metadata()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_faults_change_no_result() {
        for seed in 0..20 {
            let system = System::new(
                Some(Faults {
                    delayed: 0,
                    ..Faults::hidden(seed)
                }),
                None,
            );
            let file = tempfile::tempfile().expect("a temporary file");
            let bytes: Vec<u8> = (0..10_000_u32).map(|at| (at * 7 / 3) as u8).collect();
            let mut got = vec![0; bytes.len() + 10];
            // SAFETY: the ranges are those of the vectors.
            unsafe {
                let written = system.write(&file, bytes.as_ptr(), 9_000, Some(0));
                assert_eq!(written, Ok(9_000));
                let written = system.write(&file, bytes.as_ptr().add(9_000), 1_000, None);
                assert_eq!(written, Ok(1_000));
                let read = system.read(&file, got.as_mut_ptr(), got.len(), 0);
                assert_eq!(read, Ok(bytes.len()));
            }
            assert_eq!(got[..bytes.len()], bytes[..], "seed {seed}");
        }
    }

    #[test]
    fn hidden_faults_change_no_ranges() {
        for seed in 0..20 {
            let system = System::new(
                Some(Faults {
                    delayed: 0,
                    ..Faults::hidden(seed)
                }),
                None,
            );
            let file = tempfile::tempfile().expect("a temporary file");
            let bytes: Vec<u8> = (0..9_000_u32).map(|at| (at * 7 / 3) as u8).collect();
            let mut got = vec![0; bytes.len() + 100];
            // SAFETY: the ranges are those of the vectors.
            unsafe {
                let written = system.write_all(&file, bytes.as_ptr(), bytes.len(), 5);
                assert_eq!(written, Ok(()));
                let to = got.as_mut_ptr();
                let ranges = [(0, 1), (1, 4096), (4097, 1), (4098, 5000)];
                let ranges = ranges.map(|(at, len)| (to.add(at), len));
                let read = system.read_ranges(&file, &ranges, 5);
                assert_eq!(read, (bytes.len(), None));
            }
            assert_eq!(got[..bytes.len()], bytes[..], "seed {seed}");
        }
    }

    #[test]
    fn an_error_is_reported_unless_bytes_have_moved() {
        let failing = Faults {
            seed: 3,
            full: 1000,
            ..Faults::default()
        };
        let file = tempfile::tempfile().expect("a temporary file");
        let bytes = [1; 100];
        let write = |faults| {
            let system = System::new(Some(faults), None);
            // SAFETY: the range is that of the array.
            unsafe { system.write(&file, bytes.as_ptr(), bytes.len(), Some(0)) }
        };
        assert_eq!(write(failing), Err(FileErrno::NOSPC));
        let sometimes = Faults {
            full: 200,
            short: 1000,
            ..failing
        };
        let counts = (0..50).map(|seed| write(Faults { seed, ..sometimes }));
        let counts: Vec<_> = counts.collect();
        assert!(counts.iter().any(|c| matches!(c, Ok(1..100))), "{counts:?}");
        let never = Faults {
            again: 1000,
            ..Faults::default()
        };
        assert_eq!(write(never), Err(FileErrno::AGAIN), "not for ever");
    }
}
