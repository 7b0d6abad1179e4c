//! What a process is given, the clock, chance, and the end.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::raw;

/// Fetches a list of strings by a pair of host calls.
fn strings(
    sizes: unsafe extern "C" fn(*mut usize, *mut usize) -> u16,
    get: unsafe extern "C" fn(*mut *const u8, *mut u8) -> u16,
) -> Vec<String> {
    let (mut count, mut bytes) = (0, 0);
    // SAFETY: both are valid for a write.
    let code = unsafe { sizes(&mut count, &mut bytes) };
    assert!(code == 0, "the sizes are always known");
    let mut at = vec![core::ptr::null::<u8>(); count];
    let mut text = vec![0_u8; bytes];
    // SAFETY: they have the sizes that the host has just asked for.
    let code = unsafe { get(at.as_mut_ptr(), text.as_mut_ptr()) };
    assert!(code == 0, "the strings are always known");
    let mut out = Vec::with_capacity(count);
    for at in at {
        // SAFETY: the host has written strings that end with a zero byte into `text`, and these addresses.
        let string = unsafe { CStr::from_ptr(at.cast()) };
        out.push(String::from_utf8_lossy(string.to_bytes()).into_owned());
    }
    out
}

/// The arguments; the first is the program's name by convention.
pub fn args() -> Vec<String> {
    strings(raw::args_sizes_get, raw::args_get)
}

/// The environment, each variable as `NAME=VALUE`.
pub fn environ() -> Vec<String> {
    strings(raw::environ_sizes_get, raw::environ_get)
}

/// Ends the process.
pub fn exit(code: u32) -> ! {
    // SAFETY: it does not come back, and there is nothing to tidy up.
    unsafe { raw::proc_exit(code) }
}

/// Nanoseconds since some moment, never going back.
pub fn monotonic() -> u64 {
    let mut time = 0;
    // SAFETY: the address is valid for a write. 1 is the monotonic clock.
    let code = unsafe { raw::clock_time_get(1, 1, &mut time) };
    assert!(code == 0, "there is always a monotonic clock");
    time
}

/// Eight bytes from the host's source of random numbers.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the array is valid for a write of its length.
    let code = unsafe { raw::random_get(bytes.as_mut_ptr(), bytes.len()) };
    assert!(code == 0, "there are always random numbers");
    u64::from_le_bytes(bytes)
}
