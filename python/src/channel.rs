//! `Sender` and `Receiver`: the host's ends of a channel between this program and processes.

use everwarp::process::{self, ChannelEnd, ChannelError};
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::Raise;
use crate::owner::Owner;
use crate::request::copied;
use crate::wait::{in_slices, seconds};

/// The end of a channel that sends.
#[pyclass(frozen, module = "everwarp")]
pub(crate) struct Sender(pub(crate) process::Sender, pub(crate) Owner);

/// The end of a channel that receives.
#[pyclass(frozen, module = "everwarp")]
pub(crate) struct Receiver(pub(crate) process::Receiver, pub(crate) Owner);

/// An end to pass to processes.
#[derive(FromPyObject)]
pub(crate) enum End<'py> {
    Sender(PyRef<'py, Sender>),
    Receiver(PyRef<'py, Receiver>),
}

impl End<'_> {
    pub(crate) fn end(&self) -> ChannelEnd {
        match self {
            Self::Sender(sender) => sender.0.end(),
            Self::Receiver(receiver) => receiver.0.end(),
        }
    }
}

/// `None` instead of the error that the call would have to wait.
fn unless_again<T>(result: Result<T, ChannelError>) -> PyResult<Option<T>> {
    match result {
        Err(ChannelError::Again) => Ok(None),
        result => result.raise().map(Some),
    }
}

fn late(what: &str, timeout: Option<f64>) -> PyErr {
    let after = timeout.unwrap_or_default();
    PyTimeoutError::new_err(format!("the channel is still {what} after {after} s"))
}

#[pymethods]
impl Sender {
    /// Sends a message. While the channel is full it waits for up to `timeout` seconds and then raises `TimeoutError`.
    #[pyo3(signature = (message, timeout=None))]
    fn send(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        self.1.check()?;
        let (message, end) = (copied(message)?, self.0.end());
        let sent = in_slices(py, seconds(timeout)?, |slice| {
            unless_again(end.endpoint().send(&message, Some(slice)))
        })?;
        sent.ok_or_else(|| late("full", timeout))
    }
}

#[pymethods]
impl Receiver {
    /// Receives a message. While the channel is empty it waits for up to `timeout` seconds and then raises
    /// `TimeoutError`; when no sender is left it raises `ChannelClosed`.
    #[pyo3(signature = (timeout=None))]
    fn receive<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        self.1.check()?;
        let receiver = &self.0;
        let received = in_slices(py, seconds(timeout)?, |slice| {
            unless_again(receiver.receive_timeout(slice))
        })?;
        let message = received.ok_or_else(|| late("empty", timeout))?;
        Ok(PyBytes::new(py, &message))
    }
}
