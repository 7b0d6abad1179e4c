//! The host's end of the ring: copies requests out, writes answers back.
//!
//! The device may write anywhere in this memory at any time, so all of it is accessed through atomics, and what is
//! taken of a request is taken from one look at its words. The rules are those of [`everwarp_contract::hostcall`].

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use everwarp_contract::hostcall::{
    EntryFields, HOSTCALL_AREAS_MOST, HOSTCALL_INLINE_BYTES, HOSTCALL_SLOTS_MOST, answer_head,
    is_of_lap,
};
use everwarp_contract::ring::Slots;
use everwarp_contract::{DevHostCall, DevHostCallEntry};

use crate::request::{DATA_BYTES, Reply, Request};

/// Memory that a ring cannot be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The caller's counts are not those of a ring.
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

/// Where a ring is.
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
    /// Number of entries, a power of two and no less than that of slots.
    pub entry_count: u32,
}

/// The memory of a ring, as the host sees it.
#[derive(Debug)]
pub struct Ring {
    memory: RingMemory,
    /// Slots that are the host's: between the entry that hands one over and the answer.
    busy: Box<[AtomicBool]>,
}

// SAFETY: the memory belongs to no thread, and every access to it is atomic.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// Where a request's payload is and its reply goes; compared with what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Slot,
    Area(u32),
    /// It named an area that there is not.
    Nowhere,
}

/// The right to answer a request, once.
#[derive(Debug)]
#[must_use = "a slot that is not answered is lost to the device"]
pub struct Ticket {
    slot: u32,
    sequence: u32,
    place: Place,
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

    /// Bytes of payload or reply that there is room for.
    pub fn room(&self) -> usize {
        match self.place {
            Place::Slot => HOSTCALL_INLINE_BYTES as usize,
            Place::Area(_) => DATA_BYTES,
            Place::Nowhere => 0,
        }
    }
}

/// What an entry said when it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) process: u32,
    pub(crate) generation: u32,
    pub(crate) call: u32,
    /// More than there is room for if the payload is nowhere.
    pub(crate) data_bytes: u32,
    pub(crate) args: [u64; 6],
}

impl Head {
    /// The request, with what it sends along and room for as much.
    pub(crate) const fn request<'p>(&self, payload: &'p [u8], room: usize) -> Request<'p> {
        Request {
            process: self.process,
            generation: self.generation,
            call: self.call,
            args: self.args,
            payload,
            room,
        }
    }
}

/// What the next entry of the queue said.
#[derive(Debug)]
pub(crate) enum Entry {
    Request(Ticket, Head),
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
    /// - There is as much at these addresses as the counts say, none of it overlapping, zeroed before the device
    ///   first wrote there.
    /// - It stays where it is as long as the ring lives.
    /// - This program accesses it through this ring and otherwise only by atomics.
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
    fn entry_word(&self, entry: usize, index: usize) -> &AtomicU64 {
        assert!(entry < self.memory.entry_count as usize && index < 8);
        // SAFETY: one of the eight words of an entry that `new` was promised, accessed only by atomics.
        unsafe {
            let entry = self.memory.entries.as_ptr().add(entry);
            AtomicU64::from_ptr((&raw mut (*entry).words).cast::<u64>().add(index))
        }
    }

    /// Word `index` of a slot: 0 has the status, 1 to 3 are the values, and from 8 on lies the room for data.
    fn slot_word(&self, slot: u32, index: usize) -> &AtomicU64 {
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
        assert!(index < ticket.room() / 8, "there is room for that word");
        match ticket.place {
            Place::Area(area) => {
                // SAFETY: within an area that `new` was promised, since the ticket's is below their number and
                // areas hold `DATA_BYTES`; accessed only by atomics.
                unsafe {
                    let area = self.memory.areas.as_ptr().add(area as usize * DATA_BYTES);
                    AtomicU64::from_ptr(area.cast::<u64>().add(index))
                }
            }
            Place::Slot | Place::Nowhere => self.slot_word(ticket.slot, 8 + index),
        }
    }

    /// Copies the first `bytes` bytes of a payload, and no more than there is room for.
    pub(crate) fn payload(&self, ticket: &Ticket, bytes: usize, into: &mut Vec<u8>) {
        into.clear();
        let bytes = bytes.min(ticket.room());
        for index in 0..bytes.div_ceil(8) {
            into.extend_from_slice(&self.data_word(ticket, index).load(Relaxed).to_le_bytes());
        }
        into.truncate(bytes);
    }

    /// Answers a request, after which the slot is the device's.
    pub(crate) fn answer(&self, ticket: Ticket, reply: &Reply) {
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
        // behind the acquire of that next entry.
        self.busy[ticket.slot as usize].store(false, Relaxed);
        let head = answer_head(ticket.sequence, reply.errno as u16, data.len() as u16);
        // Partner: the device's look at its status. It orders the answer before its being seen.
        self.slot_word(ticket.slot, 0).store(head, Release);
    }
}

/// The queue's reading end, of which a ring has one.
pub(crate) struct Submissions {
    ring: Arc<Ring>,
    queue: Slots,
    head: u32,
    /// How often each slot has been used.
    uses: Box<[u32]>,
}

