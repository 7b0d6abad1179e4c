//! The exceptions, which `everwarp/errors.py` declares. Their messages are those of the Rust library.

use everwarp::buffer::BufferError;
use everwarp::process::{ChannelError, HostError, LoadError, SpawnError, StartError};
use everwarp::ring::RingError;
use pyo3::prelude::*;

pyo3::import_exception!(everwarp.errors, ActorFailed);
pyo3::import_exception!(everwarp.errors, ActorGone);
pyo3::import_exception!(everwarp.errors, BufferInUse);
pyo3::import_exception!(everwarp.errors, ChannelClosed);
pyo3::import_exception!(everwarp.errors, ChannelRefused);
pyo3::import_exception!(everwarp.errors, DeviceError);
pyo3::import_exception!(everwarp.errors, EngineClosed);
pyo3::import_exception!(everwarp.errors, EngineError);
pyo3::import_exception!(everwarp.errors, EngineLost);
pyo3::import_exception!(everwarp.errors, ForkedError);
pyo3::import_exception!(everwarp.errors, LoadFailed);
pyo3::import_exception!(everwarp.errors, ProgramError);
pyo3::import_exception!(everwarp.errors, RingEnded);
pyo3::import_exception!(everwarp.errors, RingFailed);
pyo3::import_exception!(everwarp.errors, RingFull);
pyo3::import_exception!(everwarp.errors, SpawnFailed);
pyo3::import_exception!(everwarp.errors, StartFailed);
pyo3::import_exception!(everwarp.errors, WrongEngine);

/// Turns an error of the library into its exception.
pub(crate) trait Raise<T> {
    fn raise(self) -> PyResult<T>;
}

macro_rules! raises {
    ($($error:ty => |$e:ident| $exception:expr;)*) => {$(
        impl<T> Raise<T> for Result<T, $error> {
            fn raise(self) -> PyResult<T> {
                self.map_err(|$e| $exception)
            }
        }
    )*};
}

raises! {
    LoadError => |e| LoadFailed::new_err(e.to_string());
    StartError => |e| match e {
        StartError::Load { .. } => LoadFailed::new_err(e.to_string()),
        e => StartFailed::new_err(e.to_string()),
    };
    SpawnError => |e| match e {
        SpawnError::Host(e) => host_error(&e),
        SpawnError::ForeignEnd => WrongEngine::new_err(e.to_string()),
        e => SpawnFailed::new_err(e.to_string()),
    };
    HostError => |e| host_error(&e);
    BufferError => |e| buffer_error(&e);
    RingError => |e| match &e {
        RingError::Full { .. } => RingFull::new_err(e.to_string()),
        RingError::Failed { .. } => RingFailed::new_err(e.to_string()),
        RingError::Ended { .. } => RingEnded::new_err(e.to_string()),
        RingError::Timeout { .. } | RingError::Empty { .. } => {
            pyo3::exceptions::PyTimeoutError::new_err(e.to_string())
        }
        RingError::NoHandler { .. } => StartFailed::new_err(e.to_string()),
        RingError::OtherEngine { .. } => WrongEngine::new_err(e.to_string()),
        RingError::WrongMessage { .. } | RingError::Capacity { .. } => {
            pyo3::exceptions::PyValueError::new_err(e.to_string())
        }
        RingError::Buffer(e) => buffer_error(e),
        RingError::Engine(_) => EngineLost::new_err(e.to_string()),
    };
    ChannelError => |e| match e {
        ChannelError::Closed => ChannelClosed::new_err(e.to_string()),
        ChannelError::Lost(_) => EngineLost::new_err(e.to_string()),
        e => ChannelRefused::new_err(e.to_string()),
    };
}

fn buffer_error(error: &BufferError) -> PyErr {
    use pyo3::exceptions::{PyBufferError, PyIndexError, PyMemoryError, PyValueError};
    let text = error.to_string();
    match error {
        BufferError::InUse(_) => BufferInUse::new_err(text),
        BufferError::OutOfBounds { .. } => PyIndexError::new_err(text),
        BufferError::TooLarge { .. } | BufferError::WrongShape { .. } => {
            PyValueError::new_err(text)
        }
        BufferError::OutOfMemory { .. } => PyMemoryError::new_err(text),
        BufferError::NoStrategy { .. } => StartFailed::new_err(text),
        BufferError::Engine(_) => EngineLost::new_err(text),
        BufferError::WrongType { .. }
        | BufferError::ReadOnly
        | BufferError::Import(_)
        | BufferError::Export(_) => PyBufferError::new_err(text),
    }
}

fn host_error(error: &HostError) -> PyErr {
    match error {
        HostError::Lost { .. } => EngineLost::new_err(error.to_string()),
        HostError::Timeout { .. } => pyo3::exceptions::PyTimeoutError::new_err(error.to_string()),
        error => SpawnFailed::new_err(error.to_string()),
    }
}
