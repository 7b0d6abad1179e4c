//! Files and directories beneath the directories that the process was given.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

use crate::errno::Errno;
use crate::raw::{self, Vector};

/// Descriptors below it are the standard streams.
const FIRST_DIRECTORY: u32 = 3;

const RIGHT_READ: u64 = 1 << 1;
const RIGHT_READDIR: u64 = 1 << 14;
const FOLLOW_LINKS: u32 = 1;
const MUST_BE_DIRECTORY: u32 = 1 << 1;

/// An open file, closed when it is dropped.
#[derive(Debug)]
pub struct File(u32);

/// What a directory holds under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// Anything else, such as a symbolic link.
    Other,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, without the directory's path.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

impl File {
    /// Standard input.
    pub const STDIN: Self = Self(0);

    /// Reads as many bytes as are there, at most as many as fit; none is the end.
    ///
    /// # Errors
    ///
    /// What the host says.
    pub fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: only bytes that have a value are written there, so all of them still have one afterwards.
        let into = unsafe { &mut *(core::ptr::from_mut(into) as *mut [MaybeUninit<u8>]) };
        self.read_new(into)
    }

    /// The same, into bytes that have no value yet; those that were read have one then.
    fn read_new(&self, into: &mut [MaybeUninit<u8>]) -> Result<usize, Errno> {
        let vector = Vector {
            at: into.as_mut_ptr().cast(),
            length: into.len(),
        };
        let mut done = 0;
        // SAFETY: the vector names bytes that only this call writes, and `done` is valid for a write.
        Errno::check(unsafe { raw::fd_read(self.0, &vector, 1, &mut done) })?;
        assert!(done <= into.len(), "the host stays within the buffer");
        Ok(done)
    }

    /// Reads from here to the end.
    ///
    /// # Errors
    ///
    /// What the host says.
    pub fn read_to_end(&self) -> Result<Vec<u8>, Errno> {
        let mut all = Vec::new();
        loop {
            if all.len() == all.capacity() {
                // Doubling, from a block of the size that hosts like best.
                all.reserve_exact(all.len().max(4096));
            }
            match self.read_new(all.spare_capacity_mut())? {
                0 => return Ok(all),
                // SAFETY: the host has written as many bytes behind the others.
                done => unsafe { all.set_len(all.len() + done) },
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.0 >= FIRST_DIRECTORY {
            // SAFETY: the descriptor is this file's own. What a close says of a file that was only read is
            // of no use to anybody.
            let _ = unsafe { raw::fd_close(self.0) };
        }
    }
}

/// What is left of a path beneath a directory with this name.
fn beneath<'p>(path: &'p str, directory: &str) -> Option<&'p str> {
    let directory = directory.trim_end_matches('/');
    if directory.is_empty() || (directory == "." && !path.starts_with('/')) {
        return Some(path.trim_start_matches('/'));
    }
    match path.strip_prefix(directory)? {
        "" => Some(""),
        // `/data` does not hold `/database`.
        rest => rest.strip_prefix('/'),
    }
}

/// The directory that holds the path, and the path from there on.
fn resolve(path: &str) -> Result<(u32, String), Errno> {
    let mut best: Option<(u32, String)> = None;
    for fd in FIRST_DIRECTORY.. {
        let mut prestat = [0; 2];
        // SAFETY: the record has two words: what it is, and the length of its name.
        if unsafe { raw::fd_prestat_get(fd, &mut prestat) } != 0 {
            break;
        }
        let mut name = vec![0; prestat[1] as usize];
        // SAFETY: the buffer has the length that the host has just named.
        Errno::check(unsafe { raw::fd_prestat_dir_name(fd, name.as_mut_ptr(), name.len()) })?;
        let name = String::from_utf8_lossy(&name);
        if let Some(rest) = beneath(path, &name)
            && best.as_ref().is_none_or(|(_, r)| rest.len() < r.len())
        {
            let rest = if rest.is_empty() { "." } else { rest };
            best = Some((fd, rest.into()));
        }
    }
    best.ok_or(Errno::NOTCAPABLE)
}

fn open_as(path: &str, how: u32, rights: u64) -> Result<File, Errno> {
    let (fd, rest) = resolve(path)?;
    let mut opened = 0;
    // SAFETY: the path is readable, and `opened` is valid for a write.
    Errno::check(unsafe {
        raw::path_open(
            fd,
            FOLLOW_LINKS,
            rest.as_ptr(),
            rest.len(),
            how,
            rights,
            rights,
            0,
            &mut opened,
        )
    })?;
    Ok(File(opened))
}

/// Opens a file for reading.
///
/// # Errors
///
/// What the host says; [`Errno::NOTCAPABLE`] if no directory that was given holds the path.
pub fn open(path: &str) -> Result<File, Errno> {
    open_as(path, 0, RIGHT_READ)
}

/// The entries of a directory, by name, without `.` and `..`.
///
/// # Errors
///
/// What the host says; [`Errno::NOTDIR`] if it is no directory.
pub fn read_dir(path: &str) -> Result<Vec<Entry>, Errno> {
    let directory = open_as(path, MUST_BE_DIRECTORY, RIGHT_READ | RIGHT_READDIR)?;
    let mut buffer = vec![0_u8; 2048];
    let mut entries = Vec::new();
    let mut cookie = 0;
    loop {
        let mut used = 0;
        // SAFETY: the buffer is valid for a write of its length.
        Errno::check(unsafe {
            raw::fd_readdir(
                directory.0,
                buffer.as_mut_ptr(),
                buffer.len(),
                cookie,
                &mut used,
            )
        })?;
        let mut rest = &buffer[..used];
        let before = cookie;
        while let Some((entry, next, after)) = entry(rest) {
            if entry.name != "." && entry.name != ".." {
                entries.push(entry);
            }
            (cookie, rest) = (next, after);
        }
        if used < buffer.len() {
            entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            return Ok(entries);
        }
        if cookie == before {
            // Not even one name fits.
            let larger = 2 * buffer.len();
            buffer.resize(larger, 0);
        }
    }
}

/// The first entry of what `fd_readdir` wrote, the cookie of the next one, and the bytes behind it. The last
/// entry may be cut off.
fn entry(bytes: &[u8]) -> Option<(Entry, u64, &[u8])> {
    let (head, rest) = bytes.split_at_checked(24)?;
    let next = u64::from_le_bytes(head[..8].try_into().ok()?);
    let length = u32::from_le_bytes(head[16..20].try_into().ok()?) as usize;
    let (name, rest) = rest.split_at_checked(length)?;
    let kind = match head[20] {
        3 => Kind::Directory,
        4 => Kind::File,
        _ => Kind::Other,
    };
    let name = String::from_utf8_lossy(name).into_owned();
    Some((Entry { name, kind }, next, rest))
}
