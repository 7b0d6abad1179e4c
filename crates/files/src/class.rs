//! The classes of requests, and the order in which jobs of different classes are done.
//!
//! A job of a better class comes first, but none waits for ever: one that others have overtaken often enough is next. And
//! background jobs leave one thread to the others, so that a job that takes long does not delay an urgent one.

use std::collections::VecDeque;

use crate::errno::FileErrno;

/// How urgent a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestClass {
    /// Someone waits for it.
    Interactive,
    /// What requests are unless they say otherwise.
    #[default]
    Normal,
    /// It may take longer while there is other work.
    Background,
}

impl RequestClass {
    /// The number that a request has.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Normal => 0,
            Self::Interactive => 1,
            Self::Background => 2,
        }
    }
    pub(crate) const fn of_number(number: u32) -> Result<Self, FileErrno> {
        match number {
            0 => Ok(Self::Normal),
            1 => Ok(Self::Interactive),
            2 => Ok(Self::Background),
            _ => Err(FileErrno::INVAL),
        }
    }
    const fn line(self) -> usize {
        match self {
            Self::Interactive => 0,
            Self::Normal => 1,
            Self::Background => 2,
        }
    }
}

/// A job of one class may be overtaken by this many others.
const PATIENCE: u32 = 64;

/// Jobs that wait for a thread, in a line for each class.
#[derive(Debug)]
pub(crate) struct Jobs<J> {
    lines: [VecDeque<J>; 3],
    /// How often each line was overtaken since its first job was taken.
    overtaken: [u32; 3],
    /// Background jobs that are being done, and how many may be.
    background: usize,
    background_most: usize,
}

impl<J> Jobs<J> {
    /// Jobs for this many threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            lines: Default::default(),
            overtaken: [0; 3],
            background: 0,
            background_most: (threads - 1).max(1),
        }
    }
    pub(crate) fn push(&mut self, job: J, class: RequestClass) {
        self.lines[class.line()].push_back(job);
    }
    pub(crate) fn len(&self) -> usize {
        self.lines.iter().map(VecDeque::len).sum()
    }
    /// Takes the next job. One of the background has to be noted when it is done: see [`done`](Self::done).
    pub(crate) fn pop(&mut self) -> Option<J> {
        let may = |line: usize| line < 2 || self.background < self.background_most;
        let waits = |line: &usize| !self.lines[*line].is_empty() && may(*line);
        let patient = |line: &usize| self.overtaken[*line] >= PATIENCE;
        let longest = (0..3).rev().filter(waits).find(patient);
        let line = longest.or_else(|| (0..3).find(waits))?;
        self.overtaken[line] = 0;
        for later in line + 1..3 {
            self.overtaken[later] += u32::from(!self.lines[later].is_empty());
        }
        self.background += usize::from(line == 2);
        self.lines[line].pop_front()
    }
    /// Notes that a job of this class is done.
    pub(crate) fn done(&mut self, class: RequestClass) {
        self.background -= usize::from(class == RequestClass::Background);
    }
    /// Looks at all jobs that wait, and keeps those for which `stays` says so.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&mut J) -> bool) {
        for line in &mut self.lines {
            line.retain_mut(&mut stays);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_classes_come_first_and_no_class_waits_for_ever() {
        let mut jobs = Jobs::new(3);
        for number in 0..1000 {
            jobs.push(
                (RequestClass::Interactive, number),
                RequestClass::Interactive,
            );
        }
        for class in [RequestClass::Normal, RequestClass::Background] {
            (0..3).for_each(|number| jobs.push((class, number), class));
        }
        assert_eq!(jobs.len(), 1006);
        let order: Vec<_> = std::iter::from_fn(|| {
            let job = jobs.pop()?;
            jobs.done(job.0);
            Some(job)
        })
        .collect();
        assert_eq!(order.len(), 1006);
        for class in [
            RequestClass::Interactive,
            RequestClass::Normal,
            RequestClass::Background,
        ] {
            let of = order.iter().filter(|job| job.0 == class);
            assert!(of.map(|job| job.1).is_sorted(), "{class:?}");
        }
        let last = order
            .iter()
            .rposition(|job| job.0 != RequestClass::Interactive);
        let first = order
            .iter()
            .position(|job| job.0 != RequestClass::Interactive);
        assert_eq!(first, Some(PATIENCE as usize));
        assert!(last.is_some_and(|last| last <= 4 * (PATIENCE as usize + 2)));
    }

    #[test]
    fn background_jobs_leave_a_thread() {
        for (threads, most) in [(1, 1), (2, 1), (4, 3)] {
            let mut jobs = Jobs::new(threads);
            (0..10).for_each(|number| jobs.push(number, RequestClass::Background));
            for number in 0..most {
                assert_eq!(jobs.pop(), Some(number));
            }
            assert_eq!(jobs.pop(), None);
            jobs.push(100, RequestClass::Normal);
            assert_eq!(jobs.pop(), Some(100));
            jobs.done(RequestClass::Normal);
            assert_eq!(jobs.pop(), None);
            jobs.done(RequestClass::Background);
            assert_eq!(jobs.pop(), Some(most));
        }
    }

    #[test]
    fn struck_jobs_leave_and_the_others_stay_in_order() {
        let mut jobs = Jobs::new(2);
        (0..10).for_each(|number| jobs.push(number, RequestClass::Normal));
        jobs.retain(|number| *number % 3 != 0);
        let rest: Vec<_> = std::iter::from_fn(|| jobs.pop()).collect();
        assert_eq!(rest, [1, 2, 4, 5, 7, 8]);
    }

    #[test]
    fn classes_have_numbers() {
        for class in [
            RequestClass::Interactive,
            RequestClass::Normal,
            RequestClass::Background,
        ] {
            assert_eq!(RequestClass::of_number(class.number()), Ok(class));
        }
        assert_eq!(RequestClass::of_number(3), Err(FileErrno::INVAL));
    }
}
