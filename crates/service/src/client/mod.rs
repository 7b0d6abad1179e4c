//! The client's side of a connection: a [`ProcessEngine`](everwarp_process::ProcessEngine) whose processes run in the
//! service.

mod channel;
mod connection;
mod engine;
mod stdin;
mod waits;

pub use engine::{ClientConnection, ClientEngine, ClientFiles, EVENTS_MOST};
