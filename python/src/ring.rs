//! `RingKernel`: a ring kernel whose handler is a function of C.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use everwarp::EngineKind;
use everwarp::buffer::{Lease, Shape, Side, Use};
use everwarp::ring::{
    CFunction, CHandler, CudaHandler, RawKernel, RawReceived, RawRing, Reserved, RingError,
    RingModule, Signature,
};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::engine::{Engine, OnGpu};
use crate::errors::{EngineClosed, LoadFailed, Raise, StartFailed};
use crate::memory::{Buffer, dtype, exported, lease};
use crate::owner::Owner;
use crate::wait::{in_slices, seconds, with_a_word};

/// A ring kernel that was launched.
#[pyclass(frozen, module = "everwarp._native")]
pub(crate) struct RingKernel {
    ring: Mutex<Option<(Arc<RawRing>, Option<OnGpu>)>>,
    input: Signature,
    kind: EngineKind,
    why: String,
    owner: Owner,
}

/// Calls a function of Python once, from any thread.
struct Callback(Py<PyAny>);

impl Wake for Callback {
    fn wake(self: Arc<Self>) {
        // The interpreter may be about to end; then nothing waits any more.
        Python::try_attach(|py| {
            if let Err(error) = self.0.call0(py) {
                error.write_unraisable(py, Some(self.0.bind(py)));
            }
        });
    }
}

impl RingKernel {
    fn lock(&self) -> MutexGuard<'_, Option<(Arc<RawRing>, Option<OnGpu>)>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn ring(&self) -> PyResult<Arc<RawRing>> {
        self.owner.check()?;
        let ring = self.lock().as_ref().map(|(ring, _)| ring.clone());
        ring.ok_or_else(|| {
            EngineClosed::new_err(
                "the engine of this ring kernel is closed: use the kernel inside its `with` block",
            )
        })
    }
    /// Copies a message to where it was given room.
    fn fill(&self, room: &mut Reserved<'_>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let (view, dtype) = exported(message)?;
        let (wanted, shape) = (&self.input, view.shape());
        let to = room.bytes();
        if dtype != wanted.dtype || view.len_bytes() != to.len() {
            let given = Shape::new(shape).raise()?;
            return Err(PyBufferError::new_err(format!(
                "a message of this ring kernel is {wanted}, and {dtype} of the shape {given} was given"
            )));
        }
        // SAFETY: both are that long, and do not overlap: the room is the kernel's.
        unsafe {
            let from = view.buf_ptr().cast::<u8>();
            to.as_mut_ptr().copy_from_nonoverlapping(from, to.len());
        }
        Ok(())
    }
    fn send_in(
        &self,
        py: Python<'_>,
        mut room: Reserved<'_>,
        message: Option<&Bound<'_, PyAny>>,
        slices: (Option<Lease>, Option<Lease>),
    ) -> PyResult<()> {
        if let Some(message) = message {
            self.fill(&mut room, message)?;
        }
        py.detach(|| room.send_slices(slices.0, slices.1)).raise()
    }
}

/// The leases of slices that go through a kernel.
fn slices(
    py: Python<'_>,
    input: Option<&Buffer>,
    output: Option<&Buffer>,
) -> PyResult<(Option<Lease>, Option<Lease>)> {
    let what = "a message to a ring kernel";
    let input = input.map(|b| lease(py, &b.raw, Use::reads(Side::Device), what));
    let input = input.transpose()?;
    let what = "a result of a ring kernel";
    let output = output.map(|b| lease(py, &b.raw, Use::writes(Side::Device), what));
    Ok((input, output.transpose()?))
}

fn bytes<'py>(py: Python<'py>, received: &RawReceived) -> (u64, Bound<'py, PyByteArray>) {
    (received.number(), PyByteArray::new(py, received.bytes()))
}

