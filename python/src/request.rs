//! What Python says about processes to start, in the library's terms.

use std::path::PathBuf;

use everwarp::process::{Bytes, Command, Directory, Input, Output, StartWriter};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

/// The text that stands for the number of a process in arguments and values of variables, as in the command.
const NUMBER: &str = "{instance}";
/// How many inputs share a reference count. With a single count for all threads, passing the inputs around would cost
/// more than everything else about a small process.
const COUNTED: usize = 128;

/// A directory that processes may use: its path here, its name for them, and whether they may only read.
pub(crate) type Dir = (PathBuf, String, bool);

/// The destination of a stream: `capture` with a limit, `inherit`, `lines` or `tagged`.
pub(crate) fn output(name: &str, limit: usize) -> PyResult<Output> {
    match name {
        "capture" => Ok(Output::Capture { limit }),
        "inherit" => Ok(Output::Inherit),
        "lines" => Ok(Output::lines()),
        "tagged" => Ok(Output::Lines {
            tag: true,
            to_stderr: false,
        }),
        _ => Err(PyValueError::new_err(format!(
            "a stream goes to \"capture\", \"inherit\", \"lines\" or \"tagged\", not {name:?}"
        ))),
    }
}

/// Copies what a Python object holds: text, bytes, or anything with the buffer protocol that is contiguous.
pub(crate) fn copied(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(bytes.to_vec());
    }
    if let Ok(text) = object.extract::<String>() {
        return Ok(text.into_bytes());
    }
    let view = pyo3::types::PyMemoryView::from(object).map_err(|_| {
        let kind = object.get_type();
        PyTypeError::new_err(format!(
            "standard input is text, bytes or an array with the buffer protocol, not {kind}"
        ))
    })?;
    let contiguous: bool = view.getattr("c_contiguous")?.extract()?;
    if !contiguous {
        return Err(PyBufferError::new_err(
            "the array is not contiguous: pass numpy.ascontiguousarray(array)",
        ));
    }
    let bytes = view.call_method1("cast", ("B",))?;
    PyBuffer::<u8>::get(&bytes)?.to_vec(object.py())
}

/// The inputs of processes that each get their own, in few allocations.
pub(crate) struct Inputs(Vec<Bytes>);

impl Inputs {
    pub(crate) fn new(items: &[Bound<'_, PyAny>]) -> PyResult<Self> {
        let mut inputs = Vec::with_capacity(items.len());
        for items in items.chunks(COUNTED) {
            let (mut all, mut ends) = (Vec::new(), Vec::with_capacity(items.len()));
            for item in items {
                match item.cast::<PyBytes>() {
                    Ok(bytes) => all.extend_from_slice(bytes.as_bytes()),
                    Err(_) => all.extend_from_slice(&copied(item)?),
                }
                ends.push(all.len());
            }
            let all = Bytes::from(all);
            let mut begin = 0;
            for end in ends {
                inputs.push(all.slice(begin..end));
                begin = end;
            }
        }
        Ok(Self(inputs))
    }

    /// The parts of `size` bytes each of one piece of memory.
    pub(crate) fn parts(bytes: &[u8], size: usize) -> Self {
        let mut inputs = Vec::with_capacity(bytes.len() / size.max(1));
        for bytes in bytes.chunks(size * COUNTED) {
            let all = Bytes::copy_from_slice(bytes);
            inputs.extend((0..bytes.len() / size).map(|n| all.slice(n * size..(n + 1) * size)));
        }
        Self(inputs)
    }
}

/// What differs between the processes of one request.
pub(crate) struct Each {
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Whether `{instance}` is replaced by the number of the process.
    pub(crate) numbered: bool,
    /// Arguments of each process after those of all.
    pub(crate) own_args: Option<Vec<Vec<String>>>,
    pub(crate) inputs: Option<Inputs>,
}

impl Each {
    /// How many processes the lists are for.
    pub(crate) fn counts(&self) -> [Option<usize>; 2] {
        let args = self.own_args.as_ref().map(Vec::len);
        [args, self.inputs.as_ref().map(|inputs| inputs.0.len())]
    }

    /// Writes what a process gets.
    pub(crate) fn write(&self, number: u32, start: &mut dyn StartWriter) {
        let digits = number.to_string();
        for arg in &self.args {
            self.in_parts(arg, &digits, |parts| start.arg(parts));
        }
        if let Some(own) = &self.own_args {
            own[number as usize]
                .iter()
                .for_each(|arg| start.arg(&[arg]));
        }
        for (name, value) in &self.env {
            self.in_parts(value, &digits, |parts| start.variable(name, parts));
        }
        if let Some(inputs) = &self.inputs {
            start.stdin(inputs.0[number as usize].clone());
        }
    }

    fn in_parts(&self, text: &str, digits: &str, each: impl FnOnce(&[&str])) {
        if !self.numbered || !text.contains(NUMBER) {
            return each(&[text]);
        }
        let mut parts = Vec::new();
        for piece in text.split(NUMBER) {
            parts.extend([piece, digits]);
        }
        parts.pop();
        each(&parts);
    }
}

/// Grants a command what all its processes have in common.
pub(crate) fn grant(command: &mut Command, dirs: Vec<Dir>, stdin: Option<Vec<u8>>) -> PyResult<()> {
    for (path, guest, read_only) in dirs {
        let opened = Directory::open(&path, guest).map_err(|error| {
            let path = path.display();
            crate::errors::SpawnFailed::new_err(format!(
                "the directory {path} cannot be opened: {error}"
            ))
        })?;
        command.directory(opened.read_only(read_only));
    }
    if let Some(stdin) = stdin {
        command.stdin(Input::Bytes(stdin.into()));
    }
    Ok(())
}
