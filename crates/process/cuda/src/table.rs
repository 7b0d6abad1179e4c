//! All processes that a host knows.
//!
//! They lie in parts with a lock each, so that threads which begin processes, end some and wait for others seldom meet.
//! Who holds the lock of [`State`] takes none of a part, and who holds that of a part takes none of another. A slot is
//! somebody's from [`Table::reserve`] to [`Table::release`].
//!
//! [`State`]: crate::state::State

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use everwarp_process::Pid;

use crate::state::Phase;

/// Entries of a part.
const PART: u32 = 1 << 10;
/// Segment k has 2^k parts, so that this many hold all numbers of slots.
const SEGMENTS: usize = 23;

/// What the host knows of one process.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) generation: u32,
    pub(crate) phase: Phase,
}

type Part = Mutex<Vec<Entry>>;

/// Slots that nobody has.
#[derive(Debug, Default)]
struct Free {
    slots: Vec<u32>,
    /// The first that nobody has ever had.
    next: u32,
    /// Numbers that are no slots, in their order.
    without: Vec<Range<u32>>,
}

impl Free {
    /// So many slots that nobody has ever had.
    fn fresh(&mut self, count: usize, slots: &mut Vec<u32>) {
        let full = slots.len() + count;
        while slots.len() < full {
            let next = self.next;
            if let Some(range) = self.without.iter().find(|range| range.contains(&next)) {
                self.next = range.end;
                continue;
            }
            let mut others = self.without.iter().map(|range| range.start);
            let end = others.find(|start| *start > next).unwrap_or(u32::MAX);
            let take = (full - slots.len()).min((end - next) as usize) as u32;
            slots.extend(next..next + take);
            self.next = next + take;
        }
    }
}

/// The processes by slot.
#[derive(Debug)]
pub(crate) struct Table {
    segments: [OnceLock<Box<[Part]>>; SEGMENTS],
    free: Mutex<Free>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// An empty one. These numbers are no slots, ordered and apart from each other: what they name has others that know
    /// it.
    pub(crate) fn without(mut numbers: Vec<Range<u32>>) -> Self {
        numbers.retain(|range| !range.is_empty());
        Self {
            segments: [const { OnceLock::new() }; SEGMENTS],
            free: Mutex::new(Free {
                without: numbers,
                ..Free::default()
            }),
        }
    }

    fn part(&self, number: u32) -> &Part {
        let segment = (number + 1).ilog2();
        let parts = self.segments[segment as usize].get_or_init(|| {
            let parts = (0..1_u32 << segment).map(|_| Part::default());
            parts.collect()
        });
        &parts[(number + 1 - (1 << segment)) as usize]
    }

    /// Slots for new processes, which have names and are not there until they are given a phase.
    pub(crate) fn reserve(&self, count: usize) -> Vec<Pid> {
        let mut slots = {
            let mut free = lock(&self.free);
            let again = free.slots.len().min(count);
            let begin = free.slots.len() - again;
            let mut slots = free.slots.split_off(begin);
            free.fresh(count - again, &mut slots);
            slots
        };
        // Neighbours share a part.
        slots.sort_unstable();
        let mut cursor = self.cursor();
        let pid = |slot: u32| {
            let entry = cursor.slot(slot);
            entry.generation = entry.generation.wrapping_add(1).max(1);
            Pid::new(slot, entry.generation)
        };
        slots.into_iter().map(pid).collect()
    }

    /// Gives back slots whose processes are not there any more.
    pub(crate) fn release(&self, slots: impl Iterator<Item = u32>) {
        lock(&self.free).slots.extend(slots);
    }

    /// For looking at entries one after the other.
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        Cursor {
            table: self,
            held: None,
        }
    }

    /// Looks at all processes that are there.
    pub(crate) fn each(&self, mut look: impl FnMut(Pid, &Phase)) {
        let parts = lock(&self.free).next.div_ceil(PART);
        for number in 0..parts {
            let part = lock(self.part(number));
            for (entry, slot) in part.iter().zip(number * PART..) {
                if !matches!(entry.phase, Phase::Free) {
                    look(Pid::new(slot, entry.generation), &entry.phase);
                }
            }
        }
    }
}

/// A way through the table that keeps the lock of a part as long as it stays there.
pub(crate) struct Cursor<'t> {
    table: &'t Table,
    held: Option<(u32, MutexGuard<'t, Vec<Entry>>)>,
}

impl Cursor<'_> {
    fn slot(&mut self, slot: u32) -> &mut Entry {
        let number = slot / PART;
        if self.held.as_ref().is_none_or(|held| held.0 != number) {
            // One at a time.
            self.held = None;
        }
        let (_, part) = self
            .held
            .get_or_insert_with(|| (number, lock(self.table.part(number))));
        if part.is_empty() {
            part.resize_with(PART as usize, || Entry {
                generation: 0,
                phase: Phase::Free,
            });
        }
        &mut part[(slot % PART) as usize]
    }

    /// The phase of a process of that name, even if it has none yet.
    pub(crate) fn reserved(&mut self, pid: Pid) -> Option<&mut Phase> {
        let entry = self.slot(pid.slot());
        (entry.generation == pid.generation()).then_some(&mut entry.phase)
    }

    /// The phase of a process, unless it has been waited for.
    pub(crate) fn phase(&mut self, pid: Pid) -> Option<&mut Phase> {
        self.reserved(pid)
            .filter(|phase| !matches!(phase, Phase::Free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Outcome;

    fn end() -> Phase {
        Phase::Exited(Outcome::killed(0))
    }

    /// The processes that are there when these have been given a phase.
    fn seen(table: &Table, pids: &[Pid]) -> Vec<Pid> {
        let mut cursor = table.cursor();
        for pid in pids {
            *cursor.reserved(*pid).expect("it is reserved") = end();
        }
        drop(cursor);
        let mut seen = Vec::new();
        table.each(|pid, _| seen.push(pid));
        seen
    }

    #[test]
    fn a_slot_is_used_again_under_another_generation() {
        let table = Table::without(Vec::new());
        let first = table.reserve(1)[0];
        assert!(table.cursor().phase(first).is_none(), "it is not there yet");
        *table.cursor().reserved(first).expect("it is reserved") = end();
        assert!(table.cursor().phase(first).is_some());
        *table.cursor().phase(first).expect("it is there") = Phase::Free;
        table.release([first.slot()].into_iter());
        let second = table.reserve(1)[0];
        assert_eq!(second.slot(), first.slot());
        assert_ne!(second, first);
        assert!(table.cursor().reserved(first).is_none());
    }

    #[test]
    fn every_slot_is_one_processs_across_parts() {
        let table = Table::without(Vec::new());
        let count = 5 * PART as usize + 7;
        let mut pids = table.reserve(count);
        pids.extend(table.reserve(3));
        assert_eq!(seen(&table, &pids), pids);
        assert_eq!(pids.len(), count + 3);
    }

    #[test]
    fn numbers_that_are_no_slots_are_left_out() {
        let table = Table::without(vec![2..4, 4..4, 4..3000, 3001..3002]);
        let mut pids = table.reserve(3);
        pids.extend(table.reserve(3));
        let slots: Vec<_> = pids.iter().map(|pid| pid.slot()).collect();
        assert_eq!(slots, [0, 1, 3000, 3002, 3003, 3004]);
        assert_eq!(seen(&table, &pids), pids);
        table.release([3000].into_iter());
        assert_eq!(table.reserve(1)[0], Pid::new(3000, 2));
    }
}
