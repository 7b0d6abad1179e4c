//! The two lines of a socket, and which thread drives them. The caller has a lock for each step.
//!
//! 1. A thread that gets `true` from [`push`](Lines::push) or [`ready`](Lines::ready) must have the socket driven; no other
//!    thread gets it until [`finish`](Lines::finish) has returned something else than `Again`.
//! 2. The driver takes a request with [`next`](Lines::next), tries it, and puts it back if it has to wait.
//! 3. With `Watch` the driver has the socket watched before it gives the lock back. What comes after that is an event, for which
//!    `ready` is called; what came before it had set `again`. If the socket cannot be watched, the driver takes all requests out
//!    with [`fail`](Lines::fail) before it gives the lock back, and ends them.
//! 4. [`strike`](Lines::strike) gives up requests before they are done. The driver learns of a strike at one that it has when it puts
//!    that back; if it has done it, the strike was too late.
//! 5. After [`close`](Lines::close) no request waits: those in line are given up by the closer, and the one that the driver has
//!    by the driver.

use std::collections::VecDeque;

use crate::errno::FileErrno;

/// Which requests are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    /// Those with this note.
    Note(u32),
    /// The one whose deadline has this number.
    Deadline(u64),
}

/// A request that can be named.
pub(crate) trait Named {
    /// Whether the name is its.
    fn has_name(&self, name: Name) -> bool;
}

/// Requests in two lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lines<W> {
    waiting: [VecDeque<W>; 2],
    /// Whether the driver has a request, and which were given up meanwhile.
    taken: bool,
    struck: Vec<(Name, FileErrno)>,
    /// A thread drives it, or is about to.
    driven: bool,
    /// Something has come meanwhile.
    again: bool,
    /// No request is taken any more.
    closed: bool,
}

/// What the driver does when it has tried all it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Finish {
    /// Drive it once more.
    Again,
    /// No request waits.
    Idle,
    /// Have it watched for its lines: the first, the second.
    Watch([bool; 2]),
}

impl<W> Default for Lines<W> {
    fn default() -> Self {
        Self {
            waiting: [VecDeque::new(), VecDeque::new()],
            taken: false,
            struck: Vec::new(),
            driven: false,
            again: false,
            closed: false,
        }
    }
}

impl<W: Named> Lines<W> {
    /// Puts a request in line; gives it back if the lines are closed.
    pub(crate) fn push(&mut self, line: usize, waiter: W) -> Result<bool, W> {
        if self.closed {
            return Err(waiter);
        }
        self.waiting[line].push_back(waiter);
        Ok(self.ready())
    }
    /// Something may be possible now.
    pub(crate) fn ready(&mut self) -> bool {
        self.again = self.driven;
        !std::mem::replace(&mut self.driven, true)
    }
    /// The driver takes the first request of a line. The one that it had is done.
    pub(crate) fn next(&mut self, line: usize) -> Option<W> {
        let first = self.waiting[line].pop_front();
        self.taken = first.is_some();
        self.struck.clear();
        first
    }
    /// The driver puts a request back that has to wait; gives it back with an error if it was given up, or the lines are closed.
    pub(crate) fn put_back(&mut self, line: usize, waiter: W) -> Result<(), (W, FileErrno)> {
        self.taken = false;
        let struck = self.struck.iter().find(|(name, _)| waiter.has_name(*name));
        let error = struck.map(|(_, error)| *error);
        let error = error.or(self.closed.then_some(FileErrno::CANCELED));
        self.struck.clear();
        match error {
            Some(error) => Err((waiter, error)),
            None => {
                self.waiting[line].push_front(waiter);
                Ok(())
            }
        }
    }
    /// Gives up the requests with this name. Returns those that are in line, and whether the caller must have the socket driven: what
    /// comes after them may need to wait for nothing.
    pub(crate) fn strike(&mut self, name: Name, error: FileErrno) -> (Vec<W>, bool) {
        if self.taken {
            self.struck.push((name, error));
        }
        let mut found = Vec::new();
        for line in &mut self.waiting {
            if line.iter().any(|waiter| waiter.has_name(name)) {
                let all = std::mem::take(line).into_iter();
                let (named, others): (VecDeque<_>, _) =
                    all.partition(|waiter| waiter.has_name(name));
                found.extend(named);
                *line = others;
            }
        }
        let left = self.waiting.iter().any(|line| !line.is_empty());
        let must = !found.is_empty() && left && self.ready();
        (found, must)
    }
    /// The driver has tried all it could.
    pub(crate) fn finish(&mut self) -> Finish {
        if std::mem::take(&mut self.again) {
            return Finish::Again;
        }
        self.driven = false;
        match [0, 1].map(|line: usize| !self.waiting[line].is_empty()) {
            [false, false] => Finish::Idle,
            lines => Finish::Watch(lines),
        }
    }
    /// The socket cannot be watched. Returns the requests that were in the lines; later ones may find it in order again.
    pub(crate) fn fail(&mut self) -> Vec<W> {
        let all = self.waiting.iter_mut().flat_map(|line| line.drain(..));
        all.collect()
    }
    /// Closes the lines. Returns the requests that were in them.
    pub(crate) fn close(&mut self) -> Vec<W> {
        self.closed = true;
        self.fail()
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
        /// What comes while the socket is driven is not noted.
        ForgetsAgain,
        /// Who pushes always has the socket driven.
        DrivesTwice,
        /// Nothing is watched.
        DoesNotWatch,
        /// What has to wait is put back although the lines were closed.
        PutsBackAfterClose,
        /// What comes after a request that is given up is not done before something else comes.
        StrikesAndLeaves,
        /// What the driver has is not given up.
        StrikesOnlyTheLine,
        /// What is in line stays there although the socket is not watched.
        FailsAndLeaves,
    }

