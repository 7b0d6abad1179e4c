//! Which thread hands completions over, or takes events to the pager. The caller has a lock for each step. What is said of completions
//! is true of events as well.
//!
//! 1. A thread adds what it has done with [`add`](Giving::add), and calls [`begin`](Giving::begin) at the end of its round. If it
//!    gets completions, it is the giver. No other thread hands over until the giver has ended.
//! 2. The giver hands over what it got, in that order, and calls [`next`](Giving::next) until it gets nothing. So it also hands
//!    over what other threads have added meanwhile.
//! 3. A giver that has other work must not wait. If there is no room, it gives the rest back with [`pass`](Giving::pass). Then
//!    the thread that may wait becomes the giver with [`take_over`](Giving::take_over), and no other.

/// Completions that are to be handed over, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Giving<D> {
    done: Vec<D>,
    giver: Giver,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Giver {
    #[default]
    None,
    /// A thread hands over.
    Gives,
    /// The thread that may wait has to take over.
    Passed,
}

impl<D> Default for Giving<D> {
    fn default() -> Self {
        Self {
            done: Vec::new(),
            giver: Giver::None,
        }
    }
}

impl<D> Giving<D> {
    /// Adds completions after all others. Returns how many.
    pub(crate) fn add(&mut self, done: impl IntoIterator<Item = D>) -> usize {
        let before = self.done.len();
        self.done.extend(done);
        self.done.len() - before
    }
    /// Whether there are completions and no giver.
    pub(crate) fn waits(&self) -> bool {
        self.giver == Giver::None && !self.done.is_empty()
    }
    /// Makes the caller the giver, if there are completions and no giver.
    pub(crate) fn begin(&mut self) -> Option<Vec<D>> {
        if !self.waits() {
            return None;
        }
        self.giver = Giver::Gives;
        Some(std::mem::take(&mut self.done))
    }
    /// What the giver hands over next. If there is nothing, it is the giver no more.
    pub(crate) fn next(&mut self) -> Option<Vec<D>> {
        if self.done.is_empty() {
            self.giver = Giver::None;
            return None;
        }
        Some(std::mem::take(&mut self.done))
    }
    /// The giver stops: these are not handed over yet. The thread that may wait has to be woken.
    pub(crate) fn pass(&mut self, mut rest: Vec<D>) {
        rest.append(&mut self.done);
        self.done = rest;
        self.giver = Giver::Passed;
    }
    /// Whether the thread that may wait has to take over.
    pub(crate) fn is_passed(&self) -> bool {
        self.giver == Giver::Passed
    }
    /// Makes the thread that may wait the giver, if another has passed that on.
    pub(crate) fn take_over(&mut self) -> Option<Vec<D>> {
        if self.giver != Giver::Passed {
            return None;
        }
        self.giver = Giver::Gives;
        Some(std::mem::take(&mut self.done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders;

    /// A rule that is broken.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Broken {
        No,
        /// A thread hands over although another is at it.
        GivesToo,
        /// The giver ends without a look at what was added meanwhile.
        DoesNotLook,
        /// What is passed on comes after what was added meanwhile.
        PassesToTheEnd,
        /// Another thread hands over although the one that waits has to.
        BeginsWhenPassed,
        /// The thread that may wait is not woken.
        DoesNotWake,
    }

    /// A completion: its thread, and which of that thread's it is.
    type Done = (u8, u8);

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    enum Worker {
        Idle,
        /// It has added something.
        Ends,
        Gives(Vec<Done>),
    }

    /// Two threads that produce completions, and one that may wait for room and produces one, too, as the thread that keeps pages does.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct World {
        giving: Giving<Done>,
        workers: [Worker; 3],
        to_add: [u8; 3],
        /// The thread that may wait was woken.
        woken: bool,
        room: u8,
        /// How often room will come.
        comes: u8,
        handed: Vec<Done>,
    }

    /// The thread that may wait.
    const PATIENT: usize = 2;
    const EACH: u8 = 2;
    const ALL: u8 = 2 * EACH + 1;

    impl World {
        fn begin(&mut self, broken: Broken) -> Option<Vec<Done>> {
            match (broken, self.giving.giver) {
                (Broken::GivesToo, Giver::Gives) | (Broken::BeginsWhenPassed, Giver::Passed) => {
                    let done = std::mem::take(&mut self.giving.done);
                    (!done.is_empty()).then_some(done)
                }
                _ => self.giving.begin(),
            }
        }
        fn step(&self, worker: usize, broken: Broken) -> Option<Self> {
            let mut next = self.clone();
            next.workers[worker] = match self.workers[worker].clone() {
                Worker::Idle if worker == PATIENT => {
                    if !std::mem::take(&mut next.woken) {
                        return None;
                    }
                    match next.giving.take_over() {
                        Some(done) => Worker::Gives(done),
                        None => Worker::Idle,
                    }
                }
                Worker::Idle if self.to_add[worker] == 0 => return None,
                Worker::Idle => {
                    next.to_add[worker] -= 1;
                    let done = (worker as u8, EACH - self.to_add[worker]);
                    next.giving.add([done]);
                    Worker::Ends
                }
                Worker::Ends => match next.begin(broken) {
                    Some(done) => Worker::Gives(done),
                    None => Worker::Idle,
                },
                Worker::Gives(done) if done.is_empty() => match broken {
                    Broken::DoesNotLook => {
                        next.giving.giver = Giver::None;
                        Worker::Idle
                    }
                    _ => match next.giving.next() {
                        Some(done) => Worker::Gives(done),
                        None => Worker::Idle,
                    },
                },
                Worker::Gives(mut done) if self.room > 0 => {
                    next.room -= 1;
                    next.handed.push(done.remove(0));
                    Worker::Gives(done)
                }
                Worker::Gives(_) if worker == PATIENT => return None,
                Worker::Gives(rest) => {
                    if broken == Broken::PassesToTheEnd {
                        next.giving.add(rest);
                        next.giving.pass(Vec::new());
                    } else {
                        next.giving.pass(rest);
                    }
                    next.woken = broken != Broken::DoesNotWake;
                    Worker::Idle
                }
            };
            Some(next)
        }
        fn steps(&self, broken: Broken) -> Vec<Self> {
            let mut all: Vec<_> = (0..3).filter_map(|w| self.step(w, broken)).collect();
            if self.to_add[PATIENT] > 0 && self.workers[PATIENT] == Worker::Idle {
                let mut next = self.clone();
                next.to_add[PATIENT] -= 1;
                next.giving.add([(PATIENT as u8, 1)]);
                let taken = next.giving.take_over().or_else(|| next.begin(broken));
                next.workers[PATIENT] = taken.map_or(Worker::Idle, Worker::Gives);
                all.push(next);
            }
            if self.comes > 0 {
                let mut next = self.clone();
                (next.comes, next.room) = (self.comes - 1, self.room + 1);
                all.push(next);
            }
            all
        }
        /// What is wrong in a world in which `last` says that nothing happens any more.
        fn fault(&self, last: bool) -> Option<&'static str> {
            let gives = self.workers.iter();
            let gives = gives.filter(|w| matches!(w, Worker::Gives(_))).count();
            let sorted = |worker: u8| {
                let of = self.handed.iter().filter(|(from, _)| *from == worker);
                of.map(|(_, number)| number).is_sorted()
            };
            match () {
                () if gives > 1 => Some("two threads hand over"),
                () if !sorted(0) || !sorted(1) => Some("the order of a thread is lost"),
                () if last && self.handed.len() < usize::from(ALL) => {
                    Some("a completion is not handed over")
                }
                () => None,
            }
        }
    }

    /// Looks at every order of steps. Returns the first fault, and how many worlds there are.
    fn search(broken: Broken) -> (Option<&'static str>, usize) {
        let first = [0, 1, ALL].map(|room| World {
            giving: Giving::default(),
            workers: [const { Worker::Idle }; 3],
            to_add: [EACH, EACH, 1],
            woken: false,
            room,
            comes: ALL - room,
            handed: Vec::new(),
        });
        orders::search(first, |world| world.steps(broken), World::fault)
    }

    #[test]
    fn no_order_of_steps_loses_a_completion_or_has_two_givers() {
        let (fault, worlds) = search(Broken::No);
        assert_eq!(fault, None);
        assert!(worlds > 1000, "{worlds}");
    }

    #[test]
    fn each_broken_rule_is_noticed() {
        for broken in [
            Broken::GivesToo,
            Broken::DoesNotLook,
            Broken::PassesToTheEnd,
            Broken::BeginsWhenPassed,
            Broken::DoesNotWake,
        ] {
            assert_ne!(search(broken).0, None, "{broken:?}");
        }
    }
}
