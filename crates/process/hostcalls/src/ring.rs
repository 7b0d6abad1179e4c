//! The host's end of the ring: copies requests out, writes answers back.
//!
//! The device may write anywhere in this memory at any time, so all of it is accessed through atomics, and each word of
//! a request is read once. The rules are those of [`everwarp_contract::hostcall`].

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};

use everwarp_contract::hostcall::{
    HOSTCALL_AREAS_MOST, HOSTCALL_INLINE_BYTES, HOSTCALL_SLOTS_MOST, answer_head,
};
use everwarp_contract::{DevHostCall, DevHostCallEntry};
use everwarp_process::Pid;

use crate::events::Woken;
use crate::limits::DATA_BYTES;
use crate::request::Reply;

/// The word of a slot that says which call's caller has stopped looking for the answer.
const GIVEN_UP: usize = offset_of!(DevHostCall, given_up) / 8;

/// An error in the memory that a ring was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The caller's counts do not make a ring.
    #[error(
        "{slots} slots, {entries} entries and {areas} areas: there must be a power of two of entries, at most 2^30, \
         and 1 to 2^20 slots, at most as many as entries; and fewer areas than 2^17"
    )]
    Counts {
        /// Slots.
        slots: u32,
        /// Entries.
        entries: u32,
        /// Areas.
        areas: u32,
    },
    /// One of the caller's addresses is not aligned as its contents are.
    #[error("slots must be aligned to 256 bytes, entries to 64, areas to 8")]
    Alignment,
}

/// The memory of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingMemory {
    /// Slots, `slot_count` of them.
    pub slots: NonNull<DevHostCall>,
    /// Areas, `area_count` of them.
    pub areas: NonNull<u8>,
    /// Entries, `entry_count` of them.
    pub entries: NonNull<DevHostCallEntry>,
    /// Number of slots.
    pub slot_count: u32,
    /// Number of areas.
    pub area_count: u32,
    /// Number of entries: a power of two, and at least as many as slots.
    pub entry_count: u32,
}

/// The host's view of a ring.
#[derive(Debug)]
pub struct Ring {
    pub(crate) memory: RingMemory,
    /// Slots that belong to the host: between the entry that hands one over and the answer.
    pub(crate) busy: Box<[AtomicBool]>,
}

// SAFETY: the memory belongs to no thread, and every access to it is atomic.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// Where a request's payload is and its reply goes, after a check that it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataPlace {
    Slot,
    Area(u32),
    /// The request named an area that does not exist.
    Nowhere,
}

/// The right to answer a request, once.
#[derive(Debug)]
#[must_use = "a slot that is not answered is lost to the device"]
pub(crate) struct Ticket {
    pub(crate) process: Pid,
    pub(crate) slot: u32,
    pub(crate) sequence: u32,
    pub(crate) place: DataPlace,
    /// Bytes of payload, as the request says.
    pub(crate) payload_bytes: u32,
    /// Whether the process is to be woken after the answer. It may also wish so later.
    pub(crate) wakes: bool,
    /// The number of the call, as the request says.
    pub(crate) call: u32,
    /// When the request was taken, on the clock of measurements; 0 if its service does not measure.
    pub(crate) taken: u64,
}

impl Ticket {
    /// Bytes of payload or reply that there is room for.
    pub(crate) fn room(&self) -> usize {
        match self.place {
            DataPlace::Slot => HOSTCALL_INLINE_BYTES as usize,
            DataPlace::Area(_) => DATA_BYTES,
            DataPlace::Nowhere => 0,
        }
    }
}

