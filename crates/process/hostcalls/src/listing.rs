//! The listing of a directory, which does not change while a process reads it.

use cap_std::fs::{Dir, MetadataExt};
use rustix::fs::{Dir as DirectoryStream, FileType};

use crate::errno::{Errno, Result};
use crate::wasi;

/// Bytes of an entry before its name.
const HEAD: usize = 24;

/// The entries of a directory at some moment.
#[derive(Debug)]
pub(crate) struct Listing(Vec<ListedFile>);

#[derive(Debug)]
struct ListedFile {
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
    /// Lists a directory as it is now.
    pub(crate) fn take(of: &Dir) -> Result<Self> {
        // A process must not learn about what is above the directory: `..` is shown as the directory itself.
        let own = of.dir_metadata()?.ino();
        let mut entries = Vec::new();
        for dots in [".", ".."] {
            entries.push(ListedFile {
                name: dots.into(),
                inode: own,
                kind: wasi::TYPE_DIRECTORY,
            });
        }
        for entry in DirectoryStream::read_from(of)? {
            let entry = entry?;
            let name = entry.file_name().to_str().map_err(|_| Errno::ILSEQ)?;
            if name != "." && name != ".." {
                entries.push(ListedFile {
                    name: name.into(),
                    inode: entry.ino(),
                    kind: kind(entry.file_type()),
                });
            }
        }
        Ok(Self(entries))
    }

    /// Appends the entries from `cookie` on as WASI lays them out in memory, without the first `skip` bytes, until
    /// there are `length` bytes or no more entries.
    pub(crate) fn write(&self, cookie: u64, mut skip: u64, length: usize, data: &mut Vec<u8>) {
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
