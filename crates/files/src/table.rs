//! The tables of a page cache in the engine's memory, as tasks on the CPU engine reach them.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp_contract::pages::{
    PAGE_ORDER_DROP, PAGE_ORDER_EVICT, PAGE_ORDER_FILL, PAGE_ORDER_TAKE, PAGE_ORDER_WRITTEN,
    PAGE_WRITABLE_BIT,
};
use everwarp_contract::{DevPageFile, DevPageOrder, DevPages, DevPtr, DevType};
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
    /// The page with the byte at an offset of a file.
    pub(crate) fn place(self, handle: u32, offset: u64) -> Result<Place<'f>, FileErrno> {
        let place = handle & 0xffff;
        if handle == 0 || place >= self.0.handles {
            return Err(FileErrno::BADF);
        }
        let at: *mut DevPageFile = self.element(self.0.files.address(), place.into());
        // SAFETY: inside the live table, aligned. The host writes whole words, and a record is two of them.
        let words = unsafe { &*at.cast::<[AtomicU64; 2]>() };
        // The word with the handle was written last.
        let named = words[0].load(Ordering::Acquire).to_ne_bytes();
        let sized = words[1].load(Ordering::Relaxed).to_ne_bytes();
        let mut bytes = [0; size_of::<DevPageFile>()];
        bytes[..8].copy_from_slice(&named);
        bytes[8..].copy_from_slice(&sized);
        let file = DevPageFile::from_bytes(&bytes);
        if file.handle != handle {
            return Err(FileErrno::BADF);
        }
        let writable = file.size >> PAGE_WRITABLE_BIT != 0;
        if offset >= file.size & !(1 << PAGE_WRITABLE_BIT) {
            return Err(FileErrno::INVAL);
        }
        let index = u64::from(file.first) + (offset >> self.0.page_bits);
        Ok(Place {
            table: self,
            index,
            word: self.word(index).ok_or(FileErrno::BADF)?,
            at: offset & ((1 << self.0.page_bits) - 1),
            writable,
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
