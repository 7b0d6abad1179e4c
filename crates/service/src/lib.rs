//! A service that keeps engines resident and runs the processes of other programs of the same user.
//!
//! * [`Folder`] is where a user's service listens: a folder that only this user can use.
//! * [`Supervisor`](supervise) is the service's first process. It owns the socket, greets clients, and passes each
//!   connection to the child that has the engine. It runs nothing itself, so nothing that a client does can end it.
//! * [`engine_child`] is such a child. A [`Backend`] starts the hosts of its clients.
//! * [`connect`] finds the service, and [`ClientEngine`] makes it a process engine of the client.
//!
//! **Trust.** The folder, the socket and the credentials of both sides limit the service to one user. A client
//! is treated as hostile all the same: every message is checked, everything that it may pile up has a limit, and a client
//! that breaks a rule loses its connection and its processes, and nothing else.
//!
//! **What is passed.** A client passes descriptors, never paths: its standard streams, its modules, its directories. The
//! service opens nothing by name for a client and never changes the flags of a client's descriptor.
//!
//! **Layers.** `wire` (bytes and frames), `protocol` and `convert` (messages), `hello`, `records`, `descriptors`,
//! then `client` and `server`, then `control` (operators), `child`, `spawn`, `native` (programs next
//! to an engine) and `supervisor` on top.
//!
//! This crate is internal to everwarp and promises no stability.

#![cfg(target_os = "linux")]

mod child;
mod client;
mod connect;
mod control;
mod convert;
mod descriptors;
mod hello;
mod log;
mod native;
mod operator;
mod protocol;
mod records;
mod server;
mod spawn;
mod supervisor;
mod wire;

pub use child::{CONTROL_FD, engine_child};
pub use client::{ClientConnection, ClientEngine, ClientFiles, EVENTS_MOST};
pub use connect::{ConnectError, Connected, connect, connect_in};
pub use everwarp_telemetry::control::{Folder, FolderError, Lock};
pub use hello::{GreetingError, Purpose, Wanted};
pub use log::{Level, log, set_level};
pub use native::{Runners, native_runner};
pub use operator::{ClientRow, ClientSnapshot, EngineState, EngineStatus, Operator, ServiceStatus};
pub use server::{Backend, Cancellation, Quotas};
pub use supervisor::{Listening, Settings, Stop, StopHandle, SupervisorError, supervise};
pub use wire::codec::WireError;
