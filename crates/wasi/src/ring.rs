//! The host's end of the ring: copies requests out, writes answers back.
//!
//! The device may write anywhere in this memory at any time, so all of it is accessed through atomics, and each
//! word of a request is read once. The rules are those of [`everwarp_contract::hostcall`].

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use everwarp_contract::DevHostCall;
use everwarp_contract::hostcall::{entry_sequence, entry_slot};
use everwarp_contract::ring::Slots;

use crate::request::{DATA_BYTES, Reply};

/// Memory that a ring cannot be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The caller's counts are not those of a ring.
    #[error(
        "{slots} slots and {entries} entries: both must be powers of two, and entries at least as many"
    )]
    Counts {
        /// Slots.
        slots: u32,
        /// Entries.
        entries: u32,
    },
    /// One of the caller's addresses is not aligned as its contents are.
    #[error("headers must be aligned to 128 bytes, data areas and entries to 8")]
    Alignment,
}

/// The memory of a ring, as the host sees it.
#[derive(Debug)]
pub struct Ring {
    slots: NonNull<DevHostCall>,
    data: NonNull<u8>,
    entries: NonNull<u64>,
    slot_count: u32,
    queue: Slots,
    /// Slots that are the host's: between the entry that hands one over and the answer.
    busy: Box<[AtomicBool]>,
}

// SAFETY: the memory belongs to no thread, and every access to it is atomic.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// The right to answer a request, once.
#[derive(Debug)]
#[must_use = "a slot that is not answered is lost to the device"]
pub struct Ticket {
    slot: u32,
    sequence: u32,
}

impl Ticket {
    /// The slot.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The sequence of this use of the slot.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }
}

/// What a header said when it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) process: u32,
    pub(crate) generation: u32,
    pub(crate) call: u32,
    pub(crate) data_bytes: u32,
    pub(crate) args: [u64; 6],
}

/// What the next entry of the queue said.
#[derive(Debug)]
pub(crate) enum Entry {
    Request(Ticket),
    /// It names no slot, or one that is the host's already.
    Bad,
}

