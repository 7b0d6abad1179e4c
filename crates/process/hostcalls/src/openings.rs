//! How many files and directories processes may have open together, and the processes that wait until others close
//! theirs.
//!
//! The system grants a program some ten thousand descriptors, and there may be more processes that open a file each.
//! So a process that has nothing open waits for two places: one for the file that it opens, and one that is kept for it,
//! so that a second file never has to wait. A process that has two and asks for more gets a place if there is one, and
//! `ENFILE` otherwise. No process waits that holds a place, so waiting processes cannot hold up each other.
//!
//! A waiting process is served by the thread that has served the request that made room, and not by a thread of its own:
//! opening takes several microseconds, and room comes from closing, which many threads do. Neighbours are served
//! together, first the group with the process that has waited longest: on a GPU they go on together then, as they were
//! started, and one by one they would not. So room for some of a group is kept for a moment, until there is room for all.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everwarp_engine::sync::lock;

use crate::descriptors::raise_descriptor_limit;
use crate::errno::{Errno, Result};
use crate::events::AnswerCallback;
use crate::limits::{FIRST_PLACES, NEIGHBOURS, OWN_DESCRIPTORS};
use crate::permit::{Permit, Places};
use crate::process::Process;
use crate::request::Request;

/// How long room for some of a group of neighbours is kept for all of them.
const MOMENT: Duration = Duration::from_millis(1);

/// A request that waits for room to open a file.
pub(crate) struct WaitingOpening {
    pub(crate) process: Arc<Process>,
    pub(crate) request: Request<'static>,
    pub(crate) answer: AnswerCallback,
}

/// The room for open files, and the requests that wait for some.
#[derive(Debug)]
pub(crate) struct Openings {
    state: Mutex<Room>,
    /// A request waits and there may be room. It is set under the lock and read without it.
    ready: AtomicBool,
}

struct Room {
    left: u64,
    waiting: OpeningQueue,
    /// Since when there has been room for some of the next neighbours, and not for all.
    short: Option<Instant>,
}

/// The requests that wait, by groups of neighbours.
#[derive(Default)]
struct OpeningQueue {
    /// The groups that wait, in the order in which their first requests came.
    order: VecDeque<u32>,
    by_neighbours: HashMap<u32, VecDeque<WaitingOpening>>,
}

impl OpeningQueue {
    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn len(&self) -> usize {
        self.by_neighbours.values().map(VecDeque::len).sum()
    }

    fn push(&mut self, waiting: WaitingOpening) {
        let neighbours = waiting.request.process.slot() / NEIGHBOURS;
        let of_them = self.by_neighbours.entry(neighbours).or_default();
        if of_them.is_empty() {
            self.order.push_back(neighbours);
        }
        of_them.push_back(waiting);
    }

    /// The neighbours that are next.
    fn first(&self) -> Option<&VecDeque<WaitingOpening>> {
        self.by_neighbours.get(self.order.front()?)
    }

    fn pop(&mut self) -> Option<WaitingOpening> {
        let neighbours = *self.order.front()?;
        let of_them = self.by_neighbours.get_mut(&neighbours)?;
        let first = of_them.pop_front();
        if of_them.is_empty() {
            self.by_neighbours.remove(&neighbours);
            self.order.pop_front();
        }
        first
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room")
            .field("left", &self.left)
            .field("waiting", &self.waiting.len())
            .finish()
    }
}

impl Places for Openings {
    fn give_back(&self, closed: &dyn Fn() -> u64) {
        let mut state = lock(&self.state);
        state.left += closed();
        self.look(&state);
    }
}

