//! The device heap: its pages, their free blocks, and the pages from which each multiprocessor allocates.
//!
//! A *page* holds blocks of one *class* (size), or belongs to a run of pages that is one large block. The free blocks of a
//! page are recorded outside the pages: a bit for each block and a count. `heap/heap.cuh` has the rules.

use crate::layout::DevPtr;

crate::dev_consts! {
    /// Writes the heap's constants as CUDA C++.
    pub fn write_consts;
    /// Bytes of a page, as a power of two.
    pub const HEAP_PAGE_SHIFT = 17;
    /// Words of bits of a page: one bit for each block of the smallest class.
    pub const HEAP_PAGE_WORDS = 256;
    /// Classes: 16, 32, 48, 64, 96, … 24,576, 32,768 bytes, two for each doubling.
    pub const HEAP_CLASSES = 22;
    /// From this class on (1,024 bytes) a page serves a few warps only, and a multiprocessor has several pages.
    pub const HEAP_WIDE_CLASS = 11;
    /// How many pages of such a class a multiprocessor has.
    pub const HEAP_WIDE_SLOTS = 4;
    /// Entries in `active` for each multiprocessor.
    pub const HEAP_SLOTS = 55;
    /// The largest block that shares a page with others; larger blocks are runs of pages.
    pub const HEAP_LARGEST_CLASS = 32768;
    /// In the lower bits of `DevHeapPage::state`: the page is free, and its bit in `free` is set or about to be set.
    pub const HEAP_FREE = 0;
    /// Some multiprocessor allocates from it.
    pub const HEAP_ACTIVE = 1;
    /// It has room, and its bit in `listed` is set or about to be set.
    pub const HEAP_LISTED = 2;
    /// It was full when last looked at.
    pub const HEAP_UNLISTED = 3;
    /// It begins a run of pages, or belongs to one.
    pub const HEAP_RUN = 4;
    /// Above the state: how often the page has been given to a class.
    pub const HEAP_STATE_BITS = 3;
    /// In `DevHeap::active`: a warp is looking for a page.
    pub const HEAP_BUSY = 0xffff_ffff;
    /// The number of pages by which a heap grows, so that no word of bits is shared by old and new pages.
    pub const HEAP_GROWTH_PAGES = 128;
    /// In `DevHeap::mode`: blocks have owners.
    pub const HEAP_OWNED = 1;
    /// In `DevHeap::mode`: blocks have guards, and wrong frees are recorded. Never without `HEAP_OWNED`.
    pub const HEAP_CHECKED = 2;
    /// The owner of blocks without a particular owner.
    pub const HEAP_OWNER_NONE = 0;
    /// Owners are below this.
    pub const HEAP_OWNERS = 0x8000;
    /// In a tag: the block is in use. The bits below are the owner, also of a freed block.
    pub const HEAP_TAG_USED = 0x8000;
    /// Tags of a page: one for each block of the smallest class.
    pub const HEAP_PAGE_TAGS = 8192;
    /// Bytes of the guard at the end of a block: the number of bytes between the requested size and the guard, and a word
    /// computed from that number and the address.
    pub const HEAP_GUARD_BYTES = 8;
    /// The byte that fills the room after the requested size, up to `HEAP_FENCE_BYTES`.
    pub const HEAP_FENCE = 0xa5;
    /// The most bytes that `HEAP_FENCE` fills.
    pub const HEAP_FENCE_BYTES = 16;
    /// The number that is mixed into the second word of a guard.
    pub const HEAP_GUARD_MAGIC = 0x6a09_e667;
    /// Errors that are kept; later errors are only counted.
    pub const HEAP_ERRORS = 64;
    /// In `DevHeapError::kind`: the block had been freed before.
    pub const HEAP_ERROR_TWICE = 1;
    /// The address is not in the heap, or no block begins there.
    pub const HEAP_ERROR_FOREIGN = 2;
    /// The address is inside a block.
    pub const HEAP_ERROR_MIDDLE = 3;
    /// Something wrote past the end of the block.
    pub const HEAP_ERROR_OVERFLOW = 4;
}

/// Bytes of the blocks of a class. The twin of `heap_class_bytes`.
pub const fn class_bytes(class: u32) -> u64 {
    if class < 2 {
        return 16 << class;
    }
    let power = class / 2 + 4;
    if class.is_multiple_of(2) {
        3 << (power - 1)
    } else {
        2 << power
    }
}

/// Bytes of the block that serves a request: those of a class, or whole pages. The twin of `heap_takes` in
/// `heap/class.cuh`; the CPU engine counts with it, so that a program holds the same number of bytes on each engine.
pub const fn block_bytes(bytes: u64) -> u64 {
    if bytes > HEAP_LARGEST_CLASS as u64 {
        let page = 1 << HEAP_PAGE_SHIFT;
        return bytes.div_ceil(page).saturating_mul(page);
    }
    if bytes <= 16 {
        return 16;
    }
    // Classes are powers of two and, from 48 on, three quarters of them.
    let power = bytes.next_power_of_two();
    let between = power / 4 * 3;
    if power > 32 && bytes <= between {
        between
    } else {
        power
    }
}

