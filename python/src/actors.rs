//! `ActorSystem`: actors whose kinds are classes of Python, compiled to WebAssembly.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use everwarp::actor::{
    self, ActorConfig, ActorError, ActorId, ActorModule, ActorProgram, Column, Kind, program_with,
};
use everwarp::{Device, EngineKind, Pools, Select};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::engine::{Engine, Open};
use crate::errors::{
    ActorFailed, ActorGone, DeviceError, EngineClosed, EngineLost, LoadFailed, StartFailed,
};
use crate::owner::Owner;
use crate::wait::{in_slices, seconds, with_a_word};

/// How many messages are sent at a time: several parts, since a GPU takes one while the next one is written. Signals are looked at in
/// between.
const BATCH: usize = 1 << 18;
/// How many asks there are between looks at signals: as many as are under way together.
const ASKS: usize = 1 << 11;
/// The kind of streams and topics, which comes after the classes. No class has this name.
const HOST_KIND_NAME: &str = "host of a stream or topic";

/// What runs the actors. Fields are dropped in this order.
pub(crate) struct Running {
    pub(crate) system: actor::ActorSystem,
    _engine: everwarp::Engine,
    /// Messages that the host has sent since all had been handled.
    told: AtomicU64,
    /// How many waits until all messages are handled are under way, also those that Ctrl-C has left.
    settling: Mutex<u32>,
    settled: Condvar,
    /// The kind of streams and topics.
    pub(crate) host_kind: u32,
    capacity: u32,
    messages: u32,
    pub(crate) names: Arc<Names>,
}

/// The tags and names of messages.
pub(crate) struct Names(Vec<(u8, String)>);

impl Names {
    /// The name of the message with this tag.
    pub(crate) fn of(&self, tag: u8) -> Option<String> {
        let found = self.0.iter().find(|(number, _)| *number == tag);
        found.map(|(_, name)| name.clone())
    }
}

/// The actors of an object that does not keep them alive when their engine is closed.
pub(crate) struct Held {
    running: Weak<Running>,
    owner: Owner,
}

impl Held {
    pub(crate) fn of(running: &Arc<Running>) -> Self {
        Self {
            running: Arc::downgrade(running),
            owner: Owner::here(),
        }
    }
    /// What runs the actors, unless the engine is closed or this is the child of a fork.
    pub(crate) fn get(&self) -> PyResult<Arc<Running>> {
        self.owner.check()?;
        self.running.upgrade().ok_or_else(closed)
    }
    /// The process that has made the object.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }
}

fn closed() -> PyErr {
    EngineClosed::new_err("the engine of these actors is closed: use them inside its `with` block")
}

impl Running {
    pub(crate) fn settling(&self) -> MutexGuard<'_, u32> {
        self.settling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The actors of a program on an engine: its kinds are classes.
#[pyclass(frozen, subclass, module = "everwarp._native")]
pub(crate) struct ActorSystem {
    running: Mutex<Option<Arc<Running>>>,
    on: &'static str,
    why: String,
    owner: Owner,
}

/// Where the actors of a program run.
enum Place {
    /// On the engine's own device.
    Own,
    /// On the CPU engine, next to a GPU that the engine has chosen by itself.
    Cpu(Device),
}

/// Where a program runs, and why.
fn place_of(open: &mut Open, program: &ActorProgram) -> PyResult<(Place, String)> {
    let why_not = match open.device.kind() {
        EngineKind::Cpu => return Ok((Place::Own, "the engine is the CPU engine".to_owned())),
        EngineKind::Cuda => match program.not_on_cuda() {
            None if !open.is_free() => {
                "the GPU has processes, programs, ring kernels or other actors".to_owned()
            }
            None => {
                let why = "the GPU runs all classes of the program".to_owned();
                return Ok((Place::Own, why));
            }
            Some((class, why)) => format!("`{class}` does not run on a GPU, because {why}"),
        },
        kind => format!("actors of Python classes do not run on the engine {kind} yet"),
    };
    if !open.auto {
        return Err(StartFailed::new_err(format!(
            "these actors run on the CPU engine only: {why_not}; make the engine with everwarp.engine(), which runs them on \
             the CPU, or with everwarp.engine(\"cpu\")"
        )));
    }
    Ok((Place::cpu()?, why_not))
}

impl Place {
    fn cpu() -> PyResult<Self> {
        let device = Device::open(Select::Cpu).map_err(|e| DeviceError::new_err(e.to_string()))?;
        Ok(Self::Cpu(device))
    }

