//! Whether the program is about to end, so that the system takes its memory back faster than it could be freed.

use std::sync::atomic::{AtomicBool, Ordering};

static LEAVING: AtomicBool = AtomicBool::new(false);

/// Says that the program ends as soon as its engines have: they park and leave their memory to the driver.
pub fn leave() {
    LEAVING.store(true, Ordering::Relaxed);
}

/// Whether the program is about to end.
pub(crate) fn is_leaving() -> bool {
    LEAVING.load(Ordering::Relaxed)
}
