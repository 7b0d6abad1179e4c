//! Sockets that processes use, whichever engine runs them.
//!
//! A [`Listener`] accepts [`Connection`]s. Both never wait: a call that would have to wait returns `WouldBlock`, and the
//! caller waits for readiness where it waits for everything else, the CPU engine in its worker threads and the service of
//! host calls in a [`Reactor`]. So no thread of the host is held up by a peer.
//!
//! Everything is handed to processes as open sockets. A process never names an address of a listener that it was given.
//!
//! Linux only, for now. This crate is internal to everwarp and promises no stability.

mod address;
#[cfg(target_os = "linux")]
mod reactor;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(not(target_os = "linux"))]
#[path = "no_socket.rs"]
mod socket;

pub use address::{AddressError, ListenAddress};
#[cfg(target_os = "linux")]
pub use reactor::Reactor;
pub use socket::{Connection, Interest, ListenError, Listener, Readiness, Shutdown, Socket};
