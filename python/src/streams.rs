//! Topics, and streams between actors and the program.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everwarp::actor::{self, ActorError, ActorId, Slow};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::actors::{ActorSystem, Held, Names, actor_error, actors, row, words};
use crate::errors::ActorGone;
use crate::wait::{in_slices, seconds};

/// How many messages go into a stream between looks at signals.
const BATCH: usize = 1024;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn credits(count: usize) -> PyResult<usize> {
    match count {
        0 => Err(PyValueError::new_err("a stream has one credit at least")),
        count => Ok(count),
    }
}

/// A stream whose end tells its actor, which the child of a fork must not do.
struct Stream<T> {
    stream: Mutex<Option<Arc<T>>>,
    held: Held,
}

impl<T: Send + Sync> Stream<T> {
    fn new(stream: T, held: Held) -> Self {
        Self {
            stream: Mutex::new(Some(Arc::new(stream))),
            held,
        }
    }
    fn get(&self) -> PyResult<Arc<T>> {
        let stream = lock(&self.stream).clone();
        stream.ok_or_else(|| ActorGone::new_err("the stream was closed"))
    }
    /// The stream, unless the engine is closed or this is the child of a fork.
    fn open(&self) -> PyResult<Arc<T>> {
        self.held.get()?;
        self.get()
    }
    fn close(&self, py: Python<'_>) {
        let stream = lock(&self.stream).take();
        match self.held.owner().is_forked() {
            true => std::mem::forget(stream),
            false => py.detach(|| drop(stream)),
        }
    }
}

impl<T> Drop for Stream<T> {
    fn drop(&mut self) {
        if self.held.owner().is_forked() {
            std::mem::forget(lock(&self.stream).take());
        }
    }
}

/// The sender, the name of the message, and its words.
type Received = (u64, Option<String>, Vec<u64>);

/// A stream from actors to the program.
#[pyclass(frozen, module = "everwarp._native")]
pub(crate) struct ActorOutlet {
    stream: Stream<actor::Outlet>,
    names: Arc<Names>,
    id: u64,
}

#[pymethods]
impl ActorOutlet {
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }
    /// The next message; nothing when the time is over, or no more will come.
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Received>> {
        let timeout = seconds(timeout)?;
        if self.stream.held.owner().is_forked() {
            self.stream.open()?;
        }
        let stream = self.stream.get()?;
        let found = in_slices(py, timeout, |slice| match stream.next_within(slice) {
            Some(message) => Ok(Some(Some(message))),
            None if stream.is_closed() => self.stream.held.get().map(|_| Some(None)),
            None => Ok(None),
        })?;
        Ok(found.flatten().map(|message| {
            let name = self.names.of(message.tag());
            (message.from().bits(), name, message.words().to_vec())
        }))
    }
    /// Whether no more messages will come.
    #[getter]
    fn closed(&self) -> PyResult<bool> {
        self.stream.held.owner().check()?;
        let stream = lock(&self.stream.stream).clone();
        Ok(stream.is_none_or(|stream| stream.is_closed()))
    }
    /// Ends its actor; messages that were not taken are gone.
    fn close(&self, py: Python<'_>) {
        self.stream.close(py);
    }
}

/// A stream from actors of a class to the program.
#[pyfunction]
pub(crate) fn outlet(py: Python<'_>, system: &ActorSystem, most: usize) -> PyResult<ActorOutlet> {
    let most = credits(most)?;
    let running = system.free(py)?;
    let kind = running.host_kind;
    let outlet = py.detach(|| running.system.outlet(kind, most));
    let outlet = outlet.map_err(|error| actor_error(&running, &error))?;
    Ok(ActorOutlet {
        id: outlet.id().bits(),
        names: running.names.clone(),
        stream: Stream::new(outlet, Held::of(&running)),
    })
}

/// A stream from the program to an actor.
#[pyclass(frozen, module = "everwarp._native")]
pub(crate) struct ActorInlet(Stream<actor::Inlet>);