impl Openings {
    /// Room for as many files as the system grants.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(Room {
                left: raise_descriptor_limit()
                    .saturating_sub(OWN_DESCRIPTORS)
                    .max(FIRST_PLACES),
                waiting: OpeningQueue::default(),
                short: None,
            }),
            ready: AtomicBool::new(false),
        })
    }

    /// Room for this many files instead. To be called before any file is opened.
    pub(crate) fn limit(&self, files: u64) {
        lock(&self.state).left = files.max(FIRST_PLACES);
    }

    fn look(&self, state: &Room) {
        let room = !state.waiting.is_empty() && state.left >= FIRST_PLACES;
        self.ready.store(room, SeqCst);
    }

    /// A permit for a process that holds this many; `None` if it has to wait.
    ///
    /// # Errors
    /// `ENFILE`: it holds two permits or more, and there is no room for another.
    pub(crate) fn take(self: &Arc<Self>, held: &Arc<AtomicU32>) -> Result<Option<Permit>> {
        let mut state = lock(&self.state);
        if held.load(SeqCst) == 0 && !state.waiting.is_empty() {
            // Requests that wait already come first.
            return Ok(None);
        }
        self.take_from(&mut state, held)
    }

    fn take_from(
        self: &Arc<Self>,
        state: &mut Room,
        held: &Arc<AtomicU32>,
    ) -> Result<Option<Permit>> {
        let places = match held.load(SeqCst) {
            0 if state.left < FIRST_PLACES => return Ok(None),
            0 => FIRST_PLACES,
            1 => 0,
            _ if state.left == 0 => return Err(Errno::NFILE),
            _ => 1,
        };
        state.left -= places;
        held.fetch_add(1, SeqCst);
        Ok(Some(Permit {
            places: Arc::clone(self) as Arc<dyn Places>,
            held: Arc::clone(held),
        }))
    }

    /// Adds a request to those that wait. The caller calls [`Openings::next`] afterwards: room may have been made
    /// meanwhile, or the process may have ended.
    pub(crate) fn wait(&self, waiting: WaitingOpening) {
        let mut state = lock(&self.state);
        waiting.process.waits.fetch_add(1, SeqCst);
        state.waiting.push(waiting);
        self.look(&state);
    }

    /// Takes out the next requests that can be served, each with its permit, or without one if its process has ended.
    /// Neighbours come all at once, or after a moment as many as there is room for.
    pub(crate) fn next(self: &Arc<Self>) -> Vec<(WaitingOpening, Option<Permit>)> {
        let mut next = Vec::new();
        if !self.ready.load(SeqCst) {
            return next;
        }
        let mut state = lock(&self.state);
        let Some(first) = state.waiting.first() else {
            return next;
        };
        let ended = |waiting: &WaitingOpening| waiting.process.ended.load(SeqCst);
        // None of them held a permit when it began to wait, and a process makes one call at a time.
        let count = first.len();
        let places = FIRST_PLACES * first.iter().filter(|waiting| !ended(waiting)).count() as u64;
        if state.left < places {
            let since = *state.short.get_or_insert_with(Instant::now);
            if since.elapsed() < MOMENT {
                return next;
            }
        }
        state.short = None;
        for _ in 0..count {
            let Some(waiting) = state.waiting.first().and_then(VecDeque::front) else {
                break;
            };
            let held = Arc::clone(&waiting.process.held);
            let permit = match ended(waiting) {
                true => None,
                false => match self.take_from(&mut state, &held).ok().flatten() {
                    None => break,
                    permit => permit,
                },
            };
            next.extend(state.waiting.pop().map(|waiting| (waiting, permit)));
        }
        for (waiting, _) in &next {
            waiting.process.waits.fetch_sub(1, SeqCst);
        }
        self.look(&state);
        next
    }

    /// Takes out the requests of processes that have ended, or all of them.
    pub(crate) fn cancel(&self, all: bool) -> Vec<WaitingOpening> {
        let mut state = lock(&self.state);
        let mut off = Vec::new();
        let mut waiting = std::mem::take(&mut state.waiting);
        while let Some(waiting) = waiting.pop() {
            match all || waiting.process.ended.load(SeqCst) {
                true => off.push(waiting),
                false => state.waiting.push(waiting),
            }
        }
        for waiting in &off {
            waiting.process.waits.fetch_sub(1, SeqCst);
        }
        self.look(&state);
        off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_gets_two_places_and_more_only_while_there_are_some() {
        let openings = Openings::new();
        openings.limit(5);
        let [a, b, c]: [Arc<AtomicU32>; 3] = Default::default();
        let take = |held| openings.take(held);
        let first = take(&a).expect("no error").expect("there is room");
        let _b = take(&b).expect("no error").expect("there is room");
        assert!(take(&c).expect("no error").is_none(), "one place is left");
        let second = take(&a)
            .expect("no error")
            .expect("a second place was kept");
        let third = take(&a)
            .expect("one place is left")
            .expect("one place is left");
        assert_eq!(take(&a).err(), Some(Errno::NFILE));
        drop(third);
        drop(second);
        assert!(
            take(&c).expect("no error").is_none(),
            "both places are kept for `a`"
        );
        drop(first);
        let c = take(&c).expect("no error");
        assert!(c.is_some(), "there is room again");
        assert_eq!(lock(&openings.state).left, 1);
    }
}
