//! The queues of one worker: for each priority two that together are a stack, taken newest first, and two
//! that together are taken oldest first.
//!
//! Breadth-first tasks go by rounds. A worker empties the queue of this round, and what comes up meanwhile
//! goes to the queue of the next one. A worker at the end of its round helps those who are not yet there
//! before it begins the next: so the workers' rounds stay together, and a search meets vertices in nearly
//! the order of one thread. Why not one queue that each worker empties at its own pace? The one with the
//! smaller part of the frontier runs ahead, reaches vertices by detours, and all of that is done again.
//! Rounds only steer; tasks are where a thief can reach them at all times.

use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_deque::{Steal, Stealer, Worker};
use everwarp_contract::DevTask;
use everwarp_contract::task::PRIORITIES;

const LEVELS: usize = PRIORITIES as usize;
/// Tasks that one theft takes at most; never more than half.
const THEFT: usize = 32;
/// How many rounds another worker may be behind for its tasks to go first. One that is further behind works
/// on something else, which must not hold up what is queued here until it has caught up.
const BEHIND: u32 = 8;

/// The owner's ends.
pub(crate) struct Deques {
    depth: [[Worker<DevTask>; 2]; LEVELS],
    /// Which of the two depth-first queues is the upper part of the stack.
    upper: [usize; LEVELS],
    breadth: [[Worker<DevTask>; 2]; LEVELS],
    rounds: [u32; LEVELS],
    /// No fewer tasks than wait here: thieves are subtracted only when it matters.
    bound: usize,
}

/// Everybody else's ends.
pub(crate) struct Stealers {
    depth: [[Stealer<DevTask>; 2]; LEVELS],
    breadth: [[Stealer<DevTask>; 2]; LEVELS],
    /// The owner's rounds: written by it alone.
    rounds: [AtomicU32; LEVELS],
}

