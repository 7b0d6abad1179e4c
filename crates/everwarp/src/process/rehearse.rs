//! Rehearsing the modules of a host before its GPU's code is made.

use std::time::Duration;

use everwarp_process::{HostConfig, Module, Rehearsal, Tier};
use everwarp_process_cuda::{Unrehearsed, is_rehearsed};
use everwarp_runtime::trace::span;

/// How long the processes of a module may run together. The code of a function that they did not reach takes a third of a second
/// when it is called.
const TIME: Duration = Duration::from_millis(500);

/// What processes of modules are given.
pub(super) type Rehearsals = Vec<(Module, Vec<Rehearsal>)>;

/// Whether a rehearsal is left that may show functions which processes of a module are likely to call.
pub(super) fn is_any_left(rehearsals: &Rehearsals, config: &HostConfig) -> bool {
    rehearsals
        .iter()
        .any(|(module, given)| Unrehearsed::of(module, given, config).is_some())
}

/// Finds out which functions of modules their processes are likely to call, unless that is known or the host compiles all of them
/// before it starts.
pub(super) fn rehearse(rehearsals: &Rehearsals, config: &HostConfig) {
    for (module, given) in rehearsals {
        let Some(unrehearsed) = Unrehearsed::of(module, given, config) else {
            continue;
        };
        let _span = span("host: rehearse");
        let bytes = unrehearsed.bytes();
        let called = everwarp_process_cpu::rehearse(&bytes, given.iter().cloned(), TIME);
        // A process calls something, so a module that cannot be rehearsed is not known.
        let are_all = !called.others && !called.functions.is_empty();
        unrehearsed.rehearsed(called.functions, are_all);
    }
}

/// The settings for a service, which finds what rehearsals have shown in the cache. It compiles all functions unless that is known of each
/// module.
pub(super) fn rehearse_for_service(
    modules: &[Module],
    rehearsals: &Rehearsals,
    config: &HostConfig,
) -> HostConfig {
    rehearse(rehearsals, config);
    let mut config = config.clone();
    if !modules.iter().all(|module| is_rehearsed(module, &config)) {
        config.tier = Tier::Best;
    }
    config
}
