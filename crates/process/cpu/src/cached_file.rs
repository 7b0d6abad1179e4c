//! A regular file that a process reads on its own thread, as long as the kernel has everything in memory.
//!
//! Opening it resolves the path among the cached names only, and a read takes cached pages only, so neither waits for a disk
//! or for another program. Everything else goes to other threads, as all file calls of wasmtime's library do.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{ReadWriteFlags, preadv2};

/// Bytes that a process reads on its own thread at a time; the other processes of the thread wait meanwhile.
const READ_MOST: usize = 1 << 20;

/// How a process has opened a file: the arguments of `path_open`, with wasmtime's number of the directory.
#[derive(Debug)]
pub(crate) struct OpenedAs {
    pub(crate) directory: u32,
    pub(crate) lookup: i32,
    pub(crate) path: Vec<u8>,
    pub(crate) base: i64,
    pub(crate) inheriting: i64,
    pub(crate) flags: i32,
}

/// A regular file that is open for reading.
#[derive(Debug)]
pub(crate) struct CachedFile {
    file: Arc<File>,
    /// Where the next read begins. A process uses its descriptors one call at a time.
    pub(crate) position: AtomicU64,
    pub(crate) opened_as: OpenedAs,
}

/// What came of an attempt to open a file from memory.
pub(crate) enum Attempt {
    Opened(CachedFile),
    /// It is no regular file. It stays open until the library has opened it: to close a pipe here would end its writer.
    Other(File),
    /// The kernel would have to look at a disk, or refuses.
    No,
}

fn open(directory: &File, path: &[u8], follow: bool, flags: OFlags) -> Option<File> {
    let mut flags = flags | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, !follow);
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
    let opened = openat2(directory, path, flags, Mode::empty(), beneath);
    opened.ok().map(File::from)
}

/// Whether a `path_open` with these arguments only reads, so that it may be attempted here.
pub(crate) fn only_reads(how: i32, base: i64, flags: i32) -> bool {
    const READ: i64 = 1 << 1;
    const WRITE: i64 = 1 << 6;
    const NONBLOCK: i32 = 4;
    how == 0 && base & READ != 0 && base & WRITE == 0 && flags & !NONBLOCK == 0
}

/// Opens a file beneath a directory, if that needs nothing but memory.
pub(crate) fn attempt(directory: &File, opened_as: OpenedAs) -> Attempt {
    let follow = opened_as.lookup & 1 != 0;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let Some(file) = open(directory, &opened_as.path, follow, flags) else {
        return Attempt::No;
    };
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Attempt::Opened(CachedFile {
            file: Arc::new(file),
            position: AtomicU64::new(0),
            opened_as,
        }),
        _ => Attempt::Other(file),
    }
}

/// `filestat` of what a path beneath a directory leads to, if that needs nothing but memory.
pub(crate) fn stat(directory: &File, path: &[u8], follow: bool) -> Option<[u64; 8]> {
    let found = open(directory, path, follow, OFlags::PATH)?;
    filestat(&found).ok()
}

fn nanoseconds(time: io::Result<SystemTime>) -> u64 {
    let since = time.map(|time| time.duration_since(UNIX_EPOCH));
    let since = since.ok().and_then(Result::ok).unwrap_or_default();
    since.as_nanos() as u64
}

/// `filestat` as wasmtime's library reports it: its device number, its numbers of files, and the time of creation in the
/// place of that of the last change.
fn filestat(file: &File) -> io::Result<[u64; 8]> {
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    let kind = match kind {
        _ if kind.is_file() => 4,
        _ if kind.is_dir() => 3,
        _ if kind.is_symlink() => 7,
        _ if kind.is_char_device() => 2,
        _ if kind.is_block_device() => 1,
        _ => 0,
    };
    let mut number = DefaultHasher::new();
    (metadata.dev(), metadata.ino()).hash(&mut number);
    Ok([
        1,
        number.finish(),
        kind,
        metadata.nlink(),
        metadata.len(),
        nanoseconds(metadata.accessed()),
        nanoseconds(metadata.modified()),
        nanoseconds(metadata.created()),
    ])
}

