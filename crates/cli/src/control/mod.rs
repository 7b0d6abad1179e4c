//! How commands talk to each other. The service answers for its clients. Each other `everwarp run` of a module serves a
//! socket in a folder of its user, named by the command's process id.
//!
//! A request is one line of JSON, and so is its answer; then the connection ends. Only the user can open the folder, but
//! requests are treated as hostile all the same: their length, their number and their time are limited.

mod client;
mod folder;
mod served;
mod server;

use serde::{Deserialize, Serialize};

pub(crate) use client::{ask, engines};
pub(crate) use everwarp_service::Folder;
pub(crate) use folder::ControlError;
pub(crate) use served::ServedClients;
pub(crate) use server::Server;

/// A request to a running engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Count the processes, and describe up to `most` of them.
    List { most: u32 },
    /// Ask one process to end.
    Kill { pid: String },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The answer to [`Request::List`].
    Listing(EngineSnapshot),
    /// The process has been asked to end.
    Asked,
    /// No process has this pid.
    NoProcess,
    /// The request was not carried out, for this reason.
    Refused { reason: String },
}

/// An engine and its processes, as they were at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EngineSnapshot {
    /// The operating system's process id of the command that runs it.
    pub(crate) os_pid: u32,
    /// `cpu` or `cuda`.
    pub(crate) engine: String,
    /// The module, as the command line names it.
    pub(crate) module: String,
    /// Seconds since the command started.
    pub(crate) age_s: f64,
    /// How many processes have not started.
    pub(crate) waiting: usize,
    /// How many processes have started and not exited.
    pub(crate) running: usize,
    /// How many processes have exited and have not been counted by the command.
    pub(crate) ended: usize,
    /// How many processes are not described.
    pub(crate) left_out: usize,
    /// The processes that are described.
    pub(crate) processes: Vec<ProcessRow>,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProcessRow {
    /// `SLOT.GENERATION`.
    pub(crate) pid: String,
    /// Its number among the processes that the command started; `None` if another process spawned it.
    pub(crate) instance: Option<u32>,
    /// The process that spawned it; `None` if the command did.
    pub(crate) parent: Option<String>,
    /// What it does.
    pub(crate) state: String,
    /// The fuel that it had used at its last host call or suspension; `None` where fuel is not counted.
    pub(crate) fuel_used: Option<u64>,
    /// The bytes of its memory and tables.
    pub(crate) memory_bytes: Option<u64>,
}
