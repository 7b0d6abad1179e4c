//! `Exit` and `Exits`: how processes ended and what they wrote.

use std::sync::Arc;

use everwarp::process::{self, Captured, ExitStatus, Pid};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// How a process ended, what it used and what it wrote.
#[pyclass(frozen, module = "everwarp")]
pub(crate) struct Exit {
    all: Arc<Vec<(Pid, process::Exit)>>,
    number: usize,
}

/// How processes that were started together ended, in the order of their numbers.
#[pyclass(frozen, sequence, module = "everwarp")]
pub(crate) struct Exits {
    all: Arc<Vec<(Pid, process::Exit)>>,
}

fn bytes<'py>(py: Python<'py>, captured: Option<&Captured>) -> Bound<'py, PyBytes> {
    PyBytes::new(py, captured.map_or(&[], |captured| &captured.bytes))
}

/// The number that stands for a status in `Exits.codes`: that of a shell for a process which did not exit by itself.
fn code(status: &ExitStatus) -> i64 {
    match status {
        ExitStatus::Exited(code) => i64::from(*code),
        _ => -1,
    }
}

impl Exit {
    fn inner(&self) -> &process::Exit {
        &self.all[self.number].1
    }
}

#[pymethods]
impl Exit {
    /// The pid that the process had.
    #[getter]
    fn pid(&self) -> String {
        self.all[self.number].0.to_string()
    }

    /// The number of the process among those that were started together, from 0.
    #[getter]
    fn number(&self) -> usize {
        self.number
    }

    /// Whether the process exited by itself with code 0.
    #[getter]
    fn success(&self) -> bool {
        self.inner().success()
    }

    /// The exit code; `None` if the process did not exit by itself.
    #[getter]
    fn code(&self) -> Option<u32> {
        self.inner().status.code()
    }

    /// Why the process ended: `exited`, `trapped`, `killed`, `out of fuel` or `out of memory`.
    #[getter]
    fn reason(&self) -> &'static str {
        match self.inner().status {
            ExitStatus::Exited(_) => "exited",
            ExitStatus::Trapped(_) => "trapped",
            ExitStatus::Killed => "killed",
            ExitStatus::OutOfFuel => "out of fuel",
            ExitStatus::OutOfMemory { .. } => "out of memory",
            _ => "other",
        }
    }

    /// The same with all that is known, as the command prints it.
    #[getter]
    fn status(&self) -> String {
        self.inner().status.to_string()
    }

    /// The kind of the trap and the function that trapped; `None` if the process did not trap.
    #[getter]
    fn trap(&self) -> Option<(String, Option<String>)> {
        match &self.inner().status {
            ExitStatus::Trapped(trap) => Some((trap.kind.to_string(), trap.function.clone())),
            _ => None,
        }
    }

    /// The fuel that it used; `None` where fuel is not counted.
    #[getter]
    fn fuel_used(&self) -> Option<u64> {
        self.inner().fuel_used
    }

    /// Seconds from its start to its end.
    #[getter]
    fn elapsed(&self) -> f64 {
        self.inner().elapsed.as_secs_f64()
    }

    /// What it wrote to standard output.
    #[getter]
    fn stdout<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, self.inner().stdout.as_ref())
    }

    /// What it wrote to standard error.
    #[getter]
    fn stderr<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, self.inner().stderr.as_ref())
    }

    /// Whether it tried to write more than was kept; such a write fails for the process with `ENOSPC`.
    #[getter]
    fn output_refused(&self) -> bool {
        let refused = |captured: &Option<Captured>| captured.as_ref().is_some_and(|c| c.refused);
        refused(&self.inner().stdout) || refused(&self.inner().stderr)
    }

    fn __repr__(&self) -> String {
        let exit = self.inner();
        let stdout = exit.stdout_bytes();
        let shown = String::from_utf8_lossy(&stdout[..stdout.len().min(40)]);
        let dots = if stdout.len() > 40 { "..." } else { "" };
        format!("<everwarp.Exit {}: {shown:?}{dots}>", exit.status)
    }
}

impl Exits {
    pub(crate) fn new(all: Arc<Vec<(Pid, process::Exit)>>) -> Self {
        Self { all }
    }

    fn list<'py>(
        &self,
        py: Python<'py>,
        stream: fn(&process::Exit) -> Option<&Captured>,
    ) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.all.iter().map(|(_, exit)| bytes(py, stream(exit))))
    }
}

#[pymethods]
impl Exits {
    fn __len__(&self) -> usize {
        self.all.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<Exit> {
        let len = self.all.len();
        let number = if index < 0 {
            index + len as isize
        } else {
            index
        };
        match usize::try_from(number) {
            Ok(number) if number < len => Ok(Exit {
                all: Arc::clone(&self.all),
                number,
            }),
            _ => Err(PyIndexError::new_err(format!(
                "there are {len} processes, and none has the number {index}"
            ))),
        }
    }

    /// What each process wrote to standard output.
    #[getter]
    fn stdout<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.list(py, |exit| exit.stdout.as_ref())
    }

    /// What each process wrote to standard error.
    #[getter]
    fn stderr<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.list(py, |exit| exit.stderr.as_ref())
    }

    /// What all processes wrote to standard output, one after the other.
    fn joined<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let parts = || self.all.iter().map(|(_, exit)| exit.stdout_bytes());
        PyBytes::new_with(py, parts().map(<[u8]>::len).sum(), |mut to| {
            for part in parts() {
                let (now, rest) = to.split_at_mut(part.len());
                now.copy_from_slice(part);
                to = rest;
            }
            Ok(())
        })
    }

    /// The exit codes; -1 for a process that did not exit by itself.
    #[getter]
    fn codes(&self) -> Vec<i64> {
        self.all
            .iter()
            .map(|(_, exit)| code(&exit.status))
            .collect()
    }

    /// Whether all processes exited by themselves with code 0.
    #[getter]
    fn success(&self) -> bool {
        self.all.iter().all(|(_, exit)| exit.success())
    }

    /// The numbers of the processes that did not exit by themselves with code 0.
    #[getter]
    fn failed(&self) -> Vec<usize> {
        let exits = self.all.iter().enumerate();
        let failed = exits.filter(|(_, (_, exit))| !exit.success());
        failed.map(|(number, _)| number).collect()
    }

    fn __repr__(&self) -> String {
        let succeeded = self.all.iter().filter(|(_, exit)| exit.success()).count();
        format!(
            "<everwarp.Exits of {} processes, {succeeded} succeeded>",
            self.all.len()
        )
    }
}
