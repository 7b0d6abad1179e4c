//! Reads and syncs of one thread with plain calls: what a [`Mover`](crate::uring::Mover) does through an io_uring. Each is done at once,
//! so nothing is ever on its way.

use std::os::fd::RawFd;

use crate::uring::Asked;

/// What has ended.
#[derive(Debug)]
pub(crate) struct PlainMover<T> {
    ended: Vec<(T, i32)>,
}

impl<T> PlainMover<T> {
    pub(crate) fn new() -> Self {
        Self { ended: Vec::new() }
    }
    /// Does something.
    ///
    /// # Safety
    /// - The ranges are valid for writes, and nothing else uses them.
    pub(crate) unsafe fn push(&mut self, what: T, fd: RawFd, asked: Asked) {
        // Pieces have far less than 2^31 bytes. The callers have checked that offsets are not negative.
        // SAFETY: the caller vouches for the ranges.
        let result = unsafe {
            match asked {
                Asked::Read { to, len, from } => {
                    libc::pread(fd, to.cast(), len, from as libc::off_t) as i32
                }
                Asked::ReadParts { parts, from } => {
                    let count = parts.len() as libc::c_int;
                    libc::preadv(fd, parts.as_ptr(), count, from as libc::off_t) as i32
                }
                Asked::Sync => libc::fsync(fd),
            }
        };
        let result = match result {
            -1 => {
                let error = std::io::Error::last_os_error().raw_os_error();
                -error.unwrap_or(libc::EIO)
            }
            count => count,
        };
        self.ended.push((what, result));
    }
    /// Takes what has ended, each with its result: a count, or an error number that is negative.
    pub(crate) fn take_ended(&mut self) -> Vec<(T, i32)> {
        std::mem::take(&mut self.ended)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn counts_and_error_numbers_are_those_of_a_ring() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(b"ten bytes!").expect("it is writable");
        let mut mover = PlainMover::new();
        let mut to = [0_u8; 16];
        let mut read = |mover: &mut PlainMover<u32>, what, file: &File, from| {
            let to = to.as_mut_ptr();
            let asked = Asked::Read { to, len: 16, from };
            // SAFETY: the range is that of the array.
            unsafe { mover.push(what, file.as_raw_fd(), asked) };
        };
        read(&mut mover, 1, &file, 4);
        read(&mut mover, 2, &file, 10);
        // A directory can be opened, but not be read.
        read(&mut mover, 3, &File::open("/").expect("it is there"), 0);
        // SAFETY: nothing is written.
        unsafe { mover.push(4, file.as_raw_fd(), Asked::Sync) };
        let ended = mover.take_ended();
        assert_eq!(ended, [(1, 6), (2, 0), (3, -libc::EISDIR), (4, 0)]);
        assert!(mover.take_ended().is_empty() && to.starts_with(b"bytes!"));
    }
}
