//! The descriptors of a process by number.

use std::sync::Arc;

use everwarp_contract::hostcall::Fd;

use crate::errno::{Errno, Result};
use crate::open::Descriptor;

/// Descriptors by number.
#[derive(Debug)]
pub(crate) struct DescriptorTable {
    entries: Vec<Option<Arc<Descriptor>>>,
    open: usize,
    limit: usize,
}

impl DescriptorTable {
    /// A table that holds `limit` descriptors.
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            entries: Vec::new(),
            open: 0,
            limit: limit as usize,
        }
    }

    pub(crate) fn get(&self, fd: Fd) -> Result<Arc<Descriptor>> {
        let entry = self.entries.get(fd.0 as usize).and_then(Option::as_ref);
        entry.map(Arc::clone).ok_or(Errno::BADF)
    }

    /// Succeeds if one more descriptor may be added.
    pub(crate) fn has_room(&self) -> Result {
        if self.open < self.limit {
            Ok(())
        } else {
            Err(Errno::MFILE)
        }
    }

    /// Adds a descriptor under the lowest free number.
    pub(crate) fn insert(&mut self, descriptor: Descriptor) -> Result<Fd> {
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
        u32::try_from(fd).map(Fd).map_err(|_| Errno::MFILE)
    }

    /// Takes a descriptor out. The caller drops it outside any lock, because closing a file can take a while.
    pub(crate) fn remove(&mut self, fd: Fd) -> Result<Arc<Descriptor>> {
        let entry = self.entries.get_mut(fd.0 as usize).and_then(Option::take);
        let descriptor = entry.ok_or(Errno::BADF)?;
        self.open -= 1;
        Ok(descriptor)
    }

    /// Gives `from` the number `to`, and returns the descriptor that had it.
    pub(crate) fn renumber(&mut self, from: Fd, to: Fd) -> Result<Option<Arc<Descriptor>>> {
        self.get(from)?;
        self.get(to)?;
        if from == to {
            return Ok(None);
        }
        let moved = self.remove(from)?;
        Ok(self.entries[to.0 as usize].replace(moved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_number_is_given_again_and_the_limit_holds() {
        let mut table = DescriptorTable::new(3);
        for fd in 0..3 {
            assert_eq!(table.insert(Descriptor::Input), Ok(Fd(fd)));
        }
        assert_eq!(table.insert(Descriptor::Input), Err(Errno::MFILE));
        assert!(table.remove(Fd(1)).is_ok());
        assert_eq!(table.remove(Fd(1)).err(), Some(Errno::BADF));
        assert_eq!(table.insert(Descriptor::Error), Ok(Fd(1)));
        assert!(matches!(table.renumber(Fd(1), Fd(0)), Ok(Some(_))));
        assert!(matches!(table.get(Fd(0)).as_deref(), Ok(Descriptor::Error)));
        assert_eq!(table.renumber(Fd(1), Fd(0)).err(), Some(Errno::BADF));
        assert_eq!(table.insert(Descriptor::Input), Ok(Fd(1)));
        assert!(matches!(table.renumber(Fd(2), Fd(2)), Ok(None)));
    }
}
