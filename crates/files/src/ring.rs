//! The task's end of the ring of requests, statement for statement what `everwarp/files/files.cuh` does.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use everwarp_contract::files::{FILE_CLOSED_BIT, FILE_TAKE_STEP};
use everwarp_contract::{DevFileControl, DevFileDone, DevFileRequest, DevFiles, Layout};

const CLOSED: u64 = 1 << FILE_CLOSED_BIT;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Posted {
    /// It is in the ring.
    Taken,
    /// There is no free slot.
    Full,
    /// The host serves no more.
    Closed,
}

/// The ring of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'f>(&'f DevFiles);

impl<'f> Ring<'f> {
    /// # Safety
    /// - The tables are those of a live `Files` of the engine whose task calls.
    pub(crate) unsafe fn new(files: &'f DevFiles) -> Self {
        Self(files)
    }
    fn word(&self, field: usize) -> &AtomicU64 {
        let at = self.0.control.address() as *mut u8;
        // SAFETY: an aligned word of the live control words, which are only accessed atomically.
        unsafe { AtomicU64::from_ptr(at.add(field).cast()) }
    }
    fn reserved(&self) -> &AtomicU64 {
        self.word(offset_of!(DevFileControl, reserved))
    }
    fn taken(&self) -> &AtomicU64 {
        self.word(offset_of!(DevFileControl, taken))
    }
    fn bell(&self) -> &AtomicU64 {
        self.word(offset_of!(DevFileControl, bell))
    }
    /// Word `word` of the slot of a request.
    fn slot(&self, number: u64, word: usize) -> &AtomicU64 {
        let slot = number & u64::from(self.0.slots - 1);
        let at = self.0.requests.address() as *mut DevFileRequest;
        // SAFETY: inside the live ring, aligned, and only accessed atomically.
        unsafe { AtomicU64::from_ptr(at.add(slot as usize).cast::<u64>().add(word)) }
    }

    /// Puts a request into the ring. `hold` gives it its group, once there is a slot.
    pub(crate) fn post(&self, mut request: DevFileRequest, hold: impl FnOnce() -> u32) -> Posted {
        let mut number = self.reserved().load(Ordering::Relaxed);
        loop {
            if number & CLOSED != 0 {
                return Posted::Closed;
            }
            // Acquire pairs with the release of `set_taken`: the host has copied what was in the slot. What was reserved may be
            // the older of the two values, and then the exchange fails.
            let taken = self.taken().load(Ordering::Acquire);
            if number >= taken + u64::from(self.0.slots) {
                let refused = self.word(offset_of!(DevFileControl, refused));
                refused.fetch_add(1, Ordering::Relaxed);
                return Posted::Full;
            }
            match self.reserved().compare_exchange_weak(
                number,
                number + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(other) => number = other,
            }
        }
        request.group = hold();
        let words = request.bytes().chunks_exact(8).enumerate().skip(1);
        for (word, bytes) in words {
            let value = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            self.slot(number, word).store(value, Ordering::Relaxed);
        }
        self.slot(number, 0).store(number + 1, Ordering::Release);
        Posted::Taken
    }
    /// Takes the bell: the group in which the host waits.
    pub(crate) fn take_bell(&self) -> Option<u32> {
        // Acquire and release: see the module of the layouts.
        let bell = self.bell().exchange(0);
        (bell != 0).then(|| bell as u32 - 1)
    }
    /// Notes how many requests the host has copied.
    pub(crate) fn set_taken(&self, taken: u64) {
        self.taken().store(taken, Ordering::Release);
    }
    /// Hangs up the bell.
    pub(crate) fn hang(&self, group: u32) {
        self.bell().exchange(u64::from(group) + 1);
    }
    /// Takes this bell back, unless another task has taken it.
    pub(crate) fn take_back(&self, group: u32) -> bool {
        let own = u64::from(group) + 1;
        let taken = self
            .bell()
            .compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    }
    /// How many requests the host can copy, up to a limit.
    pub(crate) fn count(&self) -> u64 {
        let first = self.taken().load(Ordering::Relaxed);
        let is_there = |&number: &u64| self.slot(number, 0).load(Ordering::Acquire) == number + 1;
        (first..first + u64::from(FILE_TAKE_STEP))
            .take_while(is_there)
            .count() as u64
    }
    /// Copies the next requests to where the host reads them.
    pub(crate) fn copy_out(&self, count: u64) {
        let first = self.taken().load(Ordering::Relaxed);
        let to = self.0.copied.address() as *mut u64;
        let words = size_of::<DevFileRequest>() / 8;
        for at in 0..(count as usize).min(FILE_TAKE_STEP as usize) {
            for word in 0..words {
                let value = self.slot(first + at as u64, word).load(Ordering::Relaxed);
                // SAFETY: inside the live table; the host reads it after the task that reports, and before the next one.
                unsafe { to.add(at * words + word).write(value) };
            }
        }
    }
    /// Whether the ring is closed and the host has copied all requests.
    pub(crate) fn ended(&self) -> bool {
        let reserved = self.reserved().load(Ordering::Acquire);
        reserved & CLOSED != 0 && reserved & !CLOSED == self.taken().load(Ordering::Relaxed)
    }
    /// Closes the ring: no further request gets a slot.
    pub(crate) fn close(&self) {
        self.reserved().fetch_or(CLOSED, Ordering::AcqRel);
    }
    /// A completion that the host has written.
    pub(crate) fn done(&self, index: u32) -> DevFileDone {
        let slot = index & (self.0.done_slots - 1);
        let at = self.0.done.address() as *const DevFileDone;
        // SAFETY: inside the live ring; the host wrote it before it submitted the task that reads it, and does not write it
        // again before that task has ended.
        unsafe { at.add(slot as usize).read() }
    }
}

/// An exchange that acquires and releases.
trait Exchange {
    fn exchange(&self, value: u64) -> u64;
}
impl Exchange for AtomicU64 {
    fn exchange(&self, value: u64) -> u64 {
        self.swap(value, Ordering::AcqRel)
    }
}
