//! Cubins on disk, found by the hash of what they were made from.
//!
//! The key leaves NVRTC's version out, so that a machine without NVRTC finds what another run compiled; the
//! version stands in the entry instead. The price: a newer NVRTC does not replace what an older one made.
//! Whoever wants that empties the folder.
//!
//! A folder that cannot be used costs time, never a result: each compilation says in its [`CacheOutcome`] what
//! kept it from being stored.

mod entry;
mod key;

use std::borrow::Borrow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use entry::{Damage, Entry};
pub use key::{Key, key};

use crate::error::NvrtcError;
use crate::nvrtc::Nvrtc;
use crate::unit::{Arch, Cubin, Unit};

/// A folder of cubins, or the reason why there is none. Several processes may share the folder.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Result<PathBuf, Off>,
}

/// Why there is no cache at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Off {
    /// The user's wish.
    #[error("EVERWARP_CACHE_DIR is empty, which turns the cache off")]
    TurnedOff,
    /// There is no home folder.
    #[error("the user has no home folder to keep a cache in; set EVERWARP_CACHE_DIR")]
    NoHome,
}

/// Why a cubin was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotStored {
    /// There is no cache.
    #[error("cubins are not cached: {0}")]
    Off(#[from] Off),
    /// The folder does not exist and cannot be made.
    #[error("cubins are not cached: the folder `{}` cannot be created; set EVERWARP_CACHE_DIR to another", folder.display())]
    Create {
        /// The folder.
        folder: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The folder cannot be written.
    #[error("cubins are not cached: `{}` cannot be written; set EVERWARP_CACHE_DIR to another folder", path.display())]
    Write {
        /// The entry.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
}

/// Where a cubin came from. Worth a line to the user where it is not a hit.
#[derive(Debug)]
#[must_use]
pub enum CacheOutcome {
    /// From the cache.
    Hit {
        /// The version of the NVRTC that made it, which need not be the one that is installed.
        nvrtc: (u32, u32),
    },
    /// Compiled and stored; there was no entry.
    Stored,
    /// Compiled and stored in the place of an entry that could not be used.
    Replaced(Damage),
    /// Compiled, and to be compiled again next time.
    NotStored(NotStored),
}

/// What the cache has under a key.
#[derive(Debug)]
#[must_use]
pub enum Lookup {
    /// A sound entry.
    Hit(Entry),
    /// No entry, or no cache.
    Absent,
    /// An entry that cannot be used.
    Damaged(Damage),
}

impl Cache {
    /// The user's cache: the folder that `EVERWARP_CACHE_DIR` names, or else the system's usual place for
    /// caches. An empty variable turns the cache off. Nothing is read or created yet.
    pub fn user() -> Self {
        let usual = || {
            Some(
                directories::ProjectDirs::from("", "", "everwarp")?
                    .cache_dir()
                    .join("cubins"),
            )
        };
        Self::choose(std::env::var_os("EVERWARP_CACHE_DIR"), usual)
    }

    fn choose(named: Option<OsString>, usual: impl FnOnce() -> Option<PathBuf>) -> Self {
        let folder = match named {
            Some(name) if name.is_empty() => Err(Off::TurnedOff),
            Some(name) => Ok(PathBuf::from(name)),
            None => usual().ok_or(Off::NoHome),
        };
        Self { folder }
    }

    /// A cache in this folder, which is created when the first entry is stored.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: Ok(folder.into()),
        }
    }

    /// The folder, or why there is none.
    ///
    /// # Errors
    /// [`Off`] is a reason to print, not a failure: compilations go on without a cache.
    pub fn folder(&self) -> Result<&Path, Off> {
        self.folder.as_deref().map_err(|&off| off)
    }

    fn path(&self, key: &Key) -> Result<PathBuf, Off> {
        Ok(self.folder()?.join(format!("{key}.entry")))
    }

    /// Looks a key up. It needs no NVRTC.
    pub fn get(&self, key: &Key) -> Lookup {
        let Ok(path) = self.path(key) else {
            return Lookup::Absent;
        };
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            // A folder that is a file has no entries either; storing will say so.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Lookup::Absent;
            }
            Err(e) => return Lookup::Damaged(Damage::Unreadable(e)),
        };
        match Entry::decode(&bytes, key) {
            Ok(entry) => Lookup::Hit(entry),
            Err(damage) => Lookup::Damaged(damage),
        }
    }

    /// Stores an entry, in the place of the old one if there is one. Readers and other writers see one whole
    /// entry or the other: it is written beside its place and then renamed. It is not forced to the disk; the
    /// checksum finds what a power cut leaves behind.
    ///
    /// # Errors
    /// Says why nothing was stored.
    pub fn put(&self, key: &Key, entry: &Entry) -> Result<(), NotStored> {
        let path = self.path(key)?;
        let folder = self.folder()?;
        std::fs::create_dir_all(folder).map_err(|source| NotStored::Create {
            folder: folder.to_owned(),
            source,
        })?;
        write_atomically(folder, &path, &entry.encode(key))
            .map_err(|source| NotStored::Write { path, source })
    }
}

fn write_atomically(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// The cubin of a unit: from the cache, or compiled and then stored.
///
/// # Errors
/// Those of [`Nvrtc::compile`]; the cache has none.
pub fn compile_cached(
    nvrtc: &Nvrtc,
    cache: &Cache,
    unit: &Unit<'_>,
    arch: Arch,
) -> Result<(Cubin, CacheOutcome), NvrtcError> {
    compile_cached_with(|| Ok(nvrtc), cache, unit, arch)
}

/// As [`compile_cached`], but opens NVRTC (with [`Nvrtc::open`], say) only if the cache has no sound entry.
///
/// # Errors
/// Those of `open` and of [`Nvrtc::compile`].
pub fn compile_cached_with<N: Borrow<Nvrtc>>(
    open: impl FnOnce() -> Result<N, NvrtcError>,
    cache: &Cache,
    unit: &Unit<'_>,
    arch: Arch,
) -> Result<(Cubin, CacheOutcome), NvrtcError> {
    let key = key(unit, arch);
    let damage = match cache.get(&key) {
        Lookup::Hit(entry) => return Ok((entry.cubin, CacheOutcome::Hit { nvrtc: entry.nvrtc })),
        Lookup::Absent => None,
        Lookup::Damaged(damage) => Some(damage),
    };
    let nvrtc = open()?;
    let nvrtc = nvrtc.borrow();
    let entry = Entry {
        nvrtc: nvrtc.version(),
        cubin: nvrtc.compile(unit, arch)?,
    };
    let outcome = match (cache.put(&key, &entry), damage) {
        (Ok(()), None) => CacheOutcome::Stored,
        (Ok(()), Some(damage)) => CacheOutcome::Replaced(damage),
        (Err(reason), _) => CacheOutcome::NotStored(reason),
    };
    Ok((entry.cubin, outcome))
}

#[cfg(test)]
mod tests;
