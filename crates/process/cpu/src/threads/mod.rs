//! Threads of one process.
//!
//! A process whose memory is shared has a [`ThreadGroup`]: the memory, the process's descriptors, the threads that wait
//! at addresses, and the process's end. Each thread but the first is a thread of the system, because compiled code may
//! spin until another thread does something, and that thread must then run at the same time. All waits are futures, as
//! everywhere in this crate, so that the end of the process ends them.

mod descriptors;
mod group;
mod parking;

pub(crate) use descriptors::Descriptors;
pub(crate) use group::{ThreadGroup, ThreadGroupConfig};
