//! Datagrams.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::address::{ToSocketAddrs, each};
use crate::raw::{self, RawAddress, check};
use crate::socket::{BROADCAST, DATAGRAM, PEEK, Socket, TIME_TO_LIVE, limit};
use crate::tcp::descriptors;

/// Sends and receives datagrams of up to 8,192 bytes, as [`std::net::UdpSocket`].
#[derive(Debug)]
pub struct UdpSocket(Socket);

impl UdpSocket {
    /// A socket with the first address that can be bound. It may answer the peers that it has heard.
    ///
    /// # Errors
    /// None can be bound, or none is granted.
    pub fn bind(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        each(addresses, |address| {
            let socket = Socket::open(address, DATAGRAM)?;
            socket.bind(address)?;
            Ok(Self(socket))
        })
    }

    /// A socket that gets an address when it sends or connects: for a process that binds nothing. `std` has no such function.
    ///
    /// # Errors
    /// The host refuses a descriptor.
    pub fn unbound(like: &SocketAddr) -> io::Result<Self> {
        Ok(Self(Socket::open(like, DATAGRAM)?))
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// The address is not granted, or the datagram is too long.
    pub fn send_to(&self, bytes: &[u8], addresses: impl ToSocketAddrs) -> io::Result<usize> {
        let none = || io::Error::new(io::ErrorKind::InvalidInput, "no address");
        let address = addresses.to_socket_addrs()?.next().ok_or_else(none)?;
        self.0.wait_to_write()?;
        let mut sent = 0;
        // SAFETY: the pointers are those of a slice, an address and a result.
        check(unsafe {
            raw::send_to(
                self.0.number(),
                bytes.as_ptr(),
                bytes.len(),
                &RawAddress::of(&address),
                &mut sent,
            )
        })?;
        Ok(sent)
    }

    fn receive(&self, buffer: &mut [u8], flags: u32) -> io::Result<(usize, SocketAddr)> {
        self.0.wait_to_read()?;
        let mut from = RawAddress::default();
        let mut received = 0;
        // SAFETY: the pointers are those of a slice, an address and a result.
        check(unsafe {
            raw::receive_from(
                self.0.number(),
                buffer.as_mut_ptr(),
                buffer.len(),
                flags,
                &mut from,
                &mut received,
            )
        })?;
        Ok((received, from.read()?))
    }

    /// Receives a datagram, with its sender. What does not fit is lost.
    ///
    /// # Errors
    /// The socket does not wait, or not that long, and none has come.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receive(buffer, 0)
    }

    /// The same, and leaves it to be received again.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receive(buffer, PEEK.into())
    }

    /// Chooses the peer of [`UdpSocket::send`] and [`UdpSocket::recv`].
    ///
    /// # Errors
    /// No address is granted.
    pub fn connect(&self, addresses: impl ToSocketAddrs) -> io::Result<()> {
        each(addresses, |address| self.0.connect(address))
    }

    /// Sends a datagram to the peer.
    ///
    /// # Errors
    /// There is no peer, or the peer refuses.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)
    }

    /// Receives a datagram of the peer.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer, 0)
    }

    /// The address on this side.
    ///
    /// # Errors
    /// The host refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The peer's address.
    ///
    /// # Errors
    /// There is no peer.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    /// None; `std` has them.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.clone()))
    }

    /// Sets whether datagrams may go to all machines of a network.
    ///
    /// # Errors
    /// The host refuses.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.0.set_option(BROADCAST, broadcast.into())
    }

    /// Whether datagrams may go to all machines of a network.
    ///
    /// # Errors
    /// The host refuses.
    pub fn broadcast(&self) -> io::Result<bool> {
        Ok(self.0.option(BROADCAST)? != 0)
    }

    /// Sets how many routers may pass a packet on.
    ///
    /// # Errors
    /// The host refuses.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set_option(TIME_TO_LIVE, ttl.into())
    }

    /// Sets how long a receive waits; then it fails with `WouldBlock`.
    ///
    /// # Errors
    /// The time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.read_timeout().set(limit(timeout)?);
        Ok(())
    }

    /// Sets how long a send waits; then it fails with `WouldBlock`.
    ///
    /// # Errors
    /// The time is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.write_timeout().set(limit(timeout)?);
        Ok(())
    }

    /// What has failed meanwhile, which is then forgotten.
    ///
    /// # Errors
    /// The host refuses.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Sets whether calls that would wait fail with `WouldBlock` instead.
    ///
    /// # Errors
    /// The host refuses.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking)
    }
}

descriptors! { UdpSocket }
