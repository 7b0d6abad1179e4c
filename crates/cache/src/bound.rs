//! The bound on a cache's size, which is kept in the folder in a file `limit`.

use std::path::Path;

use crate::folder;
use crate::{Cache, NotKept};

/// The bound, in bytes, where none was set: 4 GiB. An image of SQLite has about 20 MB.
pub const LIMIT_UNSET: u64 = 4 << 30;
const LIMIT_FILE: &str = "limit";
/// The extension of images in a former format, which is not read any more.
const FORMER: &str = "cubin";

/// Entries that were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many.
    pub entries: usize,
    /// Their size.
    pub bytes: u64,
}

impl Cache {
    /// The most bytes that the entries may have together.
    pub fn limit(&self) -> u64 {
        let text = self
            .folder()
            .map(|f| std::fs::read_to_string(f.join(LIMIT_FILE)));
        let set = text
            .and_then(Result::ok)
            .and_then(|text| text.trim().parse().ok());
        set.unwrap_or(LIMIT_UNSET)
    }

    /// Sets the most bytes that the entries may have together, for all later commands, and removes what is over.
    ///
    /// # Errors
    /// [`NotKept`]: the folder cannot be written, or other users can write it.
    pub fn set_limit(&self, bytes: u64) -> Result<Removed, NotKept> {
        if let Some(folder) = self.folder() {
            let failed = |source| NotKept::Write {
                folder: folder.to_owned(),
                source,
            };
            folder::create(folder).map_err(failed)?;
            folder::check(folder)?;
            replace(&folder.join(LIMIT_FILE), &format!("{bytes}\n")).map_err(failed)?;
        }
        Ok(self.trim())
    }

    /// Removes the entries that were not used for longest, until the rest is within the limit.
    pub(crate) fn trim(&self) -> Removed {
        self.remove_over(self.limit())
    }

    /// Removes all entries. The limit stays.
    ///
    /// # Errors
    /// [`NotKept`]: other users can write the folder, or entries could not be removed.
    pub fn clear(&self) -> Result<Removed, NotKept> {
        let Some(folder) = self.folder() else {
            return Ok(Removed::default());
        };
        folder::check(folder)?;
        remove_former(folder);
        let removed = self.remove_over(0);
        match self.entries() {
            Ok(left) if left.is_empty() => Ok(removed),
            left => Err(NotKept::Write {
                folder: folder.to_owned(),
                source: left
                    .err()
                    .unwrap_or_else(|| std::io::ErrorKind::PermissionDenied.into()),
            }),
        }
    }

    fn remove_over(&self, limit: u64) -> Removed {
        let (mut kept, mut removed) = (0, Removed::default());
        // A folder that cannot be read or written stays as it is.
        for entry in self.entries().unwrap_or_default() {
            if kept + entry.bytes <= limit {
                kept += entry.bytes;
            } else if std::fs::remove_file(&entry.path).is_ok() {
                removed.entries += 1;
                removed.bytes += entry.bytes;
            }
        }
        removed
    }
}

fn remove_former(folder: &Path) {
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if file.path().extension().is_some_and(|e| e == FORMER) {
            drop(std::fs::remove_file(file.path()));
        }
    }
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().expect("the file is in the cache's folder");
    let file = tempfile::NamedTempFile::new_in(folder)?;
    std::fs::write(file.path(), text)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::Kind;

    #[test]
    fn entries_that_were_used_last_are_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::at(folder.path());
        let path = |number: u32| Kind::Module.path(folder.path(), &number.to_string());
        for number in 0..12 {
            let written = cache.write(Kind::Module, &number.to_string(), "m", &[0; 1000]);
            written.expect("the folder is writable");
            let then = SystemTime::UNIX_EPOCH + Duration::from_secs(number.into());
            let file = File::options().append(true).open(path(number));
            file.and_then(|file| file.set_modified(then))
                .expect("it is ours");
        }
        std::fs::write(folder.path().join("other"), b"").expect("the folder is writable");
        let left = || (0..12).filter(|&n| path(n).exists()).collect::<Vec<_>>();
        // Reading an entry counts as a use.
        assert!(cache.read(Kind::Module, "0").is_some());
        let removed = cache.set_limit(4 * 1037).expect("the folder is writable");
        assert_eq!(
            removed,
            Removed {
                entries: 8,
                bytes: 8 * 1037
            }
        );
        assert_eq!(left(), [0, 9, 10, 11]);
        // The limit stays, and a new entry takes the place of the oldest.
        let written = cache.write(Kind::Module, "1", "m", &[0; 1000]);
        written.expect("the folder is writable");
        assert_eq!((left(), cache.limit()), (vec![0, 1, 10, 11], 4 * 1037));
        let removed = cache.clear().expect("the folder is writable");
        assert_eq!((removed.entries, left().len(), cache.limit()), (4, 0, 4148));
        assert!(folder.path().join("other").exists());
    }

    #[test]
    fn a_cache_without_a_folder_is_empty() {
        let cache = Cache { folder: None };
        assert_eq!(cache.limit(), LIMIT_UNSET);
        assert_eq!(cache.clear().expect("nothing is there"), Removed::default());
        assert!(cache.entries().expect("nothing is there").is_empty());
    }
}
