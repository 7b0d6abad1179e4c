//! Pages of cached files as the CPU twin of a task sees them. Device source has the same names in `everwarp/files/pages.cuh`.

use everwarp_contract::files::{FILE_PAGE, FILE_PREFETCH};
use everwarp_contract::{DevFileRequest, DevPtr, DevType};
use everwarp_pages::Acquired;

use crate::errno::FileErrno;
use crate::ring::Posted;
use crate::table::{PageTable, Place};
use crate::task::{FileTask, Then};

/// What [`FileTask::acquire`] has done.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub enum Page {
    /// The task holds the page, and this is the byte at the offset.
    Here(DevPtr<u8>),
    /// The page is on its way: the task that goes on holds it, unless its argument is an error.
    Later,
    /// Nothing was asked, as of other requests: spawn a task that tries again.
    Full,
    /// The task does not hold the page.
    Failed(FileErrno),
}

/// What [`FileTask::get`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Got<T> {
    /// The value.
    Value(T),
    /// See [`Page::Later`]; the task that goes on calls [`FileTask::take`].
    Later,
    /// See [`Page::Full`].
    Full,
    /// There is no value.
    Failed(FileErrno),
}

/// Cached files are reached through their pages. A page that a task holds stays in the engine's memory; the holder
/// releases it, or hands it to a task that does. Holding many pages while waiting for another is what fills a cache: then the
/// wait ends with [`FileErrno::NOBUFS`].
impl FileTask<'_> {
    fn place(&self, handle: u32, offset: u64) -> Result<Place<'_>, FileErrno> {
        self.pages().place(handle, offset)
    }
    fn pages(&self) -> PageTable<'_> {
        // SAFETY: by the word of the caller of `new`.
        unsafe { PageTable::new(&self.files().pages) }
    }
    /// Acquires the page with the byte at `offset` of a cached file, for the running task or for the task that goes on. A
    /// function that calls it is declared with room for [`FILE_SPAWNS`](crate::FILE_SPAWNS) tasks for each call. A warp or a
    /// block holds a page by one call of one of its lanes.
    pub fn acquire(&mut self, handle: u32, offset: u64, then: Then) -> Page {
        let place = match self.place(handle, offset) {
            Ok(place) => place,
            Err(error) => return Page::Failed(error),
        };
        let (word, index) = (place.word, place.index);
        match word.acquire() {
            Acquired::Here { frame, mark } => {
                let here = place.address(frame);
                if mark {
                    // The host reads further pages. Without room for the request it finds out by the next miss.
                    let _ = self.ahead(handle, offset, 0);
                }
                Page::Here(here)
            }
            Acquired::Crowded => Page::Full,
            Acquired::Missing => {
                let request = DevFileRequest {
                    op: FILE_PAGE,
                    handle,
                    offset,
                    to: index,
                    ..DevFileRequest::ZERO
                };
                match self.post_some(request, then) {
                    Posted::Taken => Page::Later,
                    full_or_closed => {
                        // A task that goes on with an error holds nothing.
                        if let Some(word) = self.pages().word(index) {
                            word.release();
                        }
                        match full_or_closed {
                            Posted::Full => Page::Full,
                            _ => Page::Later,
                        }
                    }
                }
            }
        }
    }
    /// Where the byte at `offset` is, whose page the task holds.
    ///
    /// # Panics
    /// It does not hold it.
    pub fn held(&self, handle: u32, offset: u64) -> DevPtr<u8> {
        let place = self.place(handle, offset).expect("the task holds the page");
        let frame = place.word.held().expect("the task holds the page");
        place.address(frame)
    }
    /// Says that the task has written `len` bytes from `offset` on, in a page that it holds. They are written to the file when
    /// the page leaves, or with a sync, by 64ths of a page: other bytes of the file stay as they are. False if the handle is not
    /// open for writing.
    pub fn wrote(&self, handle: u32, offset: u64, len: u32) -> bool {
        match self.place(handle, offset) {
            Ok(place) if place.writable => {
                place.wrote(len.into());
                true
            }
            _ => false,
        }
    }
    /// Releases the page with the byte at `offset`, which the task holds.
    pub fn release(&self, handle: u32, offset: u64) {
        if let Ok(place) = self.place(handle, offset) {
            place.word.release();
        }
    }
    /// Reads a value, whose offset is a multiple of its size.
    pub fn get<T: DevType>(&mut self, handle: u32, offset: u64, then: Then) -> Got<T> {
        if !offset.is_multiple_of(size_of::<T>() as u64) {
            return Got::Failed(FileErrno::INVAL);
        }
        match self.acquire(handle, offset, then) {
            Page::Here(_) => Got::Value(self.take(handle, offset)),
            Page::Later => Got::Later,
            Page::Full => Got::Full,
            Page::Failed(error) => Got::Failed(error),
        }
    }
    /// Reads a value from a page that the task holds, and releases the page.
    ///
    /// # Panics
    /// It does not hold it.
    pub fn take<T: DevType>(&self, handle: u32, offset: u64) -> T {
        const { assert!(size_of::<T>().is_power_of_two() && size_of::<T>() <= 4096) };
        let from = self.held(handle, offset).address() as *const T;
        // SAFETY: the value is inside the page, since its offset is a multiple of its size, and the page is held. Every bit
        // pattern is a value.
        let value = unsafe { from.read_unaligned() };
        self.release(handle, offset);
        value
    }
    /// Says that tasks will want `len` bytes from `offset` on: the host reads the pages into free frames. False if the request
    /// has found no room; the call needs room for one task.
    pub fn prefetch(&mut self, handle: u32, offset: u64, len: u64) -> bool {
        len == 0 || self.ahead(handle, offset, len)
    }
    fn ahead(&mut self, handle: u32, offset: u64, len: u64) -> bool {
        let request = DevFileRequest {
            op: FILE_PREFETCH,
            handle,
            offset,
            room: len,
            ..DevFileRequest::ZERO
        };
        self.post_alone(request) != Posted::Full
    }
}
