//! How many files and directories processes may have open together, and who waits until others close theirs.
//!
//! The system grants a program some ten thousand descriptors, and there may be more processes that open a file each.
//! So a process that has nothing open waits for two places: one for what it opens, and one that is kept for it, so
//! that a second file never has to wait. Whoever has two and asks for more gets a place if there is one, and
//! `ENFILE` otherwise. As nobody waits who holds something, those that wait cannot hold up each other.
//!
//! Who waits is served by whichever thread serves the requests that made room, and not by a thread of its own: opening
//! takes several microseconds, and all that room for more comes from is closing, which many threads do. Neighbours
//! are served together, those first of whom one has waited longest: on a GPU they go on together then, as they began, and
//! one by one they would not. So room for some of them is kept for a moment, until there is room for all.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::descriptors::descriptor_limit;
use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::request::{NEIGHBOURS, Request};
use crate::sink::lock;
use crate::wait::Later;

/// Descriptors that are the program's own: streams, directories that processes are given, the engine's.
pub(crate) const OWN: u64 = 256;
/// What a process gets with the first that it opens.
pub(crate) const FIRST: u64 = 2;
/// How long room for some of them is kept for all of the neighbours who are next.
const MOMENT: Duration = Duration::from_millis(1);

/// A request that outlives its slot's buffer.
pub(crate) struct Saved {
    call: u32,
    process: u32,
    generation: u32,
    args: [u64; 6],
    payload: Vec<u8>,
    room: usize,
}

impl Saved {
    pub(crate) fn new(request: &Request<'_>) -> Self {
        Self {
            call: request.call,
            process: request.process,
            generation: request.generation,
            args: request.args,
            payload: request.payload.to_vec(),
            room: request.room,
        }
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            process: self.process,
            generation: self.generation,
            call: self.call,
            args: self.args,
            payload: &self.payload,
            room: self.room,
        }
    }
}

/// Who waits to open something.
pub(crate) struct Waiting {
    pub(crate) process: Arc<Process>,
    pub(crate) request: Saved,
    pub(crate) later: Later,
}

/// What there is room for, and who waits for some.
#[derive(Debug)]
pub(crate) struct Openings {
    state: Mutex<State>,
    /// Somebody waits and there may be room: set under the lock, read without it.
    ready: AtomicBool,
}

struct State {
    left: u64,
    waiting: Line,
    /// Since when there is room for some of those who are next, and not for all.
    short: Option<Instant>,
}

/// Who waits, by neighbours.
#[derive(Default)]
struct Line {
    /// The first of them that waits is the one that came first of all.
    order: VecDeque<u32>,
    by_neighbours: HashMap<u32, VecDeque<Waiting>>,
}

impl Line {
    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn len(&self) -> usize {
        self.by_neighbours.values().map(VecDeque::len).sum()
    }

    fn push(&mut self, waiting: Waiting) {
        let neighbours = waiting.request.process / NEIGHBOURS;
        let of_them = self.by_neighbours.entry(neighbours).or_default();
        if of_them.is_empty() {
            self.order.push_back(neighbours);
        }
        of_them.push_back(waiting);
    }

    /// The neighbours who are next.
    fn first(&self) -> Option<&VecDeque<Waiting>> {
        self.by_neighbours.get(self.order.front()?)
    }

    fn pop(&mut self) -> Option<Waiting> {
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

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("left", &self.left)
            .field("waiting", &self.waiting.len())
            .finish()
    }
}

/// Room for one that is open, as long as it lives.
#[derive(Debug)]
pub(crate) struct Permit {
    openings: Arc<Openings>,
    held: Arc<AtomicU32>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = lock(&self.openings.state);
        state.left += match self.held.fetch_sub(1, SeqCst) {
            1 => FIRST,
            // The second place stays kept.
            2 => 0,
            _ => 1,
        };
        self.openings.look(&state);
    }
}