    /// As [`start`](Self::start). If that takes long, because a GPU's compiler does, it says so on a terminal.
    fn start_with_a_word(
        &self,
        open: &Open,
        program: &ActorProgram,
        capacity: u32,
    ) -> Result<everwarp::Engine, everwarp::Error> {
        let compiles = matches!(self, Self::Own) && open.device.kind() != EngineKind::Cpu;
        with_a_word(compiles, "these classes", || {
            self.start(open, program, capacity)
        })
    }

    /// Starts an engine with the program there.
    fn start(
        &self,
        open: &Open,
        program: &ActorProgram,
        capacity: u32,
    ) -> Result<everwarp::Engine, everwarp::Error> {
        let pools = Pools::default();
        let tasks = pools.tasks.max(capacity);
        let builder = match self {
            Self::Cpu(device) => device.engine(),
            Self::Own => open.device.engine(),
        };
        let mut builder = builder
            .program(program.program())
            .pools(Pools { tasks, ..pools });
        // On a GPU the size is a number of blocks.
        if let (Some(size), Self::Own) = (open.size, self) {
            builder = builder.size(size);
        }
        builder.start()
    }
}

impl ActorSystem {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What runs the actors, unless the engine is closed or this is the child of a fork.
    pub(crate) fn running(&self) -> PyResult<Arc<Running>> {
        self.owner.check()?;
        self.lock().clone().ok_or_else(closed)
    }

    /// What runs the actors, when nothing waits until they have handled all messages. Ctrl-C ends this wait.
    pub(crate) fn free(&self, py: Python<'_>) -> PyResult<Arc<Running>> {
        let running = self.running()?;
        let waits = |running: &Running, slice: Duration| {
            let settling = running.settling();
            let busy = |settling: &mut u32| *settling > 0;
            let waited = running.settled.wait_timeout_while(settling, slice, busy);
            waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
        };
        if *running.settling() > 0 {
            in_slices(
                py,
                None,
                |slice| Ok((!waits(&running, slice)).then_some(())),
            )?;
        }
        Ok(running)
    }

    /// Does something with the system, without the interpreter's lock.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Running) -> Result<T, ActorError> + Send,
    ) -> PyResult<T> {
        let running = self.free(py)?;
        py.detach(|| work(&running).map_err(|error| actor_error(&running, &error)))
    }

    /// Waits until all messages have been handled. Ctrl-C ends the wait, which goes on in a thread of its own until then.
    fn settled(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.free(py)?;
        let (sender, receiver) = channel();
        let own = running.clone();
        let settle = move || {
            let told = own.told.load(Ordering::Relaxed);
            let settled = own.system.settle();
            // Another wait may have taken them off.
            let rest = |now: u64| Some(now.saturating_sub(told));
            let _ = own
                .told
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
            *own.settling() -= 1;
            own.settled.notify_all();
            // The receiver is gone after Ctrl-C.
            let _ = sender.send(settled.map(drop).map_err(|error| actor_error(&own, &error)));
        };
        *running.settling() += 1;
        let thread = std::thread::Builder::new().name("everwarp-settle".to_owned());
        if let Err(error) = thread.spawn(settle) {
            *running.settling() -= 1;
            return Err(StartFailed::new_err(format!(
                "a thread cannot be started: {error}"
            )));
        }
        let lost = || EngineLost::new_err("the thread that waited for the actors has failed");
        let settled = in_slices(py, None, move |slice| match receiver.recv_timeout(slice) {
            Ok(settled) => settled.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(lost()),
        })?;
        settled.ok_or_else(lost)
    }

    /// Keeps the host from using up all messages, which would end the engine: it sends at most half as many as there are
    /// before it waits until they have been handled.
    fn room(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        let running = self.running()?;
        let told = running.told.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        if told > u64::from(running.messages / 2) {
            drop(running);
            self.settled(py)?;
        }
        Ok(())
    }
}

impl Drop for ActorSystem {
    fn drop(&mut self) {
        // The threads of the engine do not exist in the child of a fork, which cannot end them.
        if self.owner.is_forked() {
            std::mem::forget(self.lock().take());
        }
    }
}

