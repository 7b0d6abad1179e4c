//! Slots that are used again, and generations that tell their users apart.

use everwarp_process::Pid;

use crate::pid::StalePid;

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Processes have pids as positive numbers of 64 bits, the generation in the upper half.
const LAST_GENERATION: u32 = i32::MAX as u32;

/// Values by pid.
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Puts a value, made from its pid, into a free slot; `None` when there are 2^32 of them already.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Pid) -> T) -> Option<Pid> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(Slot {
                    generation: 0,
                    value: None,
                });
                slot
            }
        };
        let entry = &mut self.slots[slot as usize];
        entry.generation += 1;
        let generation = entry.generation;
        let pid = Pid::new(slot, generation);
        entry.value = Some(make(pid));
        Some(pid)
    }

    pub(crate) fn get(&self, pid: Pid) -> Result<&T, StalePid> {
        self.slots
            .get(pid.slot() as usize)
            .filter(|s| s.generation == pid.generation())
            .and_then(|s| s.value.as_ref())
            .ok_or(StalePid(pid))
    }

    /// Takes a value out. A slot whose generations are used up is not used again.
    pub(crate) fn remove(&mut self, pid: Pid) -> Result<T, StalePid> {
        self.get(pid)?;
        let slot = &mut self.slots[pid.slot() as usize];
        let value = slot.value.take().ok_or(StalePid(pid))?;
        if slot.generation < LAST_GENERATION {
            self.free.push(pid.slot());
        }
        Ok(value)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|s| s.value.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::{LAST_GENERATION, Table};

    #[test]
    fn a_slot_is_used_again_under_another_generation() {
        let mut table = Table::new();
        let [a, b] = ['a', 'b'].map(|c| table.insert(|_| c).expect("there is room"));
        assert_eq!((a.slot(), a.generation()), (0, 1));
        assert_eq!((b.slot(), b.generation()), (1, 1));
        assert_eq!(table.remove(a), Ok('a'));
        assert!(table.get(a).is_err() && table.remove(a).is_err());
        let c = table.insert(|_| 'c').expect("there is room");
        assert_eq!((c.slot(), c.generation()), (0, 2));
        assert!(table.get(a).is_err());
        assert_eq!(table.get(c), Ok(&'c'));
        assert_eq!(table.values().collect::<Vec<_>>(), [&'c', &'b']);
    }

    #[test]
    fn a_slot_without_generations_left_is_retired() {
        let mut table = Table::new();
        table.insert(|_| ()).expect("there is room");
        table.slots[0].generation = LAST_GENERATION;
        let last = everwarp_process::Pid::new(0, LAST_GENERATION);
        assert_eq!(table.remove(last), Ok(()));
        let next = table.insert(|_| ()).expect("there is room");
        assert_eq!((next.slot(), next.generation()), (1, 1));
    }
}
