//! The streams of a ring kernel, without its memory and its handler: which slots are free, what waits, what is done.
//!
//! A kernel has `capacity` slots for messages and as many for results. A message takes a slot when room is reserved for
//! it, and gives it back when it was handled. A result takes a slot when its message begins to be handled, and gives it
//! back when the receiver drops it. While a kernel drains, a result without a free slot has memory of its own, so that a
//! kernel whose results are not received ends all the same.

use std::collections::VecDeque;
use std::task::Waker;

use everwarp_buffer::Lease;

use crate::both::Both;
use crate::error::Failure;

/// Where a message's elements are, or a result's.
#[derive(Debug)]
pub(crate) enum Place {
    /// In a slot.
    Slot(usize),
    /// In a buffer of the sender.
    Lent(Lease),
    /// In memory of its own.
    Own(Vec<u64>),
    /// In memory of its own that a GPU reaches, too.
    Both(Both),
}

/// A message that waits.
#[derive(Debug)]
pub(crate) struct Envelope {
    /// The slot that it holds, also if its elements are in a buffer of the sender.
    pub(crate) slot: usize,
    pub(crate) input: Option<Lease>,
    pub(crate) output: Option<Lease>,
}

/// A message that is handled now.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) envelope: Envelope,
    pub(crate) output: Place,
}

/// A message that was handled.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) number: u64,
    pub(crate) result: Result<(), Failure>,
    pub(crate) output: Place,
}

/// What a kernel does with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It keeps them.
    Inactive,
    /// It handles them.
    Active,
    /// It handles those that it has, and takes no others.
    Draining,
    /// It takes none and handles none.
    Ended,
}

/// What changes. All of it is under one lock, which is taken once for each message by each of sender, kernel and receiver.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    /// Whether a task of the kernel is queued or runs. The thread that sets it submits the task.
    pub(crate) running: bool,
    pub(crate) waiting: VecDeque<Envelope>,
    pub(crate) done: VecDeque<Done>,
    free_inputs: Vec<usize>,
    free_outputs: Vec<usize>,
    /// Slots that senders have reserved and not sent yet.
    pub(crate) reserved: usize,
    /// Messages that began to be handled, and so the number of the next.
    pub(crate) started: u64,
    pub(crate) failed: u64,
    pub(crate) received: u64,
    pub(crate) wakers: Vec<Waker>,
}

impl State {
    pub(crate) fn new(capacity: usize) -> Self {
        let slots = || (0..capacity).rev().collect();
        Self {
            phase: Phase::Inactive,
            running: false,
            waiting: VecDeque::with_capacity(capacity),
            done: VecDeque::with_capacity(capacity),
            free_inputs: slots(),
            free_outputs: slots(),
            reserved: 0,
            started: 0,
            failed: 0,
            received: 0,
            wakers: Vec::new(),
        }
    }
    /// Whether it takes messages.
    pub(crate) fn takes(&self) -> bool {
        matches!(self.phase, Phase::Inactive | Phase::Active)
    }
    /// Reserves room for a message.
    pub(crate) fn reserve(&mut self) -> Option<usize> {
        let slot = self.free_inputs.pop()?;
        self.reserved += 1;
        Some(slot)
    }
    /// Gives reserved room back.
    pub(crate) fn give_back(&mut self, slot: usize) {
        self.reserved -= 1;
        self.free_inputs.push(slot);
    }
    /// Sends what has room.
    pub(crate) fn send(&mut self, envelope: Envelope) {
        self.reserved -= 1;
        self.waiting.push_back(envelope);
    }
    /// Whether a message can be handled now.
    fn can_handle(&self) -> bool {
        let Some(first) = self.waiting.front() else {
            return false;
        };
        match self.phase {
            Phase::Active => first.output.is_some() || !self.free_outputs.is_empty(),
            Phase::Draining => true,
            Phase::Inactive | Phase::Ended => false,
        }
    }
    /// Whether a task has to be submitted; then it counts as running.
    #[must_use]
    pub(crate) fn start(&mut self) -> bool {
        let starts = !self.running && self.can_handle();
        self.running |= starts;
        starts
    }
    /// The next message, with room for its result of `words` 64-bit words. Without one, the task has to end.
    pub(crate) fn next(&mut self, words: usize) -> Option<Job> {
        if !self.can_handle() {
            self.running = false;
            return None;
        }
        let mut envelope = self.waiting.pop_front()?;
        let output = match (envelope.output.take(), self.free_outputs.pop()) {
            (Some(lent), slot) => {
                self.free_outputs.extend(slot);
                Place::Lent(lent)
            }
            (None, Some(slot)) => Place::Slot(slot),
            (None, None) => Place::Own(vec![0; words]),
        };
        let number = self.started;
        self.started += 1;
        Some(Job {
            number,
            envelope,
            output,
        })
    }
    /// A message was handled.
    pub(crate) fn finish(&mut self, slot: usize, done: Done) {
        self.free_inputs.push(slot);
        self.failed += u64::from(done.result.is_err());
        self.done.push_back(done);
    }
    /// The oldest result.
    pub(crate) fn receive(&mut self) -> Option<Done> {
        let done = self.done.pop_front()?;
        self.received += 1;
        Some(done)
    }
    /// A result is not needed any more.
    pub(crate) fn release(&mut self, slot: usize) {
        self.free_outputs.push(slot);
    }
    /// Whether nothing waits and nothing is handled.
    pub(crate) fn is_idle(&self) -> bool {
        !self.running && self.waiting.is_empty() && self.reserved == 0
    }
}
