//! Page-locked memory for data on its way to a device: it is copied from there without a staging area.

use std::ops::{Deref, DerefMut, Range};
use std::sync::{Mutex, MutexGuard, RwLock};

use everwarp_engine::EngineError;
use everwarp_engine::sync::{ignore_poison, lock};

use crate::driver::Pinned;

/// All page-locked ranges, in order. They stay until the process ends, since the driver's free waits for the device.
static ALL: RwLock<Vec<Range<usize>>> = RwLock::new(Vec::new());
/// The memory that is not in use.
static FREE: Mutex<Vec<Pinned>> = Mutex::new(Vec::new());

fn free() -> MutexGuard<'static, Vec<Pinned>> {
    lock(&FREE)
}

/// Bytes in page-locked memory of the host. The memory is used again when they are dropped.
#[derive(Debug)]
pub struct LockedBytes {
    memory: Pinned,
    len: usize,
}

impl LockedBytes {
    /// `len` bytes with arbitrary contents. A context is current.
    pub(crate) fn new(len: usize) -> Result<Self, EngineError> {
        let mut unused = free();
        let fitting = unused.iter().enumerate().filter(|(_, m)| m.bytes >= len);
        if let Some((at, _)) = fitting.min_by_key(|(_, memory)| memory.bytes) {
            let memory = unused.swap_remove(at);
            return Ok(Self { memory, len });
        }
        drop(unused);
        let memory = Pinned::with_anything(len.max(1))?;
        let begin = memory.host.addr();
        let mut all = ignore_poison(ALL.write());
        let at = all.partition_point(|range| range.start < begin);
        all.insert(at, begin..begin + memory.bytes);
        Ok(Self { memory, len })
    }
    /// Where a device finds them.
    pub(crate) fn address(&self) -> u64 {
        self.memory.device
    }
}

impl Deref for LockedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is ours and at least as long; the driver has given it with some bytes in it.
        unsafe { std::slice::from_raw_parts(self.memory.host, self.len) }
    }
}

impl DerefMut for LockedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.memory.host, self.len) }
    }
}

impl Drop for LockedBytes {
    fn drop(&mut self) {
        free().push(self.memory);
    }
}

/// A copy of the list of page-locked ranges, which is short; so no lock is held during a copy.
pub(crate) struct Locked(Vec<Range<usize>>);

impl Locked {
    pub(crate) fn look() -> Self {
        Self(ignore_poison(ALL.read()).clone())
    }

    /// The end of the page-locked memory that holds these bytes, if one does.
    pub(crate) fn end_around(&self, bytes: &[u8]) -> Option<usize> {
        let begin = bytes.as_ptr().addr();
        let behind = self.0.partition_point(|range| range.start <= begin);
        let before = self.0.get(behind.checked_sub(1)?)?;
        Some(before.end).filter(|end| begin + bytes.len() <= *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_known_by_the_memory_that_they_lie_in() {
        let bytes = [0_u8; 64];
        let at = |offset: usize| bytes.as_ptr().addr() + offset;
        let locked = Locked(vec![at(4)..at(16), at(16)..at(40)]);
        for (range, end) in [
            (4..16, Some(16)),
            (15..16, Some(16)),
            (16..40, Some(40)),
            // In two of them, partly in one, in none.
            (15..17, None),
            (0..8, None),
            (39..41, None),
            (40..41, None),
            (0..4, None),
        ] {
            let found = locked.end_around(&bytes[range.clone()]);
            assert_eq!(found, end.map(at), "{range:?}");
        }
        assert_eq!(Locked(Vec::new()).end_around(&bytes), None);
    }
}
