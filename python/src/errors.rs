//! The exceptions, which `everwarp/errors.py` declares. Their messages are those of the Rust library.

use everwarp::process::{ChannelError, HostError, LoadError, SpawnError, StartError};
use pyo3::prelude::*;

pyo3::import_exception!(everwarp.errors, ActorFailed);
pyo3::import_exception!(everwarp.errors, ActorGone);
pyo3::import_exception!(everwarp.errors, ChannelClosed);
pyo3::import_exception!(everwarp.errors, ChannelRefused);
pyo3::import_exception!(everwarp.errors, DeviceError);
pyo3::import_exception!(everwarp.errors, EngineClosed);
pyo3::import_exception!(everwarp.errors, EngineLost);
pyo3::import_exception!(everwarp.errors, ForkedError);
pyo3::import_exception!(everwarp.errors, LoadFailed);
pyo3::import_exception!(everwarp.errors, ProgramError);
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
    ChannelError => |e| match e {
        ChannelError::Closed => ChannelClosed::new_err(e.to_string()),
        ChannelError::Lost(_) => EngineLost::new_err(e.to_string()),
        e => ChannelRefused::new_err(e.to_string()),
    };
}

fn host_error(error: &HostError) -> PyErr {
    match error {
        HostError::Lost { .. } => EngineLost::new_err(error.to_string()),
        HostError::Timeout { .. } => pyo3::exceptions::PyTimeoutError::new_err(error.to_string()),
        error => SpawnFailed::new_err(error.to_string()),
    }
}
