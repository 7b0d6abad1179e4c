//! The program of processes: device sources, and how modules are linked to them.

use std::borrow::Cow;

use everwarp_runtime::{Function, Layout, Params, Program, TaskCx};

use crate::layout::{self, DevProcessTable};

/// Makes up to 32 places of the table ready and starts their processes.
pub(crate) const START: u32 = 0;
/// Goes on with one process.
pub(crate) const RUN: u32 = 1;
/// Reports the device's clock.
pub(crate) const CLOCK: u32 = 2;
/// Goes on with up to 32 processes.
pub(crate) const WAKE: u32 = 3;
/// Does an operation on a channel for the host.
pub(crate) const CHANNEL: u32 = 4;
/// Opens and ends the group of the tasks that the processes of a host submit.
pub(crate) const ANCHOR: u32 = 5;
/// Clears a piece of the memories that have not been used yet. The number before is that of `again`, which only device
/// code submits.
pub(crate) const CLEAR: u32 = 7;
/// Makes many contiguous places ready and starts their processes, by as many warps as it takes.
pub(crate) const SPREAD: u32 = 8;
/// Asks a process to end that another process has spawned.
pub(crate) const KILL: u32 = 9;

/// There is no twin: on the CPU engine the crate `everwarp-process-cpu` runs processes, by other means.
fn twin(_: &mut dyn TaskCx) {
    panic!("processes of this crate run on a GPU");
}

/// The device sources of this crate by the names under which they include each other.
macro_rules! sources {
    ($($path:literal)*) => {
        &[$((concat!("process/", $path), include_str!(concat!("../device/", $path)))),*]
    };
}

/// The headers that `process.cu` includes, and that include each other and the engine's.
pub(crate) const HEADERS: &[(&str, &str)] = sources! {
    "memory.cuh"
    "call.cuh"
    "turn.cuh"
    "gather.cuh"
    "gpu/wake.cuh"
    "gpu/adopt.cuh"
    "gpu/channel.cuh"
    "gpu/children.cuh"
    "threads/team.cuh"
    "process.cuh"
    "wasi/import.cuh"
    "threads/wait.cuh"
    "wasi/local.cuh"
    "wasi/stream.cuh"
    "wasi/descriptor.cuh"
    "wasi/path.cuh"
    "wasi/socket.cuh"
    "wasi/net.cuh"
    "gpu/import.cuh"
    "gpu/host.cuh"
};

/// Most processes that one task starts.
const START_PROCESSES: u16 = layout::START_PROCESSES as u16;

static FUNCTIONS: &[Function] = &[
    Function::warp("start", twin).spawns(START_PROCESSES),
    Function::lane("run", twin).spawns(1),
    Function::lane("clock", twin),
    Function::warp("wake", twin).spawns(START_PROCESSES),
    Function::lane("channel", twin),
    // It spawns nothing, but needs a group of its own.
    Function::lane("anchor", twin).spawns(0),
    // Goes on with a process that was preempted, after all other work of its warp: the oldest first.
    Function::lane("again", twin).spawns(1).breadth_first(),
    Function::warp("clear", twin),
    // The tasks that it submits belong to its group.
    Function::warp("spread", twin).spawns(0),
    Function::lane("kill", twin),
];

/// The program.
pub(crate) static PROGRAM: Program = Program {
    name: Cow::Borrowed("process"),
    functions: Cow::Borrowed(FUNCTIONS),
    device_source: Cow::Borrowed(include_str!("../device/process.cu")),
    wgsl_source: Cow::Borrowed(""),
    params: Params::written(DevProcessTable::NAME, layout::write_structs),
};

/// Digits of the hash in a prefix.
const PREFIX_DIGITS: usize = 12;

/// The prefix of every name in the image of the module that has this hash. It depends on the module alone: so its machine
/// code is the same in every image, and is assembled once.
pub(crate) fn prefix(hash: &[u8]) -> String {
    let bytes = hash.iter().take(PREFIX_DIGITS / 2);
    let digits: String = bytes.map(|byte| format!("{byte:02x}")).collect();
    format!("m{digits}_")
}

/// Whether a function of the image belongs to a module.
pub(crate) fn is_of_module(name: &str) -> bool {
    let digits = name.strip_prefix('m').and_then(|rest| rest.split_once('_'));
    digits.is_some_and(|(digits, _)| {
        digits.len() == PREFIX_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

/// Declares the function that calls a module's entry by the module's number. It is linked with the modules.
pub(crate) const DECLARATIONS: &str =
    "extern \"C\" __device__ void linked_enter(u32 module, u64 block, u32 entry, u64 args);\n";

/// Is declared as well where the image of a module may lack functions: then processes ask for them. Other images do not have the
/// code for it.
pub(crate) const PARTIAL: &str = "#define EVERWARP_PARTIAL\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules_begin_with_their_prefix() {
        let prefix = prefix(&[0x01, 0xff, 3, 4, 5, 0xa6, 7, 8]);
        assert_eq!(prefix, "m01ff030405a6_");
        assert!(is_of_module(&format!("{prefix}f3")));
        let long = "mx1ff030405a6_f3";
        for other in [
            "m_f3",
            "m12_f",
            long,
            "m12",
            "linked_enter",
            "everwarp_engine",
        ] {
            assert!(!is_of_module(other), "{other}");
        }
    }
}
