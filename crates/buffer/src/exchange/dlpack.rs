//! DLPack 1.x: tensors as structs of C. The layouts are those of `dlpack.h`, version 1.1.

use std::ffi::c_void;
use std::ptr;

use super::{host_memory, refused};
use crate::dtype::DType;
use crate::error::BufferError;
use crate::memory::Foreign;
use crate::raw::Lease;
use crate::shape::Shape;

/// The version of the layouts.
pub const VERSION: (u32, u32) = (1, 1);
/// The device type of the host's memory.
pub const CPU: i32 = 1;
/// The device type of memory of NVIDIA GPUs.
pub const CUDA: i32 = 2;
/// The device type of page-locked memory of the host.
const CUDA_HOST: i32 = 3;
/// The flag of memory that may only be read.
pub const READ_ONLY: u64 = 1;
/// The flag of memory that is a copy.
pub const COPIED: u64 = 2;

/// `DLDevice`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// The type.
    pub kind: i32,
    /// The number.
    pub number: i32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType {
    /// 0 signed, 1 unsigned, 2 floating-point, 6 truth value.
    pub code: u8,
    /// Bits of an element.
    pub bits: u8,
    /// Elements of a vector.
    pub lanes: u16,
}

impl DataType {
    /// The type of a buffer's elements.
    pub const fn of(dtype: DType) -> Self {
        let code = match dtype.kind() {
            'i' => 0,
            'u' => 1,
            'f' => 2,
            _ => 6,
        };
        Self {
            code,
            bits: 8 * dtype.size() as u8,
            lanes: 1,
        }
    }
    fn dtype(self) -> Option<DType> {
        DType::ALL
            .into_iter()
            .find(|dtype| Self::of(*dtype) == self)
    }
}

/// `DLTensor`.
#[repr(C)]
#[derive(Debug)]
pub struct Tensor {
    /// The memory.
    pub data: *mut c_void,
    /// Its device.
    pub device: Device,
    /// The number of axes.
    pub axes: i32,
    /// The type of the elements.
    pub dtype: DataType,
    /// The elements along each axis.
    pub shape: *mut i64,
    /// The distance between neighbours along each axis, in elements; null if there are no gaps.
    pub strides: *mut i64,
    /// Where the first element is.
    pub byte_offset: u64,
}

/// `DLManagedTensor`, from before version 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct Unversioned {
    /// The tensor.
    pub tensor: Tensor,
    /// The exporter's own.
    pub manager: *mut c_void,
    /// Gives the memory back.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
#[derive(Debug)]
pub struct Versioned {
    /// The version of this struct.
    pub major: u32,
    /// The version of the values in it.
    pub minor: u32,
    /// The exporter's own.
    pub manager: *mut c_void,
    /// Gives the memory back.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// [`READ_ONLY`], [`COPIED`].
    pub flags: u64,
    /// The tensor.
    pub tensor: Tensor,
}

