//! Sockets that processes use, whichever engine runs them.
//!
//! A [`Listener`] accepts [`Connection`]s. Both never wait: a call that would have to wait returns `WouldBlock`, and the
//! caller waits for readiness where it waits for everything else, the CPU engine in its worker threads and the service of
//! host calls in a [`Reactor`]. So no thread of the host is held up by a peer.
//!
//! What a command gives to processes, it gives as open sockets. A process that opens sockets itself, as an [`Endpoint`], may
//! use the addresses that its [`Network`] has rules for.
//!
//! [`Events`] gives processes what arrives by itself, through a connection as well.
//!
//! Linux only, for now. This crate is internal to everwarp and promises no stability.

mod address;
mod backend;
#[cfg(target_os = "linux")]
mod endpoint;
#[cfg(target_os = "linux")]
mod events;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod reactor;
mod rules;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(not(target_os = "linux"))]
#[path = "no_socket.rs"]
mod socket;
mod timers;

pub use address::{AddressError, ListenAddress};
pub use backend::{BACKEND_SETTING, Backend, BackendError};
#[cfg(target_os = "linux")]
pub use endpoint::{DATAGRAM_MOST, Endpoint, Family, Transport};
#[cfg(target_os = "linux")]
pub use events::{EventSources, Events, RECORD as EVENT_BYTES, Recording, watch_request};
#[cfg(target_os = "linux")]
pub use network::{ADDRESSES_MOST, Lookup, Network, NotGranted};
#[cfg(target_os = "linux")]
pub use options::SocketOption;
#[cfg(target_os = "linux")]
pub use reactor::Reactor;
pub use rules::{AddressRule, RuleError};
pub use socket::{Connection, Interest, ListenError, Listener, Readiness, Shutdown, Socket};
#[cfg(not(target_os = "linux"))]
pub use socket::{EventSources, Events, Recording};
pub use timers::{PERIOD_LEAST, TimerError, Timers};
