//! The processes that a host knows, by slot.
//!
//! The entries are divided into parts with a lock each, so that threads which start processes, record their ends and
//! wait for them seldom meet. A thread that holds the lock of the queues or of the waiters takes no lock of a part, and a
//! thread that holds the lock of a part takes no lock of another part. A slot belongs to one process from
//! [`ProcessTable::reserve`] to [`ProcessTable::release`].

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock};

use everwarp_engine::sync::lock;
use everwarp_process::Pid;

use crate::process::Phase;

/// Entries of a part.
const PART: u32 = 1 << 10;
/// Segment k has 2^k parts, so that this many hold all numbers of slots.
const SEGMENTS: usize = 23;

/// A slot's generation and the phase of its process.
#[derive(Debug)]
struct TableEntry {
    generation: u32,
    phase: Phase,
}

type Part = Mutex<Vec<TableEntry>>;

/// Slots that belong to no process.
#[derive(Debug, Default)]
struct FreeSlots {
    slots: Vec<u32>,
    /// The first slot that no process has had yet.
    next: u32,
    /// Numbers that are no slots, in ascending order.
    excluded: Vec<Range<u32>>,
}

impl FreeSlots {
    /// Adds `count` slots that no process has had yet.
    fn fresh(&mut self, count: usize, slots: &mut Vec<u32>) {
        let full = slots.len() + count;
        while slots.len() < full {
            let next = self.next;
            if let Some(range) = self.excluded.iter().find(|range| range.contains(&next)) {
                self.next = range.end;
                continue;
            }
            let mut others = self.excluded.iter().map(|range| range.start);
            let end = others.find(|start| *start > next).unwrap_or(u32::MAX);
            let take = (full - slots.len()).min((end - next) as usize) as u32;
            slots.extend(next..next + take);
            self.next = next + take;
        }
    }
}

/// The processes by slot.
#[derive(Debug)]
pub(crate) struct ProcessTable {
    segments: [OnceLock<Box<[Part]>>; SEGMENTS],
    free: Mutex<FreeSlots>,
}

impl ProcessTable {
    /// An empty table. `excluded` are numbers that are no slots, in ascending order and without overlaps: they are the
    /// slots in the pids of processes that other processes have spawned.
    pub(crate) fn new(mut excluded: Vec<Range<u32>>) -> Self {
        excluded.retain(|range| !range.is_empty());
        Self {
            segments: [const { OnceLock::new() }; SEGMENTS],
            free: Mutex::new(FreeSlots {
                excluded,
                ..FreeSlots::default()
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

    /// Reserves slots for new processes. Their pids are unknown to callers until they are given a phase.
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

    /// Frees the slots of processes that have been waited for.
    pub(crate) fn release(&self, slots: impl Iterator<Item = u32>) {
        lock(&self.free).slots.extend(slots);
    }

    /// A cursor, which looks at entries one after the other.
    pub(crate) fn cursor(&self) -> TableCursor<'_> {
        TableCursor {
            table: self,
            held: None,
        }
    }

    /// Looks at all processes that have not been waited for.
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

/// Looks at entries one after the other. It keeps the lock of a part as long as it looks at entries of that part.
pub(crate) struct TableCursor<'t> {
    table: &'t ProcessTable,
    held: Option<(u32, MutexGuard<'t, Vec<TableEntry>>)>,
}

impl TableCursor<'_> {
    fn slot(&mut self, slot: u32) -> &mut TableEntry {
        let number = slot / PART;
        if self.held.as_ref().is_none_or(|held| held.0 != number) {
            // One lock at a time.
            self.held = None;
        }
        let (_, part) = self
            .held
            .get_or_insert_with(|| (number, lock(self.table.part(number))));
        if part.is_empty() {
            part.resize_with(PART as usize, || TableEntry {
                generation: 0,
                phase: Phase::Free,
            });
        }
        &mut part[(slot % PART) as usize]
    }

    /// The phase of a process for which this pid was reserved, even if it has none yet.
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
    use crate::process::ProcessEnd;
    use everwarp_process::ModuleId;

    fn end() -> Phase {
        Phase::Exited(ProcessEnd::killed(ModuleId(0)))
    }

    /// The processes in the table after these have been given a phase.
    fn seen(table: &ProcessTable, pids: &[Pid]) -> Vec<Pid> {
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
        let table = ProcessTable::new(Vec::new());
        let first = table.reserve(1)[0];
        assert!(table.cursor().phase(first).is_none(), "it has no phase yet");
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
    fn slots_of_several_parts_belong_to_one_process_each() {
        let table = ProcessTable::new(Vec::new());
        let count = 5 * PART as usize + 7;
        let mut pids = table.reserve(count);
        pids.extend(table.reserve(3));
        assert_eq!(seen(&table, &pids), pids);
        assert_eq!(pids.len(), count + 3);
    }

    #[test]
    fn excluded_numbers_become_no_slots() {
        let table = ProcessTable::new(vec![2..4, 4..4, 4..3000, 3001..3002]);
        let mut pids = table.reserve(3);
        pids.extend(table.reserve(3));
        let slots: Vec<_> = pids.iter().map(|pid| pid.slot()).collect();
        assert_eq!(slots, [0, 1, 3000, 3002, 3003, 3004]);
        assert_eq!(seen(&table, &pids), pids);
        table.release([3000].into_iter());
        assert_eq!(table.reserve(1)[0], Pid::new(3000, 2));
    }
}
