//! Zeroed, aligned memory of the host, and the engine's fixed tables in it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::MaybeUninit;

use crate::EngineError;
use everwarp_contract::DevType;

const ALIGN: usize = 256;
/// The alignment that the system's allocator gives by itself.
const PLAIN: usize = 16;

/// A plain allocation with room to align the memory, and before it for the address of the allocation.
fn layout(bytes: u64) -> Option<Layout> {
    let bytes = usize::try_from(bytes).ok()?.checked_add(ALIGN)?;
    Layout::from_size_align(bytes, PLAIN).ok()
}

/// Allocates zeroed memory, aligned to 256 bytes.
///
/// Large memory comes from the system page by page, when it is first used. An allocation with a larger alignment would be
/// filled with zeros here, which took most of an engine's start.
///
/// # Errors
/// The system has no memory left.
pub fn alloc(bytes: u64) -> Result<*mut u8, EngineError> {
    let oom = || EngineError::OutOfMemory {
        kind: "host",
        bytes,
        detail: "the system's allocator refused".into(),
    };
    let layout = layout(bytes).ok_or_else(oom)?;
    // SAFETY: the size is not zero.
    let base = unsafe { alloc_zeroed(layout) };
    if base.is_null() {
        return Err(oom());
    }
    // At least `PLAIN` and at most `ALIGN` bytes.
    let skipped = ALIGN - base.addr() % ALIGN;
    // SAFETY: this is the whole allocation, which no other code knows yet.
    in_large_pages(unsafe {
        std::slice::from_raw_parts_mut(base.cast::<MaybeUninit<u8>>(), layout.size())
    });
    // SAFETY: the allocation has `ALIGN` bytes more than the memory, so the address and the word before it are inside.
    unsafe {
        let at = base.add(skipped);
        at.cast::<*mut u8>().sub(1).write(base);
        Ok(at)
    }
}

/// Asks the system for pages of 2 MiB where memory is large. A page is made when it is first used, and the threads of an engine
/// use many for the first time at once: small pages that are read before they are written cost two faults each, and the second
/// one stops all threads.
#[cfg_attr(
    not(target_os = "linux"),
    expect(unused_variables, reason = "only Linux is asked")
)]
pub fn in_large_pages<T>(memory: &mut [MaybeUninit<T>]) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        const LARGE: usize = 2 << 20;
        let (at, bytes) = (memory.as_mut_ptr().cast::<u8>(), size_of_val(memory));
        let skipped = at.addr().wrapping_neg() % LARGE;
        if bytes < skipped + LARGE {
            return;
        }
        let whole = (bytes - skipped) / LARGE * LARGE;
        // SAFETY: the range is inside the allocation; the advice changes how its pages are made, and nothing else. A system
        // without large pages refuses it.
        let _ = unsafe { madvise(at.add(skipped).cast(), whole, Advice::LinuxHugepage) };
    }
}

/// Frees memory.
///
/// # Safety
/// - `at` came from [`alloc`] with the same size and is freed once.
pub unsafe fn free(at: *mut u8, bytes: u64) {
    // SAFETY: the caller vouches; `alloc` wrote the address of the allocation before the memory, and the layout is the one it
    // was allocated with.
    unsafe {
        dealloc(
            at.cast::<*mut u8>().sub(1).read(),
            layout(bytes).expect("it was allocated with this layout"),
        )
    };
}

/// A zeroed table of plain values, shared by raw address.
#[derive(Debug)]
pub struct ZeroedTable<T> {
    at: *mut T,
    len: usize,
}
// SAFETY: an address and a length; users follow the contract's access rules.
unsafe impl<T> Send for ZeroedTable<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for ZeroedTable<T> {}

impl<T: DevType> ZeroedTable<T> {
    /// Makes a table of `len` values whose bytes are all zero.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn new(len: usize) -> Result<Self, EngineError> {
        Ok(Self {
            at: alloc((len * size_of::<T>()) as u64)?.cast(),
            len,
        })
    }
    /// The address of a value.
    ///
    /// # Panics
    /// There is no value of that index.
    pub fn at(&self, index: usize) -> *mut T {
        assert!(index < self.len, "index {index} of a table of {}", self.len);
        // SAFETY: inside the allocation.
        unsafe { self.at.add(index) }
    }
    /// The address of the first value.
    pub fn base(&self) -> *mut T {
        self.at
    }
}

impl<T> ZeroedTable<T> {
    /// The size in bytes.
    pub fn bytes(&self) -> u64 {
        (self.len * size_of::<T>()) as u64
    }
}

impl<T> Drop for ZeroedTable<T> {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this size.
        unsafe { free(self.at.cast(), self.bytes()) };
    }
}
