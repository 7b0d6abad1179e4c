//! Names, timers, monitors and dead letters of actors.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everwarp::actor::{self, ActorError, ActorId, Ending, TimerId};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::actors::{ActorSystem, Held, Names, actor_error, row, words};
use crate::owner::Owner;
use crate::wait::{in_slices, seconds};

/// Gives an actor a name.
#[pyfunction]
pub(crate) fn register(
    py: Python<'_>,
    system: &ActorSystem,
    name: &str,
    actor: u64,
) -> PyResult<()> {
    let running = system.free(py)?;
    let registered = py.detach(|| running.system.register(name, ActorId::from_bits(actor)));
    registered.map_err(|error| match error {
        ActorError::NameTaken { .. } => PyValueError::new_err(error.to_string()),
        error => actor_error(&running, &error),
    })
}

/// Takes a name away. Returns whether an actor had it.
#[pyfunction]
pub(crate) fn unregister(py: Python<'_>, system: &ActorSystem, name: &str) -> PyResult<bool> {
    let actor = system.with(py, |running| running.system.unregister(name))?;
    Ok(!actor.is_none())
}

/// The id of the actor with a name.
#[pyfunction]
pub(crate) fn lookup(py: Python<'_>, system: &ActorSystem, name: &str) -> PyResult<Option<u64>> {
    let actor = system.with(py, |running| running.system.lookup(name))?;
    Ok((!actor.is_none()).then(|| actor.bits()))
}

/// Links two actors, or ends their link.
#[pyfunction]
pub(crate) fn link(
    py: Python<'_>,
    system: &ActorSystem,
    one: u64,
    other: u64,
    linked: bool,
) -> PyResult<()> {
    let (one, other) = (ActorId::from_bits(one), ActorId::from_bits(other));
    system.with(py, |running| match linked {
        true => running.system.link(one, other),
        false => running.system.unlink(one, other),
    })
}

/// A timer of an actor.
#[pyclass(frozen, module = "everwarp._native")]
pub(crate) struct ActorTimer {
    held: Held,
    timer: TimerId,
}

#[pymethods]
impl ActorTimer {
    /// Cancels the timer. Returns whether a message was still to come; it does not come any more.
    fn cancel(&self, py: Python<'_>) -> PyResult<bool> {
        let running = self.held.get()?;
        let cancelled = py.detach(|| running.system.cancel(self.timer));
        cancelled.map_err(|error| actor_error(&running, &error))
    }
}

/// Sends an actor a message after some seconds, or each time that they have passed.
#[pyfunction]
pub(crate) fn timer(
    py: Python<'_>,
    system: &ActorSystem,
    actor: u64,
    message: &str,
    columns: Vec<PyBuffer<u64>>,
    time: f64,
    repeats: bool,
) -> PyResult<ActorTimer> {
    let time = Duration::try_from_secs_f64(time);
    let time =
        time.map_err(|_| PyValueError::new_err("a time is a number of seconds from 0 up"))?;
    if repeats && time.is_zero() {
        return Err(PyValueError::new_err("a period is longer than 0 seconds"));
    }
    let columns = words(py, &columns)?;
    let running = system.free(py)?;
    let timer = py.detach(|| {
        let (row, fields) = row(&columns, 0);
        let words = &row[..fields];
        if fields > actor::MAX_ASK_WORDS {
            return Err(PyValueError::new_err(format!(
                "a message of a timer has up to {} fields, and {message} has {fields}",
                actor::MAX_ASK_WORDS
            )));
        }
        let system = &running.system;
        let started = system.message(message).and_then(|message| {
            let to = ActorId::from_bits(actor);
            match repeats {
                true => system.every(to, time, message.tag, words),
                false => system.after(to, time, message.tag, words),
            }
        });
        started.map_err(|error| actor_error(&running, &error))
    })?;
    let held = Held::of(&running);
    Ok(ActorTimer { held, timer })
}

/// A monitor of an actor.
#[pyclass(frozen, module = "everwarp._native")]
pub(crate) struct ActorMonitor(Mutex<(actor::Monitor, Option<&'static str>)>, Owner);

#[pymethods]
impl ActorMonitor {
    /// Waits until the actor has ended. Returns how; nothing when the time is over.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<&'static str>> {
        let timeout = seconds(timeout)?;
        self.1.check()?;
        in_slices(py, timeout, |slice| {
            let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if own.1.is_none() {
                own.1 = own.0.ended_within(slice).map(ending);
            }
            Ok(own.1)
        })
    }
}

const fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Stopped => "stopped",
        Ending::Failed => "failed",
        Ending::Killed => "killed",
        Ending::Unknown => "unknown",
    }
}

/// Monitors an actor.
#[pyfunction]
pub(crate) fn monitor(py: Python<'_>, system: &ActorSystem, actor: u64) -> PyResult<ActorMonitor> {
    let actor = ActorId::from_bits(actor);
    let monitor = system.with(py, |running| running.system.monitor(actor))?;
    Ok(ActorMonitor(Mutex::new((monitor, None)), Owner::here()))
}

/// A subscription to dead letters.
#[pyclass(frozen, module = "everwarp._native")]
pub(crate) struct DeadLetters {
    letters: Mutex<actor::DeadLetters>,
    names: Arc<Names>,
    held: Held,
}

/// The reason, the receiver, the sender, the name of the message, and its words.
type Letter = (String, u64, u64, Option<String>, Vec<u64>);

#[pymethods]
impl DeadLetters {
    /// The next dead letter; nothing when the time is over.
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Letter>> {
        let timeout = seconds(timeout)?;
        let names = &self.names;
        in_slices(py, timeout, |slice| {
            let letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
            let letter = letters.next_within(slice);
            // Those that came before the engine was closed are there.
            if letter.is_none() {
                drop(self.held.get()?);
            }
            Ok(letter.map(|letter| {
                let message = letter.message;
                (
                    letter.reason.to_string(),
                    letter.to.bits(),
                    message.from().bits(),
                    names.of(message.tag()),
                    message.words().to_vec(),
                )
            }))
        })
    }
    /// How many were lost because the subscription was full.
    #[getter]
    fn lost(&self) -> PyResult<u64> {
        self.held.owner().check()?;
        let letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(letters.lost())
    }
}

/// Subscribes to the dead letters of a class.
#[pyfunction]
pub(crate) fn dead_letters(
    py: Python<'_>,
    system: &ActorSystem,
    most: usize,
) -> PyResult<DeadLetters> {
    if most == 0 {
        return Err(PyValueError::new_err(
            "a subscription has room for one dead letter at least",
        ));
    }
    let running = system.free(py)?;
    let letters = running.system.dead_letters(most);
    let letters = letters.map_err(|error| actor_error(&running, &error))?;
    Ok(DeadLetters {
        letters: Mutex::new(letters),
        names: running.names.clone(),
        held: Held::of(&running),
    })
}
