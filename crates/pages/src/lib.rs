//! The page cache of native tasks, without an engine and without files.
//!
//! * [`Word`] is the protocol between tasks and the host: the word of a page, which device source changes by the same rules
//!   (`everwarp/files/pages.cuh`).
//! * [`Pager`] is what the host decides: which page gets which frame, what is read together and ahead, what is written back,
//!   and which page leaves. It makes no system call and starts no thread, so tests run it with any order of events.
//!
//! `everwarp-files` joins both with the door and with files. This crate is **internal** to everwarp.

mod mutant;
mod sync;
mod word;

#[cfg(not(loom))]
mod frames;
#[cfg(not(loom))]
mod lists;
#[cfg(not(loom))]
mod pager;
#[cfg(not(loom))]
mod regions;
#[cfg(not(loom))]
mod streams;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod simulation;

#[cfg(not(loom))]
pub use pager::{
    CachedFile, Done, FrameList, Order, OrderKind, PageStats, Pager, Run, Shape, Step, Wanted,
    WriteBack,
};
pub use word::{Acquired, Evicted, Eviction, Word, filled};
