//! The page cache of native tasks: the words of pages, and the orders that change them.
//!
//! A cached file has a word for each of its pages, 0 at first. A word counts the holders of its page (tasks that use the page,
//! or wait for it) and says in which frame of the cache the page is, if it is in one. `everwarp-pages` has the rules.
//!
//! A task that adds itself to the holders of a page that is in no frame asks the host for the page. The host decides which
//! frame gets it, and a task of the door writes the word before the task that waits goes on. The host never writes a word
//! itself: it sends orders to the door.

use crate::layout::DevPtr;

crate::dev_consts! {
    /// Writes the constants of pages as CUDA C++.
    pub fn write_consts;
    /// A page's word: the bits that count its holders.
    pub const PAGE_HOLDERS_BITS = 20;
    /// The most holders that a task adds itself to. The rest of the count is for tasks that find it too high, and take back
    /// what they added.
    pub const PAGE_HOLDERS_MOST = 0x80000;
    /// The bit that says that the page is in a frame.
    pub const PAGE_HERE_BIT = 20;
    /// The bit that says that bytes were written that are not in the file.
    pub const PAGE_DIRTY_BIT = 21;
    /// The bit that says that the page was used since the host last looked for frames.
    pub const PAGE_USED_BIT = 22;
    /// The bit that says that the host would read further pages once this one is used.
    pub const PAGE_MARK_BIT = 23;
    /// The first bit of the version: how often the page has left a frame.
    pub const PAGE_VERSION_SHIFT = 24;
    /// The bits of the version, which begins again after its highest number.
    pub const PAGE_VERSION_BITS = 8;
    /// The first bit of the frame's number.
    pub const PAGE_FRAME_SHIFT = 32;
    /// `DevPageFile::size`: the bit that says that the file may be written.
    pub const PAGE_WRITABLE_BIT = 63;
    /// `DevPageOrder::op`: a page that no task has asked for was read into a frame.
    pub const PAGE_ORDER_FILL = 1;
    /// Take the page out of its frame, unless it is held, dirty or was used.
    pub const PAGE_ORDER_EVICT = 2;
    /// Take the page out of its frame, unless it is held or dirty.
    pub const PAGE_ORDER_DROP = 3;
    /// Hold the page and take its written parts, if there are any.
    pub const PAGE_ORDER_TAKE = 4;
    /// The written parts are in the file, or are not (`value`): release the page.
    pub const PAGE_ORDER_WRITTEN = 5;
    /// `DevPageOrder::value` of an order to evict or drop: it is done.
    pub const PAGE_GONE = 0;
    /// The page is held.
    pub const PAGE_IS_HELD = 1;
    /// The page is dirty.
    pub const PAGE_IS_DIRTY = 2;
    /// The page was used.
    pub const PAGE_IS_USED = 3;
}

crate::dev_struct! {
    /// Something that a task of the door does to a page.
    pub struct DevPageOrder: align 8, size 24 {
        /// What to do (`PAGE_ORDER_…`).
        pub op: u32,
        /// The frame that the page is in, or gets.
        pub frame: u32,
        /// The page: the number of its word.
        pub page: u64,
        /// More about the order, and then its answer.
        pub value: u64,
    }
}

crate::dev_struct! {
    /// A cached file, by the place of its handle. Tasks on a GPU read it in one access.
    pub struct DevPageFile: align 16, size 16 {
        /// The handle, or 0.
        pub handle: u32,
        /// The number of the word of its first page.
        pub first: u32,
        /// Its size in bytes, and `PAGE_WRITABLE_BIT`.
        pub size: u64,
    }
}

crate::dev_struct! {
    /// The page cache of an instance: a part of its files.
    pub struct DevPages: align 16, size 64 {
        /// The words of pages.
        pub words: DevPtr<u64>,
        /// Of each frame, which of the 64 parts of its page were written.
        pub written: DevPtr<u64>,
        /// The frames.
        pub bytes: DevPtr<u8>,
        /// The cached files.
        pub files: DevPtr<DevPageFile>,
        /// Orders of the host.
        pub orders: DevPtr<DevPageOrder>,
        /// How many words there are; 0: there is no cache.
        pub count: u64,
        /// How many handles there are.
        pub handles: u32,
        /// The bits of an offset that are within a page.
        pub page_bits: u32,
        /// Spelled-out hole.
        pub hole: u64,
    }
}
