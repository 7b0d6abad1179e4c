//! Capsules: how structs of C pass between libraries of Python.

use std::ffi::{CStr, c_void};
use std::ptr;

use everwarp::buffer::exchange::{arrow, dlpack};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::Raise;

const DLPACK: &CStr = c"dltensor";
const DLPACK_USED: &CStr = c"used_dltensor";
const DLPACK_1: &CStr = c"dltensor_versioned";
const DLPACK_1_USED: &CStr = c"used_dltensor_versioned";
const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const DEVICE_ARRAY: &CStr = c"arrow_device_array";

/// A capsule that owns what `pointer` points to until it is taken.
///
/// # Safety
/// - `destroy` frees it, unless it was taken.
unsafe fn capsule<'py>(
    py: Python<'py>,
    pointer: *mut c_void,
    name: &'static CStr,
    destroy: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the name is static; the caller vouches for the pointer.
    unsafe {
        let object = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destroy));
        Bound::from_owned_ptr_or_err(py, object)
    }
}

/// What a capsule of this name holds; null for any other object.
fn pointer<T>(object: *mut ffi::PyObject, name: &CStr) -> *mut T {
    // SAFETY: the interpreter checks that it is a capsule with this name.
    unsafe {
        match ffi::PyCapsule_IsValid(object, name.as_ptr()) {
            0 => ptr::null_mut(),
            _ => ffi::PyCapsule_GetPointer(object, name.as_ptr()).cast(),
        }
    }
}

pub(crate) fn versioned(
    py: Python<'_>,
    tensor: *mut dlpack::Versioned,
) -> PyResult<Bound<'_, PyAny>> {
    unsafe extern "C" fn destroy(object: *mut ffi::PyObject) {
        let tensor: *mut dlpack::Versioned = pointer(object, DLPACK_1);
        // SAFETY: a capsule that was not taken owns its tensor.
        if let Some(tensor) = unsafe { tensor.as_mut() }
            && let Some(deleter) = tensor.deleter
        {
            // SAFETY: as above, and once.
            unsafe { deleter(tensor) };
        }
    }
    // SAFETY: `destroy` deletes the tensor, and takers give the capsule another name.
    unsafe { capsule(py, tensor.cast(), DLPACK_1, destroy) }
}

pub(crate) fn unversioned(
    py: Python<'_>,
    tensor: *mut dlpack::Unversioned,
) -> PyResult<Bound<'_, PyAny>> {
    unsafe extern "C" fn destroy(object: *mut ffi::PyObject) {
        let tensor: *mut dlpack::Unversioned = pointer(object, DLPACK);
        // SAFETY: a capsule that was not taken owns its tensor.
        if let Some(tensor) = unsafe { tensor.as_mut() }
            && let Some(deleter) = tensor.deleter
        {
            // SAFETY: as above, and once.
            unsafe { deleter(tensor) };
        }
    }
    // SAFETY: as in `versioned`.
    unsafe { capsule(py, tensor.cast(), DLPACK, destroy) }
}

/// Takes the tensor out of a capsule.
pub(crate) fn take_dlpack(capsule: &Bound<'_, PyAny>) -> PyResult<dlpack::Imported> {
    let object = capsule.as_ptr();
    let new: *mut dlpack::Versioned = pointer(object, DLPACK_1);
    let old: *mut dlpack::Unversioned = pointer(object, DLPACK);
    let (imported, used) = if !new.is_null() {
        // SAFETY: a capsule with this name holds such a tensor.
        (unsafe { dlpack::import(new) }.raise()?, DLPACK_1_USED)
    } else if !old.is_null() {
        // SAFETY: as above.
        (
            unsafe { dlpack::import_unversioned(old) }.raise()?,
            DLPACK_USED,
        )
    } else {
        return Err(PyTypeError::new_err(
            "`__dlpack__` returned no capsule with a tensor, or one that was used before",
        ));
    };
    // SAFETY: the capsule is valid and the name static. From here on its destructor does nothing.
    if unsafe { ffi::PyCapsule_SetName(object, used.as_ptr()) } != 0 {
        // Then both would delete the tensor; leaking it is the lesser harm.
        std::mem::forget(imported);
        return Err(PyErr::fetch(capsule.py()));
    }
    Ok(imported)
}

