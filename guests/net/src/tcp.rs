//! Streams and listeners.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::address::{ToSocketAddrs, each};
use crate::raw;
use crate::socket::{NO_DELAY, PEEK, REUSE_ADDRESS, STREAM, Socket, TIME_TO_LIVE, limit};

/// A stream to a peer, as [`std::net::TcpStream`].
#[derive(Debug)]
pub struct TcpStream(Socket);

impl TcpStream {
    /// Connects to the first address that takes the connection.
    ///
    /// # Errors
    /// None does, or none is granted.
    pub fn connect(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        each(addresses, |address| {
            let socket = Socket::open(address, STREAM)?;
            socket.connect(address)?;
            Ok(Self(socket))
        })
    }

    /// Connects to an address within a time.
    ///
    /// # Errors
    /// As [`TcpStream::connect`], or `TimedOut`.
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        let socket = Socket::open(address, STREAM)?;
        socket.connect_timeout(address, timeout)?;
        Ok(Self(socket))
    }

    /// The peer's address.
    ///
    /// # Errors
    /// It is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// The address on this side.
    ///
    /// # Errors
    /// The host refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Ends one or both directions.
    ///
    /// # Errors
    /// It is not connected.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => 1,
            Shutdown::Write => 2,
            Shutdown::Both => 3,
        };
        raw::check(raw::sock_shutdown(self.0.number(), how))
    }

    /// Another handle of the same stream.
    ///
    /// # Errors
    /// None; `std` has them.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.clone()))
    }

    /// Receives bytes that stay to be received again.
    ///
    /// # Errors
    /// As [`Read::read`].
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer, PEEK)
    }

    /// Sets how long a read waits; then it fails with `WouldBlock`.
    ///
    /// # Errors
    /// The time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.read_timeout().set(limit(timeout)?);
        Ok(())
    }

    /// How long a read waits.
    ///
    /// # Errors
    /// None; `std` has them.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.read_timeout().get())
    }

    /// Sets how long a write waits; then it fails with `WouldBlock`.
    ///
    /// # Errors
    /// The time is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.write_timeout().set(limit(timeout)?);
        Ok(())
    }

    /// How long a write waits.
    ///
    /// # Errors
    /// None; `std` has them.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.write_timeout().get())
    }

    /// Sets whether small writes are sent at once.
    ///
    /// # Errors
    /// The host refuses.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.set_option(NO_DELAY, nodelay.into())
    }

    /// Whether small writes are sent at once.
    ///
    /// # Errors
    /// The host refuses.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.0.option(NO_DELAY)? != 0)
    }

    /// Sets how many routers may pass a packet on.
    ///
    /// # Errors
    /// The host refuses.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set_option(TIME_TO_LIVE, ttl.into())
    }

    /// How many routers may pass a packet on.
    ///
    /// # Errors
    /// The host refuses.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(self.0.option(TIME_TO_LIVE)? as u32)
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

impl Read for &TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer, 0)
    }
}

impl Write for &TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Accepts streams, as [`std::net::TcpListener`].
#[derive(Debug)]
pub struct TcpListener(Socket);

impl TcpListener {
    /// Listens on the first address that can be bound.
    ///
    /// # Errors
    /// None can be bound, or none is granted.
    pub fn bind(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        each(addresses, |address| {
            let socket = Socket::open(address, STREAM)?;
            socket.set_option(REUSE_ADDRESS, 1)?;
            socket.bind(address)?;
            socket.listen()?;
            Ok(Self(socket))
        })
    }

    /// Waits for a peer, and returns the stream to it with its address.
    ///
    /// # Errors
    /// The host refuses a descriptor, or the listener does not wait and none has come.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let socket = self.0.accept()?;
        let peer = socket.peer_addr()?;
        Ok((TcpStream(socket), peer))
    }

    /// The streams of peers, one after the other.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming(self)
    }

    /// The address on which it listens.
    ///
    /// # Errors
    /// The host refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Sets whether [`TcpListener::accept`] fails with `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// The host refuses.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking)
    }
}

/// The streams of a listener's peers.
#[derive(Debug)]
pub struct Incoming<'a>(&'a TcpListener);

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}

macro_rules! descriptors {
    ($($ty:ident)*) => {$(
        impl AsRawFd for $ty {
            fn as_raw_fd(&self) -> RawFd {
                self.0.number() as RawFd
            }
        }

        impl From<OwnedFd> for $ty {
            fn from(fd: OwnedFd) -> Self {
                Self(Socket::of(fd))
            }
        }

        impl FromRawFd for $ty {
            unsafe fn from_raw_fd(fd: RawFd) -> Self {
                // SAFETY: the caller promises that nothing else has it.
                Self::from(unsafe { OwnedFd::from_raw_fd(fd) })
            }
        }
    )*};
}
pub(crate) use descriptors;

descriptors! { TcpStream TcpListener }
