//! The Arrow C data and device interfaces. An array of Arrow has one axis, and no element of a buffer is missing.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use super::dlpack::{CPU, Imported};
use super::{host_memory, refused};
use crate::dtype::DType;
use crate::error::BufferError;
use crate::memory::Foreign;
use crate::raw::Lease;
use crate::shape::Shape;

/// `ArrowSchema`: the type of an array.
#[repr(C)]
#[derive(Debug)]
#[expect(missing_docs, reason = "Arrow's documentation has the fields")]
pub struct Schema {
    pub format: *const c_char,
    pub name: *const c_char,
    pub metadata: *const c_char,
    pub flags: i64,
    pub n_children: i64,
    pub children: *mut *mut Self,
    pub dictionary: *mut Self,
    pub release: Option<unsafe extern "C" fn(*mut Self)>,
    pub private_data: *mut c_void,
}

/// `ArrowArray`: the memory of an array.
#[repr(C)]
#[derive(Debug)]
#[expect(missing_docs, reason = "Arrow's documentation has the fields")]
pub struct Array {
    pub length: i64,
    pub null_count: i64,
    pub offset: i64,
    pub n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const c_void,
    pub children: *mut *mut Self,
    pub dictionary: *mut Self,
    pub release: Option<unsafe extern "C" fn(*mut Self)>,
    pub private_data: *mut c_void,
}
// SAFETY: the interface lets any thread use and release an array.
unsafe impl Send for Array {}

/// `ArrowDeviceArray`: an array and where its memory is.
#[repr(C)]
#[derive(Debug)]
pub struct DeviceArray {
    /// The array.
    pub array: Array,
    /// The number of the device; -1 for the host.
    pub device_id: i64,
    /// The type of the device, as in DLPack.
    pub device_type: i32,
    /// An event to wait for, or null.
    pub sync_event: *mut c_void,
    /// Zeros.
    pub reserved: [i64; 3],
}

/// The format of a type.
const fn format(dtype: DType) -> Option<&'static CStr> {
    Some(match dtype {
        DType::I8 => c"c",
        DType::U8 => c"C",
        DType::I16 => c"s",
        DType::U16 => c"S",
        DType::I32 => c"i",
        DType::U32 => c"I",
        DType::I64 => c"l",
        DType::U64 => c"L",
        DType::F32 => c"f",
        DType::F64 => c"g",
        // Arrow packs them to bits.
        DType::Bool => return None,
    })
}

/// The type of a buffer's elements, for Arrow.
///
/// # Errors
/// [`BufferError::Export`]: Arrow has no such type.
pub fn schema(dtype: DType) -> Result<Schema, BufferError> {
    let format = format(dtype).ok_or_else(|| {
        BufferError::Export(
            "Arrow packs truth values to bits, which needs a copy: make the buffer with u8"
                .to_owned(),
        )
    })?;
    Ok(Schema {
        format: format.as_ptr(),
        name: c"".as_ptr(),
        metadata: ptr::null(),
        flags: 0,
        n_children: 0,
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: ptr::null_mut(),
    })
}

/// # Safety
/// - It comes from [`schema`].
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: the caller vouches; everything in it is static.
    unsafe { (*schema).release = None };
}

/// An export: the lease, and the list of buffers that the array points to.
struct Export {
    _lease: Lease,
    buffers: [*const c_void; 2],
}

/// Exports leased elements. The array's `release` ends the lease.
///
/// # Errors
/// [`BufferError::Export`]: the memory is on a device, or there is not exactly one axis.
pub fn export(lease: Lease, shape: &Shape) -> Result<DeviceArray, BufferError> {
    let &[length] = shape.axes() else {
        return Err(BufferError::Export(format!(
            "an array of Arrow has one axis, and the buffer's shape is {shape}: reshape it to ({},)",
            shape.count()
        )));
    };
    let data = host_memory(&lease)?;
    let export = Box::into_raw(Box::new(Export {
        _lease: lease,
        buffers: [ptr::null(), data.cast_const().cast()],
    }));
    // SAFETY: just made.
    let buffers = unsafe { &raw mut (*export).buffers };
    Ok(DeviceArray {
        array: Array {
            length: length as i64,
            null_count: 0,
            offset: 0,
            n_buffers: 2,
            n_children: 0,
            buffers: buffers.cast(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: Some(release),
            private_data: export.cast(),
        },
        device_id: -1,
        device_type: CPU,
        sync_event: ptr::null_mut(),
        reserved: [0; 3],
    })
}

/// # Safety
/// - It comes from [`export`], moved or not, and is released once.
unsafe extern "C" fn release(array: *mut Array) {
    // SAFETY: the caller vouches; `export` made it with `Box::into_raw`.
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<Export>()));
        (*array).release = None;
    }
}

/// An array that was moved here; dropping it releases it.
struct Owner(Array);

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: it was moved here, so it is released here and once.
            unsafe { release(&raw mut self.0) };
        }
    }
}