/// The queue of a round.
fn place(round: u32) -> usize {
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
    pub(crate) fn breadth(&self, priority: usize) -> usize {
        self.breadth[priority].iter().map(Worker::len).sum()
    }
    /// Queues a task.
    #[inline]
    pub(crate) fn push(&mut self, priority: usize, breadth: bool, task: DevTask) {
        self.bound += 1;
        if breadth {
            &self.breadth[priority][place(self.rounds[priority].wrapping_add(1))]
        } else {
            &self.depth[priority][self.upper[priority]]
        }
        .push(task);
    }
    /// The newest of the depth-first tasks.
    #[inline]
    pub(crate) fn pop_depth(&mut self, priority: usize) -> Option<DevTask> {
        let upper = self.upper[priority];
        let [top, rest] = [upper, upper ^ 1].map(|i| &self.depth[priority][i]);
        let found = top.pop().or_else(|| {
            let found = if rest.is_empty() { None } else { rest.pop() };
            // What remains of the lower part is the stack now, and new tasks belong on top of it.
            self.upper[priority] ^= usize::from(found.is_some());
            found
        });
        self.bound = self.bound.saturating_sub(found.is_some().into());
        found
    }
    /// The oldest depth-first task that was not laid by since this last answered `None`.
    pub(crate) fn oldest(&mut self, priority: usize, own: &Stealers) -> Option<DevTask> {
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
    /// Gives a task from [`oldest`](Self::oldest) its place in the stack back: what was laid by is the
    /// stack's lower part, in a queue of its own, which becomes the upper one when that is empty.
    pub(crate) fn lay_by(&mut self, priority: usize, task: DevTask) {
        self.bound += 1;
        self.depth[priority][self.upper[priority] ^ 1].push(task);
    }
    /// The oldest of the breadth-first tasks. `seats` are everybody's, `seat` is the owner's.
    #[inline]
    pub(crate) fn pop_breadth(
        &mut self,
        priority: usize,
        seats: &[impl AsRef<Stealers>],
        seat: usize,
    ) -> Option<DevTask> {
        let round = self.rounds[priority];
        let [now, next] = [round, round.wrapping_add(1)].map(|r| &self.breadth[priority][place(r)]);
        if let Some(task) = now.pop() {
            self.bound = self.bound.saturating_sub(1);
            return Some(task);
        }
        if next.is_empty() {
            return None;
        }
        self.next_round(priority, seats, seat)
    }
    /// The first task of the next round, or one that others have not got round to yet.
    #[cold]
    fn next_round(
        &mut self,
        priority: usize,
        seats: &[impl AsRef<Stealers>],
        seat: usize,
    ) -> Option<DevTask> {
        let round = self.rounds[priority];
        let [now, next] = [round, round.wrapping_add(1)].map(|r| &self.breadth[priority][place(r)]);
        for step in 1..seats.len() {
            let victim = seats[(seat + step) % seats.len()].as_ref();
            let theirs = victim.rounds[priority].load(Ordering::Relaxed);
            // Both of its queues may be due, if it has been away for long.
            for behind in [theirs, theirs.wrapping_add(1)] {
                if round.wrapping_sub(behind) < BEHIND
                    && let Some(task) = theft(&victim.breadth[priority][place(behind)], now)
                {
                    self.bound += THEFT - 1;
                    return Some(task);
                }
            }
        }
        let found = next.pop();
        self.bound = self.bound.saturating_sub(found.is_some().into());
        self.enter(priority, round.wrapping_add(1), seats[seat].as_ref());
        found
    }
    fn enter(&mut self, priority: usize, round: u32, own: &Stealers) {
        self.rounds[priority] = round;
        own.rounds[priority].store(round, Ordering::Relaxed);
    }
    /// Takes from another seat what has this priority; nothing of it is left here.
    pub(crate) fn rob(
        &mut self,
        priority: usize,
        victim: &Stealers,
        own: &Stealers,
    ) -> Option<DevTask> {
        let upper = self.upper[priority];
        for from in &victim.depth[priority] {
            if let Some(task) = theft(from, &self.depth[priority][upper]) {
                self.bound += THEFT - 1;
                return Some(task);
            }
        }
        let round = victim.rounds[priority].load(Ordering::Relaxed);
        for round in [round, round.wrapping_add(1)] {
            let place = place(round);
            if let Some(task) = theft(
                &victim.breadth[priority][place],
                &self.breadth[priority][place],
            ) {
                self.bound += THEFT - 1;
                self.enter(priority, round, own);
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

impl Stealers {
    /// Whether anything of this priority waits here.
    pub(crate) fn has(&self, priority: usize) -> bool {
        let mut queues = self.depth[priority].iter().chain(&self.breadth[priority]);
        queues.any(|q| !q.is_empty())
    }
    pub(crate) fn has_any(&self) -> bool {
        (0..LEVELS).any(|p| self.has(p))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn task(arg: u64) -> DevTask {
        DevTask::new(3, 0, 0, 0, arg)
    }
    fn seats<const N: usize>() -> ([Deques; N], [Seat; N]) {
        let deques: [Deques; N] = std::array::from_fn(|_| Deques::new());
        let seats = std::array::from_fn(|i| Seat(deques[i].stealers()));
        (deques, seats)
    }
    struct Seat(Stealers);
    impl AsRef<Stealers> for Seat {
        fn as_ref(&self) -> &Stealers {
            &self.0
        }
    }

    #[test]
    fn tasks_that_were_laid_by_keep_their_places() {
        for looks in 0..12 {
            let ([mut deques], [seat]) = seats::<1>();
            for arg in 0..5 {
                deques.push(0, false, task(arg));
            }
            let mut looked = Vec::new();
            for _ in 0..looks {
                if let Some(task) = deques.oldest(0, &seat.0) {
                    looked.push(task.arg);
                    deques.lay_by(0, task);
                }
            }
            // Every sixth look only says that all were looked at.
            let expected: Vec<_> = (0..looks).map(|i| i % 6).filter(|&i| i < 5).collect();
            assert_eq!(looked, expected);
            deques.push(0, false, task(5));
            let order: Vec<_> = std::iter::from_fn(|| deques.pop_depth(0))
                .map(|t| t.arg)
                .collect();
            assert_eq!(order, [5, 4, 3, 2, 1, 0], "after {looks} looks");
            assert!(deques.at_most(0));
        }
    }

    #[test]
    fn one_worker_goes_oldest_first() {
        let ([mut deques], seats) = seats::<1>();
        deques.push(0, true, task(0));
        for count in 0..1000 {
            let next = deques.pop_breadth(0, &seats, 0).expect("two for each one");
            assert_eq!(next.arg, count);
            for child in [1, 2] {
                deques.push(0, true, task(2 * count + child));
            }
        }
        assert_eq!(deques.len(), 1001);
    }

    #[test]
    fn who_has_ended_a_round_helps_those_who_have_not() {
        let ([mut ahead, mut behind], seats) = seats::<2>();
        behind.push(0, true, task(100));
        assert_eq!(behind.pop_breadth(0, &seats, 1).map(|t| t.arg), Some(100));
        for arg in 101..105 {
            behind.push(0, true, task(arg));
        }
        // One round later, with a task of its own for the round after that.
        for arg in [1, 2] {
            ahead.push(0, true, task(arg));
            assert_eq!(ahead.pop_breadth(0, &seats, 0).map(|t| t.arg), Some(arg));
        }
        ahead.push(0, true, task(4));
        let order: Vec<_> = std::iter::from_fn(|| ahead.pop_breadth(0, &seats, 0))
            .map(|t| t.arg)
            .collect();
        assert_eq!(order, [101, 102, 103, 104, 4]);
        assert_eq!(behind.len(), 0);
    }

    #[test]
    fn who_is_far_behind_holds_nobody_up() {
        let ([mut ahead, mut behind], seats) = seats::<2>();
        for arg in 0..2 * u64::from(BEHIND) {
            ahead.push(0, true, task(arg));
            assert_eq!(ahead.pop_breadth(0, &seats, 0).map(|t| t.arg), Some(arg));
        }
        behind.push(0, true, task(100));
        ahead.push(0, true, task(50));
        assert_eq!(ahead.pop_breadth(0, &seats, 0).map(|t| t.arg), Some(50));
        assert!(ahead.pop_breadth(0, &seats, 0).is_none());
        assert_eq!(
            ahead.rob(0, &seats[1].0, &seats[0].0).map(|t| t.arg),
            Some(100)
        );
    }

    #[test]
    fn a_thief_takes_the_oldest_and_joins_its_round() {
        let ([mut owner, mut thief], seats) = seats::<2>();
        for arg in 0..8 {
            owner.push(0, true, task(arg));
        }
        let [at_owner, at_thief] = [&seats[0].0, &seats[1].0];
        assert_eq!(thief.rob(0, at_owner, at_thief).map(|t| t.arg), Some(0));
        assert_eq!(thief.rounds[0], 1, "the owner's next round");
        assert_eq!((owner.len(), thief.len()), (4, 3));
        for arg in 8..12 {
            owner.push(0, false, task(arg));
        }
        // The newest of the older half: a stack stays one wherever it goes.
        assert_eq!(thief.rob(0, at_owner, at_thief).map(|t| t.arg), Some(9));
        assert_eq!(thief.pop_depth(0).map(|t| t.arg), Some(8));
    }
}