pub(crate) fn schema(py: Python<'_>, schema: arrow::Schema) -> PyResult<Bound<'_, PyAny>> {
    unsafe extern "C" fn destroy(object: *mut ffi::PyObject) {
        let schema: *mut arrow::Schema = pointer(object, SCHEMA);
        // SAFETY: made by `Box::into_raw`; a schema that was moved away has no `release`.
        unsafe {
            if let Some(release) = (*schema).release {
                release(schema);
            }
            drop(Box::from_raw(schema));
        }
    }
    // SAFETY: `destroy` frees it.
    unsafe { capsule(py, Box::into_raw(Box::new(schema)).cast(), SCHEMA, destroy) }
}

pub(crate) fn array(py: Python<'_>, array: arrow::Array) -> PyResult<Bound<'_, PyAny>> {
    unsafe extern "C" fn destroy(object: *mut ffi::PyObject) {
        let array: *mut arrow::Array = pointer(object, ARRAY);
        // SAFETY: as in `schema`.
        unsafe {
            if let Some(release) = (*array).release {
                release(array);
            }
            drop(Box::from_raw(array));
        }
    }
    // SAFETY: `destroy` frees it.
    unsafe { capsule(py, Box::into_raw(Box::new(array)).cast(), ARRAY, destroy) }
}

pub(crate) fn device_array(
    py: Python<'_>,
    array: arrow::DeviceArray,
) -> PyResult<Bound<'_, PyAny>> {
    unsafe extern "C" fn destroy(object: *mut ffi::PyObject) {
        let array: *mut arrow::DeviceArray = pointer(object, DEVICE_ARRAY);
        // SAFETY: as in `schema`.
        unsafe {
            if let Some(release) = (*array).array.release {
                release(&raw mut (*array).array);
            }
            drop(Box::from_raw(array));
        }
    }
    // SAFETY: `destroy` frees it.
    unsafe {
        capsule(
            py,
            Box::into_raw(Box::new(array)).cast(),
            DEVICE_ARRAY,
            destroy,
        )
    }
}

/// Takes the array out of the two capsules of Arrow.
pub(crate) fn take_arrow(
    schema: &Bound<'_, PyAny>,
    array: &Bound<'_, PyAny>,
) -> PyResult<dlpack::Imported> {
    let known: *const arrow::Schema = pointer::<arrow::Schema>(schema.as_ptr(), SCHEMA);
    let device: *mut arrow::DeviceArray = pointer(array.as_ptr(), DEVICE_ARRAY);
    let host: *mut arrow::Array = pointer(array.as_ptr(), ARRAY);
    // SAFETY: a capsule with this name holds a schema.
    let Some(known) = (unsafe { known.as_ref() }) else {
        return Err(PyTypeError::new_err("Arrow's interface returned no schema"));
    };
    // SAFETY: capsules with these names hold such arrays, and no other thread uses them: this one has the interpreter.
    unsafe {
        if let Some(device) = device.as_mut() {
            return arrow::import(known, device).raise();
        }
        let Some(host) = host.as_mut() else {
            return Err(PyValueError::new_err("Arrow's interface returned no array"));
        };
        // An array of the host is one of the device interface whose device is the host. It is moved, or stays in place.
        let mut moved = arrow::DeviceArray {
            array: ptr::read(host),
            device_id: -1,
            device_type: dlpack::CPU,
            sync_event: ptr::null_mut(),
            reserved: [0; 3],
        };
        let imported = arrow::import(known, &mut moved).raise()?;
        host.release = None;
        Ok(imported)
    }
}
