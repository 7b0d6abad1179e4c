//! The C interface of everwarp. `include/everwarp.h` is its description; a test compares both.
//!
//! Every function catches what goes wrong inside: errors become a status and a message, and no panic crosses the border.

pub mod actors;
pub mod engine;
pub mod exits;
pub mod module;
pub mod objects;
pub mod options;
pub mod processes;
pub mod status;

use std::ffi::{CStr, c_char};

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn ew_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The text behind a pointer from C.
///
/// # Safety
/// - `text` is null or points to a text that ends with a zero byte.
unsafe fn text(text: *const c_char, what: &'static str) -> Result<String, status::Failure> {
    if text.is_null() {
        return Err(status::Failure::null(what));
    }
    // SAFETY: it is not null, so the caller vouches for it.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str();
    text.map(str::to_owned)
        .map_err(|_| status::Failure::argument(format!("{what} is not UTF-8")))
}

/// The elements behind a pointer from C; none if their number is 0.
///
/// # Safety
/// - `first` points to `count` elements, unless `count` is 0.
unsafe fn slice<'a, T>(
    first: *const T,
    count: usize,
    what: &'static str,
) -> Result<&'a [T], status::Failure> {
    match (count, first.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(status::Failure::null(what)),
        // SAFETY: the caller vouches for `count` elements.
        (_, false) => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}
