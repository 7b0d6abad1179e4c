//! Listings of directories.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

use cap_std::fs::Dir;
use everwarp_contract::files::{
    FILE_KIND_DIRECTORY, FILE_KIND_LINK, FILE_KIND_OTHER, FILE_KIND_REGULAR, FILE_MOST,
};
use everwarp_contract::{DevFileEntry, DevFileList, Layout};

use crate::errno::FileErrno;

/// Directories within each other that a listing goes down; each takes a descriptor.
const DEPTH: usize = 128;

/// A listing as tasks read it.
struct Listing {
    bytes: Vec<u8>,
    entries: u64,
}

/// Lists a directory and all that is beneath it, in the order of the names. What disappears meanwhile is left out.
pub(crate) fn of(dir: &Dir) -> Result<Vec<u8>, FileErrno> {
    let mut listing = Listing {
        bytes: vec![0; size_of::<DevFileList>()],
        entries: 0,
    };
    listing.add(dir, &mut Vec::new(), 0)?;
    let head = DevFileList {
        bytes: listing.bytes.len() as u64,
        entries: listing.entries,
    };
    listing.bytes[..size_of::<DevFileList>()].copy_from_slice(head.bytes());
    Ok(listing.bytes)
}

impl Listing {
    /// Adds what is in a directory, whose path is `path`.
    fn add(&mut self, dir: &Dir, path: &mut Vec<u8>, depth: usize) -> Result<(), FileErrno> {
        if depth == DEPTH {
            return Err(FileErrno::LOOP);
        }
        let mut found = BTreeMap::new();
        for entry in dir.entries()? {
            let name = entry?.file_name();
            // Links are looked at and not followed.
            match dir.symlink_metadata(&name) {
                Ok(facts) => drop(found.insert(name, facts)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        for (name, facts) in found {
            let before = path.len();
            if before > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            let kind = facts.file_type();
            let (kind, size) = match () {
                () if kind.is_file() => (FILE_KIND_REGULAR, facts.len()),
                () if kind.is_dir() => (FILE_KIND_DIRECTORY, 0),
                () if kind.is_symlink() => (FILE_KIND_LINK, 0),
                () => (FILE_KIND_OTHER, 0),
            };
            self.push(path, kind, size)?;
            if kind == FILE_KIND_DIRECTORY {
                match dir.open_dir(&name) {
                    Ok(inner) => self.add(&inner, path, depth + 1)?,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error.into()),
                }
            }
            path.truncate(before);
        }
        Ok(())
    }
    fn push(&mut self, path: &[u8], kind: u32, size: u64) -> Result<(), FileErrno> {
        let entry = DevFileEntry {
            size,
            kind,
            path: path.len() as u32,
        };
        self.bytes.extend_from_slice(entry.bytes());
        self.bytes.extend_from_slice(path);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.entries += 1;
        // The result of a request has no room for more.
        match self.bytes.len() > FILE_MOST as usize {
            true => Err(FileErrno::OVERFLOW),
            false => Ok(()),
        }
    }
}