/// An export: the lease, and what the tensor points to.
struct Export {
    _lease: Lease,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

fn tensor(lease: Lease, dtype: DType, shape: &Shape) -> Result<(Tensor, *mut c_void), BufferError> {
    let data = host_memory(&lease)?;
    let signed = |values: &[usize]| values.iter().map(|v| *v as i64).collect();
    let mut export = Box::new(Export {
        _lease: lease,
        shape: signed(shape.axes()),
        strides: signed(&shape.strides()),
    });
    let tensor = Tensor {
        data: data.cast(),
        device: Device {
            kind: CPU,
            number: 0,
        },
        axes: shape.axes().len() as i32,
        dtype: DataType::of(dtype),
        shape: export.shape.as_mut_ptr(),
        strides: export.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    Ok((tensor, Box::into_raw(export).cast()))
}

/// Exports leased elements. The tensor's consumer calls its deleter once, which ends the lease.
///
/// # Errors
/// [`BufferError::Export`]: the memory is on a device.
pub fn export(lease: Lease, dtype: DType, shape: &Shape) -> Result<*mut Versioned, BufferError> {
    let flags = if lease.how().writes { 0 } else { READ_ONLY };
    let (tensor, manager) = tensor(lease, dtype, shape)?;
    Ok(Box::into_raw(Box::new(Versioned {
        major: VERSION.0,
        minor: VERSION.1,
        manager,
        deleter: Some(delete),
        flags,
        tensor,
    })))
}

/// As [`export`], for libraries from before version 1.0. They would write to any memory, so the lease must write.
///
/// # Errors
/// [`BufferError::Export`]: the memory is on a device, or the lease only reads.
pub fn export_unversioned(
    lease: Lease,
    dtype: DType,
    shape: &Shape,
) -> Result<*mut Unversioned, BufferError> {
    if !lease.how().writes {
        return Err(BufferError::Export(
            "memory that may only be read needs DLPack 1.0: pass max_version=(1, 0), or a newer library".to_owned(),
        ));
    }
    let (tensor, manager) = tensor(lease, dtype, shape)?;
    Ok(Box::into_raw(Box::new(Unversioned {
        tensor,
        manager,
        deleter: Some(delete_unversioned),
    })))
}

/// # Safety
/// - It comes from [`export`], and is deleted once.
unsafe extern "C" fn delete(tensor: *mut Versioned) {
    // SAFETY: both were made by `Box::into_raw` in `export`.
    unsafe {
        let tensor = Box::from_raw(tensor);
        drop(Box::from_raw(tensor.manager.cast::<Export>()));
    }
}

/// # Safety
/// - It comes from [`export_unversioned`], and is deleted once.
unsafe extern "C" fn delete_unversioned(tensor: *mut Unversioned) {
    // SAFETY: both were made by `Box::into_raw` in `export_unversioned`.
    unsafe {
        let tensor = Box::from_raw(tensor);
        drop(Box::from_raw(tensor.manager.cast::<Export>()));
    }
}

/// Memory that was imported, its type and its shape.
#[derive(Debug)]
pub struct Imported {
    /// The memory, which calls the deleter when it is dropped.
    pub memory: Foreign,
    /// The type of the elements.
    pub dtype: DType,
    /// The elements along each axis.
    pub shape: Vec<usize>,
}

/// The owner of an imported tensor.
struct Owner<T>(*mut T, unsafe extern "C" fn(*mut T));
// SAFETY: the interface lets any thread call the deleter.
unsafe impl<T> Send for Owner<T> {}

impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        // SAFETY: the tensor was taken by `import`, and is deleted once.
        unsafe { (self.1)(self.0) };
    }
}

unsafe extern "C" fn keep<T>(_: *mut T) {}

/// What a tensor describes: where its bytes begin, the type and the shape.
///
/// # Safety
/// - The tensor is as the interface says.
unsafe fn described(tensor: &Tensor) -> Result<(*mut u8, DType, Shape), BufferError> {
    if !matches!(tensor.device.kind, CPU | CUDA_HOST) {
        return Err(refused(format!(
            "the array is on a device of DLPack type {}, and this import takes memory of the host: copy it to the host first",
            tensor.device.kind
        )));
    }
    let DataType { code, bits, lanes } = tensor.dtype;
    let dtype = tensor.dtype.dtype().ok_or_else(|| {
        refused(format!(
            "the array has elements of DLPack code {code} with {bits} bits and {lanes} lanes, and a buffer holds integers \
             of 8 to 64 bits, floats of 32 and 64 bits, and truth values: convert it"
        ))
    })?;
    let axes =
        usize::try_from(tensor.axes).map_err(|_| refused("the array has fewer than 0 axes"))?;
    let read = |at: *const i64| match (axes, at.is_null()) {
        (0, _) => &[][..],
        // SAFETY: the interface says that there is a number for each axis.
        (_, false) => unsafe { std::slice::from_raw_parts(at, axes) },
        (_, true) => &[],
    };
    let lens = read(tensor.shape)
        .iter()
        .map(|len| usize::try_from(*len).ok());
    let lens: Option<Vec<usize>> = lens.collect();
    let lens = lens.filter(|lens| lens.len() == axes);
    let lens = lens
        .ok_or_else(|| refused("the array has no shape, or an axis with fewer than 0 elements"))?;
    let shape = Shape::new(&lens)?;
    if !tensor.strides.is_null() && !shape.is_dense(read(tensor.strides)) {
        return Err(refused(
            "the array's elements are not next to each other in row order, and a buffer's are: pass a contiguous copy",
        ));
    }
    let begin = tensor.data.cast::<u8>();
    if begin.is_null() && shape.count() > 0 {
        return Err(refused("the array has no memory"));
    }
    // An empty array may have no memory at all.
    let begin = match begin.is_null() {
        true => ptr::without_provenance_mut(dtype.size()),
        false => begin.wrapping_add(tensor.byte_offset as usize),
    };
    Ok((begin, dtype, shape))
}

