//! The tables of a page cache in the engine's memory, as tasks on the CPU engine reach them.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everwarp_contract::pages::{
    PAGE_ORDER_DROP, PAGE_ORDER_EVICT, PAGE_ORDER_FILL, PAGE_ORDER_TAKE, PAGE_ORDER_WRITTEN,
};
use everwarp_contract::{DevPageFile, DevPageOrder, DevPages, DevPtr};
use everwarp_pages::{Eviction, Word};

use crate::errno::FileErrno;

/// The cache of the instance whose task runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageTable<'f>(&'f DevPages);

/// A page, its word, and where a byte is in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'f> {
    table: PageTable<'f>,
    /// The number of the page's word.
    pub(crate) index: u64,
    pub(crate) word: Word<'f>,
    /// The byte's offset within the page.
    pub(crate) at: u64,
    pub(crate) writable: bool,
}

impl<'f> PageTable<'f> {
    /// # Safety
    /// - The tables are those of a live `Files` of the engine whose task calls.
    pub(crate) unsafe fn new(pages: &'f DevPages) -> Self {
        Self(pages)
    }
    fn element<T>(self, first: u64, index: u64) -> *mut T {
        (first as *mut T).wrapping_add(index as usize)
    }
    /// The word with this number, if there is one.
    pub(crate) fn word(self, index: u64) -> Option<Word<'f>> {
        (index < self.0.count).then(|| {
            // SAFETY: inside the live table, aligned, and only accessed atomically.
            let word = unsafe { AtomicU64::from_ptr(self.element(self.0.words.address(), index)) };
            Word(word)
        })
    }
    /// The written parts of the page in a frame.
    pub(crate) fn written(self, frame: u32) -> &'f AtomicU64 {
        let at = self.element(self.0.written.address(), frame.into());
        // SAFETY: the frame comes from a word or from the host, so it is inside the live table; as above.
        unsafe { AtomicU64::from_ptr(at) }
    }
    fn file_word(self, place: u32, field: usize) -> *mut u8 {
        let at: *mut DevPageFile = self.element(self.0.files.address(), place.into());
        at.cast::<u8>().wrapping_add(field)
    }
    /// The page with the byte at an offset of a file.
    pub(crate) fn place(self, handle: u32, offset: u64) -> Result<Place<'f>, FileErrno> {
        let place = handle & 0xffff;
        if handle == 0 || place >= self.0.handles {
            return Err(FileErrno::BADF);
        }
        // SAFETY: inside the live table, aligned. The host writes whole words.
        let word = |field| unsafe { AtomicU64::from_ptr(self.file_word(place, field).cast()) };
        // SAFETY: as above.
        let half = |field| unsafe { AtomicU32::from_ptr(self.file_word(place, field).cast()) };
        if half(offset_of!(DevPageFile, handle)).load(Ordering::Acquire) != handle {
            return Err(FileErrno::BADF);
        }
        if offset >= word(offset_of!(DevPageFile, size)).load(Ordering::Relaxed) {
            return Err(FileErrno::INVAL);
        }
        let first = word(offset_of!(DevPageFile, first)).load(Ordering::Relaxed);
        let index = first + (offset >> self.0.page_bits);
        Ok(Place {
            table: self,
            index,
            word: self.word(index).ok_or(FileErrno::BADF)?,
            at: offset & ((1 << self.0.page_bits) - 1),
            writable: half(offset_of!(DevPageFile, writable)).load(Ordering::Relaxed) != 0,
        })
    }
    /// Carries out an order of the host, which gets the answer.
    pub(crate) fn carry_out(self, index: u32) {
        let at: *mut DevPageOrder = self.element(self.0.orders.address(), index.into());
        // SAFETY: inside the live table; the host wrote the order before it submitted the task that carries it out, and does
        // not look before that task has ended.
        let order = unsafe { at.read() };
        let answer = self.do_order(&order);
        // SAFETY: as above.
        unsafe { (&raw mut (*at).value).write(answer) };
    }
    /// Does what an order says. Returns the answer.
    pub(crate) fn do_order(self, order: &DevPageOrder) -> u64 {
        let Some(word) = self.word(order.page) else {
            return 0;
        };
        let written = self.written(order.frame);
        let evict = |how| word.evict(order.frame, written, how) as u64;
        match order.op {
            PAGE_ORDER_FILL => {
                word.fill(order.value);
                0
            }
            PAGE_ORDER_EVICT => evict(Eviction::Clock),
            PAGE_ORDER_DROP if order.value != 0 => evict(Eviction::Discard),
            PAGE_ORDER_DROP => evict(Eviction::Drop),
            PAGE_ORDER_TAKE => word.take(written),
            PAGE_ORDER_WRITTEN => {
                word.written(written, order.value);
                0
            }
            _ => 0,
        }
    }
    /// Where the byte at an offset of a frame is.
    fn address(self, frame: u32, at: u64) -> DevPtr<u8> {
        let first = u64::from(frame) << self.0.page_bits;
        DevPtr::new(self.0.bytes.address() + first + at)
    }
    pub(crate) fn page_size(self) -> u64 {
        1 << self.0.page_bits
    }
}

impl Place<'_> {
    /// Where the byte is, if its page is in this frame.
    pub(crate) fn address(&self, frame: u32) -> DevPtr<u8> {
        self.table.address(frame, self.at)
    }
    /// Notes that bytes of a held page were written, from this one on.
    pub(crate) fn wrote(&self, len: u64) {
        let (Some(frame), true) = (self.word.held(), len > 0) else {
            return;
        };
        let part_bits = self.table.0.page_bits - 6;
        let last = (self.at + len - 1).min(self.table.page_size() - 1) >> part_bits;
        let first = self.at >> part_bits;
        let parts = (u64::MAX >> (63 - (last - first))) << first;
        self.word.wrote(self.table.written(frame), parts);
    }
}
