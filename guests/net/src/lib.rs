//! What `std::net` offers, for a process of everwarp: `std`'s names over the imports of `everwarp:net`.
//!
//! A process may use the addresses that the options `--connect` and `--bind` of its command allow; any other is refused
//! with the error number 76 (`ENOTCAPABLE`). `guests/NET.md` says what each import promises.
//!
//! Compiled for anything but WASI, this crate is `std::net` itself, so that a program can be tried on the machine where it
//! is written:
//!
//! ```no_run
//! use std::io::{Read, Write};
//!
//! use everwarp_guest_net::TcpStream;
//!
//! let mut stream = TcpStream::connect("example.com:80")?;
//! stream.write_all(b"GET / HTTP/1.0\r\nHost: example.com\r\n\r\n")?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(target_os = "wasi")]
mod address;
#[cfg(target_os = "wasi")]
mod raw;
#[cfg(target_os = "wasi")]
mod socket;
#[cfg(target_os = "wasi")]
mod tcp;
#[cfg(target_os = "wasi")]
mod udp;

#[cfg(not(target_os = "wasi"))]
pub use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};

#[cfg(target_os = "wasi")]
pub use address::ToSocketAddrs;
#[cfg(target_os = "wasi")]
pub use tcp::{Incoming, TcpListener, TcpStream};
#[cfg(target_os = "wasi")]
pub use udp::UdpSocket;

pub use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6};
