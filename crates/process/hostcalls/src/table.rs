//! What a process has open.

use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use cap_std::fs::Dir;

use crate::errno::{Errno, Result};
use crate::openings::Permit;
use crate::readdir::Listing;

/// What a descriptor stands for.
#[derive(Debug)]
pub(crate) enum Descriptor {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
    /// An open file.
    File(OpenFile),
    /// An open directory.
    Directory(OpenDir),
}

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// Held while bytes at the offset are read or written, so that no two reads get the same ones.
    pub(crate) offset: Mutex<u64>,
    pub(crate) append: AtomicBool,
    /// Told to whoever asks; files are never waited for.
    pub(crate) nonblock: AtomicBool,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Whether it is none of pipes, devices and sockets.
    pub(crate) regular: bool,
    /// Whether the directory that it comes from may not be changed.
    pub(crate) read_only: bool,
    /// That it may be open. Given back behind the file, whose field stands before it.
    pub(crate) _permit: Permit,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenDir {
    pub(crate) dir: Arc<Dir>,
    /// What the process calls it, if it has been given it.
    pub(crate) given: Option<String>,
    pub(crate) readable: bool,
    pub(crate) read_only: bool,
    /// What `fd_readdir` last listed.
    pub(crate) listing: Mutex<Option<Arc<Listing>>>,
    /// That it may be open, if the process has opened it.
    pub(crate) _permit: Option<Permit>,
}

/// Descriptors by number.
#[derive(Debug)]
pub(crate) struct Table {
    entries: Vec<Option<Arc<Descriptor>>>,
    open: usize,
    limit: usize,
}

impl Table {
    /// A table that holds `limit` descriptors.
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            entries: Vec::new(),
            open: 0,
            limit: limit as usize,
        }
    }

    pub(crate) fn get(&self, fd: u32) -> Result<Arc<Descriptor>> {
        let entry = self.entries.get(fd as usize).and_then(Option::as_ref);
        entry.map(Arc::clone).ok_or(Errno::BADF)
    }

    pub(crate) fn has_room(&self) -> Result {
        if self.open < self.limit {
            Ok(())
        } else {
            Err(Errno::MFILE)
        }
    }

    /// Opens a descriptor under the lowest free number.
    pub(crate) fn insert(&mut self, descriptor: Descriptor) -> Result<u32> {
        self.has_room()?;
        let descriptor = Some(Arc::new(descriptor));
        let fd = match self.open == self.entries.len() {
            true => None,
            false => self.entries.iter().position(Option::is_none),
        };
        let fd = match fd {
            Some(fd) => {
                self.entries[fd] = descriptor;
                fd
            }
            None => {
                self.entries.push(descriptor);
                self.entries.len() - 1
            }
        };
        self.open += 1;
        u32::try_from(fd).map_err(|_| Errno::MFILE)
    }

    /// Closes a descriptor; the caller drops what it stood for, outside any lock.
    pub(crate) fn remove(&mut self, fd: u32) -> Result<Arc<Descriptor>> {
        let entry = self.entries.get_mut(fd as usize).and_then(Option::take);
        let descriptor = entry.ok_or(Errno::BADF)?;
        self.open -= 1;
        Ok(descriptor)
    }

    /// Gives `from` the number `to`, and closes what had that.
    pub(crate) fn renumber(&mut self, from: u32, to: u32) -> Result<Option<Arc<Descriptor>>> {
        self.get(from)?;
        self.get(to)?;
        if from == to {
            return Ok(None);
        }
        let moved = self.remove(from)?;
        Ok(self.entries[to as usize].replace(moved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_number_is_given_again_and_the_limit_holds() {
        let mut table = Table::new(3);
        for fd in 0..3 {
            assert_eq!(table.insert(Descriptor::Input), Ok(fd));
        }
        assert_eq!(table.insert(Descriptor::Input), Err(Errno::MFILE));
        assert!(table.remove(1).is_ok());
        assert_eq!(table.remove(1).err(), Some(Errno::BADF));
        assert_eq!(table.insert(Descriptor::Error), Ok(1));
        assert!(matches!(table.renumber(1, 0), Ok(Some(_))));
        assert!(matches!(table.get(0).as_deref(), Ok(Descriptor::Error)));
        assert_eq!(table.renumber(1, 0).err(), Some(Errno::BADF));
        assert_eq!(table.insert(Descriptor::Input), Ok(1));
        assert!(matches!(table.renumber(2, 2), Ok(None)));
    }
}
