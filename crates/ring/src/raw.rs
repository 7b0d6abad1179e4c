//! Ring kernels that were launched, whose types are known only at run time.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use everwarp_buffer::{Lease, Side};
use everwarp_runtime::{Engine, EngineKind, Error, Instance, Pending, ProgramRef};

use crate::error::{RingError, sized};
use crate::far::watch::{self, Watched};
use crate::far::{Code, Far, of_cuda};
use crate::handler::{RawKernel, Signature, State};
use crate::instance::instance_of;
use crate::shared::Shared;
use crate::state::{Done, Envelope, Phase, Place};
use crate::turn::{Number, PROGRAM, TURN};

/// How long a waiter spins before it sleeps: sleeping and waking take about as long.
const SPIN: Duration = Duration::from_micros(50);
/// The same where only looking tells whether a result is there.
const FAR_SPIN: Duration = Duration::from_micros(500);
/// How long a waiter sleeps before it looks whether the engine still runs.
const NAP: Duration = Duration::from_millis(100);
/// How long it sleeps before it looks for results of a device.
const FAR_NAP: Duration = Duration::from_micros(50);

/// Messages of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStats {
    /// Messages that wait.
    pub waiting: usize,
    /// Results that were not received yet.
    pub ready: usize,
    /// Messages that began to be handled.
    pub started: u64,
    /// Messages whose handler failed.
    pub failed: u64,
    /// Results that were received.
    pub received: u64,
}

/// What keeps a kernel's task going. The last handle or result that is dropped drops the engine, never the task.
#[derive(Debug)]
struct Launched {
    shared: Arc<Shared>,
    engine: Engine,
    runs: Runs,
}

/// How the handler runs.
#[derive(Debug)]
enum Runs {
    /// In a task of the CPU engine, which takes messages from `Shared` itself.
    Near {
        instance: Instance,
        number: Number,
        /// The last submission, which knows whether the engine has failed.
        last: Mutex<Option<Pending>>,
    },
    /// As device code, which messages are handed over to.
    Far(Box<Far>),
}