impl Submissions {
    /// The end of a queue that nobody has read from yet.
    pub(crate) fn new(ring: Arc<Ring>) -> Self {
        Self {
            queue: Slots::new(ring.memory.entry_count),
            head: 0,
            uses: vec![0; ring.memory.slot_count as usize].into(),
            ring,
        }
    }

    /// Copies the next entry, if all of it is there.
    fn copy(&self) -> Option<EntryFields> {
        let (at, lap) = (self.queue.slot(self.head), self.queue.lap(self.head));
        let mut words = [0; 8];
        for piece in 0..4 {
            // Partner: the device's fence before the entry, if it sent a payload. A piece arrives whole, so its
            // first word is there when the second is.
            let second = self.ring.entry_word(at, 2 * piece + 1).load(Acquire);
            if !is_of_lap(second, lap) {
                return None;
            }
            words[2 * piece] = self.ring.entry_word(at, 2 * piece).load(Relaxed);
            words[2 * piece + 1] = second;
        }
        Some(EntryFields::decode(words))
    }

    /// Whether the device has not written the next entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.copy().is_none()
    }

    /// The next entry, if the device has written it.
    pub(crate) fn next(&mut self) -> Option<Entry> {
        let request = self.copy()?;
        self.head = self.head.wrapping_add(1);
        let slot = request.slot;
        // Nobody else sets it, so a look and a store do.
        let busy = match self.ring.busy.get(slot as usize) {
            Some(busy) if !busy.load(Relaxed) => busy,
            _ => return Some(Entry::Bad),
        };
        busy.store(true, Relaxed);
        let uses = &mut self.uses[slot as usize];
        *uses = uses.wrapping_add(1);
        let place = match request.area {
            0 => Place::Slot,
            area if area <= self.ring.memory.area_count => Place::Area(area - 1),
            _ => Place::Nowhere,
        };
        let ticket = Ticket {
            slot,
            sequence: *uses,
            place,
        };
        let head = Head {
            process: request.process,
            generation: request.generation,
            call: request.call,
            data_bytes: match place {
                Place::Nowhere => u32::MAX,
                _ => request.data_bytes,
            },
            args: request.args,
        };
        Some(Entry::Request(ticket, head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that a test writes as a device does.
    struct Memory {
        slots: Box<[DevHostCall]>,
        entries: Box<[DevHostCallEntry]>,
        areas: Box<[u64]>,
    }

    impl Memory {
        fn new(entries: usize) -> Self {
            let slot = DevHostCall {
                status: 0,
                errno: 0,
                reply_bytes: 0,
                values: [0; 3],
                reserved: [0; 4],
                data: [0; HOSTCALL_INLINE_BYTES as usize],
            };
            Self {
                slots: vec![slot; entries].into(),
                entries: vec![DevHostCallEntry { words: [0; 8] }; entries].into(),
                areas: vec![0; DATA_BYTES / 8].into(),
            }
        }

        fn submissions(&mut self) -> Submissions {
            fn start<T, U>(of: &mut [T]) -> NonNull<U> {
                NonNull::from(of).cast()
            }
            let memory = RingMemory {
                slot_count: self.slots.len() as u32,
                area_count: 1,
                entry_count: self.entries.len() as u32,
                slots: start(&mut self.slots),
                areas: start(&mut self.areas),
                entries: start(&mut self.entries),
            };
            // SAFETY: zeroed boxes of these lengths, which a test keeps until it is done with the ring, and
            // accesses by atomics alone meanwhile.
            Submissions::new(Arc::new(
                unsafe { Ring::new(memory) }.expect("it is a ring"),
            ))
        }
    }

    /// Stores one piece of an entry.
    fn store(submissions: &Submissions, index: u32, piece: usize, request: &EntryFields) {
        let words = request.encode(submissions.queue.lap(index));
        let at = submissions.queue.slot(index);
        let word = |k: usize| submissions.ring.entry_word(at, 2 * piece + k);
        word(0).store(words[2 * piece], Relaxed);
        word(1).store(words[2 * piece + 1], Release);
    }

    /// An entry of which a piece is missing is no entry yet, in whatever order they come and on every lap.
    #[test]
    fn an_entry_is_taken_when_all_its_pieces_are_there() {
        let mut memory = Memory::new(2);
        let mut submissions = memory.submissions();
        for index in 0..16_u32 {
            let request = EntryFields {
                process: index,
                slot: index % 2,
                call: 1,
                args: [u64::MAX - u64::from(index); 6],
                ..Default::default()
            };
            for piece in 0..4 {
                assert!(submissions.next().is_none(), "entry {index}, piece {piece}");
                let piece = (piece + index as usize) % 4;
                store(&submissions, index, piece, &request);
            }
            let Some(Entry::Request(ticket, head)) = submissions.next() else {
                panic!("entry {index} is there");
            };
            assert_eq!((head.process, head.args), (index, request.args));
            assert_eq!((ticket.slot, ticket.sequence), (index % 2, index / 2 + 1));
            submissions.ring.answer(ticket, &Reply::default());
            let status = submissions.ring.slot_word(index % 2, 0).load(Relaxed);
            assert_eq!(status, u64::from(index / 2 + 1));
        }
    }
}
