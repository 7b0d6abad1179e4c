//! `ew_module`.

use std::ffi::c_char;

use everwarp::process;

use crate::objects::{free, give};
use crate::status::{Status, guard};
use crate::{slice, text};

/// A WebAssembly module.
#[derive(Debug)]
pub struct Module(pub(crate) process::Module);

/// Reads a module from a file.
///
/// # Safety
/// - `path` is null or a text that ends with a zero byte; `module` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_module_from_file(
    path: *const c_char,
    module: *mut *mut Module,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let path = unsafe { text(path, "path") }?;
        let read = process::Module::from_file(path)?;
        // SAFETY: the caller vouches for it.
        unsafe { give(Module(read), module) }
    })
}

/// Makes a module from its binary form.
///
/// # Safety
/// - `name` is null or a text that ends with a zero byte; `bytes` points to `length` bytes; `module` is null or may be
///   written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_module_from_bytes(
    name: *const c_char,
    bytes: *const u8,
    length: usize,
    module: *mut *mut Module,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for both.
        let (name, bytes) = unsafe { (text(name, "name")?, slice(bytes, length, "bytes")?) };
        let made = process::Module::new(name, bytes.to_vec())?;
        // SAFETY: the caller vouches for it.
        unsafe { give(Module(made), module) }
    })
}

/// Frees a module.
///
/// # Safety
/// - `module` is null or was made by this library, is not freed, and nothing uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_module_free(module: *mut Module) {
    // SAFETY: the caller vouches for it.
    unsafe { free(module) }
}