    impl Named for u8 {
        fn has_name(&self, name: Name) -> bool {
            name == Name::Note((*self).into())
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Worker {
        Idle,
        Next,
        Tries(u8),
        PutsBack(u8),
        Finishes,
    }

    /// A task that asks, a peer that sends, workers, a thread that waits, and a task that may close: every step is one that the
    /// lock makes whole.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct World {
        lines: Lines<u8>,
        to_push: u8,
        to_come: u8,
        to_close: bool,
        /// Request 1 may be given up; it was while it waited.
        to_strike: bool,
        struck: bool,
        /// The next watch fails.
        fails: bool,
        /// What can be received.
        there: u8,
        watched: bool,
        events: u8,
        jobs: u8,
        workers: [Worker; 2],
        /// How often each request has ended.
        ended: [u8; 3],
    }

    impl World {
        fn end(&mut self, request: u8) {
            self.ended[usize::from(request)] += 1;
        }
        fn asks_for_driver(&mut self, must: bool, broken: Broken) {
            if broken == Broken::ForgetsAgain {
                self.lines.again = false;
            }
            self.jobs += u8::from(must || broken == Broken::DrivesTwice);
        }
        fn step(&self, worker: usize, broken: Broken) -> Option<Self> {
            let mut next = self.clone();
            next.workers[worker] = match self.workers[worker] {
                Worker::Idle if self.jobs == 0 => return None,
                Worker::Idle => {
                    next.jobs -= 1;
                    Worker::Next
                }
                Worker::Next => match next.lines.next(0) {
                    Some(request) => Worker::Tries(request),
                    None => Worker::Finishes,
                },
                // The last one needs nothing, and no event comes for it.
                Worker::Tries(0) => {
                    next.end(0);
                    Worker::Next
                }
                Worker::Tries(request) if self.there > 0 => {
                    next.there -= 1;
                    next.end(request);
                    Worker::Next
                }
                Worker::Tries(request) => Worker::PutsBack(request),
                Worker::PutsBack(request) => match next.lines.put_back(0, request) {
                    Err((request, _)) if broken == Broken::PutsBackAfterClose => {
                        next.lines.waiting[0].push_front(request);
                        Worker::Finishes
                    }
                    // What comes after it has its turn.
                    Err((request, _)) => {
                        next.end(request);
                        Worker::Next
                    }
                    Ok(()) => Worker::Finishes,
                },
                Worker::Finishes => match next.lines.finish() {
                    Finish::Again => Worker::Next,
                    Finish::Idle => Worker::Idle,
                    Finish::Watch(lines) => {
                        assert_eq!(lines, [true, false]);
                        if std::mem::take(&mut next.fails) {
                            if broken != Broken::FailsAndLeaves {
                                let requests = next.lines.fail();
                                requests.into_iter().for_each(|request| next.end(request));
                            }
                        } else {
                            next.watched = broken != Broken::DoesNotWatch;
                        }
                        Worker::Idle
                    }
                },
            };
            Some(next)
        }
        /// All that may happen next.
        fn steps(&self, broken: Broken) -> Vec<Self> {
            let mut all: Vec<_> = (0..2).filter_map(|w| self.step(w, broken)).collect();
            let mut with = |may: bool, step: &dyn Fn(&mut Self)| {
                if may {
                    let mut next = self.clone();
                    step(&mut next);
                    all.push(next);
                }
            };
            with(self.to_push > 0, &|next| {
                next.to_push -= 1;
                match next.lines.push(0, self.to_push - 1) {
                    Ok(must) => next.asks_for_driver(must, broken),
                    Err(request) => next.end(request),
                }
            });
            with(self.to_come > 0, &|next| {
                next.to_come -= 1;
                next.there += 1;
            });
            with(self.watched && self.there > 0, &|next| {
                next.watched = false;
                next.events += 1;
            });
            with(self.events > 0, &|next| {
                next.events -= 1;
                let must = next.lines.ready();
                next.asks_for_driver(must, broken);
            });
            with(
                self.to_strike && self.to_push < 2 && self.ended[1] == 0,
                &|next| {
                    next.to_strike = false;
                    next.struck = true;
                    let (found, must) = next.lines.strike(Name::Note(1), FileErrno::TIMEDOUT);
                    found.into_iter().for_each(|request| next.end(request));
                    if must && broken == Broken::StrikesAndLeaves {
                        next.lines.driven = false;
                    } else {
                        next.asks_for_driver(must, broken);
                    }
                    if broken == Broken::StrikesOnlyTheLine {
                        next.lines.struck.clear();
                    }
                },
            );
            with(self.to_close, &|next| {
                next.to_close = false;
                let requests = next.lines.close();
                requests.into_iter().for_each(|request| next.end(request));
            });
            all
        }
        /// What is wrong in a world in which `last` says that nothing happens any more.
        fn fault(&self, last: bool) -> Option<&'static str> {
            let busy = self.workers.iter().filter(|w| **w != Worker::Idle);
            let waits = !self.lines.waiting[0].is_empty();
            let ended: u8 = self.ended.iter().sum();
            match () {
                () if busy.count() > 1 => Some("two threads drive it"),
                () if self.ended.iter().any(|&times| times > 1) => Some("a request ends twice"),
                () if last && waits && self.lines.closed => Some("a request waits after the close"),
                () if last && self.struck && self.lines.waiting[0].contains(&1) => {
                    Some("a request waits that was given up")
                }
                () if last && self.lines.waiting[0].front() == Some(&0) => {
                    Some("a request waits for nothing")
                }
                () if last && waits && self.there > 0 => Some("a request waits for what is there"),
                () if last && !waits && ended < 3 => Some("a request is lost"),
                () => None,
            }
        }
    }