/// The exception for an error, with the reason of the actor's own failure if it is known.
pub(crate) fn actor_error(running: &Running, error: &ActorError) -> PyErr {
    match error {
        ActorError::Gone { actor } => {
            ActorGone::new_err(format!("{error}{}", reason_of(running, *actor)))
        }
        ActorError::OutOfMessages { limit, longest, .. } => EngineLost::new_err(format!(
            "all {limit} messages of this program are in use, and its actors have ended: {longest}; spawn with a larger \
             `messages`, or decorate the class with a smaller `mailbox`"
        )),
        ActorError::TooManyActors { limit } => StartFailed::new_err(format!(
            "there is room for {limit} actors of this program with its streams and topics, and all are there: end some, or \
             give the first `spawn` of one of its classes a larger `capacity`"
        )),
        ActorError::NoServices { what, .. } => StartFailed::new_err(format!(
            "{what} are on the CPU engine only, and these actors run on a GPU: make the engine with \
             everwarp.engine(\"cpu\")"
        )),
        ActorError::Supervised { .. } | ActorError::NoGroup { .. } => {
            PyValueError::new_err(error.to_string())
        }
        ActorError::Engine(_) => EngineLost::new_err(error.to_string()),
        ActorError::Timeout { .. } | ActorError::Full { .. } => {
            pyo3::exceptions::PyTimeoutError::new_err(error.to_string())
        }
        error => StartFailed::new_err(error.to_string()),
    }
}

/// Why an actor failed, if that is known.
fn reason_of(running: &Running, actor: ActorId) -> String {
    let (failures, _) = running.system.failures();
    let found = failures.into_iter().rev().find(|f| f.actor == actor);
    found.map_or_else(String::new, |failure| format!(" ({})", failure.reason))
}

/// Asks one actor, and returns the first word of its reply.
fn ask(
    running: &Running,
    actor: ActorId,
    tag: u8,
    words: &[u64],
    within: Option<Duration>,
) -> PyResult<u64> {
    let reply = match within {
        None => running.system.ask(actor, tag, words),
        Some(within) => running.system.ask_within(actor, tag, words, within),
    };
    first_word(running, actor, reply)
}

/// The first word of a reply.
pub(crate) fn first_word(
    running: &Running,
    actor: ActorId,
    reply: Result<actor::Message, ActorError>,
) -> PyResult<u64> {
    match reply {
        Ok(reply) => Ok(reply.word(0)),
        Err(error) => Err(reply_error(running, actor, &error)),
    }
}

/// The exception for an ask without a reply, with the reason of the actor's own failure if it is known.
pub(crate) fn reply_error(running: &Running, actor: ActorId, error: &ActorError) -> PyErr {
    match error {
        ActorError::NoReply { reason } => {
            let why = reason_of(running, actor);
            ActorFailed::new_err(format!("the ask has no reply: {reason}{why}"))
        }
        error => actor_error(running, error),
    }
}

#[pymethods]
impl ActorSystem {
    /// Starts a system for up to `capacity` actors of the kinds of these modules, for which up to `messages` messages wait.
    #[new]
    fn new(
        py: Python<'_>,
        engine: &Engine,
        name: &str,
        modules: Vec<(String, Vec<u8>)>,
        capacity: u32,
        messages: u32,
    ) -> PyResult<Self> {
        py.detach(|| {
            let mut open = engine.open()?;
            let refused = |e: actor::ModuleError| LoadFailed::new_err(e.to_string());
            let modules = modules.into_iter();
            let modules = modules
                .map(|(kind, wasm)| ActorModule::new(kind, wasm).map_err(refused))
                .collect::<PyResult<Vec<_>>>()?;
            // Names, timers, monitors and dead letters are the program's wish, which may come at any time.
            let host_kind = modules.len() as u32;
            let program = program_with(name, &modules, vec![Kind::host(HOST_KIND_NAME)]);
            let program = program.map_err(refused)?.services();
            let (mut place, mut why) = place_of(&mut open, &program)?;
            let names = program.messages().map(|m| (m.tag, m.name.to_string()));
            let names = Arc::new(Names(names.collect()));
            let mut started = place.start_with_a_word(&open, &program, capacity);
            let on_gpu = matches!(place, Place::Own) && open.device.kind() != EngineKind::Cpu;
            if let (Err(error), true) = (&started, on_gpu && open.auto) {
                // Such as a GPU without the compiler that it needs.
                (place, why) = (
                    Place::cpu()?,
                    format!("the GPU does not start them: {error}"),
                );
                started = place.start(&open, &program, capacity);
            }
            let engine = started.map_err(|e| StartFailed::new_err(e.to_string()))?;
            let config = ActorConfig {
                actors: capacity,
                messages,
                ..ActorConfig::default()
            };
            let system = actor::ActorSystem::start(&engine, &program, config)
                .map_err(|e| StartFailed::new_err(e.to_string()))?;
            let on_gpu = engine.kind() != EngineKind::Cpu;
            let running = Arc::new(Running {
                system,
                _engine: engine,
                told: AtomicU64::new(0),
                settling: Mutex::new(0),
                settled: Condvar::new(),
                host_kind,
                capacity,
                messages,
                names,
            });
            if on_gpu {
                open.actors = Arc::downgrade(&running);
            }
            Ok(Self {
                running: Mutex::new(Some(running)),
                on: if on_gpu { "the GPU" } else { "the CPU engine" },
                why,
                owner: Owner::here(),
            })
        })
    }

