//! What tasks wait for outside of files, and the thread that waits for it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everwarp_io::Reactor;

use crate::clock::Clock;
use crate::socket::OpenSocket;

/// What tasks wait for outside of files.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) reactor: Reactor,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) clock: Clock,
    /// Sockets for whose readiness the thread waits, by their numbers.
    pub(crate) watched: HashMap<u64, Arc<OpenSocket>>,
    /// Nothing is waited for any more.
    pub(crate) over: bool,
}

impl Waits {
    pub(crate) fn new(timers: usize) -> io::Result<Self> {
        Ok(Self {
            reactor: Reactor::new()?,
            state: Mutex::new(State {
                clock: Clock::new(timers),
                watched: HashMap::new(),
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