impl Launched {
    fn far(&self) -> Option<&Far> {
        match &self.runs {
            Runs::Near { .. } => None,
            Runs::Far(far) => Some(far),
        }
    }
    /// Submits the kernel's task if there is something to do and it does not run.
    fn start(&self, starts: bool) -> Result<(), RingError> {
        if !starts {
            return Ok(());
        }
        let (instance, number, last) = match &self.runs {
            Runs::Far(far) => return far.pump(&self.shared),
            Runs::Near {
                instance,
                number,
                last,
            } => (instance, number, last),
        };
        match self.engine.submit(instance.task(TURN).arg(number.0)) {
            Ok(pending) => {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(pending);
                Ok(())
            }
            Err(error) => {
                self.shared.change(|state| state.running = false);
                Err(error.into())
            }
        }
    }
    /// Takes what a device has handled.
    fn look(&self) -> Result<(), RingError> {
        match self.far() {
            Some(far) if far.wants() => far.pump(&self.shared),
            _ => Ok(()),
        }
    }
    /// The error that has ended the engine.
    fn check(&self) -> Result<(), RingError> {
        let last = match &self.runs {
            Runs::Far(far) => return far.check(),
            Runs::Near { last, .. } => last,
        };
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pending) = &mut *last else {
            return Ok(());
        };
        match pending.wait_timeout(Duration::from_millis(1)) {
            Err(Error::Timeout { .. }) => Ok(()),
            Ok(_) => {
                *last = None;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
    /// Whether nothing has changed since `seen`, as far as a look without a lock tells.
    fn is_still(&self, seen: u64) -> bool {
        self.shared.changes() == seen && !self.far().is_some_and(Far::has_moved)
    }
    /// Whether nothing waits and nothing is handled.
    fn is_idle(&self) -> bool {
        self.far().is_none_or(Far::is_idle) && self.shared.state().is_idle()
    }
    /// Waits until `attempt` returns something. `None` means that the time is over.
    fn wait<T>(
        &self,
        limit: Option<Duration>,
        mut attempt: impl FnMut() -> Result<Option<T>, RingError>,
    ) -> Result<Option<T>, RingError> {
        let (spin, nap) = match self.runs {
            Runs::Near { .. } => (SPIN, NAP),
            Runs::Far(_) => (FAR_SPIN, FAR_NAP),
        };
        let (mut begin, mut checked) = (None, Instant::now());
        loop {
            self.look()?;
            let seen = self.shared.changes();
            if let Some(value) = attempt()? {
                return Ok(Some(value));
            }
            let begin = *begin.get_or_insert_with(Instant::now);
            let mut waited = begin.elapsed();
            while waited < spin && self.is_still(seen) {
                std::hint::spin_loop();
                waited = begin.elapsed();
            }
            let left = limit.map(|limit| limit.saturating_sub(waited));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            if self.is_still(seen) {
                self.shared.wait(seen, left.unwrap_or(nap).min(nap));
                if checked.elapsed() >= NAP && self.is_still(seen) {
                    self.check()?;
                    checked = Instant::now();
                }
            }
        }
    }
}

/// A ring kernel that was launched. Dropping the last handle ends it without handling what waits.
#[derive(Debug)]
pub struct RawRing(Arc<Launched>);

impl RawKernel {
    /// The program of its handler in CUDA C++, if it has one. An engine that is started with it need not park to launch the
    /// kernel.
    pub fn cuda_program(&self) -> Option<ProgramRef> {
        let cuda = self.cuda.as_ref()?;
        Some(of_cuda(&self.name, cuda, &self.input, &self.output))
    }
    /// Launches the kernel, which is not active yet. An engine that was not started with [`PROGRAM`], or on CUDA with the
    /// kernel's [program](Self::cuda_program), is parked to load it; CUDA C++ that is not in the cache is compiled meanwhile.
    ///
    /// # Errors
    /// [`RingError::NoHandler`], no memory for the streams, or the engine's error: among others, that the CUDA C++ does not
    /// compile.
    pub fn launch(mut self, engine: &Engine) -> Result<RawRing, RingError> {
        let missing = |kernel: &str, fix| RingError::NoHandler {
            kernel: kernel.to_owned(),
            engine: engine.kind(),
            fix,
        };
        let code = match (engine.kind(), self.handler.take(), self.cuda.take()) {
            (EngineKind::Cpu, Some(handler), _) if self.as_device => {
                Code::of_host(handler, &self.input, &self.output)
            }
            (EngineKind::Cpu, Some(handler), _) => {
                self.handler = Some(handler);
                return self.launch_near(engine);
            }
            (EngineKind::Cpu, None, _) => {
                return Err(missing(&self.name, "give it one for the CPU as well"));
            }
            (EngineKind::Cuda, _, Some(cuda)) => {
                if let State::Lent(lease) = &cuda.state
                    && lease.engine() != EngineKind::Cuda
                {
                    return Err(RingError::OtherEngine {
                        kernel: self.name,
                        engine: engine.kind(),
                        buffer: lease.engine(),
                    });
                }
                Code::of_cuda(&self.name, cuda, &self.input, &self.output)
            }
            (EngineKind::Cuda, _, None) => {
                return Err(missing(
                    &self.name,
                    "give it CUDA C++ as well, or use an engine of the CPU",
                ));
            }
            (EngineKind::Wgpu, ..) => {
                return Err(missing(&self.name, "use an engine of the CPU or CUDA"));
            }
        };
        let counts = [&self.input, &self.output].map(|s| s.shape.count());
        let far = Far::new(engine, code, self.capacity, counts)?;
        Ok(RawRing(Arc::new(Launched {
            shared: Arc::new(Shared::new(self, Some(engine))?),
            engine: engine.clone(),
            runs: Runs::Far(Box::new(far)),
        })))
    }
    fn launch_near(self, engine: &Engine) -> Result<RawRing, RingError> {
        let program = ProgramRef::from(&PROGRAM);
        let instance = instance_of(engine, &program, || engine.plain_instance(&PROGRAM))?;
        let shared = Arc::new(Shared::new(self, None)?);
        Ok(RawRing(Arc::new(Launched {
            runs: Runs::Near {
                instance,
                number: Number::new(&shared),
                last: Mutex::new(None),
            },
            shared,
            engine: engine.clone(),
        })))
    }
}

impl Watched for Launched {
    fn look(&self) -> bool {
        let moved = self.far().is_some_and(Far::has_moved);
        if Launched::look(self).and_then(|()| self.check()).is_err() {
            // Those that wait find the error themselves.
            self.shared.change(|_| ());
        }
        moved
    }
    fn is_awaited(&self) -> bool {
        !self.shared.state().wakers.is_empty()
    }
}

impl RawRing {
    fn shared(&self) -> &Shared {
        &self.0.shared
    }
    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.shared().name
    }
    /// The type and shape of a message.
    pub fn input(&self) -> &Signature {
        &self.shared().input
    }
    /// The type and shape of a result.
    pub fn output(&self) -> &Signature {
        &self.shared().output
    }
    /// How many messages wait at most, and how many results.
    pub fn capacity(&self) -> usize {
        self.shared().capacity
    }
    /// The messages.
    pub fn stats(&self) -> RingStats {
        // An engine that has failed counts no further.
        let _ = self.0.look();
        let counts = self.0.far().map(Far::counts);
        let state = self.shared().state();
        let (given, started) = counts.unwrap_or((0, state.started));
        RingStats {
            waiting: state.waiting.len() + counts.map_or(0, |_| given - started) as usize,
            ready: state.done.len(),
            started,
            failed: state.failed,
            received: state.received,
        }
    }
    fn ended(&self) -> RingError {
        RingError::Ended {
            kernel: self.name().to_owned(),
        }
    }
    fn timeout(&self, what: &'static str, after: Option<Duration>) -> RingError {
        let why = match self.shared().state().phase {
            Phase::Inactive => ": it is not active",
            _ => "",
        };
        RingError::Timeout {
            kernel: self.name().to_owned(),
            what,
            after: after.unwrap_or_default(),
            why,
        }
    }

    /// Handles messages from here on. Activating an active kernel does nothing.
    ///
    /// # Errors
    /// [`RingError::Ended`], or the engine's error.
    pub fn activate(&self) -> Result<(), RingError> {
        let starts = self.shared().change(|state| {
            if !state.takes() {
                return None;
            }
            state.phase = Phase::Active;
            Some(state.start())
        });
        // A device may have messages from before.
        let starts = starts.ok_or_else(|| self.ended())? | self.0.far().is_some();
        self.0.start(starts)
    }
    /// Keeps messages from here on and handles none. When it returns, the handler does not run.
    ///
    /// # Errors
    /// [`RingError::Ended`], or the engine's error.
    pub fn deactivate(&self) -> Result<(), RingError> {
        let pauses = self.shared().change(|state| {
            let pauses = state.takes();
            if pauses {
                state.phase = Phase::Inactive;
            }
            pauses
        });
        if !pauses {
            return Err(self.ended());
        }
        if let Some(far) = self.0.far() {
            return far.halt(self.shared(), None).map(drop);
        }
        let rests = || Ok((!self.shared().state().running).then_some(()));
        self.0.wait(None, rests).map(drop)
    }
    /// Handles what was sent before, also if the kernel was not active, and takes no messages from here on. Results that
    /// were not received yet still can be. Terminating again does nothing.
    ///
    /// # Errors
    /// [`RingError::Timeout`], and the kernel goes on to drain; or the engine's error.
    pub fn terminate(&self, limit: Option<Duration>) -> Result<(), RingError> {
        let starts = self.shared().change(|state| {
            if state.takes() {
                state.phase = Phase::Draining;
            }
            state.start()
        });
        self.0.start(starts | self.0.far().is_some())?;
        let drained = self.0.wait(limit, || Ok(self.0.is_idle().then_some(())))?;
        if drained.is_none() {
            return Err(self.timeout("has not handled all messages", limit));
        }
        self.shared().change(|state| state.phase = Phase::Ended);
        // A lease that it holds ends here, and not when the last task has returned.
        self.shared().drop_handler();
        if let Some(far) = self.0.far() {
            far.drop_state();
        }
        Ok(())
    }

    /// Reserves room for a message, if there is some.
    ///
    /// # Errors
    /// [`RingError::Full`], [`RingError::Ended`].
    pub fn try_reserve(&self) -> Result<Reserved<'_>, RingError> {
        match self.reserve_now()? {
            Some(reserved) => Ok(reserved),
            None => Err(RingError::Full {
                kernel: self.name().to_owned(),
                capacity: self.capacity(),
            }),
        }
    }
    /// Reserves room for a message, and waits until there is some. A thread that sends more messages than there is room
    /// for, and receives none, waits for ever without a limit.
    ///
    /// # Errors
    /// [`RingError::Timeout`], [`RingError::Ended`], or the engine's error.
    pub fn reserve(&self, limit: Option<Duration>) -> Result<Reserved<'_>, RingError> {
        let reserved = self.0.wait(limit, || self.reserve_now())?;
        reserved.ok_or_else(|| self.timeout("has no room for a message", limit))
    }
    fn reserve_now(&self) -> Result<Option<Reserved<'_>>, RingError> {
        let mut state = self.shared().state();
        if !state.takes() {
            drop(state);
            return Err(self.ended());
        }
        let slot = state.reserve();
        Ok(slot.map(|slot| Reserved {
            ring: self,
            slot,
            sent: false,
        }))
    }
    /// As [`reserve`](Self::reserve), for futures: without room, the waker is called when something changes.
    pub fn poll_reserve(&self, cx: &mut Context<'_>) -> Poll<Result<Reserved<'_>, RingError>> {
        self.poll(cx, || self.reserve_now())
    }

    /// Takes the oldest result, if there is one.
    ///
    /// # Errors
    /// [`RingError::Empty`], [`RingError::Failed`], [`RingError::Ended`].
    pub fn try_receive(&self) -> Result<RawReceived, RingError> {
        match self.receive_now()? {
            Some(received) => Ok(received),
            None => Err(RingError::Empty {
                kernel: self.name().to_owned(),
            }),
        }
    }
    /// Takes the oldest result, and waits until there is one.
    ///
    /// # Errors
    /// [`RingError::Failed`] for a message whose handler failed: it was received by that, and the next call has the next
    /// result. [`RingError::Timeout`], [`RingError::Ended`], or the engine's error.
    pub fn receive(&self, limit: Option<Duration>) -> Result<RawReceived, RingError> {
        let received = self.0.wait(limit, || self.receive_now())?;
        received.ok_or_else(|| self.timeout("has no result", limit))
    }
    fn receive_now(&self) -> Result<Option<RawReceived>, RingError> {
        self.0.look()?;
        let (done, starts) = {
            let mut state = self.shared().state();
            let Some(done) = state.receive() else {
                let over = state.phase == Phase::Ended;
                drop(state);
                return if over { Err(self.ended()) } else { Ok(None) };
            };
            (done, state.start())
        };
        self.0.start(starts)?;
        let Done {
            number,
            result,
            output,
        } = done;
        let received = RawReceived {
            launched: self.0.clone(),
            number,
            output,
        };
        match result {
            Ok(()) => Ok(Some(received)),
            Err(failure) => Err(RingError::Failed {
                kernel: self.name().to_owned(),
                number,
                failure,
            }),
        }
    }
    /// As [`receive`](Self::receive), for futures.
    pub fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Result<RawReceived, RingError>> {
        self.poll(cx, || self.receive_now())
    }
    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut() -> Result<Option<T>, RingError>,
    ) -> Poll<Result<T, RingError>> {
        for registered in [false, true] {
            if let Some(result) = attempt().transpose() {
                return Poll::Ready(result);
            }
            // What changed before the waker was there, the second attempt sees.
            if !registered {
                self.shared().state().wakers.push(cx.waker().clone());
                if self.0.far().is_some() {
                    watch::watch(&(self.0.clone() as Arc<dyn Watched>));
                }
            }
        }
        Poll::Pending
    }
}

