//! The queues of one worker: for each priority one that is taken newest first and one oldest first.

use crossbeam_deque::{Stealer, Worker};
use everwarp_contract::DevTask;
use everwarp_contract::task::PRIORITIES;

const LEVELS: usize = PRIORITIES as usize;

/// The owner's ends.
pub(crate) struct Deques {
    pub(crate) depth: [Worker<DevTask>; LEVELS],
    pub(crate) breadth: [Worker<DevTask>; LEVELS],
}

/// Everybody else's ends.
pub(crate) struct Stealers {
    pub(crate) depth: [Stealer<DevTask>; LEVELS],
    pub(crate) breadth: [Stealer<DevTask>; LEVELS],
}

impl Deques {
    pub(crate) fn new() -> Self {
        Self {
            depth: std::array::from_fn(|_| Worker::new_lifo()),
            breadth: std::array::from_fn(|_| Worker::new_fifo()),
        }
    }
    pub(crate) fn stealers(&self) -> Stealers {
        Stealers {
            depth: std::array::from_fn(|i| self.depth[i].stealer()),
            breadth: std::array::from_fn(|i| self.breadth[i].stealer()),
        }
    }
    /// How many tasks wait here.
    pub(crate) fn len(&self) -> usize {
        self.depth
            .iter()
            .chain(&self.breadth)
            .map(Worker::len)
            .sum()
    }
}

impl Stealers {
    /// Whether anything of this priority waits here.
    pub(crate) fn has(&self, priority: usize) -> bool {
        !self.depth[priority].is_empty() || !self.breadth[priority].is_empty()
    }
    pub(crate) fn has_any(&self) -> bool {
        (0..LEVELS).any(|p| self.has(p))
    }
}
