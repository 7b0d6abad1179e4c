//! The directories that processes are given, as the host-call service opens paths in them.

use std::fs::File;
use std::sync::{Arc, Mutex, Weak};

use everwarp_engine::sync::lock;
use everwarp_hostcalls::ServedDirectory;
use everwarp_process::{Directory, SpawnError};

/// One directory that a caller has opened, and what serves it.
struct CachedDirectory {
    /// The caller's handle. When the caller has let go of it, no further process can be given the directory.
    handle: Weak<File>,
    read_only: bool,
    served: ServedDirectory,
}

/// Keeps one descriptor for each directory, however many calls of `spawn` give it to processes.
#[derive(Default)]
pub(crate) struct DirectoryCache(Mutex<Vec<CachedDirectory>>);

impl DirectoryCache {
    /// The directories of the service for these ones.
    pub(crate) fn served(
        &self,
        directories: &[Directory],
    ) -> Result<Vec<ServedDirectory>, SpawnError> {
        if directories.is_empty() {
            return Ok(Vec::new());
        }
        let mut cached = lock(&self.0);
        cached.retain(|directory| directory.handle.strong_count() > 0);
        directories
            .iter()
            .map(|directory| Self::one(&mut cached, directory))
            .collect()
    }

    fn one(
        cached: &mut Vec<CachedDirectory>,
        directory: &Directory,
    ) -> Result<ServedDirectory, SpawnError> {
        let handle = Arc::downgrade(directory.handle());
        let found = cached.iter().find(|known| {
            known.handle.ptr_eq(&handle)
                && known.read_only == directory.is_read_only()
                && known.served.guest() == directory.guest()
        });
        if let Some(known) = found {
            return Ok(known.served.clone());
        }
        let served = ServedDirectory::of(directory).map_err(|source| SpawnError::Directory {
            path: directory.path().to_owned(),
            source,
        })?;
        cached.push(CachedDirectory {
            handle,
            read_only: directory.is_read_only(),
            served: served.clone(),
        });
        Ok(served)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_served_by_one_handle_until_the_caller_lets_go() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let open = || Directory::open(folder.path(), "/data").expect("it can be opened");
        let cache = DirectoryCache::default();
        let given = open();
        for directory in [given.clone(), given.clone(), given.clone().read_only(true)] {
            let served = cache.served(&[directory]).expect("it can be served");
            assert_eq!(served[0].guest(), "/data");
        }
        let count = || lock(&cache.0).len();
        assert_eq!(count(), 2);
        drop(given);
        cache.served(&[open()]).expect("it can be served");
        assert_eq!(count(), 1);
    }
}
