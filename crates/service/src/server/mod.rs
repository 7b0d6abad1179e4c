//! The service's side of a connection: a session runs the processes of one client.

mod backend;
mod cancellation;
#[cfg(test)]
mod fuzz;
mod modules;
mod output;
mod requests;
mod session;
mod stdin;
mod waits;

pub use backend::{Backend, Quotas};
pub use cancellation::Cancellation;
pub(crate) use modules::ModuleCache;
pub(crate) use output::install_interrupt;
pub(crate) use session::{Session, SessionSettings};
