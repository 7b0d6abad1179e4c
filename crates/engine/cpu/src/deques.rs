//! The queues of one worker, for each priority: two that together are a stack, taken newest first, and two that together
//! are taken oldest first.
//!
//! Breadth-first tasks go by rounds. A worker empties the queue of this round; the tasks that are spawned meanwhile go to
//! the queue of the next round. A worker at the end of its round first helps the workers that are still in it, and then
//! begins the next round (`steal.rs`). So the workers' rounds stay together, and a search meets vertices in nearly the
//! order of one thread. Why not one queue that each worker empties at its own pace? The worker with the smaller part of
//! the frontier runs ahead and reaches vertices by detours, and all of that work is done again. Rounds only steer: a thief
//! can reach every task at all times.

use std::sync::atomic::AtomicU32;

use crossbeam_deque::{Steal, Stealer, Worker};
use everwarp_contract::task::PRIORITIES;
use everwarp_contract::{DevTask, Priority};

const LEVELS: usize = PRIORITIES as usize;

/// The owner's ends of its queues.
pub(crate) struct Deques {
    pub(crate) depth: [[Worker<DevTask>; 2]; LEVELS],
    /// Which of the two depth-first queues is the upper part of the stack.
    pub(crate) upper: [usize; LEVELS],
    pub(crate) breadth: [[Worker<DevTask>; 2]; LEVELS],
    pub(crate) rounds: [u32; LEVELS],
    /// An upper bound of the tasks that wait here: thefts are subtracted only when it matters.
    pub(crate) bound: usize,
}

/// The ends at which all other workers take tasks.
pub(crate) struct Stealers {
    pub(crate) depth: [[Stealer<DevTask>; 2]; LEVELS],
    pub(crate) breadth: [[Stealer<DevTask>; 2]; LEVELS],
    /// The owner's rounds; only the owner writes them.
    pub(crate) rounds: [AtomicU32; LEVELS],
}

/// Which of the two queues belongs to a round.
pub(crate) fn queue_of(round: u32) -> usize {
    (round & 1) as usize
}

impl Deques {
    pub(crate) fn new() -> Self {
        Self {
            depth: std::array::from_fn(|_| std::array::from_fn(|_| Worker::new_lifo())),
            upper: [0; LEVELS],
            breadth: std::array::from_fn(|_| std::array::from_fn(|_| Worker::new_fifo())),
            rounds: [0; LEVELS],
            bound: 0,
        }
    }
    pub(crate) fn stealers(&self) -> Stealers {
        Stealers {
            depth: std::array::from_fn(|i| std::array::from_fn(|j| self.depth[i][j].stealer())),
            breadth: std::array::from_fn(|i| std::array::from_fn(|j| self.breadth[i][j].stealer())),
            rounds: Default::default(),
        }
    }
    /// How many tasks wait here.
    pub(crate) fn len(&self) -> usize {
        self.depth
            .as_flattened()
            .iter()
            .chain(self.breadth.as_flattened())
            .map(Worker::len)
            .sum()
    }
    /// Whether no more than `most` tasks wait here. Cheap unless it is close.
    #[inline]
    pub(crate) fn at_most(&mut self, most: usize) -> bool {
        if self.bound > most {
            self.bound = self.len();
        }
        self.bound <= most
    }
    /// How many breadth-first tasks of this priority wait here.
    pub(crate) fn breadth(&self, priority: Priority) -> usize {
        self.breadth[priority.index()].iter().map(Worker::len).sum()
    }
    /// Queues a task.
    #[inline]
    pub(crate) fn push(&mut self, priority: Priority, breadth: bool, task: DevTask) {
        let priority = priority.index();
        self.bound += 1;
        if breadth {
            &self.breadth[priority][queue_of(self.rounds[priority].wrapping_add(1))]
        } else {
            &self.depth[priority][self.upper[priority]]
        }
        .push(task);
    }
    /// Takes the newest depth-first task.
    #[inline]
    pub(crate) fn pop_depth(&mut self, priority: Priority) -> Option<DevTask> {
        let priority = priority.index();
        let upper = self.upper[priority];
        let [top, rest] = [upper, upper ^ 1].map(|i| &self.depth[priority][i]);
        let found = top.pop().or_else(|| {
            let found = if rest.is_empty() { None } else { rest.pop() };
            // The rest of the lower part is the stack now, and new tasks belong on top of it.
            self.upper[priority] ^= usize::from(found.is_some());
            found
        });
        self.bound = self.bound.saturating_sub(found.is_some().into());
        found
    }
    /// Takes the oldest depth-first task that was not laid aside since this last returned `None`.
    pub(crate) fn oldest(&mut self, priority: Priority, own: &Stealers) -> Option<DevTask> {
        let priority = priority.index();
        let upper = self.upper[priority];
        loop {
            match own.depth[priority][upper].steal() {
                Steal::Success(task) => {
                    self.bound = self.bound.saturating_sub(1);
                    return Some(task);
                }
                Steal::Retry => {}
                Steal::Empty => {
                    self.upper[priority] ^= 1;
                    return None;
                }
            }
        }
    }
    /// Puts a task from [`oldest`](Self::oldest) back in its place. The tasks that were laid aside are the lower part of
    /// the stack, in a queue of their own, which becomes the upper part when that is empty.
    pub(crate) fn lay_aside(&mut self, priority: Priority, task: DevTask) {
        let priority = priority.index();
        self.bound += 1;
        self.depth[priority][self.upper[priority] ^ 1].push(task);
    }
    /// Takes the oldest breadth-first task. `workers` are the stealers of all workers, and `own` is this worker's place
    /// among them.
    #[inline]
    pub(crate) fn pop_breadth(
        &mut self,
        priority: Priority,
        workers: &[impl AsRef<Stealers>],
        own: usize,
    ) -> Option<DevTask> {
        let level = priority.index();
        let round = self.rounds[level];
        let [now, next] = [round, round.wrapping_add(1)].map(|r| &self.breadth[level][queue_of(r)]);
        if let Some(task) = now.pop() {
            self.bound = self.bound.saturating_sub(1);
            return Some(task);
        }
        if next.is_empty() {
            return None;
        }
        self.next_round(priority, workers, own)
    }
}

