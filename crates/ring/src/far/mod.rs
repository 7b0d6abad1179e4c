//! Kernels whose handler is device code: what the host hands over to their tasks, and takes back.
//!
//! Messages, results and counters are in memory that both sides reach. Tasks are submitted only to say that there are
//! messages, so a stream of them costs a task for each group and no copies. The thread that sends, receives or waits does it,
//! under one lock; [`watch`] does it for wakers of futures. Wakers are called and leases are dropped without the lock, because
//! both may wait for a thread that is about to take it: one that holds the lock of Python's interpreter, for example.

mod layout;
mod program;
mod twin;
pub(crate) mod watch;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everwarp_runtime::{Buffer, DevPtr, DevType, Engine, Error, Instance, Pending, ProgramRef};

use self::layout::{DevRing, DevRingMessage, DevRingOwn, DevRingWords};
use self::program::{KICK, TURN};
use crate::both::Both;
use crate::error::{Failure, RingError};
use crate::handler::{CudaHandler, Handler, Reason, Signature, State as HandlerState};
use crate::instance::instance_of;
use crate::shared::Shared;
use crate::state::{Done, Envelope, Job, Phase, Place};

pub(crate) use self::program::of_cuda;
use self::program::of_host;

/// The most kicks that are under way, and how long a sender waits for one of them.
const KICKS: usize = 16;
const KICK_TIME: Duration = Duration::from_millis(1);
/// How long the drop of a kernel waits for the message that is being handled.
const PATIENCE: Duration = Duration::from_secs(10);

/// A message that was handed over.
#[derive(Debug)]
struct Flight {
    number: u64,
    envelope: Envelope,
    output: Place,
    /// Why it was not handed over after all.
    failure: Option<Failure>,
}

/// What changes, under one lock.
#[derive(Debug, Default)]
struct Inner {
    /// Messages that were handed over and not taken back, in their order.
    flights: VecDeque<Flight>,
    /// How many were written for the device.
    sent: u64,
    /// How many of them its tasks were told of.
    kicked: u64,
    /// How many were taken back.
    taken: u64,
    /// Whether a thread takes messages back, and has not passed them all on.
    taking: bool,
    /// Whether no task is to handle messages.
    stopped: bool,
    /// Kicks and turns that were submitted, but for those that are known to have ended.
    tasks: VecDeque<Pending>,
}

/// A kernel's memory and tasks.
#[derive(Debug)]
pub(crate) struct Far {
    engine: Engine,
    instance: Instance,
    words: Both,
    messages: Both,
    capacity: u64,
    reason: Reason,
    inner: Mutex<Inner>,
    /// A copy of `Inner::taken`, for looks without the lock.
    taken: AtomicU64,
    /// Whether messages were written that the tasks were not told of.
    owes: AtomicBool,
    /// Its tasks reach these.
    _own: Buffer<u64>,
    state: Mutex<HeldState>,
}