impl Ring {
    /// A ring in memory that a device writes too.
    ///
    /// # Errors
    /// [`RingError`], before anything is touched.
    ///
    /// # Safety
    /// - `slots` is the address of `slot_count` headers, `data` of as many data areas, `entries` of `entry_count`
    ///   words, none of them overlapping, zeroed before the device first wrote there.
    /// - They stay where they are as long as the ring lives.
    /// - This program accesses them through this ring and otherwise only by atomics.
    pub unsafe fn new(
        slots: NonNull<DevHostCall>,
        data: NonNull<u8>,
        entries: NonNull<u64>,
        slot_count: u32,
        entry_count: u32,
    ) -> Result<Self, RingError> {
        let powers = slot_count.is_power_of_two() && entry_count.is_power_of_two();
        if !powers || entry_count < slot_count || entry_count > 1 << 31 {
            let (slots, entries) = (slot_count, entry_count);
            return Err(RingError::Counts { slots, entries });
        }
        if !slots.is_aligned() || !entries.is_aligned() || !data.cast::<u64>().is_aligned() {
            return Err(RingError::Alignment);
        }
        Ok(Self {
            slots,
            data,
            entries,
            slot_count,
            queue: Slots::new(entry_count),
            busy: (0..slot_count).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    fn header(&self, slot: u32) -> *mut DevHostCall {
        assert!(slot < self.slot_count, "a slot's number has been checked");
        // SAFETY: below `slot_count`, so within the headers that `new` was promised.
        unsafe { self.slots.as_ptr().add(slot as usize) }
    }

    /// Word `index` of a slot's data area.
    fn word(&self, slot: u32, index: usize) -> &AtomicU64 {
        assert!(slot < self.slot_count && index < DATA_BYTES / 8);
        // SAFETY: within the data area of a slot that there is, aligned because the areas are and their size is a
        // multiple of 8, and accessed only by atomics.
        unsafe {
            let area = self.data.as_ptr().add(slot as usize * DATA_BYTES);
            AtomicU64::from_ptr(area.cast::<u64>().add(index))
        }
    }

    /// Copies a request's header. Partner of the release with which the device stored the entry: the acquire that
    /// read it.
    pub(crate) fn head(&self, ticket: &Ticket) -> Head {
        let header = self.header(ticket.slot);
        // SAFETY: `header` checked the slot, so these are fields of a header that `new` was promised.
        let (process, generation, call, data_bytes, args) = unsafe {
            (
                AtomicU32::from_ptr(&raw mut (*header).process),
                AtomicU32::from_ptr(&raw mut (*header).generation),
                AtomicU32::from_ptr(&raw mut (*header).call),
                AtomicU32::from_ptr(&raw mut (*header).data_bytes),
                (&raw mut (*header).args).cast::<u64>(),
            )
        };
        Head {
            process: process.load(Relaxed),
            generation: generation.load(Relaxed),
            call: call.load(Relaxed),
            data_bytes: data_bytes.load(Relaxed),
            args: std::array::from_fn(|index| {
                // SAFETY: one of the six arguments of that header.
                unsafe { AtomicU64::from_ptr(args.add(index)) }.load(Relaxed)
            }),
        }
    }

    /// Copies the first `bytes` bytes of a payload, and no more than there is room for in a data area.
    pub(crate) fn payload(&self, ticket: &Ticket, bytes: usize, into: &mut Vec<u8>) {
        into.clear();
        let bytes = bytes.min(DATA_BYTES);
        for index in 0..bytes.div_ceil(8) {
            into.extend_from_slice(&self.word(ticket.slot, index).load(Relaxed).to_le_bytes());
        }
        into.truncate(bytes);
    }

    /// Answers a request, after which the slot is the device's.
    pub(crate) fn answer(&self, ticket: Ticket, reply: &Reply) {
        let data = &reply.data[..reply.data.len().min(DATA_BYTES)];
        let (words, rest) = data.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            self.word(ticket.slot, index)
                .store(u64::from_le_bytes(*word), Relaxed);
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.word(ticket.slot, words.len())
                .store(u64::from_le_bytes(word), Relaxed);
        }
        let header = self.header(ticket.slot);
        // SAFETY: `header` checked the slot, so these are fields of a header that `new` was promised.
        let (status, errno, reply_bytes, values) = unsafe {
            (
                AtomicU32::from_ptr(&raw mut (*header).status),
                AtomicU32::from_ptr(&raw mut (*header).errno),
                AtomicU32::from_ptr(&raw mut (*header).reply_bytes),
                (&raw mut (*header).values).cast::<u64>(),
            )
        };
        errno.store(reply.errno, Relaxed);
        reply_bytes.store(data.len() as u32, Relaxed);
        for (index, value) in reply.values.iter().enumerate() {
            // SAFETY: one of the three values of that header.
            unsafe { AtomicU64::from_ptr(values.add(index)) }.store(*value, Relaxed);
        }
        // Before the status, because a device that sees it may use the slot again at once. The poller reads it
        // behind the acquire of that next entry.
        self.busy[ticket.slot as usize].store(false, Relaxed);
        // Partner: the device's acquire of `status`. It orders the answer before its being seen.
        status.store(ticket.sequence, Release);
    }
}

/// The queue's reading end, of which a ring has one.
pub(crate) struct Submissions {
    pub(crate) ring: Arc<Ring>,
    head: u32,
}

impl Submissions {
    /// The end of a queue that nobody has read from yet.
    pub(crate) fn new(ring: Arc<Ring>) -> Self {
        Self { ring, head: 0 }
    }

    /// The next entry, if the device has written it.
    pub(crate) fn next(&mut self) -> Option<Entry> {
        let ring = &*self.ring;
        // SAFETY: `Slots::slot` is below the number of entries that `new` was promised.
        let word =
            unsafe { AtomicU64::from_ptr(ring.entries.as_ptr().add(ring.queue.slot(self.head))) };
        // Partner: the device's release of the entry. It orders the request before its being seen.
        let word = word.load(Acquire);
        if !ring.queue.is_valid(self.head, word as u32) {
            return None;
        }
        self.head = self.head.wrapping_add(1);
        let slot = entry_slot(word);
        let busy = ring.busy.get(slot as usize);
        Some(match busy.map(|busy| busy.swap(true, Relaxed)) {
            Some(false) => Entry::Request(Ticket {
                slot,
                sequence: entry_sequence(word),
            }),
            Some(true) | None => Entry::Bad,
        })
    }
}
