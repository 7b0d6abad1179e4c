//! A queue with little room: who finds none, or nothing, waits.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

struct State {
    numbers: VecDeque<u32>,
    closed: bool,
}

/// The queue.
pub(crate) struct Queue {
    state: Mutex<State>,
    room: usize,
    /// There is room, or something, or it was closed.
    changed: [Condvar; 2],
}

impl Queue {
    /// With room for `room` numbers.
    pub(crate) fn new(room: usize) -> Self {
        let state = State {
            numbers: VecDeque::with_capacity(room),
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            room,
            changed: Default::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a holder of it never panics")
    }

    /// Puts a number, as soon as there is room.
    pub(crate) fn put(&self, number: u32) {
        let full = |state: &mut State| state.numbers.len() == self.room;
        let state = self.changed[0].wait_while(self.state(), full);
        state
            .expect("a holder of it never panics")
            .numbers
            .push_back(number);
        self.changed[1].notify_one();
    }

    /// Takes one, as soon as there is one; nothing when it was closed.
    pub(crate) fn take(&self) -> Option<u32> {
        let empty = |state: &mut State| state.numbers.is_empty() && !state.closed;
        let state = self.changed[1].wait_while(self.state(), empty);
        let number = state
            .expect("a holder of it never panics")
            .numbers
            .pop_front();
        self.changed[0].notify_one();
        number
    }

    /// Nothing more will be put.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed[1].notify_all();
    }
}
