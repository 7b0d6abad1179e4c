//! Entries: files of a hash, a label and code.
//!
//! | bytes | |
//! |---|---|
//! | 0..32 | SHA-256 of the rest |
//! | 32..36 | length of the label, little-endian |
//! | then | the label in UTF-8, then the code |

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::folder::{self, Refused};

const HASH_BYTES: usize = 32;
const HEAD_BYTES: usize = HASH_BYTES + 4;
/// Longer labels are cut. A label that says it is longer is damage.
const LABEL_MOST: usize = 1 << 10;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An image of a GPU engine.
    Image,
    /// A module that the CPU engine has compiled.
    Module,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Image, Self::Module];

    /// The extension of the entries' files.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Module => "module",
        }
    }

    pub(crate) fn path(self, folder: &Path, key: &str) -> PathBuf {
        folder.join(format!("{key}.{}", self.extension()))
    }

    fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?;
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.extension() == extension)
    }
}

/// An entry, as a list shows it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it holds.
    pub kind: Kind,
    /// Its file.
    pub path: PathBuf,
    /// What it was made from, in words. Empty if the entry is damaged.
    pub label: String,
    /// The size of its file.
    pub bytes: u64,
    /// When it was last used.
    pub used: SystemTime,
}

pub(crate) enum Found {
    Code(Vec<u8>),
    Nothing,
    Damaged,
    Refused(Refused),
}

/// Reads an entry, and notes that it was used.
pub(crate) fn read(path: &Path) -> Found {
    let Ok(mut file) = folder::open(path) else {
        return Found::Nothing;
    };
    if let Err(refused) = folder::check_file(path, &file) {
        return Found::Refused(refused);
    }
    let mut bytes = Vec::new();
    if file.read_to_end(&mut bytes).is_err() {
        return Found::Nothing;
    }
    let Some((sum, rest)) = bytes.split_at_checked(HASH_BYTES) else {
        return Found::Damaged;
    };
    if Sha256::digest(rest).as_slice() != sum {
        return Found::Damaged;
    }
    let Some(label) = label_bytes(&bytes) else {
        return Found::Damaged;
    };
    let at = HEAD_BYTES + label;
    if bytes.len() < at {
        return Found::Damaged;
    }
    note_use(path);
    bytes.drain(..at);
    Found::Code(bytes)
}

/// The length of the label, as the head of an entry says.
fn label_bytes(head: &[u8]) -> Option<usize> {
    let length = head.get(HASH_BYTES..HEAD_BYTES)?.try_into().ok()?;
    let length = u32::from_le_bytes(length) as usize;
    (length <= LABEL_MOST).then_some(length)
}

/// Notes that an entry was used, so that it is not removed soon.
fn note_use(path: &Path) {
    // A folder that cannot be written is not trimmed either.
    if let Ok(file) = File::options().append(true).open(path) {
        drop(file.set_modified(SystemTime::now()));
    }
}

/// Atomic: a reader sees the whole entry or none.
pub(crate) fn write(path: &Path, label: &str, code: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().expect("an entry is in the cache's folder");
    let label = &label[..label.floor_char_boundary(LABEL_MOST)];
    let length = (label.len() as u32).to_le_bytes();
    let parts = [&length[..], label.as_bytes(), code];
    let hash = parts
        .iter()
        .fold(Sha256::new(), |hash, part| hash.chain_update(part));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&hash.finalize())?;
    for part in parts {
        file.write_all(part)?;
    }
    file.persist(path)?;
    Ok(())
}

/// The entries of a folder, the one that was used last first.
pub(crate) fn list(folder: &Path) -> std::io::Result<Vec<Entry>> {
    let files = match std::fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut entries = Vec::new();
    for file in files {
        let path = file?.path();
        let Some(kind) = Kind::of(&path) else {
            continue;
        };
        // Another process may have removed it meanwhile.
        let Ok(found) = path.symlink_metadata() else {
            continue;
        };
        entries.push(Entry {
            kind,
            label: label(&path).unwrap_or_default(),
            bytes: found.len(),
            used: found.modified()?,
            path,
        });
    }
    entries.sort_by(|a, b| (b.used, &a.path).cmp(&(a.used, &b.path)));
    Ok(entries)
}

fn label(path: &Path) -> Option<String> {
    let mut head = vec![0; HEAD_BYTES];
    let mut file = folder::open(path).ok()?;
    file.read_exact(&mut head).ok()?;
    let mut label = vec![0; label_bytes(&head)?];
    file.read_exact(&mut label).ok()?;
    String::from_utf8(label).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(path: &Path) -> Option<Vec<u8>> {
        match read(path) {
            Found::Code(code) => Some(code),
            Found::Nothing | Found::Damaged => None,
            Found::Refused(refused) => panic!("{refused}"),
        }
    }

    #[test]
    fn an_entry_that_is_cut_off_or_changed_anywhere_is_not_used() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let entry = folder.path().join("x.image");
        write(&entry, "a label", b"machine code").expect("the folder is writable");
        assert_eq!(code(&entry).as_deref(), Some(&b"machine code"[..]));
        let whole = std::fs::read(&entry).expect("the entry was written");
        for at in 0..whole.len() {
            std::fs::write(&entry, &whole[..at]).expect("the folder is writable");
            assert_eq!(code(&entry), None, "{at} bytes of {}", whole.len());
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(&entry, changed).expect("the folder is writable");
            assert_eq!(code(&entry), None, "byte {at} was changed");
        }
        write(&entry, "a label", b"new").expect("the folder is writable");
        assert_eq!(code(&entry).as_deref(), Some(&b"new"[..]));
        let files = std::fs::read_dir(folder.path()).expect("it is a folder");
        assert_eq!(files.count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_list_has_labels_and_the_last_used_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let long = "é".repeat(LABEL_MOST);
        for (key, label) in [("a", "first"), ("b", &long)] {
            let path = Kind::Module.path(folder.path(), key);
            write(&path, label, b"code").expect("the folder is writable");
        }
        std::fs::write(folder.path().join("other"), b"").expect("the folder is writable");
        let first = Kind::Module.path(folder.path(), "a");
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        let file = File::options().append(true).open(&first);
        file.and_then(|file| file.set_modified(later))
            .expect("it is ours");
        let found = list(folder.path()).expect("it can be read");
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].label.as_str(), &found[0].path), ("first", &first));
        assert_eq!(found[1].label.len(), LABEL_MOST);
        assert_eq!(code(&found[1].path).as_deref(), Some(&b"code"[..]));
        let none = list(&folder.path().join("none")).expect("it has no entries");
        assert!(none.is_empty());
    }
}
