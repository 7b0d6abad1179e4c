//! Granted directories, and opening files beneath them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use everwarp_contract::files::{
    FILE_CACHED, FILE_CREATE, FILE_EMPTY, FILE_FOR_READING, FILE_FOR_WRITING, FILE_NEW,
    FILE_UNORDERED,
};

use crate::errno::FileErrno;
use crate::listing;

/// How a file is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct How {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) create: bool,
    pub(crate) new: bool,
    pub(crate) empty: bool,
    pub(crate) unordered: bool,
    pub(crate) cached: bool,
}

impl How {
    /// Decodes the flags of a request.
    pub(crate) fn of_flags(flags: u64) -> Result<Self, FileErrno> {
        const KNOWN: u32 = FILE_FOR_READING
            | FILE_FOR_WRITING
            | FILE_CREATE
            | FILE_NEW
            | FILE_EMPTY
            | FILE_UNORDERED
            | FILE_CACHED;
        let bits = u32::try_from(flags).map_err(|_| FileErrno::INVAL)?;
        let has = |bit| bits & bit != 0;
        let how = Self {
            read: has(FILE_FOR_READING),
            write: has(FILE_FOR_WRITING),
            create: has(FILE_CREATE),
            new: has(FILE_NEW),
            empty: has(FILE_EMPTY),
            unordered: has(FILE_UNORDERED),
            cached: has(FILE_CACHED),
        };
        let changes = how.create || how.new || how.empty;
        // A page is read before parts of it are written.
        let reads = how.read || how.write && !how.cached;
        match bits & !KNOWN == 0 && reads && (how.write || !changes) {
            true => Ok(how),
            false => Err(FileErrno::INVAL),
        }
    }
}

/// A granted directory.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    dir: Arc<Dir>,
    writable: bool,
}

impl Grant {
    pub(crate) fn new(path: &Path, writable: bool) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        Ok(Self {
            dir: Arc::new(dir),
            writable,
        })
    }
    /// Opens a regular file. Links are followed only beneath the directory.
    pub(crate) fn open(&self, path: &str, how: How) -> Result<File, FileErrno> {
        if how.write && !self.writable {
            return Err(FileErrno::NOTCAPABLE);
        }
        let mut options = OpenOptions::new();
        options.read(how.read).write(how.write);
        options.create(how.create).create_new(how.new);
        options.truncate(how.empty);
        // A pipe without a writer must not hold the thread up.
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = self.dir.open_with(path, &options)?.into_std();
        let kind = file.metadata()?.file_type();
        match () {
            () if kind.is_file() => Ok(file),
            () if kind.is_dir() => Err(FileErrno::ISDIR),
            () => Err(FileErrno::NOTSUP),
        }
    }
    /// Lists a directory and all that is beneath it.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<u8>, FileErrno> {
        listing::of(&self.dir.open_dir(path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        let read = u64::from(FILE_FOR_READING);
        assert!(How::of_flags(read).is_ok_and(|how| how.read && !how.write));
        for wrong in [0, read | 1 << 20, read | 1 << 40] {
            assert_eq!(How::of_flags(wrong), Err(FileErrno::INVAL));
        }
        assert_eq!(
            How::of_flags(read | u64::from(FILE_CREATE)),
            Err(FileErrno::INVAL)
        );
    }

    #[test]
    fn files_are_opened_beneath_the_directory_only() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inner = folder.path().join("inner");
        std::fs::create_dir_all(inner.join("deep")).expect("it is writable");
        std::fs::write(folder.path().join("secret"), "no").expect("it is writable");
        std::fs::write(inner.join("deep/file"), "yes").expect("it is writable");
        std::os::unix::fs::symlink("../secret", inner.join("out")).expect("it is writable");
        std::os::unix::fs::symlink("deep/file", inner.join("in")).expect("it is writable");
        let pipe = std::ffi::CString::new(inner.join("pipe").to_str().expect("text").as_bytes());
        // SAFETY: the path is a string that ends with a 0.
        let made = unsafe { libc::mkfifo(pipe.expect("no 0").as_ptr(), 0o600) };
        assert_eq!(made, 0);
        let grant = |writable| Grant::new(&inner, writable).expect("it is there");
        let read = How {
            read: true,
            ..How::default()
        };
        let open = |path| grant(true).open(path, read).map(drop);
        assert_eq!((open("deep/file"), open("in")), (Ok(()), Ok(())));
        for (path, error) in [
            ("../secret", FileErrno::NOTCAPABLE),
            ("out", FileErrno::NOTCAPABLE),
            ("/etc/passwd", FileErrno::NOTCAPABLE),
            ("deep", FileErrno::ISDIR),
            ("pipe", FileErrno::NOTSUP),
            ("none", FileErrno::NOENT),
            ("in/file", FileErrno::NOTDIR),
            ("", FileErrno::NOENT),
        ] {
            assert_eq!(open(path), Err(error), "{path}");
        }
        let write = How {
            write: true,
            create: true,
            ..How::default()
        };
        assert!(grant(true).open("new", write).is_ok());
        let refused = grant(false).open("other", write);
        assert_eq!(refused.map(drop), Err(FileErrno::NOTCAPABLE));
        assert!(!inner.join("other").exists());
    }
}
