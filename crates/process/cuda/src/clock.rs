//! The clock of the device, from which processes get the time of day.

use std::time::{SystemTime, UNIX_EPOCH};

use everwarp_runtime::{DevType, Engine, Error};

use crate::layout::DevProcessTable;
use crate::program;

/// The offset to add to the device's clock: the time of day in the middle of a task that reads it.
pub(crate) fn clock_offset(engine: &Engine) -> Result<u64, Error> {
    // SAFETY: the task that reads the clock follows no address.
    let instance = unsafe { engine.instance(&program::PROGRAM, &DevProcessTable::ZERO) }?;
    let before = SystemTime::now();
    let device = engine.submit(instance.task(program::CLOCK))?.wait()?.value;
    let half = before.elapsed().unwrap_or_default() / 2;
    let middle = (before + half)
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok((middle.as_nanos() as u64).wrapping_sub(device))
}
