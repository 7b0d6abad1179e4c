//! The service, driven by a mock device through a real ring.
#![cfg(target_os = "linux")]

mod descriptors;
mod device;
mod directories;
mod escape;
mod exit;
mod families;
mod files;
mod functions;
mod hostile;
mod net;
mod openings;
mod output;
mod paths;
mod poll;
mod ring;
mod sockets;
mod together;
mod world;

/// The default of a server.
const READS: everwarp_hostcalls::Reads = everwarp_hostcalls::Reads::Batched(2);