/// Takes a tensor. On success its deleter is called when the memory is dropped, and else it stays the caller's.
///
/// # Safety
/// - `tensor` is live and as the interface says, and its memory may be used from any thread.
/// - As [`Foreign::new`] says, nothing else writes the memory while it is leased.
///
/// # Errors
/// [`BufferError::Import`]: another major version, a device, a type that no buffer has, or gaps between elements.
pub unsafe fn import(tensor: *mut Versioned) -> Result<Imported, BufferError> {
    // SAFETY: the caller vouches. Other versions have the same first fields.
    let given = unsafe { &*tensor };
    if given.major != VERSION.0 {
        return Err(refused(format!(
            "the array is DLPack {}.{}, and this import knows version {}: update one of the libraries",
            given.major, given.minor, VERSION.0
        )));
    }
    // SAFETY: the caller vouches for the tensor.
    let (at, dtype, shape) = unsafe { described(&given.tensor) }?;
    let read_only = given.flags & READ_ONLY != 0;
    let owner = Owner(tensor, given.deleter.unwrap_or(keep));
    // SAFETY: the tensor's memory is live until the deleter is called.
    Ok(unsafe { imported(at, dtype, &shape, read_only, owner) })
}

/// As [`import`], for a tensor from before version 1.0.
///
/// # Safety
/// - As for [`import`].
///
/// # Errors
/// As [`import`].
pub unsafe fn import_unversioned(tensor: *mut Unversioned) -> Result<Imported, BufferError> {
    // SAFETY: the caller vouches.
    let given = unsafe { &*tensor };
    // SAFETY: the caller vouches for the tensor.
    let (at, dtype, shape) = unsafe { described(&given.tensor) }?;
    let owner = Owner(tensor, given.deleter.unwrap_or(keep));
    // SAFETY: the tensor's memory is live until the deleter is called.
    Ok(unsafe { imported(at, dtype, &shape, false, owner) })
}

