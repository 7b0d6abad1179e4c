//! The folder: who may write it decides whether its code is run.

use std::fs::File;
use std::path::{Path, PathBuf};

/// A file or folder of the cache that is not this user's alone.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Other users can write it.
    #[error(
        "{path} can be written by other users, so no compiled code is read from it: `chmod go-w {path}`, or set \
         EVERWARP_CACHE_DIR to another folder"
    )]
    Writable {
        /// The file or folder.
        path: PathBuf,
    },
    /// It belongs to another user.
    #[error(
        "{path} belongs to another user, so no compiled code is read from it: set EVERWARP_CACHE_DIR to a folder of \
         your own"
    )]
    Foreign {
        /// The file or folder.
        path: PathBuf,
    },
}

/// Creates the folder for this user alone, if it is not there.
pub(crate) fn create(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Opens a file to read it; a symbolic link is not followed.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        // A named pipe must not block the reader either.
        (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32,
    );
    options.open(path)
}

/// Whether only this user can write the folder.
pub(crate) fn check(folder: &Path) -> Result<(), Refused> {
    match folder.metadata() {
        Ok(found) => check_owner(folder, &found),
        // Without the folder there is nothing to be read.
        Err(_) => Ok(()),
    }
}

/// Whether only this user can write an open file.
pub(crate) fn check_file(path: &Path, file: &File) -> Result<(), Refused> {
    match file.metadata() {
        Ok(found) if found.is_file() => check_owner(path, &found),
        _ => Err(Refused::Foreign {
            path: path.to_owned(),
        }),
    }
}

#[cfg(unix)]
fn check_owner(path: &Path, found: &std::fs::Metadata) -> Result<(), Refused> {
    use std::os::unix::fs::MetadataExt;
    let path = || path.to_owned();
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(Refused::Foreign { path: path() });
    }
    match found.mode() & 0o022 {
        0 => Ok(()),
        _ => Err(Refused::Writable { path: path() }),
    }
}

/// Elsewhere the system's folder for a user's caches is that user's alone.
#[cfg(not(unix))]
fn check_owner(_: &Path, _: &std::fs::Metadata) -> Result<(), Refused> {
    Ok(())
}
