//! `Buffer`: a unified buffer, and `View`: one side of it, which arrays of other libraries can be made of without copies.

use std::ffi::{CString, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

use everwarp::EngineKind;
use everwarp::buffer::{
    BufferError, Buffers, DType, Foreign, Holder, Lease, RawBuffer, Side, Strategy, Use, exchange,
};
use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::capsule;
use crate::engine::{Engine, OnGpu};
use crate::errors::{Raise, StartFailed};
use crate::owner::Owner;

/// The line of the program that is running, for messages.
fn line(py: Python<'_>) -> PyResult<String> {
    py.import("everwarp._buffer")?
        .call_method0("_line")?
        .extract()
}

pub(crate) fn dtype(name: &str) -> PyResult<DType> {
    DType::named(name).ok_or_else(|| {
        PyTypeError::new_err(format!("a buffer has no elements of the type {name:?}"))
    })
}

/// A lease whose holder is the running line of the program.
pub(crate) fn lease(py: Python<'_>, raw: &RawBuffer, how: Use, what: &str) -> PyResult<Lease> {
    let holder = Holder::at(what, line(py)?);
    // It may copy, which takes long.
    py.detach(|| raw.lease(how, holder)).raise()
}

/// The type of the elements that an object exports, and whether they are next to each other.
pub(crate) fn exported(object: &Bound<'_, PyAny>) -> PyResult<(PyUntypedBuffer, DType)> {
    let wrong = |what: String| Err(PyBufferError::new_err(what));
    let view = PyUntypedBuffer::get(object)?;
    let format = view.format();
    let foreign = matches!(format.to_bytes(), [b'>' | b'!', ..]) && view.item_size() > 1;
    let found = DType::ALL.into_iter().find(|dtype| {
        let same = match (ElementType::from_format(format), dtype.kind()) {
            (ElementType::SignedInteger { bytes }, 'i')
            | (ElementType::UnsignedInteger { bytes }, 'u')
            | (ElementType::Float { bytes }, 'f') => bytes == dtype.size(),
            (ElementType::Bool, 'b') => true,
            _ => false,
        };
        same && !foreign && view.item_size() == dtype.size()
    });
    let Some(dtype) = found else {
        return wrong(format!(
            "the array has elements of the format {:?}, and a buffer holds integers of 8 to 64 bits, floats of 32 and 64 \
             bits, and truth values, in the byte order of this machine: convert it with astype",
            format.to_string_lossy()
        ));
    };
    if !view.is_c_contiguous() {
        return wrong(
            "the array's elements are not next to each other in row order: pass numpy.ascontiguousarray(array)"
                .to_owned(),
        );
    }
    Ok((view, dtype))
}

/// A buffer, or some rows of one.
#[pyclass(frozen, module = "everwarp._native")]
pub(crate) struct Buffer {
    pub(crate) raw: RawBuffer,
    /// The process whose engine it belongs to, if it belongs to one.
    owner: Option<Owner>,
    /// The GPU whose memory it has.
    on: Option<OnGpu>,
}

impl Buffer {
    /// Makes a buffer: for an engine, or for any CPU engine.
    fn make(
        engine: Option<&Engine>,
        make: impl FnOnce(&Buffers<'_>) -> Result<RawBuffer, BufferError>,
    ) -> PyResult<Self> {
        let owner = engine.map(|_| Owner::here());
        let plain = |make: Result<RawBuffer, BufferError>| {
            let raw = make.raise()?;
            Ok(Self {
                raw,
                owner,
                on: None,
            })
        };
        let Some(engine) = engine else {
            return plain(make(&Buffers::cpu()));
        };
        let mut open = engine.open()?;
        match open.device.kind() {
            EngineKind::Cpu => plain(make(&Buffers::cpu())),
            // Actors of this engine and most of its ring kernels run on the CPU, and these are their buffers.
            _ if open.auto => plain(make(&Buffers::cpu())),
            EngineKind::Cuda => {
                let (engine, on) = open.gpu_engine(None)?;
                let raw = make(&Buffers::on(&open.device, &engine)).raise()?;
                Ok(Self {
                    raw,
                    owner,
                    on: Some(on),
                })
            }
            kind => Err(StartFailed::new_err(format!(
                "buffers of Python are on the CPU engine and on CUDA, and this engine is {kind}: make it with \
                 everwarp.engine(), or with everwarp.engine(\"cpu\")"
            ))),
        }
    }
}

fn strategy(name: &str) -> PyResult<Strategy> {
    Strategy::named(name).ok_or_else(|| {
        PyValueError::new_err(format!(
            "a strategy is \"private\", \"pinned\" or \"mapped\", not {name:?}"
        ))
    })
}

#[pymethods]
impl Buffer {
    /// A buffer of zeros.
    #[new]
    fn new(
        engine: Option<&Engine>,
        dtype_name: &str,
        shape: Vec<usize>,
        place: &str,
    ) -> PyResult<Self> {
        let (dtype, place) = (dtype(dtype_name)?, strategy(place)?);
        Self::make(engine, |buffers| buffers.raw(dtype, &shape, place))
    }
    /// A buffer over the memory of an object with the buffer protocol.
    #[staticmethod]
    fn of_object(
        engine: Option<&Engine>,
        object: &Bound<'_, PyAny>,
        place: &str,
    ) -> PyResult<Self> {
        let (view, dtype) = exported(object)?;
        let shape = view.shape().to_vec();
        let (at, bytes, read_only) = (view.buf_ptr().cast(), view.len_bytes(), view.readonly());
        // SAFETY: the view keeps the memory until it is dropped. What other arrays over the same memory do meanwhile is the
        // program's own doing, as with all arrays of Python; the documentation says so.
        let memory = unsafe { Foreign::new(at, bytes, read_only, view) };
        let place = strategy(place)?;
        Self::make(engine, |buffers| {
            buffers.import(memory, dtype, &shape, place)
        })
    }
    /// A buffer over the memory of a capsule of DLPack.
    #[staticmethod]
    fn of_dlpack(
        engine: Option<&Engine>,
        capsule: &Bound<'_, PyAny>,
        place: &str,
    ) -> PyResult<Self> {
        let place = strategy(place)?;
        let imported = capsule::take_dlpack(capsule)?;
        let (dtype, shape) = (imported.dtype, imported.shape);
        Self::make(engine, |buffers| {
            buffers.import(imported.memory, dtype, &shape, place)
        })
    }
    /// A buffer over the memory of the two capsules of Arrow.
    #[staticmethod]
    fn of_arrow(
        engine: Option<&Engine>,
        schema: &Bound<'_, PyAny>,
        array: &Bound<'_, PyAny>,
        place: &str,
    ) -> PyResult<Self> {
        let place = strategy(place)?;
        let imported = capsule::take_arrow(schema, array)?;
        let (dtype, shape) = (imported.dtype, imported.shape);
        Self::make(engine, |buffers| {
            buffers.import(imported.memory, dtype, &shape, place)
        })
    }
    #[getter]
    fn dtype(&self) -> &'static str {
        self.raw.dtype().name()
    }
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.raw.shape().axes().to_vec()
    }
    #[getter]
    fn strategy(&self) -> &'static str {
        self.raw.strategy().name()
    }
    #[getter]
    fn readonly(&self) -> bool {
        self.raw.is_read_only()
    }
    /// Copies and bytes to the device, copies and bytes to the host.
    fn transfers(&self) -> (u64, u64, u64, u64) {
        let t = self.raw.transfers();
        (
            t.to_device.copies,
            t.to_device.bytes,
            t.to_host.copies,
            t.to_host.bytes,
        )
    }
    /// Bytes that are newer on the host, and on the device.
    fn newer(&self) -> (usize, usize) {
        self.raw.newer()
    }
    fn holders(&self) -> Vec<String> {
        self.raw.holders().iter().map(Holder::to_string).collect()
    }
    fn part(&self, begin: usize, end: usize) -> PyResult<Self> {
        Ok(Self {
            raw: self.raw.part(&(begin..end)).raise()?,
            owner: self.owner,
            on: self.on.clone(),
        })
    }
    fn reshaped(&self, shape: Vec<usize>) -> PyResult<Self> {
        Ok(Self {
            raw: self.raw.reshaped(&shape).raise()?,
            owner: self.owner,
            on: self.on.clone(),
        })
    }
}

