//! What `everwarp:gpu` offers a process beyond WASI: channels, children, and the warp that it runs in.
//!
//! `guests/GPU.md` says what each function promises. All of it works on both engines and needs neither `std` nor an
//! allocator.

#![no_std]

mod channel;
mod error;
mod process;
mod raw;
mod warp;

pub use channel::{End, Receiver, Sender, channel};
pub use error::Error;
pub use process::{Child, Pid, Status, instance, process, spawn};
pub use warp::{active, ballot, lane, shuffle, warp};
