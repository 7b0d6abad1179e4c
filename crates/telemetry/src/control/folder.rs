//! The folder in which a user's service and commands have their sockets.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The user that this program runs as.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Why the folder is not used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another user may change it.
    #[error("{path} is not a folder that only you can use, so no engine is looked for there")]
    Shared {
        /// The folder.
        path: PathBuf,
    },
    /// The system's error.
    #[error("{path}: {source}")]
    System {
        /// The folder, or a file in it.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// A folder that only its user can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder at this path.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The current user's folder: in `XDG_RUNTIME_DIR`, or in the folder for temporary files.
    pub fn of_user() -> Self {
        let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        Self(match given.filter(|path| path.is_absolute()) {
            Some(path) => path.join("everwarp"),
            None => std::env::temp_dir().join(format!("everwarp-{}", own_user())),
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn failed(&self, source: io::Error) -> FolderError {
        let path = self.0.clone();
        FolderError::System { path, source }
    }

    /// Refuses a path that is not a folder, or a folder that another user made or may change.
    fn check(&self, found: &Metadata) -> Result<(), FolderError> {
        let own = found.uid() == own_user();
        match found.is_dir() && own && found.mode() & 0o077 == 0 {
            true => Ok(()),
            false => Err(FolderError::Shared {
                path: self.0.clone(),
            }),
        }
    }

    /// Makes the folder, unless it exists.
    ///
    /// # Errors
    /// It cannot be made, or another user may change it.
    pub fn make(&self) -> Result<(), FolderError> {
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(self.failed(e)),
            _ => {}
        }
        let found = self.0.symlink_metadata().map_err(|e| self.failed(e))?;
        self.check(&found)
    }

    /// Whether there is such a folder.
    ///
    /// # Errors
    /// It cannot be looked at, or another user may change it.
    pub fn exists(&self) -> Result<bool, FolderError> {
        match self.0.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            found => {
                self.check(&found.map_err(|e| self.failed(e))?)?;
                Ok(true)
            }
        }
    }

    /// The service's socket.
    pub fn socket(&self) -> PathBuf {
        self.0.join("service.sock")
    }

    /// The service's log, if it runs in the background.
    pub fn log(&self) -> PathBuf {
        self.0.join("service.log")
    }

    /// Takes the lock that decides which program is the service; `None` if another one has it.
    ///
    /// # Errors
    /// The lock's file cannot be made.
    pub fn lock(&self) -> Result<Option<Lock>, FolderError> {
        let path = self.0.join("service.lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        let system = |source| FolderError::System {
            path: path.clone(),
            source,
        };
        let file = file.map_err(system)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(system(error.into())),
        }
    }
}

/// The right to be the service. The system takes it back when the program ends, however it ends.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the open file is the lock")] File);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_of_another_user_is_refused() {
        let beneath = tempfile::tempdir().expect("a temporary folder");
        let folder = |name: &str| Folder(beneath.path().join(name));
        let fresh = folder("fresh");
        assert!(!fresh.exists().expect("it can be looked for"));
        fresh.make().expect("it can be made");
        fresh.make().expect("it is there");
        assert!(fresh.exists().expect("it is there"));

        let open = folder("open");
        std::fs::create_dir(&open.0).expect("the folder is writable");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&open.0, mode).expect("it is ours");
        let link = folder("link");
        symlink(&fresh.0, &link.0).expect("the folder is writable");
        let file = folder("file");
        std::fs::write(&file.0, "").expect("the folder is writable");
        for refused in [open, link, file] {
            for found in [refused.make(), refused.exists().map(drop)] {
                assert!(
                    matches!(found, Err(FolderError::Shared { .. })),
                    "{found:?}"
                );
            }
        }
    }

    #[test]
    fn one_program_has_the_lock() {
        let beneath = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder(beneath.path().join("everwarp"));
        folder.make().expect("it can be made");
        let first = folder.lock().expect("it can be made");
        assert!(first.is_some());
        assert!(folder.lock().expect("it is there").is_none());
        drop(first);
        assert!(folder.lock().expect("it is there").is_some());
    }
}
