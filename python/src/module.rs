//! `Module`: a WebAssembly module that has been validated.

use std::path::PathBuf;

use everwarp::process;
use pyo3::prelude::*;

use crate::errors::Raise;

/// A WebAssembly module for `wasm32-wasip1` that exports `_start`. It is validated here and compiled by each engine.
#[pyclass(frozen, module = "everwarp")]
pub(crate) struct Module {
    pub(crate) inner: process::Module,
}

#[pymethods]
impl Module {
    /// Reads a module from a file.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let inner = py.detach(|| process::Module::from_file(path)).raise()?;
        Ok(Self { inner })
    }

    /// Makes a module from its binary form.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, name: String, bytes: Vec<u8>) -> PyResult<Self> {
        let inner = py.detach(|| process::Module::new(name, bytes)).raise()?;
        Ok(Self { inner })
    }

    /// The name, by which processes spawn it and messages mention it.
    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// The bytes of memory and tables that a process of this module starts with.
    #[getter]
    fn start_bytes(&self) -> u64 {
        self.inner.start_bytes()
    }

    /// Whether the module imports `everwarp:gpu`, which brings channels and children.
    #[getter]
    fn uses_channels(&self) -> bool {
        self.inner.uses_gpu()
    }

    fn __repr__(&self) -> String {
        let (name, bytes) = (self.inner.name(), self.inner.bytes().len());
        format!("<everwarp.Module {name:?}, {bytes} bytes>")
    }
}
