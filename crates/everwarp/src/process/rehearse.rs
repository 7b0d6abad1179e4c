//! Rehearsing the modules of a host before its GPU's code is made.

use std::time::Duration;

use everwarp_process::{HostConfig, Module, Rehearsal};
use everwarp_process_cuda::Unrehearsed;
use everwarp_runtime::trace::span;

/// How long the processes of a module may run together. The code of a function that they did not reach takes a third of a second
/// when it is called.
const TIME: Duration = Duration::from_millis(500);

/// Finds out which functions of a module its processes are likely to call, unless that is known or the host compiles all of them
/// before it starts.
pub(super) fn rehearse(module: &Module, given: &[Rehearsal], config: &HostConfig) {
    let Some(unrehearsed) = Unrehearsed::of(module, config) else {
        return;
    };
    let _span = span("host: rehearse");
    let bytes = unrehearsed.bytes();
    let called = everwarp_process_cpu::rehearse(&bytes, given.iter().cloned(), TIME);
    // A process calls something, so a module that cannot be rehearsed is not known.
    let are_all = !called.others && !called.functions.is_empty();
    unrehearsed.rehearsed(called.functions, are_all);
}
