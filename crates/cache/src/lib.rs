//! Compiled code on disk: images of GPU engines and modules that the CPU engine has compiled, in one folder.
//!
//! An entry's name is the hash of everything that goes into it, so an entry never becomes wrong, only unused. Entries
//! appear whole by a rename, so several processes can share the folder. Each begins with the SHA-256 of what follows;
//! an entry that does not match it is made anew, and mentioned once.
//!
//! **The code is trusted.** The hash finds damage, not malice, so entries are read only if they belong to this user and
//! no other user can write the folder or the file ([`Refused`]).
//!
//! ```
//! use everwarp_cache::{Cache, Kind};
//!
//! let folder = tempfile::tempdir()?;
//! let cache = Cache::at(&folder.path().join("code"));
//! assert_eq!(cache.read(Kind::Module, "k"), None);
//! cache.write(Kind::Module, "k", "a module", b"machine code")?;
//! assert_eq!(cache.read(Kind::Module, "k").as_deref(), Some(&b"machine code"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bound;
mod entry;
mod folder;
mod key;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Once;

pub use bound::{LIMIT_UNSET, Removed};
pub use entry::{Entry, Kind};
pub use folder::Refused;
pub use key::Key;

use entry::Found;

/// Why compiled code could not be kept. No reason not to run it.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// The folder could not be written.
    #[error(
        "the compiled code could not be kept in {folder}, so it will be compiled again each time: {source}; make the \
         folder writable, or set EVERWARP_CACHE_DIR to another"
    )]
    Write {
        /// The cache's folder.
        folder: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The folder is not this user's alone.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl NotKept {
    /// Prints it to standard error, once in a process: every engine would say the same.
    pub fn warn(&self) {
        static SAID: Once = Once::new();
        SAID.call_once(|| eprintln!("everwarp: warning: {self}"));
    }
}

/// A folder of compiled code. Without a folder nothing is found and nothing kept.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// The user's cache: `EVERWARP_CACHE_DIR`, or the system's folder for caches.
    pub fn user() -> Self {
        Self::of_setting(std::env::var_os("EVERWARP_CACHE_DIR"))
    }

    /// As [`user`](Self::user), with the variable's value. An empty one counts as not set: it would name the current
    /// folder, which is never meant.
    pub fn of_setting(value: Option<OsString>) -> Self {
        let set = value.filter(|v| !v.is_empty()).map(PathBuf::from);
        let folder = set.or_else(|| {
            directories::ProjectDirs::from("", "", "everwarp").map(|d| d.cache_dir().join("images"))
        });
        Self { folder }
    }

    /// A cache in this folder, which is created when first needed.
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: Some(folder.to_owned()),
        }
    }

    /// The folder of the entries.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The code of an entry, which counts as used now. Says on standard error, once in a process, if an entry is damaged
    /// or the folder is refused.
    pub fn read(&self, kind: Kind, key: &str) -> Option<Vec<u8>> {
        let folder = self.folder()?;
        let path = kind.path(folder, key);
        if !path.exists() {
            return None;
        }
        if let Err(refused) = folder::check(folder) {
            NotKept::Refused(refused).warn();
            return None;
        }
        match entry::read(&path) {
            Found::Code(code) => Some(code),
            Found::Nothing => None,
            Found::Refused(refused) => {
                NotKept::Refused(refused).warn();
                None
            }
            Found::Damaged => {
                static SAID: Once = Once::new();
                SAID.call_once(|| {
                    eprintln!(
                        "everwarp: warning: {} is damaged; what it held is compiled again",
                        path.display()
                    );
                });
                None
            }
        }
    }

    /// Keeps code under a key, with a label for people. Removes the entries that were not used for longest if the folder
    /// is larger than its limit. Without a folder it does nothing.
    ///
    /// # Errors
    /// [`NotKept`]: the folder cannot be written, or other users can write it.
    pub fn write(&self, kind: Kind, key: &str, label: &str, code: &[u8]) -> Result<(), NotKept> {
        let Some(folder) = self.folder() else {
            return Ok(());
        };
        let failed = |source| NotKept::Write {
            folder: folder.to_owned(),
            source,
        };
        folder::create(folder).map_err(failed)?;
        folder::check(folder)?;
        entry::write(&kind.path(folder, key), label, code).map_err(failed)?;
        self.trim();
        Ok(())
    }

    /// Forgets an entry, if it is there: its reader could not use it.
    pub fn forget(&self, kind: Kind, key: &str) {
        if let Some(folder) = self.folder() {
            drop(std::fs::remove_file(kind.path(folder, key)));
        }
    }

    /// All entries, the one that was used last first. A folder that does not exist has none.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn entries(&self) -> std::io::Result<Vec<Entry>> {
        match self.folder() {
            Some(folder) => entry::list(folder),
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_setting_is_none() {
        let empty = Cache::of_setting(Some(OsString::new()));
        assert_eq!(empty.folder(), Cache::of_setting(None).folder());
        assert!(empty.folder().is_none_or(Path::is_absolute));
        let set = Cache::of_setting(Some("/some/where".into()));
        assert_eq!(set.folder(), Some(Path::new("/some/where")));
    }

    #[test]
    fn entries_of_both_kinds_have_one_key_and_are_apart() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::at(&folder.path().join("new/code"));
        for (kind, code) in [(Kind::Image, b"gpu"), (Kind::Module, b"cpu")] {
            cache.write(kind, "k", "m", code).expect("it is writable");
        }
        assert_eq!(cache.read(Kind::Image, "k").as_deref(), Some(&b"gpu"[..]));
        cache.forget(Kind::Image, "k");
        assert_eq!(cache.read(Kind::Image, "k"), None);
        assert_eq!(cache.read(Kind::Module, "k").as_deref(), Some(&b"cpu"[..]));
    }

    #[test]
    fn code_that_cannot_be_kept_is_explained() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Not even root can make a folder below a file.
        let file = folder.path().join("file");
        std::fs::write(&file, b"").expect("the folder is writable");
        let cache = Cache::at(&file.join("images"));
        let text = cache
            .write(Kind::Image, "k", "m", b"machine code")
            .expect_err("it is below a file")
            .to_string();
        assert!(text.contains("file/images"), "{text}");
        assert!(text.contains("EVERWARP_CACHE_DIR"), "{text}");
        assert_eq!(cache.read(Kind::Image, "k"), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_can_write_is_neither_read_nor_written() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::at(folder.path());
        let set = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder.path(), mode).expect("it is ours");
        };
        cache
            .write(Kind::Module, "k", "m", b"code")
            .expect("it is ours alone");
        for mode in [0o770, 0o702] {
            set(mode);
            assert_eq!(cache.read(Kind::Module, "k"), None, "{mode:o}");
            let refused = cache.write(Kind::Module, "l", "m", b"code");
            let text = refused.expect_err("others can write").to_string();
            assert!(text.contains("chmod go-w"), "{text}");
        }
        set(0o755);
        assert!(cache.read(Kind::Module, "k").is_some());
        // The entry itself may not be writable by others either, nor be a link.
        let entry = Kind::Module.path(folder.path(), "k");
        let mode = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&entry, mode).expect("it is ours");
        assert_eq!(cache.read(Kind::Module, "k"), None);
        let link = Kind::Module.path(folder.path(), "link");
        std::os::unix::fs::symlink(&entry, &link).expect("the folder is writable");
        assert_eq!(cache.read(Kind::Module, "link"), None);
    }
}
