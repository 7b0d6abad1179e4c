//! Processes on the CUDA engine: WebAssembly modules, compiled to the GPU's own code, in a process table on
//! the GPU, with WASI preview 1.
//!
//! [`CudaProcesses`] (`engine`) links modules into an image, starts an engine with it, and starts processes as the trait
//! [`everwarp_process::ProcessEngine`] says. A process takes a *place*: a record, the instance's block and its linear
//! memory, all in device memory. A task makes places ready and starts what runs in them; processes without a place wait
//! on the host. Each process is one lane of the engine. A trap, a kill or spent fuel ends one process and touches no
//! other, because compiled code checks every access against its own memory.
//!
//! **Host calls.** The GPU itself serves arguments, environment, clocks and random bytes. Standard output is
//! collected and sent by the page. Everything else goes through the host-call ring to `everwarp-hostcalls`. A process
//! that waits gives up its lane: compiled code saves its frames, and the host's answer submits a task that continues it.
//! Only short calls, while few are on their way, are waited for on the spot, and not for long.
//!
//! **Turns.** A process that loops gives up its lane when its slice is spent, and continues after everything else that
//! its warp has to do.
//!
//! **Channels and children.** Where a module imports `everwarp:gpu`, processes have channels and spawn others without
//! the CPU: `family` lays out the memory for it, and a process that wakes another one submits the task that continues it,
//! on the GPU. The host has ends of channels too, and gives them to processes (`channel`); it lists children and kills
//! them (`children`).
//!
//! **Threads.** `host_core` holds what the host's threads share: the processes by slot (`table`), the queues of free places
//! and waiting processes (`queue`), and the callers that wait for exits (`waiters`). Callers of `spawn` start processes
//! themselves while many places are free; the dispatcher (`dispatch`) starts the others when places become free. The
//! service of host calls reports exits and answered calls (`listener`).
//!
//! **Loading.** Modules can be loaded while processes run (`load`), including modules with channels, children and
//! threads.
//!
//! **Stack.** Compiled functions call each other on the device's own stack, which the driver reserves for every
//! thread that the device can hold. [`everwarp_process::HostConfig::stack_bytes`] says how much that is, and the depth of
//! calls that it allows follows from the frames of the functions on the way (`link`).
//!
//! This crate is internal to everwarp and promises no stability.
#![cfg(target_os = "linux")]

mod append_list;
mod asked;
mod batches;
mod channel;
mod children;
mod clock;
mod code;
mod config;
mod directory;
mod dispatch;
mod engine;
mod error;
mod family;
mod host_core;
mod idle;
mod layout;
mod lease;
mod likely;
mod link;
mod list;
mod listener;
mod load;
mod making;
mod module;
mod partial;
mod pauses;
mod places;
mod process;
mod program;
mod queue;
mod quota;
mod resident;
mod share;
mod shared_code;
mod slots;
mod spawn;
mod start;
mod strings;
mod supply;
mod table;
mod wait;
mod waiters;
mod wasi;
mod wishes;

#[doc(hidden)]
pub use code::{
    BatchTimes, addition_to, batch_times, image, image_and_module_next_to_it,
    image_lacking_functions,
};
pub use engine::CudaProcesses;
pub use everwarp_hostcalls::{Streams, raise_descriptor_limit};
pub use everwarp_runtime::cuda::ahead::Ahead;
pub use likely::{Unrehearsed, is_rehearsed, recall_rehearsal};
pub use resident::{ResidentConfig, ResidentProcesses};
pub use start::Preparation;
