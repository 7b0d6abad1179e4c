//! What tasks wait for outside of files, and the thread that waits for it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everwarp_io::Reactor;

use crate::clock::Clock;
use crate::open_file::OpenFile;
use crate::request::Deadline;
use crate::socket::OpenSocket;

/// What tasks wait for outside of files.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) reactor: Reactor,
    state: Mutex<State>,
}

/// What a request with a deadline is of.
#[derive(Debug)]
pub(crate) enum Limited {
    File(Arc<OpenFile>),
    Socket(Arc<OpenSocket>),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) clock: Clock,
    /// Sockets for whose readiness the thread waits, by their numbers.
    pub(crate) watched: HashMap<u64, Arc<OpenSocket>>,
    /// Files and sockets whose requests have deadlines.
    pub(crate) deadlines: BTreeMap<Deadline, Limited>,
    last_deadline: u64,
    /// Nothing is waited for any more.
    pub(crate) over: bool,
}

impl State {
    /// When the next timer expires, or the next deadline is over.
    pub(crate) fn next(&self) -> Option<Instant> {
        let deadline = self.deadlines.first_key_value().map(|(key, _)| key.0);
        let times = [self.clock.next(), deadline];
        times.into_iter().flatten().min()
    }
    /// Sets a deadline for a request. `None`: no clock gets there.
    pub(crate) fn limit(&mut self, of: Limited, nanos: u64) -> Option<Deadline> {
        let at = Instant::now().checked_add(Duration::from_nanos(nanos))?;
        self.last_deadline += 1;
        let key = (at, self.last_deadline);
        self.deadlines.insert(key, of);
        Some(key)
    }
    /// Takes the deadlines that are over.
    pub(crate) fn overdue(&mut self, now: Instant) -> Vec<(Deadline, Limited)> {
        let mut found = Vec::new();
        while let Some(first) = self.deadlines.first_entry()
            && first.key().0 <= now
        {
            found.push(first.remove_entry());
        }
        found
    }
}

impl Waits {
    pub(crate) fn new(timers: usize) -> io::Result<Self> {
        Ok(Self {
            reactor: Reactor::new()?,
            state: Mutex::new(State {
                clock: Clock::new(timers),
                watched: HashMap::new(),
                deadlines: BTreeMap::new(),
                last_deadline: 0,
                over: false,
            }),
        })
    }
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Lets the thread look around.
    pub(crate) fn wake(&self) {
        self.reactor.wake();
    }
}
