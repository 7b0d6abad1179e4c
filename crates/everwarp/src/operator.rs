//! What an operator of the service sees and may do: the processes of all clients of this user, and the service itself.
//!
//! A [`Service`](crate::Service) is a client, and sees its own processes only. A program that asks for more connects as
//! [`Operator`], as the commands `everwarp ps`, `kill`, `status` and `down` do.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! if let Some(mut operator) = everwarp::operator::connect()? {
//!     for client in operator.list(10)? {
//!         println!("{}: {} processes run", client.program, client.running);
//!     }
//! }
//! # Ok(()) }
//! ```

#[doc(inline)]
pub use everwarp_service::{
    ClientRow, ClientSnapshot, ConnectError, EngineState, EngineStatus, Operator, ServiceStatus,
};

use everwarp_service::Folder;

/// Connects to the service of this user; `None` if none is up.
///
/// # Errors
/// A service is up and cannot be used.
pub fn connect() -> Result<Option<Operator>, ConnectError> {
    Operator::connect(&Folder::of_user())
}