#[pymethods]
impl RingKernel {
    /// Launches a kernel. Its handler is a module, or else the function at `address`, which stays until `keep` is dropped, and
    /// CUDA C++.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn new(
        engine: &Engine,
        py: Python<'_>,
        name: &str,
        input: (String, Vec<usize>),
        output: (String, Vec<usize>),
        capacity: usize,
        wasm: Option<&[u8]>,
        address: usize,
        cuda: Option<&str>,
        state: Option<&Buffer>,
        keep: Py<PyAny>,
    ) -> PyResult<Self> {
        let signature =
            |(name, shape): (String, Vec<usize>)| Signature::new(dtype(&name)?, &shape).raise();
        let (input, output) = (signature(input)?, signature(output)?);
        let kind = engine.kind;
        let auto = py.detach(|| engine.open().map(|open| open.auto))?;
        // Buffers of an engine that was left to everwarp are the host's.
        let on_gpu = kind == EngineKind::Cuda && (!auto || cuda.is_some() && state.is_none());
        let has_twin = wasm.is_some() || address != 0;
        if !on_gpu && !has_twin {
            return Err(StartFailed::new_err(match cuda {
                Some(_) => format!(
                    "the handler `{name}` has CUDA C++ and no twin, and runs on the CPU here: give it a twin, which is a \
                     function of ctypes or Numba, or make the engine with everwarp.engine(\"cuda\")"
                ),
                None => format!(
                    "the handler of the ring kernel `{name}` has the address 0: pass a function of ctypes or Numba"
                ),
            }));
        }
        let mut why = match kind {
            EngineKind::Cpu => "the engine is the CPU engine",
            _ if on_gpu => "the GPU runs its handler",
            _ if cuda.is_some() => "its state is a buffer of the host",
            _ => "its handler has no CUDA C++",
        }
        .to_owned();
        let what = format!("the state of the ring kernel `{name}`");
        let state = state.map(|b| lease(py, &b.raw, Use::writes(Side::Device), &what));
        let mut state = state.transpose()?;
        let own = |ring: RawRing, on: Option<OnGpu>, kind, why| Self {
            ring: Mutex::new(Some((Arc::new(ring), on))),
            input: input.clone(),
            kind,
            why,
            owner: Owner::here(),
        };
        let refused = |e: everwarp::ring::ModuleError| LoadFailed::new_err(e.to_string());
        if on_gpu {
            let state = state.take();
            let launched = py.detach(|| {
                let handler = match (cuda, wasm) {
                    (Some(text), _) => CudaHandler::new(text),
                    (None, Some(wasm)) => {
                        RingModule::cuda(name, wasm, &input, &output).map_err(refused)?
                    }
                    (None, None) => {
                        return Err(StartFailed::new_err(format!(
                            "the handler `{name}` has no CUDA C++, and this engine is {kind}: give it some with \
                             everwarp.native(twin, cuda=...), or make the engine with everwarp.engine(), which runs it on the \
                             CPU"
                        )));
                    }
                };
                let handler = match state {
                    Some(state) => handler.state(state),
                    None => handler,
                };
                let kernel = RawKernel::for_cuda(name, input.clone(), output.clone(), handler);
                let kernel = kernel.capacity(capacity).raise()?;
                let (engine, on) = engine.open()?.gpu_engine(kernel.cuda_program())?;
                match with_a_word(true, "this ring kernel", || kernel.launch(&engine)) {
                    // The engine goes on. Mostly the CUDA C++ does not compile.
                    Err(RingError::Engine(error)) => Err(StartFailed::new_err(error.to_string())),
                    ring => Ok((ring.raise()?, on)),
                }
            });
            match launched {
                Ok((ring, on)) => return Ok(own(ring, Some(on), kind, why)),
                Err(error) if auto && has_twin => {
                    why = format!("the GPU does not start it: {error}");
                }
                Err(error) => return Err(error),
            }
        }
        let kernel = match wasm {
            Some(wasm) => {
                let module = py.detach(|| RingModule::new(name, wasm, &input, &output));
                RawKernel::new(name, input.clone(), output, module.map_err(refused)?)
            }
            None => {
                // SAFETY: the program says that a function with these parameters is there; `keep` keeps it.
                let handler = unsafe {
                    let function = std::mem::transmute::<usize, CFunction>(address);
                    CHandler::new(function, &input, &output, state, keep)
                };
                RawKernel::new(name, input.clone(), output, handler)
            }
        };
        let ring = py.detach(|| {
            let kernel = kernel.capacity(capacity).raise()?;
            let mut open = engine.open()?;
            kernel.launch(open.ring_engine()?).raise()
        })?;
        Ok(own(ring, None, EngineKind::Cpu, why))
    }
    /// The kind of the engine that runs it.
    #[getter]
    fn kind(&self) -> String {
        self.kind.to_string()
    }
    /// Why it runs there.
    #[getter]
    fn why(&self) -> &str {
        &self.why
    }
    fn activate(&self, py: Python<'_>) -> PyResult<()> {
        let ring = self.ring()?;
        py.detach(|| ring.activate()).raise()
    }
    fn deactivate(&self, py: Python<'_>) -> PyResult<()> {
        let ring = self.ring()?;
        py.detach(|| ring.deactivate()).raise()
    }
    fn terminate(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (ring, limit) = (self.ring()?, seconds(timeout)?);
        let drained = in_slices(py, limit, |slice| match ring.terminate(Some(slice)) {
            Err(RingError::Timeout { .. }) => Ok(None),
            done => done.map(Some).raise(),
        })?;
        drained.ok_or_else(|| {
            let after = timeout.unwrap_or_default();
            pyo3::exceptions::PyTimeoutError::new_err(format!(
                "the ring kernel `{}` has not handled all messages after {after} s; it goes on",
                ring.name()
            ))
        })
    }
    /// Ends the kernel with its engine.
    fn close(&self, py: Python<'_>) {
        if !self.owner.is_forked() {
            let ring = self.lock().take();
            py.detach(|| drop(ring));
        }
    }
    /// Sends a message that is copied, or slices of buffers that are not. Returns whether there was room.
    fn send(
        &self,
        py: Python<'_>,
        message: Option<&Bound<'_, PyAny>>,
        input: Option<&Buffer>,
        output: Option<&Buffer>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        let (ring, limit) = (self.ring()?, seconds(timeout)?);
        let leases = slices(py, input, output)?;
        // Room is mostly there, and then the interpreter's lock stays.
        let mut room = match ring.try_reserve() {
            Ok(room) => Some(room),
            Err(RingError::Full { .. }) => None,
            Err(error) => return Err(error).raise(),
        };
        if room.is_none() && limit != Some(Duration::ZERO) {
            room = in_slices(py, limit, |slice| match ring.reserve(Some(slice)) {
                Err(RingError::Timeout { .. }) => Ok(None),
                room => room.map(Some).raise(),
            })?;
        }
        match room {
            None => Ok(false),
            Some(room) => self.send_in(py, room, message, leases).map(|()| true),
        }
    }
    /// As `send`, at once; without room, `wake` is called when something changes.
    fn send_or_wake(
        &self,
        py: Python<'_>,
        message: Option<&Bound<'_, PyAny>>,
        input: Option<&Buffer>,
        output: Option<&Buffer>,
        wake: Py<PyAny>,
    ) -> PyResult<bool> {
        let ring = self.ring()?;
        let leases = slices(py, input, output)?;
        let waker = Waker::from(Arc::new(Callback(wake)));
        match ring.poll_reserve(&mut Context::from_waker(&waker)) {
            Poll::Pending => Ok(false),
            Poll::Ready(room) => self
                .send_in(py, room.raise()?, message, leases)
                .map(|()| true),
        }
    }
    /// The oldest result with its number, or `None` if there was none in time.
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<(u64, Bound<'py, PyByteArray>)>> {
        let (ring, limit) = (self.ring()?, seconds(timeout)?);
        match ring.try_receive() {
            Err(RingError::Empty { .. }) => {}
            received => return received.map(|r| Some(bytes(py, &r))).raise(),
        }
        let received = in_slices(py, limit, |slice| match ring.receive(Some(slice)) {
            Err(RingError::Timeout { .. }) => Ok(None),
            received => received.map(Some).raise(),
        })?;
        Ok(received.map(|received| bytes(py, &received)))
    }
    /// As `receive`, at once; without a result, `wake` is called when something changes.
    fn receive_or_wake<'py>(
        &self,
        py: Python<'py>,
        wake: Py<PyAny>,
    ) -> PyResult<Option<(u64, Bound<'py, PyByteArray>)>> {
        let ring = self.ring()?;
        let waker = Waker::from(Arc::new(Callback(wake)));
        match ring.poll_receive(&mut Context::from_waker(&waker)) {
            Poll::Pending => Ok(None),
            Poll::Ready(received) => received.map(|r| Some(bytes(py, &r))).raise(),
        }
    }
    /// Messages that wait, results that were not received, messages that began to be handled, that failed, and results that
    /// were received.
    fn stats(&self) -> PyResult<(usize, usize, u64, u64, u64)> {
        let stats = self.ring()?.stats();
        Ok((
            stats.waiting,
            stats.ready,
            stats.started,
            stats.failed,
            stats.received,
        ))
    }
}

impl Drop for RingKernel {
    fn drop(&mut self) {
        // The threads of the engine do not exist in the child of a fork.
        let ring = self.lock().take();
        if self.owner.is_forked() {
            return std::mem::forget(ring);
        }
        // Its engine may wait for a handler that waits for the interpreter's lock.
        Python::try_attach(|py| py.detach(|| drop(ring)));
    }
}
