//! Values by pid: slots that are reused, and generations that tell their successive processes apart.

use everwarp_process::Pid;

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Processes receive pids as positive 64-bit numbers with the generation in the upper half.
const LAST_GENERATION: u32 = i32::MAX as u32;

/// Values by pid.
pub(crate) struct PidTable<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> PidTable<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores a value, made from its pid, in a free slot; `None` when 2^32 slots are in use.
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

    pub(crate) fn get(&self, pid: Pid) -> Option<&T> {
        let slot = self.slots.get(pid.slot() as usize)?;
        let slot = Some(slot).filter(|slot| slot.generation == pid.generation())?;
        slot.value.as_ref()
    }

    /// Takes a value out. A slot that has used all its generations is not used again.
    pub(crate) fn remove(&mut self, pid: Pid) -> Option<T> {
        self.get(pid)?;
        let slot = &mut self.slots[pid.slot() as usize];
        let value = slot.value.take();
        if slot.generation < LAST_GENERATION {
            self.free.push(pid.slot());
        }
        value
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::{LAST_GENERATION, PidTable};

    #[test]
    fn reused_slot_has_a_new_generation() {
        let mut table = PidTable::new();
        let [a, b] = ['a', 'b'].map(|c| table.insert(|_| c).expect("there is room"));
        assert_eq!((a.slot(), a.generation()), (0, 1));
        assert_eq!((b.slot(), b.generation()), (1, 1));
        assert_eq!(table.remove(a), Some('a'));
        assert!(table.get(a).is_none() && table.remove(a).is_none());
        let c = table.insert(|_| 'c').expect("there is room");
        assert_eq!((c.slot(), c.generation()), (0, 2));
        assert!(table.get(a).is_none());
        assert_eq!(table.get(c), Some(&'c'));
        assert_eq!(table.values().collect::<Vec<_>>(), [&'c', &'b']);
    }

    #[test]
    fn slot_without_generations_left_is_not_reused() {
        let mut table = PidTable::new();
        table.insert(|_| ()).expect("there is room");
        table.slots[0].generation = LAST_GENERATION;
        let last = everwarp_process::Pid::new(0, LAST_GENERATION);
        assert_eq!(table.remove(last), Some(()));
        let next = table.insert(|_| ()).expect("there is room");
        assert_eq!((next.slot(), next.generation()), (1, 1));
    }
}