    /// Looks at every order of steps. Returns the first fault, and how many worlds there are.
    fn search(broken: Broken) -> (Option<&'static str>, usize) {
        let first = [
            (3, false, false, false),
            (2, false, false, false),
            (1, true, false, false),
            (2, true, false, false),
            (1, false, true, false),
            (0, false, true, false),
            (1, true, true, false),
            (2, false, false, true),
            (1, true, false, true),
        ]
        .map(|(to_come, to_close, to_strike, fails)| World {
            lines: Lines::default(),
            to_push: 3,
            to_come,
            to_close,
            to_strike,
            struck: false,
            fails,
            there: 0,
            watched: false,
            events: 0,
            jobs: 0,
            workers: [Worker::Idle; 2],
            ended: [0; 3],
        });
        orders::search(first, |world| world.steps(broken), World::fault)
    }

    #[test]
    fn no_order_of_steps_loses_a_request_or_has_two_drivers() {
        let (fault, worlds) = search(Broken::No);
        assert_eq!(fault, None);
        assert!(worlds > 1000, "{worlds}");
    }

    #[test]
    fn each_broken_rule_is_noticed() {
        for broken in [
            Broken::ForgetsAgain,
            Broken::DrivesTwice,
            Broken::DoesNotWatch,
            Broken::PutsBackAfterClose,
            Broken::StrikesAndLeaves,
            Broken::StrikesOnlyTheLine,
            Broken::FailsAndLeaves,
        ] {
            assert_ne!(search(broken).0, None, "{broken:?}");
        }
    }
}
