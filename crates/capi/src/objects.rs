//! Objects that C owns: boxes, and a count of those that have not been freed.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::status::{Failure, guard};

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// How many objects have not been freed.
#[unsafe(no_mangle)]
pub extern "C" fn ew_live_objects() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Passes an object to C.
///
/// # Safety
/// - `to` is null or may be written.
pub(crate) unsafe fn give<T>(object: T, to: *mut *mut T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::null("the place for the result"));
    }
    LIVE.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the caller vouches for it.
    unsafe { to.write(Box::into_raw(Box::new(object))) };
    Ok(())
}

/// An object of C's.
///
/// # Safety
/// - `object` is null or was made by [`give`] and has not been freed.
pub(crate) unsafe fn borrow<'a, T>(object: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller vouches for it.
    unsafe { object.as_ref() }.ok_or_else(|| Failure::null(what))
}

/// Takes an object back and drops it. Null is ignored.
///
/// # Safety
/// - As for [`borrow`], and nothing uses the object any more.
pub(crate) unsafe fn free<T>(object: *mut T) {
    if object.is_null() {
        return;
    }
    LIVE.fetch_sub(1, Ordering::Relaxed);
    let _ = guard(|| {
        // SAFETY: the caller vouches for it.
        drop(unsafe { Box::from_raw(object) });
        Ok(())
    });
}
