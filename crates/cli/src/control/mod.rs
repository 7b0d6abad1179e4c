//! Talking to engines that run: each serves a socket in a folder of its user's, named by the command's process.
//!
//! A request is one line of JSON, and so is its answer; then the connection ends. Who may open the folder is the
//! user alone, but whatever comes is still taken for hostile: requests have a length, connections a number, and both
//! a time.

mod client;
mod folder;
mod server;

use serde::{Deserialize, Serialize};

pub(crate) use client::{ask, engines};
pub(crate) use folder::{ControlError, Folder};
pub(crate) use server::Server;

/// What an engine can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Its processes, and descriptions of `most` of them.
    List { most: u32 },
    /// The end of one process.
    Kill { pid: String },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// To [`Request::List`].
    Listing(Engine),
    /// The process has been asked to end.
    Asked,
    /// There is no process of that name.
    NoProcess,
    /// It was not done, for this reason.
    Refused { reason: String },
}

/// An engine and its processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Engine {
    /// The operating system's number of the command that runs it.
    pub(crate) os_pid: u32,
    /// `cpu` or `cuda`.
    pub(crate) engine: String,
    /// What was asked to run.
    pub(crate) module: String,
    /// Seconds since it began.
    pub(crate) age_s: f64,
    /// Processes that have not begun.
    pub(crate) waiting: usize,
    /// Those that have begun and not ended.
    pub(crate) running: usize,
    /// Those that have ended and that the command has not counted yet.
    pub(crate) ended: usize,
    /// How many of them are not described.
    pub(crate) left_out: usize,
    /// Those that are.
    pub(crate) processes: Vec<Process>,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// The slot, and behind a point the generation.
    pub(crate) pid: String,
    /// Its number among those that the command was asked for; nothing for one that another process began.
    pub(crate) instance: Option<u32>,
    /// The process that has begun it; nothing if that was the command.
    pub(crate) parent: Option<String>,
    /// What it does.
    pub(crate) state: String,
    /// Fuel used, as of its last call or suspension.
    pub(crate) fuel_used: Option<u64>,
    /// Bytes of memory and tables.
    pub(crate) memory_bytes: Option<u64>,
}
