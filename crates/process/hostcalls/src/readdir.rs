//! `fd_readdir`: a listing that stands still while a guest reads it.
//!
//! A cookie is the number of entries before it, `.` and `..` being the first two. The listing is taken at cookie 0
//! and kept with the descriptor, so that what others create and remove meanwhile neither hides an entry nor shows
//! one twice. The system's own cookies would do without keeping anything, but not every file system's survive a
//! removal. A process keeps the last [`LISTINGS`] of them, or one with many descriptors of a large directory would
//! take much memory of the host's; one that has been dropped is taken anew when it is asked for.

use std::sync::Arc;

use cap_std::fs::MetadataExt;
use rustix::fs::{Dir, FileType};

use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::request::{Reply, Request};
use crate::sink::lock;
use crate::table::{Descriptor, OpenDir};
use crate::wasi;

/// Listings that a process keeps at a time: as many as a walk through a tree is deep, mostly.
const LISTINGS: usize = 16;

/// Bytes of an entry before its name.
const HEAD: usize = 24;

/// The entries of a directory at some time.
#[derive(Debug)]
pub(crate) struct Listing(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    name: Box<str>,
    inode: u64,
    kind: u8,
}

fn kind(of: FileType) -> u8 {
    match of {
        FileType::RegularFile => wasi::TYPE_REGULAR,
        FileType::Directory => wasi::TYPE_DIRECTORY,
        FileType::Symlink => wasi::TYPE_LINK,
        FileType::CharacterDevice => wasi::TYPE_CHARACTER,
        FileType::BlockDevice => wasi::TYPE_BLOCK,
        FileType::Socket => wasi::TYPE_SOCKET_STREAM,
        FileType::Fifo | FileType::Unknown => wasi::TYPE_UNKNOWN,
    }
}

impl Listing {
    fn take(of: &OpenDir) -> Result<Self> {
        // What lies above a directory is nobody's business: `..` is shown as the directory itself.
        let own = of.dir.dir_metadata()?.ino();
        let mut entries = Vec::new();
        for dots in [".", ".."] {
            entries.push(Entry {
                name: dots.into(),
                inode: own,
                kind: wasi::TYPE_DIRECTORY,
            });
        }
        for entry in Dir::read_from(&*of.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_str().map_err(|_| Errno::ILSEQ)?;
            if name != "." && name != ".." {
                entries.push(Entry {
                    name: name.into(),
                    inode: entry.ino(),
                    kind: kind(entry.file_type()),
                });
            }
        }
        Ok(Self(entries))
    }

    /// Appends the entries from `cookie` on as they lie in a guest's memory, without the first `skip` bytes, until
    /// there are `length` bytes or no more entries.
    fn write(&self, cookie: u64, mut skip: u64, length: usize, data: &mut Vec<u8>) {
        let first = usize::try_from(cookie).unwrap_or(usize::MAX);
        for (entry, next) in self.0.iter().skip(first).zip(cookie.saturating_add(1)..) {
            if data.len() >= length {
                break;
            }
            let size = (HEAD + entry.name.len()) as u64;
            if skip >= size {
                skip -= size;
                continue;
            }
            let start = data.len();
            data.extend_from_slice(&next.to_le_bytes());
            data.extend_from_slice(&entry.inode.to_le_bytes());
            // A name is at most 255 bytes long on every file system of Linux.
            data.extend_from_slice(&(entry.name.len() as u32).to_le_bytes());
            data.extend_from_slice(&[entry.kind, 0, 0, 0]);
            data.extend_from_slice(entry.name.as_bytes());
            data.drain(start..start + skip as usize);
            skip = 0;
        }
        data.truncate(length);
    }
}

pub(crate) fn readdir(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let length = request.length(1)?;
    let (cookie, skip) = (request.args[2], request.args[3]);
    let descriptor = process.descriptor(request.word(0)?)?;
    let dir = descriptor.directory()?;
    let kept = lock(&dir.listing)
        .as_ref()
        .filter(|_| (cookie, skip) != (0, 0))
        .map(Arc::clone);
    let listing = match kept {
        Some(listing) => listing,
        None => {
            let taken = Arc::new(Listing::take(dir)?);
            let first = lock(&dir.listing).replace(Arc::clone(&taken)).is_none();
            if first {
                process.keep_listing(&descriptor);
            }
            taken
        }
    };
    listing.write(cookie, skip, length, &mut reply.data);
    reply.count();
    Ok(())
}

impl Process {
    /// Notes that a descriptor has a listing, and drops that of the one that has had one the longest if there are
    /// too many.
    fn keep_listing(&self, of: &Arc<Descriptor>) {
        let mut listed = lock(&self.listed);
        // What has been closed took its listing along.
        listed.retain(|descriptor| descriptor.strong_count() > 0);
        listed.push_back(Arc::downgrade(of));
        let oldest = if listed.len() > LISTINGS {
            listed.pop_front()
        } else {
            None
        };
        if let Some(Descriptor::Directory(dir)) =
            oldest.and_then(|oldest| oldest.upgrade()).as_deref()
        {
            *lock(&dir.listing) = None;
        }
    }
}