/// # Safety
/// - The memory has the elements, and is live until the owner is dropped.
unsafe fn imported<T: 'static>(
    at: *mut u8,
    dtype: DType,
    shape: &Shape,
    read_only: bool,
    owner: Owner<T>,
) -> Imported {
    let bytes = shape.count() * dtype.size();
    Imported {
        // SAFETY: the caller vouches.
        memory: unsafe { Foreign::new(at, bytes, read_only, owner) },
        dtype,
        shape: shape.axes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Holder, Side, Use};
    use crate::{Buffers, Strategy};

    fn buffer() -> crate::RawBuffer {
        let mut buffer = Buffers::cpu()
            .zeros::<i32>(&[2, 3], Strategy::Private)
            .expect("small");
        buffer.write(0, &[1, 2, 3, 4, 5, 6]).expect("unused");
        buffer.raw().clone()
    }
    fn exported(buffer: &crate::RawBuffer, how: Use) -> *mut Versioned {
        let lease = buffer
            .lease(how, Holder::here("an export"))
            .expect("unused");
        export(lease, buffer.dtype(), buffer.shape()).expect("memory of the host")
    }
    fn reason(tensor: *mut Versioned) -> String {
        // SAFETY: the tests pass live tensors.
        let refused = unsafe { import(tensor) };
        refused.expect_err("it must be refused").to_string()
    }

    #[test]
    fn a_round_trip_shares_the_memory_and_ends_the_lease() {
        let buffer = buffer();
        let tensor = exported(&buffer, Use::writes(Side::Host));
        assert!(
            buffer
                .lease(Use::reads(Side::Device), Holder::here("a task"))
                .is_err()
        );
        // SAFETY: just exported.
        let imported = unsafe { import(tensor) }.expect("it fits");
        assert_eq!(
            (imported.dtype, &*imported.shape),
            (DType::I32, &[2, 3][..])
        );
        let (dtype, shape) = (imported.dtype, imported.shape.clone());
        let other = Buffers::cpu().import(imported.memory, dtype, &shape, Strategy::Private);
        let mut other =
            crate::UnifiedBuffer::<i32>::try_from_raw(other.expect("it fits")).expect("i32");
        assert_eq!(*other.host().expect("unused"), [1, 2, 3, 4, 5, 6]);
        other.host_rows_mut(1..2).expect("unused")[0] = 40;
        drop(other);
        let lease = buffer.lease(Use::reads(Side::Host), Holder::here("a view"));
        let lease = lease.expect("the export has ended");
        // SAFETY: the lease is for six elements.
        let seen = unsafe { std::slice::from_raw_parts(lease.host_address().cast::<i32>(), 6) };
        assert_eq!(seen, [1, 2, 3, 40, 5, 6]);
    }

    #[test]
    fn tensors_that_do_not_fit_are_refused_and_stay_the_callers() {
        let buffer = buffer();
        let tensor = exported(&buffer, Use::writes(Side::Host));
        let change = |change: &dyn Fn(&mut Versioned)| {
            // SAFETY: the test has the only pointer.
            change(unsafe { &mut *tensor });
            reason(tensor)
        };
        assert!(change(&|t| t.major = 2).contains("DLPack 2.1"));
        assert!(change(&|t| (t.major, t.tensor.device.kind) = (1, CUDA)).contains("type 2"));
        assert!(
            change(&|t| (t.tensor.device.kind, t.tensor.dtype.code) = (CPU, 5)).contains("code 5")
        );
        let strides = &mut [1_i64, 2];
        let at = strides.as_mut_ptr();
        let text = change(&|t| (t.tensor.dtype.code, t.tensor.strides) = (0, at));
        assert!(text.contains("contiguous"), "{text}");
        assert!(
            change(&|t| (t.tensor.strides, t.tensor.data) = (ptr::null_mut(), ptr::null_mut()))
                .contains("no memory")
        );
        // SAFETY: still ours: the deleter is called once.
        unsafe { (*tensor).deleter.expect("there is one")(tensor) };
        assert!(buffer.holders().is_empty());
    }

    #[test]
    fn memory_to_be_read_is_marked_and_not_given_to_old_libraries() {
        let buffer = buffer();
        let read = Use::reads(Side::Host);
        let tensor = exported(&buffer, read);
        // SAFETY: just exported.
        let imported = unsafe { import(tensor) }.expect("it fits");
        assert!(imported.memory.is_read_only());
        let lease = buffer
            .lease(read, Holder::here("an export"))
            .expect("both read");
        let refused = export_unversioned(lease, buffer.dtype(), buffer.shape());
        assert!(
            refused
                .expect_err("it would be written")
                .to_string()
                .contains("DLPack 1.0")
        );
        let other = Buffers::cpu().import(imported.memory, DType::I32, &[6], Strategy::Private);
        let write = other
            .expect("it fits")
            .lease(Use::writes(Side::Device), Holder::here("a task"));
        assert!(matches!(write, Err(BufferError::ReadOnly)));
    }
}