    /// Where these actors run.
    #[getter]
    fn on(&self) -> &str {
        self.on
    }

    /// Why these actors run there.
    #[getter]
    fn why(&self) -> &str {
        &self.why
    }

    /// Launches actors of a kind and returns their ids: all of them, or none.
    fn launch<'py>(
        &self,
        py: Python<'py>,
        kind: u32,
        count: usize,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let (mut ids, capacity) = self.with(py, |running| {
            let mut ids = running.system.launch_up_to(kind, count)?;
            if ids.len() < count {
                running.system.kill(&ids)?;
                ids.clear();
            }
            Ok((ids, running.capacity))
        })?;
        if ids.len() < count {
            return Err(StartFailed::new_err(format!(
                "there is room for {capacity} actors of this program, and {count} more do not fit: end some, or give the \
                 first `spawn` of one of its classes a larger `capacity`"
            )));
        }
        // Messages in the order of ids reach neighbours one after the other.
        ids.sort_unstable();
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.bits().to_ne_bytes()).collect();
        Ok(PyByteArray::new(py, &bytes))
    }

    /// Sends a message to each actor. A column has a word for each, or one for all.
    fn tell(
        &self,
        py: Python<'_>,
        ids: PyBuffer<u64>,
        message: &str,
        columns: Vec<PyBuffer<u64>>,
    ) -> PyResult<()> {
        let (ids, columns) = (Words::new(py, ids)?, Words::all(py, columns)?);
        // No more than may be under way, so that the host does not use up all messages.
        let batch = (self.running()?.messages as usize / 2).clamp(1, BATCH);
        for first in (0..ids.len()).step_by(batch) {
            let some = first..ids.len().min(first + batch);
            self.room(py, some.len())?;
            let to = actors(ids.copy(py, some.clone()));
            let parts = columns.iter().map(|column| match column.len() {
                1 => column.copy(py, 0..1),
                _ => column.copy(py, some.clone()),
            });
            let parts: Vec<_> = parts.collect();
            let columns = part(&parts, 0, to.len());
            self.with(py, |running| {
                let tag = running.system.message(message)?.tag;
                running.system.tell_columns(&to, tag, &columns)
            })?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Asks one actor, and returns the first word of its reply.
    fn ask(
        &self,
        py: Python<'_>,
        id: u64,
        message: &str,
        columns: Vec<PyBuffer<u64>>,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        let within = seconds(timeout)?;
        let columns = words(py, &columns)?;
        let running = self.free(py)?;
        let word = py.detach(|| {
            let tag = running.system.message(message).map(|message| message.tag);
            let tag = tag.map_err(|error| actor_error(&running, &error))?;
            let (row, fields) = row(&columns, 0);
            ask(
                &running,
                ActorId::from_bits(id),
                tag,
                &row[..fields],
                within,
            )
        });
        py.check_signals()?;
        word
    }

    /// Asks each actor, and returns the first word of each reply as bytes. Those that are under way together have `timeout`
    /// seconds.
    fn ask_all<'py>(
        &self,
        py: Python<'py>,
        ids: PyBuffer<u64>,
        message: &str,
        columns: Vec<PyBuffer<u64>>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let within = seconds(timeout)?;
        let (ids, columns) = (actors(ids.to_vec(py)?), words(py, &columns)?);
        let tag = self.with(py, |running| Ok(running.system.message(message)?.tag))?;
        let mut replies = Vec::with_capacity(8 * ids.len());
        for (number, ids) in ids.chunks(ASKS).enumerate() {
            let columns = part(&columns, number * ASKS, ids.len());
            let running = self.free(py)?;
            py.detach(|| {
                let system = &running.system;
                let within = within.unwrap_or(system.patience());
                let asked = system.ask_columns(ids, tag, &columns, within);
                let asked =
                    asked.map_err(|(number, error)| reply_error(&running, ids[number], &error))?;
                replies.extend(asked.iter().flat_map(|reply| reply.word(0).to_ne_bytes()));
                Ok::<_, PyErr>(())
            })?;
            py.check_signals()?;
        }
        Ok(PyByteArray::new(py, &replies))
    }

    /// Waits until all messages have been handled.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        self.settled(py)
    }

    /// Ends actors once they have handled what is in their mailboxes.
    fn stop(&self, py: Python<'_>, ids: PyBuffer<u64>) -> PyResult<()> {
        let ids = actors(ids.to_vec(py)?);
        self.with(py, |running| running.system.stop(&ids).map(drop))
    }

    /// Ends actors now.
    fn kill(&self, py: Python<'_>, ids: PyBuffer<u64>) -> PyResult<()> {
        let ids = actors(ids.to_vec(py)?);
        self.with(py, |running| running.system.kill(&ids).map(drop))
    }

    /// Makes actors keep their messages and handle none, or handle them again. Returns how many of them did not live.
    fn set_active(&self, py: Python<'_>, ids: PyBuffer<u64>, active: bool) -> PyResult<u64> {
        let ids = actors(ids.to_vec(py)?);
        self.with(py, |running| match active {
            true => running.system.activate(&ids),
            false => running.system.deactivate(&ids),
        })
    }

    /// The actor of a kind with a key.
    fn at(&self, py: Python<'_>, kind: u32, key: u64) -> PyResult<u64> {
        self.with(py, |running| {
            running.system.at(kind, key).map(ActorId::bits)
        })
    }

    /// Why actors failed, the oldest first: up to 64 reasons, and how many failures there were.
    fn failures(&self, py: Python<'_>) -> PyResult<(Vec<String>, u64)> {
        self.with(py, |running| {
            let (failures, count) = running.system.failures();
            Ok((failures.into_iter().map(|f| f.reason).collect(), count))
        })
    }

    /// Ends the actors. Doing so again does nothing.
    fn close(&self, py: Python<'_>) {
        if !self.owner.is_forked() {
            py.detach(|| {
                let running = self.lock().take();
                drop(running);
            });
        }
    }
}