/// One side of a buffer. Arrays that are made of it hold a lease until they are gone.
#[pyclass(frozen, subclass, module = "everwarp._native")]
pub(crate) struct View {
    raw: RawBuffer,
    how: Use,
    owner: Option<Owner>,
    on: Option<OnGpu>,
}

/// What an export points to, and its lease.
struct Export {
    _lease: Lease,
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
    format: CString,
}

impl View {
    fn what(&self, kind: &str) -> String {
        let side = match self.how.side {
            Side::Host => "host",
            Side::Device => "device",
        };
        format!("{kind} of the {side}'s side")
    }
    fn lease(&self, py: Python<'_>, kind: &str) -> PyResult<Lease> {
        self.check()?;
        lease(py, &self.raw, self.how, &self.what(kind))
    }
    /// What the child of a fork writes would never reach the engine, and arrays of the host cannot reach memory of a GPU.
    fn check(&self) -> PyResult<()> {
        self.owner.map_or(Ok(()), Owner::check)?;
        match (&self.on, self.how.side) {
            (Some(_), Side::Device) => Err(PyBufferError::new_err(
                "the device's side of this buffer is memory of a GPU, which arrays of the host cannot reach: use `.host`, \
                 which copies what is newer there",
            )),
            _ => Ok(()),
        }
    }
}

