//! Reads of many files at once, through an io_uring.
//!
//! When reads are submitted, the system copies the bytes that are in the page cache, and goes on with the other reads
//! while a disk works. So one thread has as many reads on their way as there are places here, where plain calls have one.
//!
//! **Memory.** A read goes to the buffer of its place. This type owns the buffer, and the system may access it until it has
//! reported the end of the read. A place is not used again before that. If a read is still on its way when the type is
//! dropped, which only a panic explains, the memory of its buffer is leaked.

use std::io;
use std::mem::{forget, take};
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types::Fd};
use rustix::io::Errno as Host;

use crate::errno::Result;

/// The most reads that are on their way together.
pub(crate) const DEPTH: usize = 128;

/// An io_uring, and buffers for its reads.
pub(crate) struct Disk {
    ring: IoUring,
    buffers: Vec<Vec<u8>>,
    /// Whether the system has the buffer of each place.
    out: Vec<bool>,
}

impl Disk {
    /// An io_uring of [`DEPTH`] places.
    ///
    /// # Errors
    /// The system has no io_uring, or does not allow it.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            ring: IoUring::new(DEPTH as u32)?,
            buffers: vec![Vec::new(); DEPTH],
            out: vec![false; DEPTH],
        })
    }

    /// The buffer of a place, with the bytes that were read.
    pub(crate) fn buffer(&mut self, place: usize) -> &mut Vec<u8> {
        assert!(!self.out[place], "the system has the buffer");
        &mut self.buffers[place]
    }

    /// Prepares a read of `length` bytes for this place. From now on the system has the place's buffer. The next
    /// [`Disk::ends`] submits the read.
    pub(crate) fn begin(&mut self, place: usize, file: &impl AsRawFd, offset: i64, length: u32) {
        assert!(!self.out[place], "the place has a read");
        assert!(offset >= 0, "for the system -1 is the file's own position");
        let buffer = &mut self.buffers[place];
        buffer.resize(length as usize, 0);
        let entry = opcode::Read::new(Fd(file.as_raw_fd()), buffer.as_mut_ptr(), length)
            .offset(offset.cast_unsigned())
            .build()
            .user_data(place as u64);
        self.out[place] = true;
        // SAFETY: the buffer is as long as the entry says and stays where it is while the place is out, because
        // `buffer` and `begin` refuse such a place and `drop` leaks its memory. The file is open until the entry is
        // submitted, since the caller keeps it until the read has ended.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("there are as many entries as places");
    }

    /// Submits the prepared reads, waits until some reads have ended, and returns their places and how many bytes they
    /// read; `false` if no read is on its way.
    pub(crate) fn ends(&mut self, ended: &mut Vec<(usize, Result<usize>)>) -> bool {
        ended.clear();
        if !self.out.contains(&true) {
            return false;
        }
        while ended.is_empty() {
            if let Err(error) = self.ring.submit_and_wait(1) {
                // A signal, or no memory for more: the reads that have ended are taken first.
                let again = [Host::INTR, Host::AGAIN, Host::BUSY].map(Some);
                let known = again.contains(&Host::from_io_error(&error));
                assert!(known, "io_uring: {error}");
            }
            for end in self.ring.completion() {
                let place = end.user_data() as usize;
                assert!(take(&mut self.out[place]), "a place ends once");
                let bytes = usize::try_from(end.result())
                    .map_err(|_| Host::from_raw_os_error(-end.result()).into());
                if let Ok(bytes) = bytes {
                    self.buffers[place].truncate(bytes);
                }
                ended.push((place, bytes));
            }
        }
        true
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for (buffer, out) in self.buffers.iter_mut().zip(&self.out) {
            if *out {
                forget(take(buffer));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::errno::Errno;

    /// An io_uring, unless this system has none; the test prints that.
    fn disk() -> Option<Disk> {
        let disk = Disk::new();
        if let Err(error) = &disk {
            eprintln!("skipped: no io_uring: {error}");
        }
        disk.ok()
    }

    /// Waits for all reads.
    fn all(disk: &mut Disk) -> Vec<(usize, Result<usize>)> {
        let (mut all, mut some) = (Vec::new(), Vec::new());
        while disk.ends(&mut some) {
            all.append(&mut some);
        }
        all.sort_by_key(|(place, _)| *place);
        all
    }

    #[test]
    fn a_read_for_every_place_is_done_together() {
        let Some(mut disk) = disk() else { return };
        let mut file = tempfile::tempfile().expect("a temporary file");
        let bytes: Vec<u8> = (0..DEPTH * 1000).map(|at| (at * 7 / 3) as u8).collect();
        file.write_all(&bytes).expect("it is writable");
        for round in 0..3 {
            let from = |place: usize| (DEPTH - 1 - place) * 1000 + round;
            let length = |place: usize| 100 + place;
            for place in 0..DEPTH {
                disk.begin(place, &file, from(place) as i64, length(place) as u32);
            }
            let read: Vec<_> = (0..DEPTH).map(|place| (place, Ok(length(place)))).collect();
            assert_eq!(all(&mut disk), read);
            for place in 0..DEPTH {
                assert_eq!(*disk.buffer(place), bytes[from(place)..][..length(place)]);
            }
        }
        assert_eq!(all(&mut disk), [], "no read was prepared");
    }

    #[test]
    fn a_read_at_the_end_is_short_and_an_error_is_reported() {
        let Some(mut disk) = disk() else { return };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "ten bytes!").expect("it is writable");
        let file = std::fs::File::open(&path).expect("it was just made");
        for (offset, found) in [(0, 10), (7, 3), (10, 0), (1 << 40, 0)] {
            disk.begin(0, &file, offset, 100);
            assert_eq!(all(&mut disk), [(0, Ok(found))]);
            assert_eq!(disk.buffer(0).len(), found);
        }
        let unreadable = std::fs::OpenOptions::new().append(true).open(&path);
        disk.begin(3, &unreadable.expect("it is writable"), 0, 1);
        assert_eq!(all(&mut disk), [(3, Err(Errno::BADF))]);
    }
}
