//! The allocator: it only moves on.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};
use core::cell::Cell;
use core::ptr::null_mut;

const PAGE: usize = 1 << 16;

/// Gives out memory from the end of the module's own data on, and asks for another page when what it has is
/// used up. Only the last block can be freed, grown or shrunk in place, which is what a growing vector needs;
/// what else is freed is lost until the process ends. For short programs that is the smallest allocator.
struct Bump {
    /// Where the next block may begin; zero before the first.
    next: Cell<usize>,
    /// The end of all that has ever been given out. What is behind it is zero, as a new memory is.
    used: Cell<usize>,
}

// SAFETY: a module without shared memory has one thread.
unsafe impl Sync for Bump {}

#[global_allocator]
static HEAP: Bump = Bump {
    next: Cell::new(0),
    used: Cell::new(0),
};

unsafe extern "C" {
    /// Its address is the end of the module's data and stack; the linker sets it.
    static __heap_base: u8;
}

impl Bump {
    /// Makes `end` the end of what is in use; false if the memory cannot grow so far.
    fn reach(&self, end: usize) -> bool {
        let have = memory_size(0) * PAGE;
        if end > have && memory_grow(0, (end - have).div_ceil(PAGE)) == usize::MAX {
            return false;
        }
        self.next.set(end);
        self.used.set(self.used.get().max(end));
        true
    }

    fn is_last(&self, at: *mut u8, layout: Layout) -> bool {
        at as usize + layout.size() == self.next.get()
    }
}

// SAFETY: blocks do not overlap, because `next` only moves back over the last one, which its owner gave up.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut next = self.next.get();
        if next == 0 {
            next = (&raw const __heap_base) as usize;
        }
        let block = next.checked_next_multiple_of(layout.align());
        let end = block.and_then(|b| b.checked_add(layout.size()));
        match (block, end) {
            (Some(block), Some(end)) if self.reach(end) => block as *mut u8,
            _ => null_mut(),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let used = self.used.get();
        // SAFETY: the caller guarantees what this needs.
        let block = unsafe { self.alloc(layout) };
        let old = used.saturating_sub(block as usize).min(layout.size());
        if !block.is_null() && old != 0 {
            // SAFETY: the block has at least as many bytes, and no other code has its address.
            unsafe { block.write_bytes(0, old) };
        }
        block
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if self.is_last(at, layout) {
            self.next.set(at as usize);
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if self.is_last(at, layout) {
            return match (at as usize).checked_add(size) {
                Some(end) if self.reach(end) => at,
                _ => null_mut(),
            };
        }
        if size <= layout.size() {
            return at;
        }
        // SAFETY: the caller guarantees that `size` makes a layout with this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: its size is not zero, because it is larger than that of a block.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: the new block is larger, and no block overlaps another.
            unsafe { core::ptr::copy_nonoverlapping(at, moved, layout.size()) };
        }
        moved
    }
}