#[pymethods]
impl View {
    #[new]
    fn new(buffer: &Buffer, device: bool, writes: bool) -> Self {
        let side = if device { Side::Device } else { Side::Host };
        let how = match writes && !buffer.raw.is_read_only() {
            true => Use::writes(side),
            false => Use::reads(side),
        };
        Self {
            raw: buffer.raw.clone(),
            how: how.aliased(),
            owner: buffer.owner,
            on: buffer.on.clone(),
        }
    }
    /// Whether arrays of this view may only be read.
    #[getter]
    fn readonly(&self) -> bool {
        !self.how.writes
    }

    /// # Safety
    /// - `view` is for the interpreter to fill.
    unsafe fn __getbuffer__(
        slf: PyRef<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        // SAFETY: the caller vouches. Without an object, an error leaves nothing to release.
        unsafe { (*view).obj = ptr::null_mut() };
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE && !slf.how.writes {
            return Err(PyBufferError::new_err(
                "this view of the buffer may only be read",
            ));
        }
        let lease = slf.lease(slf.py(), "an array")?;
        let signed = |values: &[usize], unit: usize| {
            values
                .iter()
                .map(|v| (v * unit) as ffi::Py_ssize_t)
                .collect()
        };
        let (shape, dtype) = (slf.raw.shape(), slf.raw.dtype());
        let (at, bytes, writes) = (lease.host_address(), lease.bytes(), slf.how.writes);
        let export = Box::new(Export {
            _lease: lease,
            shape: signed(shape.axes(), 1),
            strides: signed(&shape.strides(), dtype.size()),
            format: CString::new([dtype.code()]).expect("a character"),
        });
        let export = ManuallyDrop::new(export);
        let wants = |flag: c_int| flags & flag == flag;
        // SAFETY: the caller vouches for the view; what it points to stays until it is released, in the box.
        unsafe {
            (*view).buf = at.cast::<c_void>();
            (*view).len = bytes as ffi::Py_ssize_t;
            (*view).readonly = c_int::from(!writes);
            (*view).itemsize = dtype.size() as ffi::Py_ssize_t;
            (*view).format = match wants(ffi::PyBUF_FORMAT) {
                true => export.format.as_ptr().cast_mut(),
                false => ptr::null_mut(),
            };
            (*view).ndim = shape.axes().len() as c_int;
            (*view).shape = match wants(ffi::PyBUF_ND) {
                true => export.shape.as_ptr().cast_mut(),
                false => ptr::null_mut(),
            };
            (*view).strides = match wants(ffi::PyBUF_STRIDES) {
                true => export.strides.as_ptr().cast_mut(),
                false => ptr::null_mut(),
            };
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = ptr::from_ref::<Export>(&export).cast_mut().cast();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }

    /// # Safety
    /// - `view` was filled by `__getbuffer__`, and is released once.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: the box was kept when the view was filled.
        drop(unsafe { Box::from_raw((*view).internal.cast::<Export>()) });
    }

    /// A capsule of DLPack; `versioned` says whether the other library knows version 1.
    fn dlpack<'py>(
        &self,
        py: Python<'py>,
        versioned: bool,
        copied: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (dtype, shape) = (self.raw.dtype(), self.raw.shape());
        let lease = self.lease(py, "an export by DLPack")?;
        if !versioned {
            let tensor = exchange::dlpack::export_unversioned(lease, dtype, shape).raise()?;
            return capsule::unversioned(py, tensor);
        }
        let tensor = exchange::dlpack::export(lease, dtype, shape).raise()?;
        if copied {
            // SAFETY: just made, and not given away yet.
            unsafe { (*tensor).flags |= exchange::dlpack::COPIED };
        }
        capsule::versioned(py, tensor)
    }
    /// The two capsules of Arrow: with `device`, the array's is that of the device interface.
    fn arrow<'py>(
        &self,
        py: Python<'py>,
        device: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let schema = exchange::arrow::schema(self.raw.dtype()).raise()?;
        // Arrays of Arrow never change.
        let how = Use::reads(self.how.side);
        self.check()?;
        let lease = lease(py, &self.raw, how, &self.what("an export to Arrow"))?;
        let array = exchange::arrow::export(lease, self.raw.shape()).raise()?;
        Ok((
            capsule::schema(py, schema)?,
            match device {
                true => capsule::device_array(py, array)?,
                false => capsule::array(py, array.array)?,
            },
        ))
    }
}
