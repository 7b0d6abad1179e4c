//! Threads of one process.
//!
//! A process whose memory is shared has a [`Team`]: the memory, its descriptors, who waits at which address, and how
//! the process has ended. Each thread but the first is a thread of the system, because compiled code may spin for
//! another thread, which then must run beside it. What a thread waits in are futures, as everywhere in this crate: so
//! the end of the process ends waits.

mod body;
mod imports;
mod poll;
mod rewrite;
mod team;
mod wait;
mod wasi;

pub(crate) use imports::add;
pub(crate) use rewrite::{ADDED, is_own, rewrite};
pub(crate) use team::{Given, Team};
pub(crate) use wasi::{Hook, Wasi};
