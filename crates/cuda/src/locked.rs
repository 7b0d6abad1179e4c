//! Page-locked memory for what a device is given: from there it is copied without passing through a staging area.

use std::ops::{Deref, DerefMut, Range};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use everwarp_backend::BackendError;

use crate::driver::Pinned;

/// All that there is, ordered. It stays until the process ends, since the driver's free waits for the device.
static ALL: RwLock<Vec<Range<usize>>> = RwLock::new(Vec::new());
/// What nobody has at present.
static FREE: Mutex<Vec<Pinned>> = Mutex::new(Vec::new());

fn free() -> MutexGuard<'static, Vec<Pinned>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes in page-locked memory of the host. The memory is used again when they are dropped.
#[derive(Debug)]
pub struct LockedBytes {
    memory: Pinned,
    len: usize,
}

impl LockedBytes {
    /// So many, with whatever was in them. A context is current.
    pub(crate) fn new(len: usize) -> Result<Self, BackendError> {
        let mut unused = free();
        let fitting = unused.iter().enumerate().filter(|(_, m)| m.bytes >= len);
        if let Some((at, _)) = fitting.min_by_key(|(_, memory)| memory.bytes) {
            let memory = unused.swap_remove(at);
            return Ok(Self { memory, len });
        }
        drop(unused);
        let memory = Pinned::with_anything(len.max(1))?;
        let begin = memory.host.addr();
        let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
        let at = all.partition_point(|range| range.start < begin);
        all.insert(at, begin..begin + memory.bytes);
        Ok(Self { memory, len })
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

/// Which memory is page-locked, as long as it is looked at.
pub(crate) struct Locked(RwLockReadGuard<'static, Vec<Range<usize>>>);

impl Locked {
    pub(crate) fn look() -> Self {
        Self(ALL.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn has(&self, bytes: &[u8]) -> bool {
        let begin = bytes.as_ptr().addr();
        let behind = self.0.partition_point(|range| range.start <= begin);
        let before = behind.checked_sub(1).and_then(|at| self.0.get(at));
        before.is_some_and(|range| begin + bytes.len() <= range.end)
    }
}
