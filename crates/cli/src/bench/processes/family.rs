//! Processes and their children: spawning children, and messages between them.

use super::repeated;
use super::run::{Bench, ProcessInput};
use crate::bench::experiment::Context;
use crate::bench::stats::Row;
use crate::error::CliError;

pub(super) const FAMILY: &[u8] = include_bytes!("family.wasm");
/// The messages of each pair, and the children of each parent, one after the other.
const EACH: usize = 1000;

pub(super) fn messages(cx: &Context<'_>) -> Result<(), CliError> {
    let what =
        "messages of 4 bytes from processes to children of theirs, over channels that hold two";
    measure(cx, "m", &[1, 32, 200], "message", what)
}

pub(super) fn children(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "children spawned, run and waited for, one after the other by each process";
    measure(cx, "s", &[1, 32, 500], "child", what)
}

/// Measures these numbers of processes at the same time. Each process checks what it receives, and traps if that is
/// wrong.
fn measure(
    cx: &Context<'_>,
    how: &str,
    counts: &[usize],
    unit: &'static str,
    what: &'static str,
) -> Result<(), CliError> {
    // On a CPU the larger numbers take minutes.
    let counts = if cx.is_cuda() { counts } else { &counts[..1] };
    let bench = Bench::start(cx.device, "family", FAMILY, 1024)?;
    let input = ProcessInput {
        argument: Some(how),
        ..ProcessInput::default()
    };
    for &count in counts {
        // A process that fails, such as for a wrong message, is an error.
        let (times, right) = repeated(&bench, input, count, 0)?;
        let row = Row::new(what, unit, (count * EACH) as f64, times).size(count as u64);
        cx.emit(row.verified(right))?;
    }
    Ok(())
}