/// Takes an array. On success it is moved out of `given`, whose `release` is then null; else it stays the caller's.
///
/// # Safety
/// - Both are live and as the interface says. As [`Foreign::new`] says, nothing writes the memory while it is leased.
///
/// # Errors
/// [`BufferError::Import`]: a device, a type that no buffer has, missing elements, or an array that was released.
pub unsafe fn import(schema: &Schema, given: &mut DeviceArray) -> Result<Imported, BufferError> {
    let array = &mut given.array;
    if array.release.is_none() || schema.release.is_none() {
        return Err(refused("the array of Arrow was taken before"));
    }
    if given.device_type != CPU {
        return Err(refused(format!(
            "the array is on a device of type {}, and this import takes memory of the host: copy it to the host first",
            given.device_type
        )));
    }
    // SAFETY: the interface says that it is text.
    let wanted = unsafe { CStr::from_ptr(schema.format) };
    let known = DType::ALL
        .into_iter()
        .find(|dtype| format(*dtype) == Some(wanted));
    let dtype = known.filter(|_| schema.dictionary.is_null()).ok_or_else(|| {
        refused(format!(
            "the array has the Arrow type {:?}, and a buffer takes integers and floats of 32 and 64 bits: cast it",
            wanted.to_string_lossy()
        ))
    })?;
    let (length, offset) = (usize::try_from(array.length), usize::try_from(array.offset));
    let (Ok(length), Ok(offset), 2) = (length, offset, array.n_buffers) else {
        return Err(refused("the array of Arrow is not valid"));
    };
    let shape = Shape::new(&[length])?;
    // SAFETY: there are two.
    let (valid, data) = unsafe { (*array.buffers, *array.buffers.add(1)) };
    if array.null_count != 0 && !valid.is_null() {
        return Err(refused(
            "elements of the array may be missing, and a buffer has all: fill them first",
        ));
    }
    let bytes = shape.count() * dtype.size();
    let begin = match data.is_null() {
        true if bytes > 0 => return Err(refused("the array has no memory")),
        true => ptr::without_provenance_mut(dtype.size()),
        false => data
            .cast::<u8>()
            .cast_mut()
            .wrapping_add(offset * dtype.size()),
    };
    // SAFETY: a move, as the interface defines it.
    let owner = Owner(unsafe { ptr::read(array) });
    array.release = None;
    // SAFETY: the memory is live until the array is released. Arrays of Arrow never change.
    let memory = unsafe { Foreign::new(begin, bytes, true, owner) };
    Ok(Imported {
        memory,
        dtype,
        shape: vec![length],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Holder, Side, Use};
    use crate::{Buffers, Strategy};

    #[test]
    fn a_round_trip_shares_the_memory_and_ends_the_lease() {
        let buffer = Buffers::cpu()
            .from_slice(&[1.5_f64, 2.5], Strategy::Private)
            .expect("small");
        let lease = buffer
            .raw()
            .lease(Use::reads(Side::Host), Holder::here("an export"));
        let mut given = export(lease.expect("unused"), buffer.shape()).expect("one axis");
        let schema = schema(DType::F64).expect("Arrow has it");
        // SAFETY: just exported.
        let imported = unsafe { import(&schema, &mut given) }.expect("it fits");
        assert!(given.array.release.is_none(), "it was moved");
        // SAFETY: as above.
        let again = unsafe { import(&schema, &mut given) };
        assert!(again.is_err(), "it is gone");
        assert_eq!((imported.dtype, &*imported.shape), (DType::F64, &[2][..]));
        let other = Buffers::cpu().import(imported.memory, DType::F64, &[2], Strategy::Mapped);
        let other =
            crate::UnifiedBuffer::<f64>::try_from_raw(other.expect("it fits")).expect("f64");
        assert_eq!(*other.host().expect("unused"), [1.5, 2.5]);
        assert!(matches!(other.lend_mut(0..1), Err(BufferError::ReadOnly)));
        assert_eq!(buffer.raw().holders().len(), 1);
        drop(other);
        assert!(buffer.raw().holders().is_empty(), "the export has ended");
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused_and_stay_the_callers() {
        let buffer = Buffers::cpu()
            .from_slice(&[1_u8, 2], Strategy::Private)
            .expect("small");
        let lease = buffer
            .raw()
            .lease(Use::reads(Side::Host), Holder::here("an export"));
        let mut given = export(lease.expect("unused"), buffer.shape()).expect("one axis");
        let mut schema = schema(DType::U8).expect("Arrow has it");
        let mut reason = |schema: &Schema, change: &dyn Fn(&mut DeviceArray)| {
            change(&mut given);
            // SAFETY: the test changes nothing that is read.
            let refused = unsafe { import(schema, &mut given) };
            refused.expect_err("it must be refused").to_string()
        };
        assert!(reason(&schema, &|a| a.device_type = 2).contains("type 2"));
        schema.format = c"u".as_ptr();
        assert!(reason(&schema, &|a| a.device_type = CPU).contains("\"u\""));
        schema.format = c"C".as_ptr();
        assert!(reason(&schema, &|a| a.array.length = -1).contains("not valid"));
        // SAFETY: still ours.
        unsafe { given.array.release.expect("not taken")(&raw mut given.array) };
        assert!(buffer.raw().holders().is_empty());
        let matrix = Buffers::cpu()
            .zeros::<u8>(&[2, 2], Strategy::Private)
            .expect("small");
        let lease = matrix
            .raw()
            .lease(Use::reads(Side::Host), Holder::here("an export"));
        let refused = export(lease.expect("unused"), matrix.shape());
        assert!(
            refused
                .expect_err("two axes")
                .to_string()
                .contains("reshape it to (4,)")
        );
        assert!(super::schema(DType::Bool).is_err());
    }
}
