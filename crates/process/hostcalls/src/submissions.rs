//! The reading end of the submission queue.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use everwarp_contract::hostcall::{EntryFields, HOSTCALL_WAKE, is_of_lap};
use everwarp_contract::ring::Slots;
use everwarp_process::Pid;

use crate::request::{Request, call_number};
use crate::ring::{DataPlace, Ring, Ticket};

/// A request whose payload is still in the ring, and the right to answer it.
pub(crate) type Job = (Ticket, Request<'static>);

/// An entry of the queue.
#[derive(Debug)]
pub(crate) enum Entry {
    Request(Job),
    /// It names this slot, which does not exist or belongs to the host already.
    Bad(u32),
}

/// The reading end of a ring's queue. A ring has one.
pub(crate) struct Submissions {
    ring: Arc<Ring>,
    queue: Slots,
    head: u32,
    /// How often each slot has been used.
    uses: Box<[u32]>,
}

impl Submissions {
    /// The end of a queue from which nothing has been read yet.
    pub(crate) fn new(ring: Arc<Ring>) -> Self {
        Self {
            queue: Slots::new(ring.memory.entry_count),
            head: 0,
            uses: vec![0; ring.memory.slot_count as usize].into(),
            ring,
        }
    }

    /// Lets the calls of these slots count from 0 again. The device uses none of them.
    pub(crate) fn begin_anew(&mut self, slots: Range<u32>) {
        for slot in slots {
            if std::mem::take(&mut self.uses[slot as usize]) > 0 {
                self.ring.begin_anew(slot);
            }
        }
    }

    /// Copies the next entry, if all of it is there.
    fn copy(&self) -> Option<EntryFields> {
        let (at, lap) = (self.queue.slot(self.head), self.queue.lap(self.head));
        let mut words = [0; 8];
        for piece in 0..4 {
            // Partner: the device's fence before the entry, if it sent a payload. A piece arrives whole, so its
            // first word has arrived when the second has.
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
        let fields = self.copy()?;
        self.head = self.head.wrapping_add(1);
        let slot = fields.slot;
        // Only this thread sets it, so a load and a store suffice.
        let busy = match self.ring.busy.get(slot as usize) {
            Some(busy) if !busy.load(Relaxed) => busy,
            _ => return Some(Entry::Bad(slot)),
        };
        busy.store(true, Relaxed);
        let uses = &mut self.uses[slot as usize];
        *uses = uses.wrapping_add(1);
        let place = match fields.area {
            0 => DataPlace::Slot,
            area if area <= self.ring.memory.area_count => DataPlace::Area(area - 1),
            _ => DataPlace::Nowhere,
        };
        let ticket = Ticket {
            process: Pid::new(fields.process, fields.generation),
            slot,
            sequence: *uses,
            place,
            payload_bytes: match place {
                // Too many for any call, so that the request is refused.
                DataPlace::Nowhere => u32::MAX,
                _ => fields.data_bytes,
            },
            wakes: fields.call & HOSTCALL_WAKE != 0,
            call: call_number(&fields),
            taken: 0,
        };
        let request = Request::of_entry(&fields, ticket.room());
        Some(Entry::Request((ticket, request)))
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Release;

    use everwarp_contract::hostcall::{HOSTCALL_INLINE_BYTES, HostCall, number};
    use everwarp_contract::{DevHostCall, DevHostCallEntry};

    use super::*;
    use crate::limits::DATA_BYTES;
    use crate::request::Reply;
    use crate::ring::RingMemory;

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
                given_up: 0,
                reserved: [0; 3],
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
    fn store(submissions: &Submissions, index: u32, piece: usize, fields: &EntryFields) {
        let words = fields.encode(submissions.queue.lap(index));
        let at = submissions.queue.slot(index);
        let word = |k: usize| submissions.ring.entry_word(at, 2 * piece + k);
        word(0).store(words[2 * piece], Relaxed);
        word(1).store(words[2 * piece + 1], Release);
    }

    /// The pieces may come in any order, on every lap.
    #[test]
    fn an_entry_is_read_only_when_all_its_pieces_have_arrived() {
        let mut memory = Memory::new(2);
        let mut submissions = memory.submissions();
        for index in 0..16_u32 {
            let fields = EntryFields {
                process: index,
                slot: index % 2,
                call: number::NOP,
                args: [u64::MAX - u64::from(index); 6],
                ..Default::default()
            };
            for piece in 0..4 {
                assert!(submissions.next().is_none(), "entry {index}, piece {piece}");
                let piece = (piece + index as usize) % 4;
                store(&submissions, index, piece, &fields);
            }
            let Some(Entry::Request((ticket, request))) = submissions.next() else {
                panic!("entry {index} has arrived");
            };
            let nop = HostCall::decode(number::NOP, fields.args);
            assert_eq!((request.process.slot(), request.call), (index, nop));
            assert_eq!((ticket.slot, ticket.sequence), (index % 2, index / 2 + 1));
            let woken = submissions.ring.answer(ticket, &Reply::default());
            assert!(woken.is_none(), "its caller looks for the answer");
            let status = submissions.ring.slot_word(index % 2, 0).load(Relaxed);
            assert_eq!(status, u64::from(index / 2 + 1));
        }
    }

    #[test]
    fn a_caller_that_has_given_up_is_woken_after_the_answer_to_that_call_alone() {
        let mut memory = Memory::new(2);
        let given_up = &raw mut memory.slots[1].given_up;
        let mut submissions = memory.submissions();
        let mut woken = |index: u32, call: u32| {
            let fields = EntryFields {
                process: 7,
                slot: 1,
                call,
                ..Default::default()
            };
            (0..4).for_each(|piece| store(&submissions, index, piece, &fields));
            let Some(Entry::Request((ticket, _))) = submissions.next() else {
                panic!("entry {index} has arrived");
            };
            // SAFETY: the ring accesses it by atomics, and its memory outlives it.
            let given_up = unsafe { AtomicU64::from_ptr(given_up) };
            given_up.store(2, Relaxed);
            let woken = submissions.ring.answer(ticket, &Reply::default());
            woken.map(|woken| (woken.process.slot(), woken.slot, woken.sequence))
        };
        assert_eq!(woken(0, number::NOP), None);
        assert_eq!(woken(1, number::NOP), Some((7, 1, 2)));
        assert_eq!(woken(2, number::NOP), None);
        assert_eq!(woken(3, number::NOP | HOSTCALL_WAKE), Some((7, 1, 4)));
        drop(submissions);
        drop(memory);
    }
}
