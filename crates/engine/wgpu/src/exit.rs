//! The end of a process whose device does not return.
//!
//! When a process ends, the destructors of a driver wait for the dispatches in flight. For one that never ends they wait for
//! ever, so the process would not end either. Where a dispatch was found not to return, the process ends before them.

/// Makes this process end without the destructors of drivers, with its own status.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn without_destructors() {
    use std::ffi::{c_int, c_void};
    use std::sync::Once;

    unsafe extern "C" {
        fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
        fn _exit(status: c_int) -> !;
    }
    extern "C" fn end(status: c_int, _: *mut c_void) {
        // SAFETY: it takes any status and has no preconditions.
        unsafe { _exit(status) }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function that lives as long as the process. Handlers run in the reverse order of their
        // registration, so this one runs before those of the drivers, which were registered when they were loaded.
        // If there is no room for it, the process ends as before.
        let _ = unsafe { on_exit(end, std::ptr::null_mut()) };
    });
}

/// Other systems have no handler that learns the status of the process.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn without_destructors() {}
