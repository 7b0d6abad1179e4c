//! What a kernel's task shares with the program: the streams, their memory, and the handler.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use everwarp_buffer::{Buffers, Holder, Lease, Side, Strategy, Use};
use everwarp_runtime::Engine;

use crate::both::Both;
use crate::error::{Failure, RingError};
use crate::handler::{Handler, RawKernel, RawMessage, Signature};
use crate::state::{Done, Job, Place, State};

/// The slots of one stream.
#[derive(Debug)]
pub(crate) struct Slots {
    memory: Memory,
    each: usize,
}

#[derive(Debug)]
enum Memory {
    Host(Lease),
    Both(Both),
}

impl Slots {
    /// In memory of the host, or in memory that this engine's tasks reach, too.
    fn new(
        kernel: &RawKernel,
        signature: &Signature,
        far: Option<&Engine>,
    ) -> Result<Self, RingError> {
        if let Some(engine) = far {
            // Code of a GPU may read vectors.
            let each = signature.bytes().next_multiple_of(64);
            let memory = Memory::Both(Both::new(engine, kernel.capacity * each)?);
            return Ok(Self { memory, each });
        }
        let axes = [kernel.capacity, signature.shape.count()];
        let buffer = Buffers::cpu().raw(signature.dtype, &axes, Strategy::Mapped)?;
        let holder = Holder::here(format!("the ring kernel `{}`", kernel.name));
        Ok(Self {
            memory: Memory::Host(buffer.lease(Use::writes(Side::Device), holder)?),
            each: signature.bytes(),
        })
    }
    /// Where a slot begins.
    pub(crate) fn at(&self, slot: usize) -> *mut u8 {
        let first = match &self.memory {
            Memory::Host(lease) => lease.host_address(),
            Memory::Both(memory) => memory.host(),
        };
        // SAFETY: slots are numbered as there are; an empty message needs no memory.
        unsafe { first.add(slot * self.each) }
    }
    /// Where a slot begins, as tasks see it.
    pub(crate) fn address(&self, slot: usize) -> u64 {
        let first = match &self.memory {
            Memory::Host(lease) => lease.device_address(),
            Memory::Both(memory) => memory.address(),
        };
        first + (slot * self.each) as u64
    }
}

/// A kernel that was launched.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) input: Signature,
    pub(crate) output: Signature,
    pub(crate) capacity: usize,
    pub(crate) inputs: Slots,
    pub(crate) outputs: Slots,
    /// Only the kernel's task locks it while there is one, so it never waits. None after the end, and if it is device code.
    handler: Mutex<Option<Box<dyn Handler>>>,
    state: Mutex<State>,
    /// Something of the state has changed.
    changed: Condvar,
    /// How often it has, for waiters that spin.
    changes: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared {}", self.name)
    }
}

impl Shared {
    /// `far`: the engine whose tasks reach the messages, if the handler is device code.
    pub(crate) fn new(kernel: RawKernel, far: Option<&Engine>) -> Result<Self, RingError> {
        Ok(Self {
            inputs: Slots::new(&kernel, &kernel.input, far)?,
            outputs: Slots::new(&kernel, &kernel.output, far)?,
            name: kernel.name,
            input: kernel.input,
            output: kernel.output,
            capacity: kernel.capacity,
            handler: Mutex::new(kernel.handler),
            state: Mutex::new(State::new(kernel.capacity)),
            changed: Condvar::new(),
            changes: AtomicU64::new(0),
        })
    }
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics under this lock but an allocation.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Changes the state and wakes all waiters. Wakers are called without the lock, since they may take others.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (value, wakers) = {
            let mut state = self.state();
            let value = change(&mut state);
            self.changes.fetch_add(1, Ordering::Release);
            (value, std::mem::take(&mut state.wakers))
        };
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
        value
    }
    /// How often the state has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
    /// Waits until there are more changes than were seen, or for a time.
    pub(crate) fn wait(&self, seen: u64, limit: Duration) {
        let same = |_: &mut State| self.changes() == seen;
        drop(self.changed.wait_timeout_while(self.state(), limit, same));
    }
    /// Handles messages until there are none, or `enough` says to stop. Returns whether there may be more.
    pub(crate) fn handle(&self, mut enough: impl FnMut() -> bool) -> bool {
        let mut handler = self.handler.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(handler) = &mut *handler else {
            return false;
        };
        let words = self.output.bytes().div_ceil(8);
        let mut job = self.change_if_idle(words);
        while let Some(current) = job {
            let (slot, done) = self.run(&mut **handler, current);
            let stop = enough();
            job = self.change(|state| {
                state.finish(slot, done);
                if stop { None } else { state.next(words) }
            });
            if stop {
                return true;
            }
        }
        false
    }
    /// Drops the handler, and what it holds. No task of the kernel is queued any more, and at most on its way to its end.
    pub(crate) fn drop_handler(&self) {
        let mut handler = self.handler.lock().unwrap_or_else(PoisonError::into_inner);
        drop(handler.take());
    }
    /// The first message. The end of a task that found none is a change, which others may wait for.
    fn change_if_idle(&self, words: usize) -> Option<Job> {
        self.change(|state| state.next(words))
    }
    fn run(&self, handler: &mut dyn Handler, job: Job) -> (usize, Done) {
        let Job {
            number,
            envelope,
            mut output,
        } = job;
        let input = match &envelope.input {
            Some(lent) => lent.host_address(),
            None => self.inputs.at(envelope.slot),
        };
        // SAFETY: the message has this slot or this lease alone until it was handled, and both are that long.
        let input = unsafe { std::slice::from_raw_parts(input, self.input.bytes()) };
        let mut message = RawMessage {
            input,
            output: self.room(&mut output),
            number,
        };
        let handled = catch_unwind(AssertUnwindSafe(|| handler.handle(&mut message)));
        let result = handled.unwrap_or_else(|panic| Err(Failure::new(reason(&*panic))));
        let slot = envelope.slot;
        // The sender's buffer is free before the result can be received.
        drop(envelope);
        let output = match output {
            // So is the buffer for the result.
            Place::Lent(_) => Place::Own(Vec::new()),
            kept => kept,
        };
        let done = Done {
            number,
            result,
            output,
        };
        (slot, done)
    }
    /// The memory of a result.
    pub(crate) fn room<'r>(&self, output: &'r mut Place) -> &'r mut [u8] {
        let at = match output {
            Place::Slot(slot) => self.outputs.at(*slot),
            Place::Lent(lease) => lease.host_address(),
            Place::Own(words) => words.as_mut_ptr().cast(),
            Place::Both(memory) => memory.host(),
        };
        // SAFETY: the result has this slot, lease or memory alone while it has the place, and each is that long.
        unsafe { std::slice::from_raw_parts_mut(at, self.output.bytes()) }
    }
}

/// What a panic says.
fn reason(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", text.unwrap_or_default())
}