impl Ring {
    /// A ring in memory that a device writes to as well.
    ///
    /// # Errors
    /// [`RingError`], before anything is touched.
    ///
    /// # Safety
    /// - The addresses have as much memory as the counts say, none of it overlapping, zeroed before the device first
    ///   wrote there.
    /// - It stays where it is as long as the ring lives.
    /// - This program accesses it through this ring, and otherwise only by atomics.
    pub unsafe fn new(memory: RingMemory) -> Result<Self, RingError> {
        let (slots, entries, areas) = (memory.slot_count, memory.entry_count, memory.area_count);
        let counts = entries.is_power_of_two()
            && entries <= 1 << 30
            && (1..=entries.min(HOSTCALL_SLOTS_MOST)).contains(&slots)
            && areas <= HOSTCALL_AREAS_MOST;
        if !counts {
            return Err(RingError::Counts {
                slots,
                entries,
                areas,
            });
        }
        let aligned = memory.areas.cast::<u64>().is_aligned();
        if !memory.slots.is_aligned() || !memory.entries.is_aligned() || !aligned {
            return Err(RingError::Alignment);
        }
        Ok(Self {
            memory,
            busy: (0..slots).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// Word `index` of an entry.
    pub(crate) fn entry_word(&self, entry: usize, index: usize) -> &AtomicU64 {
        assert!(entry < self.memory.entry_count as usize && index < 8);
        // SAFETY: one of the eight words of an entry that `new` was promised, accessed only by atomics.
        unsafe {
            let entry = self.memory.entries.as_ptr().add(entry);
            AtomicU64::from_ptr((&raw mut (*entry).words).cast::<u64>().add(index))
        }
    }

    /// Word `index` of a slot: 0 has the status, 1 to 3 are the values, 4 is [`GIVEN_UP`], and the data begins at 8.
    pub(crate) fn slot_word(&self, slot: u32, index: usize) -> &AtomicU64 {
        const WORDS: usize = size_of::<DevHostCall>() / 8;
        assert!(slot < self.memory.slot_count && index < WORDS);
        // SAFETY: within a slot that `new` was promised, which is words of 8 bytes throughout, accessed only by
        // atomics.
        unsafe {
            let slot = self.memory.slots.as_ptr().add(slot as usize);
            AtomicU64::from_ptr(slot.cast::<u64>().add(index))
        }
    }

    /// Word `index` of a request's data.
    fn data_word(&self, ticket: &Ticket, index: usize) -> &AtomicU64 {
        assert!(index < ticket.room() / 8, "the word is within the data");
        match ticket.place {
            DataPlace::Area(area) => {
                // SAFETY: within an area that `new` was promised, since the ticket's is below their number and
                // areas hold `DATA_BYTES`; accessed only by atomics.
                unsafe {
                    let area = self.memory.areas.as_ptr().add(area as usize * DATA_BYTES);
                    AtomicU64::from_ptr(area.cast::<u64>().add(index))
                }
            }
            DataPlace::Slot | DataPlace::Nowhere => self.slot_word(ticket.slot, 8 + index),
        }
    }

    /// Copies a payload. One that is larger than its slot or area becomes one byte larger than that, which the service
    /// refuses.
    pub(crate) fn payload(&self, ticket: &Ticket, into: &mut Vec<u8>) {
        into.clear();
        let claimed = (ticket.payload_bytes as usize).min(ticket.room() + 1);
        let bytes = claimed.min(ticket.room());
        for index in 0..bytes.div_ceil(8) {
            into.extend_from_slice(&self.data_word(ticket, index).load(Relaxed).to_le_bytes());
        }
        into.truncate(bytes);
        into.resize(claimed, 0);
    }

    /// Makes a slot as it was before its first request. No process uses it.
    pub(crate) fn begin_anew(&self, slot: u32) {
        self.busy[slot as usize].store(false, Relaxed);
        // The next process in the slot starts after this, by a task that releases.
        self.slot_word(slot, 0).store(0, Relaxed);
        self.slot_word(slot, GIVEN_UP).store(0, Relaxed);
    }

    /// Answers a request, after which the slot is the device's. Returns the process if it is to be woken.
    #[must_use = "a process that is not woken waits for ever"]
    pub(crate) fn answer(&self, ticket: Ticket, reply: &Reply) -> Option<Woken> {
        let data = &reply.data[..reply.data.len().min(ticket.room())];
        let (words, rest) = data.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            self.data_word(&ticket, index)
                .store(u64::from_le_bytes(*word), Relaxed);
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.data_word(&ticket, words.len())
                .store(u64::from_le_bytes(word), Relaxed);
        }
        for (index, value) in reply.values.iter().enumerate() {
            self.slot_word(ticket.slot, 1 + index)
                .store(*value, Relaxed);
        }
        // Before the status, because a device that sees it may use the slot again at once. The poller reads it
        // after the acquire of that next entry.
        self.busy[ticket.slot as usize].store(false, Relaxed);
        let head = answer_head(ticket.sequence, reply.errno as u16, data.len() as u16);
        // Partner: the device's load of the status. It orders the stores of the answer before that load.
        self.slot_word(ticket.slot, 0).store(head, Release);
        let woken = Woken {
            process: ticket.process,
            slot: ticket.slot,
            sequence: ticket.sequence,
        };
        (ticket.wakes || self.has_given_up(&ticket)).then_some(woken)
    }

    /// Whether the caller has stopped looking for the answer, which has been written. If it stops later, it finds the answer:
    /// it writes this word and then reads the status, with a fence between the two as well.
    fn has_given_up(&self, ticket: &Ticket) -> bool {
        fence(SeqCst);
        self.slot_word(ticket.slot, GIVEN_UP).load(Relaxed) == u64::from(ticket.sequence)
    }
}