crate::dev_struct! {
    /// The state of a page.
    pub struct DevHeapPage: align 16, size 16 {
        /// Free blocks that no warp has reserved; far below zero while the page is free.
        pub available: i32,
        /// Pages of the run that begins here; 0 elsewhere.
        pub run: u32,
        /// `HEAP_FREE` … `HEAP_RUN`, and the generation above.
        pub state: u32,
        /// The class of its blocks.
        pub class_: u32,
    }
}

crate::dev_struct! {
    /// Counters of a heap; each group of counters has its own sector.
    pub struct DevHeapCounters: align 32, size 288 {
        /// Requests that found no room, including those beyond a quota.
        pub refused: u64,
        /// Frees of addresses that were not allocated, or freed before.
        pub wrong_frees: u64,
        /// Errors that a checked heap found; the first `HEAP_ERRORS` are kept.
        pub errors: u64,
        /// Spelled-out hole.
        pub hole0: u64,
        /// Where the next search for a run of pages begins; free-running.
        pub run_next: u32,
        /// Spelled-out hole.
        pub hole1: [u32; 7],
        /// Pages that are listed, by class.
        pub listed: [u32; 22],
        /// Pages that are not free.
        pub taken: u32,
        /// Spelled-out hole.
        pub hole2: u32,
        /// By class: 1 while a warp takes a free page, where pages are few.
        pub claiming: [u32; 22],
        /// Spelled-out hole.
        pub hole4: [u32; 2],
        /// The number of pages; only the host writes it, after it has appended some.
        pub pages: u32,
        /// Spelled-out hole.
        pub hole3: [u32; 7],
    }
}

crate::dev_struct! {
    /// The account of an owner.
    pub struct DevHeapOwner: align 32, size 32 {
        /// Bytes of the owner's blocks, as the heap rounds them.
        pub in_use: u64,
        /// The most bytes that the owner may hold; 0: no limit. Only the host writes it.
        pub quota: u64,
        /// Refused requests of the owner.
        pub refused: u64,
        /// Spelled-out hole.
        pub hole: u64,
    }
}

crate::dev_struct! {
    /// An error that a checked heap found.
    pub struct DevHeapError: align 32, size 32 {
        /// The address that was freed, or the block with the overwritten end.
        pub address: u64,
        /// The block's size, as the heap rounds it; 0 when there is none.
        pub bytes: u64,
        /// `HEAP_ERROR_…`; written last, 0 until then.
        pub kind: u32,
        /// The block's owner; of a freed block, its last owner.
        pub owner: u32,
        /// The owner whose task freed; the block's owner if a sweep found the error.
        pub by: u32,
        /// Spelled-out hole.
        pub hole: u32,
    }
}

crate::dev_struct! {
    /// The addresses of a heap's memory; constant while the heap is in use.
    pub struct DevHeap: align 8, size 96 {
        /// The first page.
        pub base: DevPtr<u8>,
        /// The pages.
        pub pages: DevPtr<DevHeapPage>,
        /// The blocks in use: `[page][HEAP_PAGE_WORDS]`.
        pub used: DevPtr<u32>,
        /// One bit for each free page.
        pub free: DevPtr<u32>,
        /// One bit for each page with room: `[class][words]`.
        pub listed: DevPtr<u32>,
        /// The pages that each multiprocessor allocates from, plus one: `[multiprocessor][HEAP_SLOTS]`.
        pub active: DevPtr<u32>,
        /// Counters.
        pub counters: DevPtr<DevHeapCounters>,
        /// The owner of each block: `[page][HEAP_PAGE_TAGS]`; null without owners.
        pub tags: DevPtr<u16>,
        /// The accounts of the owners; null without owners.
        pub owners: DevPtr<DevHeapOwner>,
        /// The first errors; null in a heap that is not checked.
        pub errors: DevPtr<DevHeapError>,
        /// Pages that the tables have room for.
        pub page_limit: u32,
        /// Multiprocessors with entries in `active`.
        pub multiprocessors: u32,
        /// `HEAP_OWNED`, `HEAP_CHECKED`, or 0.
        pub mode: u32,
        /// The number of owners.
        pub owner_limit: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAP_CLASSES, HEAP_LARGEST_CLASS, block_bytes, class_bytes};

    #[test]
    fn sizes_of_classes_are_not_rounded_up() {
        for class in 0..HEAP_CLASSES {
            let bytes = class_bytes(class);
            assert_eq!(block_bytes(bytes), bytes);
            if class + 1 < HEAP_CLASSES {
                assert_eq!(block_bytes(bytes + 1), class_bytes(class + 1));
            }
        }
        assert_eq!(class_bytes(HEAP_CLASSES - 1), HEAP_LARGEST_CLASS.into());
    }

    #[test]
    fn requests_are_rounded_to_classes_and_pages() {
        let pairs = [
            (0, 16),
            (1, 16),
            (16, 16),
            (17, 32),
            (32, 32),
            (33, 48),
            (48, 48),
            (49, 64),
            (65, 96),
            (97, 128),
            (4097, 6144),
            (6145, 8192),
            (24_577, 32_768),
            (32_768, 32_768),
            (32_769, 131_072),
            (131_073, 262_144),
        ];
        for (bytes, takes) in pairs {
            assert_eq!(block_bytes(bytes), takes, "{bytes}");
        }
    }
}