impl Stealers {
    /// Whether any task of this priority waits here.
    pub(crate) fn has(&self, priority: Priority) -> bool {
        let level = priority.index();
        let mut queues = self.depth[level].iter().chain(&self.breadth[level]);
        queues.any(|q| !q.is_empty())
    }
    pub(crate) fn has_any(&self) -> bool {
        let mut queues = self.depth.as_flattened().iter();
        let mut breadth = self.breadth.as_flattened().iter();
        queues.any(|q| !q.is_empty()) || breadth.any(|q| !q.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URGENT: Priority = Priority::URGENT;

    fn task(arg: u64) -> DevTask {
        use everwarp_contract::{FunctionId, InstanceId};
        DevTask::new(FunctionId::FIRST, InstanceId(0), 0, URGENT, arg)
    }
    struct Ends(Stealers);
    impl AsRef<Stealers> for Ends {
        fn as_ref(&self) -> &Stealers {
            &self.0
        }
    }

    #[test]
    fn tasks_that_were_laid_aside_keep_their_places() {
        for looks in 0..12 {
            let mut deques = Deques::new();
            let own = deques.stealers();
            for arg in 0..5 {
                deques.push(URGENT, false, task(arg));
            }
            let mut looked = Vec::new();
            for _ in 0..looks {
                if let Some(task) = deques.oldest(URGENT, &own) {
                    looked.push(task.arg);
                    deques.lay_aside(URGENT, task);
                }
            }
            // Every sixth look only says that all were looked at.
            let expected: Vec<_> = (0..looks).map(|i| i % 6).filter(|&i| i < 5).collect();
            assert_eq!(looked, expected);
            deques.push(URGENT, false, task(5));
            let order: Vec<_> = std::iter::from_fn(|| deques.pop_depth(URGENT))
                .map(|t| t.arg)
                .collect();
            assert_eq!(order, [5, 4, 3, 2, 1, 0], "after {looks} looks");
            assert!(deques.at_most(0));
        }
    }

    #[test]
    fn one_worker_takes_breadth_first_tasks_oldest_first() {
        let mut deques = Deques::new();
        let workers = [Ends(deques.stealers())];
        deques.push(URGENT, true, task(0));
        for count in 0..1000 {
            let next = deques
                .pop_breadth(URGENT, &workers, 0)
                .expect("two for each one");
            assert_eq!(next.arg, count);
            for child in [1, 2] {
                deques.push(URGENT, true, task(2 * count + child));
            }
        }
        assert_eq!(deques.len(), 1001);
    }
}
