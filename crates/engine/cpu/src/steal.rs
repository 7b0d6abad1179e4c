//! The steal policy: which tasks a worker takes from which other worker, and when.
//!
//! A worker looks for work of each priority in this order: its own queues, new tasks from the host, other workers
//! (`next` in `worker.rs`). It asks the others in a circle that begins after itself, so that thieves spread. A theft takes
//! up to [`THEFT`] tasks and never more than half, from the old end: in divide-and-conquer the oldest task is the largest
//! part of the work. A thief that takes breadth-first tasks joins its victim's round. A worker at the end of a round
//! first takes the rest of that round from other workers, unless they are [`LATE`] or more rounds late, and then starts
//! its next round.

use std::sync::atomic::Ordering;

use crossbeam_deque::{Steal, Stealer, Worker};
use everwarp_contract::{DevTask, Priority};

use crate::deques::{Deques, Stealers, queue_of};

/// Tasks that one theft takes at most; it never takes more than half.
const THEFT: usize = 32;
/// A worker that is this many rounds late gets no help any more. It is busy with something else, and the tasks that are
/// queued here must not wait until it has caught up.
const LATE: u32 = 8;

/// Takes a task of this priority from another worker, for worker number `own`, which has none left.
pub(crate) fn steal(
    deques: &mut Deques,
    priority: Priority,
    workers: &[impl AsRef<Stealers>],
    own: usize,
) -> Option<DevTask> {
    for step in 1..workers.len() {
        let victim = workers[(own + step) % workers.len()].as_ref();
        if victim.has(priority)
            && let Some(task) = deques.steal_from(priority, victim, workers[own].as_ref())
        {
            return Some(task);
        }
    }
    None
}

impl Deques {
    /// Takes the first task of the next round, or one that other workers have left in this round.
    #[cold]
    pub(crate) fn next_round(
        &mut self,
        priority: Priority,
        workers: &[impl AsRef<Stealers>],
        own: usize,
    ) -> Option<DevTask> {
        let level = priority.index();
        let round = self.rounds[level];
        let [now, next] = [round, round.wrapping_add(1)].map(|r| &self.breadth[level][queue_of(r)]);
        for step in 1..workers.len() {
            let victim = workers[(own + step) % workers.len()].as_ref();
            let theirs = victim.rounds[level].load(Ordering::Relaxed);
            // If the victim was away for long, both of its queues may hold tasks of earlier rounds.
            for earlier in [theirs, theirs.wrapping_add(1)] {
                if round.wrapping_sub(earlier) < LATE
                    && let Some(task) = theft(&victim.breadth[level][queue_of(earlier)], now)
                {
                    self.bound += THEFT - 1;
                    return Some(task);
                }
            }
        }
        let found = next.pop();
        self.bound = self.bound.saturating_sub(found.is_some().into());
        self.enter(level, round.wrapping_add(1), workers[own].as_ref());
        found
    }

    fn enter(&mut self, level: usize, round: u32, own: &Stealers) {
        self.rounds[level] = round;
        own.rounds[level].store(round, Ordering::Relaxed);
    }

    /// Takes tasks of this priority from another worker; this one has none of that priority left.
    fn steal_from(
        &mut self,
        priority: Priority,
        victim: &Stealers,
        own: &Stealers,
    ) -> Option<DevTask> {
        let level = priority.index();
        let upper = self.upper[level];
        for from in &victim.depth[level] {
            if let Some(task) = theft(from, &self.depth[level][upper]) {
                self.bound += THEFT - 1;
                return Some(task);
            }
        }
        let round = victim.rounds[level].load(Ordering::Relaxed);
        for round in [round, round.wrapping_add(1)] {
            let queue = queue_of(round);
            if let Some(task) = theft(&victim.breadth[level][queue], &self.breadth[level][queue]) {
                self.bound += THEFT - 1;
                self.enter(level, round, own);
                return Some(task);
            }
        }
        None
    }
}