#[pymethods]
impl ActorInlet {
    /// Sends messages in their order, each when there is a credit. Returns how many were sent before the time was over.
    fn send(
        &self,
        py: Python<'_>,
        message: &str,
        columns: Vec<PyBuffer<u64>>,
        count: usize,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let timeout = seconds(timeout)?;
        let columns = words(py, &columns)?;
        let (stream, running) = (self.0.open()?, self.0.held.get()?);
        let sent = running.system.message(message).map(|message| message.tag);
        let tag = sent.map_err(|error| actor_error(&running, &error))?;
        drop(running);
        let begin = Instant::now();
        let mut sent = 0;
        while sent < count {
            let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
            let more = in_slices(py, left, |slice| {
                let end = count.min(sent + BATCH);
                while sent < end {
                    let (row, fields) = row(&columns, sent);
                    match stream.send_within(tag, &row[..fields], slice) {
                        Ok(()) => sent += 1,
                        Err(ActorError::Full { .. }) => return Ok(None),
                        Err(error) => {
                            let running = self.0.held.get()?;
                            return Err(actor_error(&running, &error));
                        }
                    }
                }
                Ok(Some(()))
            })?;
            if more.is_none() {
                break;
            }
        }
        Ok(sent)
    }
    /// Waits until the actor's mailbox has all messages. Returns whether it has.
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let timeout = seconds(timeout)?;
        let stream = self.0.open()?;
        let flushed = in_slices(py, timeout, |slice| {
            let flushed = stream.flush_within(slice.min(Duration::from_millis(50)));
            match flushed {
                true => Ok(Some(())),
                false => self.0.held.get().map(|_| None),
            }
        })?;
        Ok(flushed.is_some())
    }
    /// Ends the stream when all that was sent has arrived.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }
}

/// A stream from the program to an actor.
#[pyfunction]
pub(crate) fn inlet(
    py: Python<'_>,
    system: &ActorSystem,
    actor: u64,
    most: usize,
) -> PyResult<ActorInlet> {
    let most = credits(most)?;
    let running = system.free(py)?;
    let to = ActorId::from_bits(actor);
    let kind = running.host_kind;
    let inlet = py.detach(|| running.system.inlet(kind, to, most));
    let inlet = inlet.map_err(|error| actor_error(&running, &error))?;
    Ok(ActorInlet(Stream::new(inlet, Held::of(&running))))
}

/// A topic.
#[pyclass(frozen, module = "everwarp._native")]
pub(crate) struct ActorTopic {
    topic: actor::Topic,
    held: Held,
}

#[pymethods]
impl ActorTopic {
    #[getter]
    fn id(&self) -> u64 {
        self.topic.id().bits()
    }
    /// Subscribes actors, or changes how they subscribe.
    fn subscribe(&self, py: Python<'_>, ids: PyBuffer<u64>, misses: bool) -> PyResult<()> {
        self.held.get()?;
        let slow = match misses {
            true => Slow::Misses,
            false => Slow::Waits,
        };
        let ids = actors(ids.to_vec(py)?);
        py.detach(|| self.topic.subscribe_all(&ids, slow));
        Ok(())
    }
    /// Ends subscriptions. Returns how many there were.
    fn unsubscribe(&self, py: Python<'_>, ids: PyBuffer<u64>) -> PyResult<usize> {
        self.held.get()?;
        let ids = ids.to_vec(py)?;
        let unsubscribe = |id: &&u64| self.topic.unsubscribe(ActorId::from_bits(**id));
        Ok(py.detach(|| ids.iter().filter(unsubscribe).count()))
    }
    /// How many actors subscribe.
    #[getter]
    fn subscribers(&self) -> PyResult<usize> {
        self.held.owner().check()?;
        Ok(self.topic.subscribers())
    }
}

/// A topic for messages of a class.
#[pyfunction]
pub(crate) fn topic(py: Python<'_>, system: &ActorSystem) -> PyResult<ActorTopic> {
    let running = system.free(py)?;
    let kind = running.host_kind;
    let topic = py.detach(|| running.system.topic(kind));
    let topic = topic.map_err(|error| actor_error(&running, &error))?;
    Ok(ActorTopic {
        topic,
        held: Held::of(&running),
    })
}