impl Openings {
    /// Room for as many as the system grants.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                left: descriptor_limit().saturating_sub(OWN).max(FIRST),
                waiting: Line::default(),
                short: None,
            }),
            ready: AtomicBool::new(false),
        })
    }

    /// Room for so many instead, before anything is opened.
    pub(crate) fn limit(&self, files: u64) {
        lock(&self.state).left = files.max(FIRST);
    }

    fn look(&self, state: &State) {
        let room = !state.waiting.is_empty() && state.left >= FIRST;
        self.ready.store(room, SeqCst);
    }

    /// Room for a process that holds this many; nothing if it has to wait.
    ///
    /// # Errors
    /// `ENFILE`: it holds two, and there is no room for more.
    pub(crate) fn take(self: &Arc<Self>, held: &Arc<AtomicU32>) -> Result<Option<Permit>> {
        let mut state = lock(&self.state);
        if held.load(SeqCst) == 0 && !state.waiting.is_empty() {
            // Who waits already comes first.
            return Ok(None);
        }
        self.take_from(&mut state, held)
    }

    fn take_from(
        self: &Arc<Self>,
        state: &mut State,
        held: &Arc<AtomicU32>,
    ) -> Result<Option<Permit>> {
        let places = match held.load(SeqCst) {
            0 if state.left < FIRST => return Ok(None),
            0 => FIRST,
            1 => 0,
            _ if state.left == 0 => return Err(Errno::NFILE),
            _ => 1,
        };
        state.left -= places;
        held.fetch_add(1, SeqCst);
        Ok(Some(Permit {
            openings: Arc::clone(self),
            held: Arc::clone(held),
        }))
    }

    /// Puts a request behind those that wait. Whoever does so calls [`Openings::next`] afterwards: room may have
    /// been made meanwhile, or the process been ended.
    pub(crate) fn wait(&self, waiting: Waiting) {
        let mut state = lock(&self.state);
        waiting.process.waits.fetch_add(1, SeqCst);
        state.waiting.push(waiting);
        self.look(&state);
    }

    /// The next that can be served, each with its room; without room if it has been ended. Neighbours all at once, or
    /// after a moment those for whom there is room.
    pub(crate) fn next(self: &Arc<Self>) -> Vec<(Waiting, Option<Permit>)> {
        let mut next = Vec::new();
        if !self.ready.load(SeqCst) {
            return next;
        }
        let mut state = lock(&self.state);
        let Some(first) = state.waiting.first() else {
            return next;
        };
        let ended = |waiting: &Waiting| waiting.process.ended.load(SeqCst);
        // They held nothing when they began to wait, and a process makes one call at a time.
        let count = first.len();
        let places = FIRST * first.iter().filter(|waiting| !ended(waiting)).count() as u64;
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

    /// Takes out those whose processes have been ended, or all of them.
    pub(crate) fn called_off(&self, all: bool) -> Vec<Waiting> {
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
    fn a_process_has_two_and_more_only_while_there_are_more() {
        let openings = Openings::new();
        openings.limit(5);
        let [a, b, c]: [Arc<AtomicU32>; 3] = Default::default();
        let take = |held| openings.take(held);
        let first = take(&a).expect("it waits at most").expect("there is room");
        let _b = take(&b).expect("it waits at most").expect("there is room");
        assert!(take(&c).expect("it waits at most").is_none(), "one is left");
        let second = take(&a).expect("it waits at most").expect("it was kept");
        let third = take(&a).expect("one is left").expect("one is left");
        assert_eq!(take(&a).err(), Some(Errno::NFILE));
        drop(third);
        drop(second);
        assert!(
            take(&c).expect("it waits at most").is_none(),
            "two are kept"
        );
        drop(first);
        let c = take(&c).expect("it waits at most");
        assert!(c.is_some(), "there is room again");
        assert_eq!(lock(&openings.state).left, 1);
    }
}