fn theft(from: &Stealer<DevTask>, to: &Worker<DevTask>) -> Option<DevTask> {
    if from.is_empty() {
        return None;
    }
    loop {
        match from.steal_batch_with_limit_and_pop(to, THEFT) {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use everwarp_contract::{FunctionId, InstanceId};

    use super::*;

    const URGENT: Priority = Priority::URGENT;

    fn task(arg: u64) -> DevTask {
        DevTask::new(FunctionId::FIRST, InstanceId(0), 0, URGENT, arg)
    }
    fn two_workers() -> ([Deques; 2], [Ends; 2]) {
        let deques: [Deques; 2] = std::array::from_fn(|_| Deques::new());
        let ends = std::array::from_fn(|i| Ends(deques[i].stealers()));
        (deques, ends)
    }
    struct Ends(Stealers);
    impl AsRef<Stealers> for Ends {
        fn as_ref(&self) -> &Stealers {
            &self.0
        }
    }

    #[test]
    fn worker_at_the_end_of_its_round_helps_those_still_in_it() {
        let ([mut early, mut late], workers) = two_workers();
        late.push(URGENT, true, task(100));
        let first = late.pop_breadth(URGENT, &workers, 1);
        assert_eq!(first.map(|t| t.arg), Some(100));
        for arg in 101..105 {
            late.push(URGENT, true, task(arg));
        }
        // One round later, with a task of its own for the round after that.
        for arg in [1, 2] {
            early.push(URGENT, true, task(arg));
            let next = early.pop_breadth(URGENT, &workers, 0);
            assert_eq!(next.map(|t| t.arg), Some(arg));
        }
        early.push(URGENT, true, task(4));
        let order: Vec<_> = std::iter::from_fn(|| early.pop_breadth(URGENT, &workers, 0))
            .map(|t| t.arg)
            .collect();
        assert_eq!(order, [101, 102, 103, 104, 4]);
        assert_eq!(late.len(), 0);
    }

    #[test]
    fn worker_many_rounds_late_does_not_delay_the_next_round() {
        let ([mut early, mut late], workers) = two_workers();
        for arg in 0..2 * u64::from(LATE) {
            early.push(URGENT, true, task(arg));
            let next = early.pop_breadth(URGENT, &workers, 0);
            assert_eq!(next.map(|t| t.arg), Some(arg));
        }
        late.push(URGENT, true, task(100));
        early.push(URGENT, true, task(50));
        let next = early.pop_breadth(URGENT, &workers, 0);
        assert_eq!(next.map(|t| t.arg), Some(50));
        assert!(early.pop_breadth(URGENT, &workers, 0).is_none());
        let stolen = steal(&mut early, URGENT, &workers, 0);
        assert_eq!(stolen.map(|t| t.arg), Some(100));
    }

    #[test]
    fn thief_takes_the_oldest_tasks_and_joins_their_round() {
        let ([mut owner, mut thief], workers) = two_workers();
        for arg in 0..8 {
            owner.push(URGENT, true, task(arg));
        }
        let stolen = steal(&mut thief, URGENT, &workers, 1);
        assert_eq!(stolen.map(|t| t.arg), Some(0));
        assert_eq!(thief.rounds[0], 1, "the owner's next round");
        assert_eq!((owner.len(), thief.len()), (4, 3));
        for arg in 8..12 {
            owner.push(URGENT, false, task(arg));
        }
        // The newest of the older half: a stack stays a stack in the thief's queue.
        let stolen = steal(&mut thief, URGENT, &workers, 1);
        assert_eq!(stolen.map(|t| t.arg), Some(9));
        assert_eq!(thief.pop_depth(URGENT).map(|t| t.arg), Some(8));
    }

    #[test]
    fn worker_alone_finds_nothing_to_steal() {
        let mut deques = Deques::new();
        let workers = [Ends(deques.stealers())];
        assert!(steal(&mut deques, URGENT, &workers, 0).is_none());
    }
}