/// The memory of a handler's state.
#[derive(Debug)]
enum HeldState {
    None,
    Own(#[expect(dead_code, reason = "tasks use it")] Buffer<u64>),
    Lent(#[expect(dead_code, reason = "tasks use it")] everwarp_buffer::Lease),
}

impl HeldState {
    fn new(engine: &Engine, given: HandlerState) -> Result<(Self, u64), Error> {
        Ok(match given {
            HandlerState::None => (Self::None, 0),
            HandlerState::Zeros(bytes) => {
                let buffer = engine.buffer::<u64>(bytes.div_ceil(8))?;
                let at = buffer.ptr().address();
                (Self::Own(buffer), at)
            }
            HandlerState::Lent(lease) => {
                let at = lease.device_address();
                (Self::Lent(lease), at)
            }
        })
    }
}

/// What a kernel runs.
pub(crate) struct Code {
    pub(crate) program: ProgramRef,
    pub(crate) state: HandlerState,
    pub(crate) reason: Reason,
}

impl Code {
    /// A handler in CUDA C++.
    pub(crate) fn of_cuda(
        name: &str,
        cuda: CudaHandler,
        input: &Signature,
        output: &Signature,
    ) -> Self {
        Self {
            program: of_cuda(name, &cuda, input, output),
            state: cuda.state,
            reason: cuda.reason,
        }
    }
    /// A handler of the host, as if it were device code.
    pub(crate) fn of_host(
        handler: Box<dyn Handler>,
        input: &Signature,
        output: &Signature,
    ) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let handler = Arc::new(Mutex::new(handler));
        Self {
            program: of_host(number, handler, (input.bytes(), output.bytes())),
            state: HandlerState::None,
            reason: Reason::returned(),
        }
    }
}

impl Far {
    /// Prepares a kernel. The engine is parked for a moment if it does not hold the program yet.
    pub(crate) fn new(
        engine: &Engine,
        code: Code,
        capacity: usize,
        counts: [usize; 2],
    ) -> Result<Self, RingError> {
        let Code {
            program,
            state,
            reason,
        } = code;
        let words = Both::new(engine, size_of::<DevRingWords>())?;
        let messages = Both::new(engine, capacity * size_of::<DevRingMessage>())?;
        let own = engine.buffer::<u64>(size_of::<DevRingOwn>() / 8)?;
        let (state, at) = HeldState::new(engine, state)?;
        let params = DevRing {
            host: DevPtr::new(words.address()),
            messages: DevPtr::new(messages.address()),
            own: DevPtr::new(own.ptr().address()),
            state: DevPtr::new(at),
            capacity: capacity as u64,
            inputs: counts[0] as u64,
            outputs: counts[1] as u64,
            ..DevRing::ZERO
        };
        // SAFETY: the memory is this value's, which lives longer than the instance; buffers that are dropped stay until
        // everything that was submitted before is done. Both sides access shared words as atomics, and no other code
        // accesses a message or a result while it is in flight.
        let make = || unsafe { engine.instance(program.clone(), &params) };
        let instance = instance_of(engine, &program, make)?;
        Ok(Self {
            engine: engine.clone(),
            instance,
            words,
            messages,
            capacity: capacity as u64,
            reason,
            inner: Mutex::default(),
            taken: AtomicU64::new(0),
            owes: AtomicBool::new(false),
            _own: own,
            state: Mutex::new(state),
        })
    }
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn stop(&self) -> &AtomicU64 {
        self.words.word(std::mem::offset_of!(DevRingWords, stop))
    }
    fn done(&self) -> u64 {
        // Acquire: what the tasks wrote of these results before.
        let done = self.words.word(std::mem::offset_of!(DevRingWords, done));
        done.load(Ordering::Acquire)
    }
    fn sent(&self) -> &AtomicU64 {
        self.words.word(std::mem::offset_of!(DevRingWords, sent))
    }
    /// Whether results can be taken back.
    pub(crate) fn has_moved(&self) -> bool {
        self.done() != self.taken.load(Ordering::Relaxed)
    }
    /// Whether there is something to do: that, or a kick that is owed.
    pub(crate) fn wants(&self) -> bool {
        self.has_moved() || self.owes.load(Ordering::Relaxed)
    }
    /// How many messages were handed over, and how many of them the handler has started with.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let started = self.words.word(std::mem::offset_of!(DevRingWords, started));
        let sent = self.inner().sent;
        (sent, started.load(Ordering::Relaxed).min(sent))
    }
    /// Whether no message is handed over.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.inner();
        inner.flights.is_empty() && !inner.taking
    }

    /// Takes back what was handled, and hands over what can be.
    pub(crate) fn pump(&self, shared: &Shared) -> Result<(), RingError> {
        self.take_back(shared);
        let (given, refused) = {
            let mut inner = self.inner();
            self.hand_over(&mut inner, shared)
        };
        if given.is_err() {
            shared.change(|state| state.running = false);
        }
        if refused {
            self.take_back(shared);
        }
        Ok(given?)
    }

    /// Takes back what was handled, unless another thread is at it: that one looks once more before it ends.
    fn take_back(&self, shared: &Shared) {
        let mut taking = false;
        loop {
            let finished = {
                let mut inner = self.inner();
                if inner.taking && !taking {
                    return;
                }
                let finished = self.finished(&mut inner);
                // Nothing can be missed: what is done from here on, others see.
                inner.taking = !finished.is_empty();
                finished
            };
            if finished.is_empty() {
                return;
            }
            taking = true;
            let finished: Vec<_> = finished
                .into_iter()
                .map(|(flight, result)| {
                    let slot = flight.envelope.slot;
                    // The sender's buffers are free before the result can be received.
                    drop(flight.envelope);
                    let output = match flight.output {
                        Place::Lent(_) => Place::Own(Vec::new()),
                        kept => kept,
                    };
                    let number = flight.number;
                    (
                        slot,
                        Done {
                            number,
                            result,
                            output,
                        },
                    )
                })
                .collect();
            shared.change(|state| {
                for (slot, done) in finished {
                    state.finish(slot, done);
                }
            });
        }
    }
    /// The messages at the front that were handled.
    fn finished(&self, inner: &mut Inner) -> Vec<(Flight, Result<(), Failure>)> {
        let done = self.done();
        let mut finished = Vec::new();
        while let Some(flight) = inner.flights.front() {
            let result = match &flight.failure {
                Some(failure) => Err(failure.clone()),
                None if inner.taken == done => break,
                None => {
                    let at = (inner.taken % self.capacity) as usize * size_of::<DevRingMessage>();
                    let code = at + std::mem::offset_of!(DevRingMessage, code);
                    inner.taken += 1;
                    match self.messages.word(code).load(Ordering::Relaxed) {
                        0 => Ok(()),
                        code => Err(self.reason.of(code)),
                    }
                }
            };
            finished.extend(inner.flights.pop_front().map(|flight| (flight, result)));
        }
        self.taken.store(inner.taken, Ordering::Relaxed);
        finished
    }

    /// Hands over what can be. The second value is true if a message was refused, which can be taken back.
    fn hand_over(&self, inner: &mut Inner, shared: &Shared) -> (Result<(), Error>, bool) {
        let words = shared.output.bytes().div_ceil(8);
        let mut refused = false;
        loop {
            let Some(job) = shared.state().next(words) else {
                break;
            };
            refused |= !self.write(inner, shared, job);
        }
        // Release: a turn reads the messages after this.
        self.sent().store(inner.sent, Ordering::Release);
        (self.kick(inner, shared), refused)
    }
    /// Says how many messages were written, and starts a turn after a stop.
    fn kick(&self, inner: &mut Inner, shared: &Shared) -> Result<(), Error> {
        let kicked = self.kick_if_there_is_room(inner, shared);
        let owes = inner.sent != inner.kicked;
        self.owes.store(owes, Ordering::Relaxed);
        kicked
    }
    /// Whether few kicks are under way. An engine has a limited number of places for submissions, and a kick has one until it is known to
    /// have ended. A running engine runs it within microseconds; one that is parked does not, and then the kick is owed.
    fn has_room(inner: &mut Inner) -> bool {
        let begin = Instant::now();
        loop {
            // Not only those at the front: the kick that has started the turn lasts as long as messages come.
            inner.tasks.retain(|task| !task.is_done());
            if inner.tasks.len() < KICKS {
                return true;
            }
            if begin.elapsed() > KICK_TIME {
                return false;
            }
            std::hint::spin_loop();
        }
    }
    fn kick_if_there_is_room(&self, inner: &mut Inner, shared: &Shared) -> Result<(), Error> {
        if !inner.stopped && inner.sent == inner.kicked || !Self::has_room(inner) {
            return Ok(());
        }
        if inner.stopped {
            if !matches!(shared.state().phase, Phase::Active | Phase::Draining) {
                return Ok(());
            }
            // No task of the kernel is left, and this many messages are counted. A turn may have handled some whose kick is owed.
            let left = inner.kicked.saturating_sub(self.done());
            self.stop().store(0, Ordering::Release);
            inner.stopped = false;
            if left > 0 {
                inner
                    .tasks
                    .push_back(self.engine.submit(self.instance.task(TURN))?);
            }
        }
        let count = inner.sent - inner.kicked;
        if count > 0 {
            let kick = self.instance.task(KICK).arg(count);
            inner.tasks.push_back(self.engine.submit(kick)?);
            inner.kicked = inner.sent;
        }
        Ok(())
    }
    /// Writes a message for the device. Returns false if there is no memory for its result.
    fn write(&self, inner: &mut Inner, shared: &Shared, job: Job) -> bool {
        let Job {
            number,
            envelope,
            mut output,
        } = job;
        let mut failure = None;
        if let Place::Own(words) = &output {
            match Both::new(&self.engine, 8 * words.len().max(1)) {
                Ok(memory) => output = Place::Both(memory),
                Err(error) => {
                    failure = Some(Failure::new(format!("its result has no memory: {error}")))
                }
            }
        }
        let to = match &output {
            Place::Slot(slot) => shared.outputs.address(*slot),
            Place::Lent(lease) => lease.device_address(),
            Place::Both(memory) => memory.address(),
            Place::Own(_) => 0,
        };
        let from = match &envelope.input {
            Some(lease) => lease.device_address(),
            None => shared.inputs.address(envelope.slot),
        };
        let written = failure.is_none();
        if written {
            let at = (inner.sent % self.capacity) as usize * size_of::<DevRingMessage>();
            let word = |field| self.messages.word(at + field);
            word(std::mem::offset_of!(DevRingMessage, input)).store(from, Ordering::Relaxed);
            word(std::mem::offset_of!(DevRingMessage, output)).store(to, Ordering::Relaxed);
            inner.sent += 1;
        }
        inner.flights.push_back(Flight {
            number,
            envelope,
            output,
            failure,
        });
        written
    }

    /// Lets no task handle messages, and waits until none does. `None` for the limit waits as long as the engine lives.
    pub(crate) fn halt(&self, shared: &Shared, limit: Option<Duration>) -> Result<bool, RingError> {
        let begin = Instant::now();
        let mut inner = self.inner();
        self.stop().store(1, Ordering::Release);
        inner.stopped = true;
        while let Some(task) = inner.tasks.front_mut() {
            match task.wait_timeout(Duration::from_millis(20)) {
                Ok(_) => drop(inner.tasks.pop_front()),
                Err(Error::Timeout { .. }) => {
                    if limit.is_some_and(|limit| begin.elapsed() > limit) {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        drop(inner);
        self.take_back(shared);
        Ok(true)
    }
    /// The error that has ended the engine.
    pub(crate) fn check(&self) -> Result<(), RingError> {
        let mut inner = self.inner();
        let Some(task) = inner.tasks.front_mut() else {
            return Ok(());
        };
        match task.wait_timeout(Duration::ZERO) {
            Err(Error::Timeout { .. }) => Ok(()),
            Ok(_) => {
                inner.tasks.pop_front();
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
    /// Gives the state back. All messages were handled, and none comes any more.
    pub(crate) fn drop_state(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = HeldState::None;
    }
    /// Ends a kernel whose last handle is dropped. Buffers that a task may still use stay lent for ever if the task
    /// does not end in time, or if the engine is parked.
    pub(crate) fn end(&self, shared: &Shared) {
        let over = self.halt(shared, Some(PATIENCE));
        let flights = std::mem::take(&mut self.inner().flights);
        match over {
            // An engine that has failed runs no task any more.
            Ok(true) | Err(_) => drop(flights),
            Ok(false) => {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::forget((flights, std::mem::replace(&mut *state, HeldState::None)));
            }
        }
    }
}
