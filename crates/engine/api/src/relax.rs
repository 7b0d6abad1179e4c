//! Waiting for a moment, as a loop does that looks again and again.

use std::sync::OnceLock;
use std::thread::available_parallelism;

/// With this many cores or fewer, a thread that only looks is in the way of one that works.
const FEW: usize = 4;

/// Passes a moment between two looks. With few cores another thread that is ready gets this core; with many it costs no system call.
pub fn relax() {
    static FEW_CORES: OnceLock<bool> = OnceLock::new();
    match FEW_CORES.get_or_init(|| available_parallelism().is_ok_and(|cores| cores.get() <= FEW)) {
        true => std::thread::yield_now(),
        false => std::hint::spin_loop(),
    }
}
