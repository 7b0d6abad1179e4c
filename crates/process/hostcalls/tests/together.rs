//! The same tests with every read of a file done by an io_uring, if the system gives one.
#![cfg(target_os = "linux")]

#[path = "wasi/descriptors.rs"]
mod descriptors;
#[path = "wasi/device.rs"]
mod device;
#[path = "wasi/directories.rs"]
mod directories;
#[path = "wasi/escape.rs"]
mod escape;
#[path = "wasi/exit.rs"]
mod exit;
#[path = "wasi/families.rs"]
mod families;
#[path = "wasi/files.rs"]
mod files;
#[path = "wasi/hostile.rs"]
mod hostile;
#[path = "wasi/openings.rs"]
mod openings;
#[path = "wasi/output.rs"]
mod output;
#[path = "wasi/paths.rs"]
mod paths;
#[path = "wasi/poll.rs"]
mod poll;
#[path = "wasi/ring.rs"]
mod ring;
#[path = "wasi/together.rs"]
mod together;
#[path = "wasi/world.rs"]
mod world;

const READS: everwarp_hostcalls::Reads = everwarp_hostcalls::Reads::Batched(1);