impl CachedFile {
    /// `filestat` of the file.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn stat(&self) -> io::Result<[u64; 8]> {
        filestat(&self.file)
    }

    /// The file, for another thread.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Reads cached pages; `None` if not everything up to the end of the file or of the buffer is cached.
    pub(crate) fn read(&self, buffer: &mut [u8], at: u64) -> Option<usize> {
        if buffer.len() > READ_MOST {
            return None;
        }
        let mut done = 0;
        while done < buffer.len() {
            let rest = &mut [IoSliceMut::new(&mut buffer[done..])];
            match preadv2(&self.file, rest, at + done as u64, ReadWriteFlags::NOWAIT) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(_) => return None,
            }
        }
        Some(done)
    }

    /// The new place for reads after a seek; `None` if there is no such place.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn seek(&self, delta: i64, whence: i32) -> io::Result<Option<u64>> {
        let from = match whence {
            0 => 0,
            1 => self.position.load(Relaxed),
            2 => self.file.metadata()?.len(),
            _ => return Ok(None),
        };
        let to = from.checked_add_signed(delta);
        to.inspect(|to| self.position.store(*to, Relaxed));
        Ok(to)
    }
}

/// Reads up to as many bytes as a buffer holds, on whatever thread this is called.
///
/// # Errors
/// The system's.
pub(crate) fn read_fully(file: &File, mut at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        match file.read_at(&mut bytes[done..], at) {
            Ok(0) => break,
            Ok(count) => (done, at) = (done + count, at + count as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // What has been read is returned; the error comes again with the next call.
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened_as(path: &str) -> OpenedAs {
        OpenedAs {
            directory: 3,
            lookup: 1,
            path: path.as_bytes().to_vec(),
            base: 2,
            inheriting: 0,
            flags: 0,
        }
    }

    #[test]
    fn a_file_is_opened_beneath_its_directory_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = folder.path().join("inside");
        std::fs::create_dir(&inside).expect("it is made");
        std::fs::write(inside.join("file"), "0123456789").expect("it is written");
        std::fs::write(folder.path().join("outside"), "secret").expect("it is written");
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, inside.join(name)).expect("a link");
        };
        link("../outside", "escape");
        link("file", "alias");
        let directory = File::open(&inside).expect("it is there");
        for path in ["escape", "../outside", "/etc/passwd", "none", "", "a\0b"] {
            let attempted = attempt(&directory, opened_as(path));
            assert!(matches!(attempted, Attempt::No), "{path}");
        }
        assert!(matches!(
            attempt(&directory, opened_as(".")),
            Attempt::Other(_)
        ));
        // Their names were cached when they were made, but on a busy machine the kernel may have forgotten them.
        for path in ["file", "alias"] {
            std::fs::read(inside.join(path)).expect("it is there");
            let Attempt::Opened(file) = attempt(&directory, opened_as(path)) else {
                continue;
            };
            let mut buffer = [0; 16];
            if let Some(bytes) = file.read(&mut buffer, 4) {
                assert_eq!(&buffer[..bytes], b"456789");
            }
            assert_eq!(file.read(&mut buffer, 10).unwrap_or(0), 0);
            assert_eq!(read_fully(file.file(), 8, 9).expect("it is open"), b"89");
            assert_eq!(file.seek(-1, 2).expect("it has a length"), Some(9));
            assert_eq!(file.seek(1, 1).expect("it has a place"), Some(10));
            assert_eq!(file.seek(-1, 0).expect("no system call"), None);
            assert_eq!(file.stat().expect("it is open")[2..5], [4, 1, 10]);
        }
        if let Some(words) = stat(&directory, b"alias", true) {
            assert_eq!(words[2..5], [4, 1, 10]);
        }
        if let Some(words) = stat(&directory, b"alias", false) {
            assert_eq!((words[2], words[4]), (7, 4));
        }
        assert!(stat(&directory, b"../outside", true).is_none());
        let mut unfollowed = opened_as("alias");
        unfollowed.lookup = 0;
        assert!(matches!(attempt(&directory, unfollowed), Attempt::No));
    }

    #[test]
    fn what_writes_is_left_to_the_library() {
        assert!(only_reads(0, 2, 0) && only_reads(0, 2 | 1 << 21, 4));
        assert!(!only_reads(1, 2, 0) && !only_reads(0, 2 | 1 << 6, 0));
        assert!(!only_reads(0, 0, 0) && !only_reads(0, 2, 1));
    }
}
