//! Turns that a task runs one after the other, so that most of them cost the engine nothing.
//!
//! A turn that makes an actor of its own kind busy keeps that actor's turn here, and its task runs it next, unless several
//! wait and another worker is idle. A task does that a few times only: the engine looks for new work between tasks, and what is kept here
//! is not seen by other workers until the task ends. Only turns of one kind, since a fault, the figures of a function
//! and the room for other tasks belong to the function of the kind.

/// The most turns that one task runs after its first.
const MOST: u32 = 15;
/// The most turns that wait here: as many as tasks that a turn of most kinds may queue.
const PLACES: usize = 16;

/// Turns of one kind, the oldest first.
#[derive(Debug)]
pub(crate) struct Chain {
    kind: u16,
    /// How many turns the task may still run.
    left: u32,
    first: u32,
    count: u32,
    slots: [u32; PLACES],
}

impl Chain {
    /// Takes no turns.
    pub(crate) const fn none() -> Self {
        Self {
            kind: 0,
            left: 0,
            first: 0,
            count: 0,
            slots: [0; PLACES],
        }
    }
    /// Takes turns of this kind.
    pub(crate) const fn of(kind: u16) -> Self {
        let mut chain = Self::none();
        chain.kind = kind;
        chain.left = MOST;
        chain
    }
    /// Adds the turn of the actor in a slot. Returns whether it did.
    pub(crate) fn add(&mut self, kind: u16, slot: u32) -> bool {
        let takes = self.left > self.count && kind == self.kind && (self.count as usize) < PLACES;
        if takes {
            self.slots[(self.first + self.count) as usize % PLACES] = slot;
            self.count += 1;
        }
        takes
    }
    /// How many turns wait here.
    pub(crate) const fn len(&self) -> usize {
        self.count as usize
    }
    /// The oldest turn.
    pub(crate) fn next(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        let slot = self.slots[self.first as usize % PLACES];
        self.first += 1;
        Some(slot)
    }
    /// The oldest turn, to be run by the task.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let slot = self.next()?;
        self.left -= 1;
        Some(slot)
    }
    /// Takes no more turns.
    pub(crate) fn close(&mut self) {
        self.left = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_back_in_order_and_no_more_than_one_task_may_run() {
        let mut chain = Chain::of(3);
        assert!(!chain.add(4, 0), "another kind");
        let (mut ran, mut next) = (Vec::new(), 0);
        loop {
            while chain.add(3, next) {
                next += 1;
            }
            let Some(slot) = chain.take() else { break };
            ran.push(slot);
        }
        assert_eq!(ran, (0..MOST).collect::<Vec<_>>());
        assert_eq!(next, MOST, "none was taken that cannot be run");
        chain.close();
        assert!(!chain.add(3, 0));
    }

    #[test]
    fn what_a_task_does_not_run_is_still_there() {
        let mut chain = Chain::of(0);
        assert!((0..5).all(|slot| chain.add(0, slot)));
        assert_eq!(chain.take(), Some(0));
        chain.close();
        let rest: Vec<_> = std::iter::from_fn(|| chain.next()).collect();
        assert_eq!(rest, [1, 2, 3, 4]);
        assert_eq!(Chain::none().next(), None);
    }
}