/// Rows of the columns: `count` from `first` on.
fn part(columns: &[Vec<u64>], first: usize, count: usize) -> Vec<Column<'_>> {
    let columns = columns.iter();
    columns
        .map(|column| match &column[..] {
            [all] => Column::All(*all),
            each => Column::Each(&each[first..first + count]),
        })
        .collect()
}

/// Words of a buffer that are copied a part at a time: new memory for all of them would take as long as sending them.
enum Words {
    Buffer(PyBuffer<u64>),
    /// Of one that is not contiguous.
    Copy(Vec<u64>),
}

impl Words {
    fn new(py: Python<'_>, buffer: PyBuffer<u64>) -> PyResult<Self> {
        Ok(match buffer.is_c_contiguous() {
            true => Self::Buffer(buffer),
            false => Self::Copy(buffer.to_vec(py)?),
        })
    }
    fn all(py: Python<'_>, buffers: Vec<PyBuffer<u64>>) -> PyResult<Vec<Self>> {
        let buffers = buffers.into_iter();
        buffers.map(|buffer| Self::new(py, buffer)).collect()
    }
    fn len(&self) -> usize {
        match self {
            Self::Buffer(buffer) => buffer.item_count(),
            Self::Copy(words) => words.len(),
        }
    }
    /// Some of them, as they are now.
    fn copy(&self, _: Python<'_>, some: Range<usize>) -> Vec<u64> {
        assert!(some.end <= self.len());
        match self {
            Self::Buffer(buffer) => {
                let mut words = Vec::with_capacity(some.len());
                // SAFETY: a contiguous buffer has all these words, its owner keeps them while it is exported, and nothing
                // writes to it while the caller has Python's lock.
                unsafe {
                    let from = buffer.buf_ptr().cast::<u64>().add(some.start);
                    std::ptr::copy_nonoverlapping(from, words.as_mut_ptr(), some.len());
                    words.set_len(some.len());
                }
                words
            }
            Self::Copy(words) => words[some].to_vec(),
        }
    }
}

/// In place: they have one layout.
pub(crate) fn actors(ids: Vec<u64>) -> Vec<ActorId> {
    ids.into_iter().map(ActorId::from_bits).collect()
}

pub(crate) fn words(py: Python<'_>, columns: &[PyBuffer<u64>]) -> PyResult<Vec<Vec<u64>>> {
    columns.iter().map(|column| column.to_vec(py)).collect()
}

/// The words for an actor, its own or those for all, and how many there are.
pub(crate) fn row(columns: &[Vec<u64>], number: usize) -> ([u64; actor::MAX_WORDS], usize) {
    let mut row = [0; actor::MAX_WORDS];
    for (word, column) in row.iter_mut().zip(columns) {
        *word = match column[..] {
            [all] => all,
            ref each => each[number],
        };
    }
    (row, columns.len())
}