impl Drop for RawRing {
    fn drop(&mut self) {
        // What waits is dropped without the lock, because leases take other locks.
        let waiting = self.shared().change(|state| {
            state.phase = Phase::Ended;
            std::mem::take(&mut state.waiting)
        });
        drop(waiting);
        if let Some(far) = self.0.far() {
            far.end(self.shared());
        }
    }
}

/// Room for one message.
#[derive(Debug)]
#[must_use = "room that is dropped is given back"]
pub struct Reserved<'r> {
    ring: &'r RawRing,
    slot: usize,
    sent: bool,
}

impl Reserved<'_> {
    /// The memory of the message, aligned to the size of its elements. It may hold any values.
    pub fn bytes(&mut self) -> &mut [u8] {
        let shared = self.ring.shared();
        // SAFETY: the slot is this value's alone, and that long.
        unsafe { std::slice::from_raw_parts_mut(shared.inputs.at(self.slot), shared.input.bytes()) }
    }
    /// Sends the message that was written to [`bytes`](Self::bytes).
    ///
    /// # Errors
    /// The engine's error.
    pub fn send(self) -> Result<(), RingError> {
        self.commit(None, None)
    }
    /// Sends slices of buffers, which nothing copies: the message is read from `input`, or from [`bytes`](Self::bytes)
    /// without one, and the result is written to `output`. Both leases end before the result is received. With an
    /// `output`, what is received has no elements.
    ///
    /// # Errors
    /// [`RingError::WrongMessage`], [`RingError::OtherEngine`], or the engine's error.
    pub fn send_slices(self, input: Option<Lease>, output: Option<Lease>) -> Result<(), RingError> {
        let shared = self.ring.shared();
        let slices = [
            ("message", &input, &shared.input),
            ("result", &output, &shared.output),
        ];
        for (what, lease, signature) in slices {
            let Some(lease) = lease else {
                continue;
            };
            let engine = self.ring.0.engine.kind();
            let other = engine == EngineKind::Cpu && !lease.is_shared();
            if other || lease.engine() != engine {
                return Err(RingError::OtherEngine {
                    kernel: shared.name.clone(),
                    engine,
                    buffer: lease.engine(),
                });
            }
            assert!(
                lease.how().side == Side::Device && (what == "message" || lease.how().writes),
                "the kernel reads and writes on the device's side"
            );
            if lease.bytes() != signature.bytes() {
                return Err(RingError::WrongMessage {
                    kernel: shared.name.clone(),
                    what,
                    wanted: signature.to_string(),
                    given: sized(signature.dtype, lease.bytes() / signature.dtype.size()),
                });
            }
        }
        self.commit(input, output)
    }
    fn commit(mut self, input: Option<Lease>, output: Option<Lease>) -> Result<(), RingError> {
        self.sent = true;
        let envelope = Envelope {
            slot: self.slot,
            input,
            output,
        };
        let starts = self.ring.shared().change(|state| {
            state.send(envelope);
            state.start()
        });
        self.ring.0.start(starts)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.sent {
            self.ring
                .shared()
                .change(|state| state.give_back(self.slot));
        }
    }
}

/// The result of a message. Its memory is used for another result after it is dropped.
#[derive(Debug)]
pub struct RawReceived {
    launched: Arc<Launched>,
    number: u64,
    output: Place,
}

impl RawReceived {
    /// The number of the message, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }
    /// The elements; none if they went to a buffer of the sender.
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.launched.shared.output.bytes();
        let at = match &self.output {
            Place::Slot(slot) => self.launched.shared.outputs.at(*slot),
            Place::Both(memory) => memory.host(),
            Place::Own(words) if words.len() * 8 >= bytes => words.as_ptr().cast_mut().cast(),
            Place::Own(_) | Place::Lent(_) => return &[],
        };
        // SAFETY: the result has this slot or memory alone, and both are that long.
        unsafe { std::slice::from_raw_parts(at, bytes) }
    }
}

impl Drop for RawReceived {
    fn drop(&mut self) {
        if let Place::Slot(slot) = self.output {
            let starts = self.launched.shared.change(|state| {
                state.release(slot);
                state.start()
            });
            // An engine that has ended handles nothing more; the next call says so.
            let _ = self.launched.start(starts);
        }
    }
}
