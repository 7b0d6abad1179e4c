//! The device heap: pages, what is free in each, and who allocates from which.
//!
//! A *page* holds blocks of one *class* (size), or belongs to a run of pages that is one large block. What
//! is free in a page stands beside the pages, not in them: a bit for each block and a count. See
//! `heap/heap.cuh` for the rules.

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
    /// From this class on (1,024 bytes) a page serves a few warps only, and a multiprocessor has several.
    pub const HEAP_WIDE_CLASS = 11;
    /// So many.
    pub const HEAP_WIDE_SLOTS = 4;
    /// Places in `active` of a multiprocessor.
    pub const HEAP_SLOTS = 55;
    /// The largest block that lies in a page with others; larger ones are runs of pages.
    pub const HEAP_LARGEST_CLASS = 32768;
    /// In `DevHeapPage::state`, the lower bits: nobody's, and its bit in `free` is set or about to be.
    pub const HEAP_FREE = 0;
    /// Some multiprocessor allocates from it.
    pub const HEAP_ACTIVE = 1;
    /// It has room, and its bit in `listed` is set or about to be.
    pub const HEAP_LISTED = 2;
    /// It was full when last looked at.
    pub const HEAP_UNLISTED = 3;
    /// It begins a run of pages, or belongs to one.
    pub const HEAP_RUN = 4;
    /// Above the state: how often the page has been given to a class.
    pub const HEAP_STATE_BITS = 3;
    /// In `DevHeap::active`: somebody is looking for a page.
    pub const HEAP_BUSY = 0xffff_ffff;
}

crate::dev_struct! {
    /// What is known of a page.
    pub struct DevHeapPage: align 16, size 16 {
        /// Free blocks that nobody has reserved; far below zero while the page is nobody's.
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
    /// Counters of a heap, each on a sector of its own.
    pub struct DevHeapCounters: align 32, size 160 {
        /// Requests that found no room.
        pub refused: u64,
        /// Frees of what was not allocated: twice, or never.
        pub wrong_frees: u64,
        /// Spelled-out hole.
        pub hole0: [u64; 2],
        /// The lock of runs: 0, or 1 while somebody looks for one.
        pub run_lock: u32,
        /// The page behind the last run, where the next search begins; whoever holds the lock changes it.
        pub run_next: u32,
        /// Spelled-out hole.
        pub hole1: [u32; 6],
        /// Pages that are listed, by class.
        pub listed: [u32; 22],
        /// Pages that are nobody's.
        pub free: u32,
        /// Spelled-out hole.
        pub hole2: u32,
    }
}

crate::dev_struct! {
    /// Where a heap's memory is; constant while it is in use.
    pub struct DevHeap: align 8, size 64 {
        /// The first page.
        pub base: DevPtr<u8>,
        /// The pages.
        pub pages: DevPtr<DevHeapPage>,
        /// The blocks in use: `[page][HEAP_PAGE_WORDS]`.
        pub used: DevPtr<u32>,
        /// One bit for each page that is nobody's.
        pub free: DevPtr<u32>,
        /// One bit for each page with room: `[class][words]`.
        pub listed: DevPtr<u32>,
        /// The pages that each multiprocessor allocates from, plus one: `[multiprocessor][HEAP_SLOTS]`.
        pub active: DevPtr<u32>,
        /// Counters.
        pub counters: DevPtr<DevHeapCounters>,
        /// Number of pages.
        pub page_count: u32,
        /// Multiprocessors that have places in `active`.
        pub multiprocessors: u32,
    }
}
