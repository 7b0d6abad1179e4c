//! The encoding of a request in the eight words of an entry.

use super::table::ARGUMENTS_MOST;
use super::{HOSTCALL_AREA_SHIFT, HOSTCALL_BYTES_SHIFT, HOSTCALL_CALL_SHIFT, HOSTCALL_HIGH_SHIFT};

/// The contents of an entry: a request without its payload. Whatever has been read from an entry is an allegation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryFields {
    /// The process's slot in the process table.
    pub process: u32,
    /// Which of the slot's processes it is.
    pub generation: u32,
    /// The slot of the ring that is used; 20 bits.
    pub slot: u32,
    /// The number of the call, and perhaps [`HOSTCALL_WAKE`](super::HOSTCALL_WAKE) and
    /// [`HOSTCALL_PATIENT`](super::HOSTCALL_PATIENT); 8 bits.
    pub call: u32,
    /// Bytes of payload; 14 bits.
    pub data_bytes: u32,
    /// Where payload and reply are: 0 for the slot itself, else an area's number plus 1; 17 bits.
    pub area: u32,
    /// The arguments.
    pub args: [u64; ARGUMENTS_MOST],
}

const LAP: u64 = (crate::task::TASK_LAP as u64) << 32;

const fn bits(word: u64, shift: u32, count: u32) -> u32 {
    (word >> shift) as u32 & ((1 << count) - 1)
}

impl EntryFields {
    /// The words of an entry whose lap is `lap`, which is that of [`Slots::lap`](crate::ring::Slots::lap) for the
    /// entry's index. Bits that have no place in the entry are left out.
    pub const fn encode(&self, lap: u32) -> [u64; 8] {
        let lap = (lap as u64) << 32;
        let a = &self.args;
        let high = a[1] >> 63 | a[3] >> 63 << 1 | a[5] >> 63 << 2;
        let head = bits(self.slot as u64, 0, 20) as u64
            | (bits(self.call as u64, 0, 8) as u64) << HOSTCALL_CALL_SHIFT
            | (bits(self.data_bytes as u64, 0, 14) as u64) << HOSTCALL_BYTES_SHIFT
            | (bits(self.area as u64, 0, 17) as u64) << HOSTCALL_AREA_SHIFT
            | high << HOSTCALL_HIGH_SHIFT;
        [
            self.process as u64 | (self.generation as u64) << 32,
            head | lap,
            a[0],
            a[1] & !LAP | lap,
            a[2],
            a[3] & !LAP | lap,
            a[4],
            a[5] & !LAP | lap,
        ]
    }

    /// The fields in the words of an entry.
    pub const fn decode(words: [u64; 8]) -> Self {
        let [names, head, a0, a1, a2, a3, a4, a5] = words;
        let high = head >> HOSTCALL_HIGH_SHIFT;
        Self {
            process: names as u32,
            generation: (names >> 32) as u32,
            slot: bits(head, 0, 20),
            call: bits(head, HOSTCALL_CALL_SHIFT, 8),
            data_bytes: bits(head, HOSTCALL_BYTES_SHIFT, 14),
            area: bits(head, HOSTCALL_AREA_SHIFT, 17),
            args: [
                a0,
                a1 & !LAP | high << 63,
                a2,
                a3 & !LAP | high >> 1 << 63,
                a4,
                a5 & !LAP | high >> 2 << 63,
            ],
        }
    }
}

/// Whether the second word of a piece belongs to a lap of [`Slots::lap`](crate::ring::Slots::lap).
pub const fn is_of_lap(word: u64, lap: u32) -> bool {
    (word >> 32) as u32 & crate::task::TASK_LAP == lap
}

#[cfg(test)]
mod tests {
    use super::super::{HOSTCALL_AREAS_MOST, HOSTCALL_SLOTS_MOST};
    use super::*;
    use crate::ring::Slots;

    #[test]
    fn an_entry_keeps_all_of_a_request_and_its_lap() {
        let queue = Slots::new(8);
        let all = EntryFields {
            process: u32::MAX,
            generation: u32::MAX,
            slot: HOSTCALL_SLOTS_MOST - 1,
            call: 0xff,
            data_bytes: 0x3fff,
            area: HOSTCALL_AREAS_MOST,
            args: [u64::MAX; 6],
        };
        let one_high = |k: usize| EntryFields {
            args: core::array::from_fn(|at| if at == k { 1 << 63 } else { at as u64 }),
            ..EntryFields::default()
        };
        for fields in [EntryFields::default(), all]
            .into_iter()
            .chain((0..6).map(one_high))
        {
            for index in [0, 7, 8, 15, u32::MAX] {
                let (lap, words) = (queue.lap(index), fields.encode(queue.lap(index)));
                assert_eq!(EntryFields::decode(words), fields);
                for piece in 0..4 {
                    assert!(is_of_lap(words[2 * piece + 1], lap));
                    assert!(!is_of_lap(
                        words[2 * piece + 1],
                        queue.lap(index.wrapping_add(8))
                    ));
                }
            }
        }
    }

    #[test]
    fn a_number_that_is_too_wide_does_not_change_other_fields() {
        let wide = EntryFields {
            slot: u32::MAX,
            ..EntryFields::default()
        };
        let read = EntryFields::decode(wide.encode(0));
        assert_eq!((read.slot, read.call), (HOSTCALL_SLOTS_MOST - 1, 0));
    }
}
