//! `Processes`: a handle for processes that were started together.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use everwarp::process::{Children, HostError, Pid};
use pyo3::prelude::*;

use crate::errors::Raise;
use crate::exit::Exits;
use crate::owner::Owner;
use crate::wait::{in_slices, seconds};

type AllExits = Arc<Vec<(Pid, everwarp::process::Exit)>>;
type Finished = Result<AllExits, HostError>;

/// Where the exits arrive.
#[derive(Default)]
struct Collected {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    finished: Option<Finished>,
    /// Functions of Python that are called once, when the last process has exited.
    callbacks: Vec<Py<PyAny>>,
}

impl Collected {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic elsewhere leaves a list of exits that is either there or not.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, timeout: Duration) -> Option<Finished> {
        let waited = (self.changed)
            .wait_timeout_while(self.lock(), timeout, |state| state.finished.is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.finished.clone()
    }

    fn finish(&self, finished: Finished) {
        let callbacks = {
            let mut state = self.lock();
            state.finished = Some(finished);
            std::mem::take(&mut state.callbacks)
        };
        self.changed.notify_all();
        if callbacks.is_empty() {
            return;
        }
        // The interpreter may be about to end; then nothing waits any more.
        Python::try_attach(|py| callbacks.iter().for_each(|callback| call(py, callback)));
    }
}

/// Calls a callback. An exception in it, such as that of a closed event loop, concerns no other waiter.
fn call(py: Python<'_>, callback: &Py<PyAny>) {
    if let Err(error) = callback.call0(py) {
        error.write_unraisable(py, Some(callback.bind(py)));
    }
}

/// Processes that were started together. `wait` returns their exits, and so does `await`.
///
/// Dropping the handle ends no process: they run on until they exit or the engine is closed.
#[pyclass(frozen, module = "everwarp")]
pub(crate) struct Processes {
    pids: Vec<Pid>,
    host: everwarp::process::Host,
    collected: Arc<Collected>,
    owner: Owner,
}

impl Processes {
    /// Takes charge of processes: one thread collects their exits.
    pub(crate) fn new(host: everwarp::process::Host, children: Children) -> std::io::Result<Self> {
        let pids = children.pids().to_vec();
        let collected = Arc::new(Collected::default());
        let to = Arc::clone(&collected);
        let collector = std::thread::Builder::new().name("everwarp-exits".to_owned());
        collector.spawn(move || {
            let mut exits = Vec::with_capacity(children.len());
            let ended = children.wait_each(|pid, exit| exits.push((pid, exit)));
            to.finish(ended.map(|()| Arc::new(exits)));
        })?;
        Ok(Self {
            pids,
            host,
            collected,
            owner: Owner::here(),
        })
    }

    pub(crate) fn wait_for(
        &self,
        py: Python<'_>,
        timeout: Option<Duration>,
    ) -> PyResult<Option<Exits>> {
        self.owner.check()?;
        let collected = &*self.collected;
        let finished = in_slices(py, timeout, |slice| Ok(collected.wait(slice)))?;
        match finished {
            None => Ok(None),
            Some(finished) => Ok(Some(Exits::new(finished.raise()?))),
        }
    }

    pub(crate) fn kill_all(&self) -> PyResult<()> {
        self.owner.check()?;
        for pid in &self.pids {
            self.host.kill(*pid).raise()?;
        }
        Ok(())
    }
}

#[pymethods]
impl Processes {
    fn __len__(&self) -> usize {
        self.pids.len()
    }

    /// The pids, in the order of the processes' numbers, as `SLOT.GENERATION`.
    #[getter]
    fn pids(&self) -> Vec<String> {
        self.pids.iter().map(Pid::to_string).collect()
    }

    /// Waits until all processes have exited. Raises `TimeoutError` if they have not after `timeout` seconds; they run on.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Exits> {
        let exits = self.wait_for(py, seconds(timeout)?)?;
        exits.ok_or_else(|| {
            let after = timeout.unwrap_or_default();
            pyo3::exceptions::PyTimeoutError::new_err(format!(
                "the processes have not ended after {after} s; they run on"
            ))
        })
    }

    /// The exits if all processes have exited, otherwise `None`.
    fn poll(&self, py: Python<'_>) -> PyResult<Option<Exits>> {
        self.wait_for(py, Some(Duration::ZERO))
    }

    /// Asks all processes to end. Those that have exited keep their status.
    fn kill(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.kill_all())
    }

    /// Calls a function once all processes have exited, from another thread, or at once if they have.
    fn add_done_callback(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        self.owner.check()?;
        {
            let mut state = self.collected.lock();
            if state.finished.is_none() {
                state.callbacks.push(callback);
                return Ok(());
            }
        }
        call(py, &callback);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<everwarp.Processes, {} started>", self.pids.len())
    }
}
