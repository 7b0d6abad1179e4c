//! What streams, listeners and datagrams have in common.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use crate::raw::{self, RawAddress, Vector, check};

/// Kinds of sockets.
pub(crate) const STREAM: u32 = 1;
pub(crate) const DATAGRAM: u32 = 2;
/// Settings.
pub(crate) const NO_DELAY: u32 = 1;
pub(crate) const REUSE_ADDRESS: u32 = 2;
pub(crate) const BROADCAST: u32 = 4;
pub(crate) const TIME_TO_LIVE: u32 = 7;
const ERROR: u32 = 9;
/// `fdflags`.
const NONBLOCK: u16 = 4;
/// `riflags`.
pub(crate) const PEEK: u16 = 1;
/// Kinds of subscriptions, and the clock that never goes back.
const READ: u64 = 1;
const WRITE: u64 = 2;
const MONOTONIC: u64 = 1;
/// The error number of a connection that is being made.
const IN_PROGRESS: i32 = 26;

/// A socket. Clones are the same socket; the last one closes it.
#[derive(Clone, Debug)]
pub(crate) struct Socket {
    fd: Rc<OwnedFd>,
    read_timeout: Rc<Cell<Option<Duration>>>,
    write_timeout: Rc<Cell<Option<Duration>>>,
}

impl Socket {
    pub(crate) fn of(fd: OwnedFd) -> Self {
        Self {
            fd: Rc::new(fd),
            read_timeout: Rc::default(),
            write_timeout: Rc::default(),
        }
    }

    /// A socket for addresses of the same family.
    pub(crate) fn open(address: &SocketAddr, kind: u32) -> io::Result<Self> {
        let mut fd = 0;
        let family = if address.is_ipv4() { 4 } else { 6 };
        // SAFETY: `fd` is written.
        check(unsafe { raw::socket(family, kind, &mut fd) })?;
        Ok(Self::take(fd))
    }

    /// Takes over a descriptor that the host has just given.
    fn take(fd: u32) -> Self {
        // SAFETY: nothing else has it.
        Self::of(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    pub(crate) fn number(&self) -> u32 {
        self.fd.as_raw_fd() as u32
    }

    pub(crate) fn bind(&self, address: &SocketAddr) -> io::Result<()> {
        // SAFETY: the address is read.
        check(unsafe { raw::bind(self.number(), &RawAddress::of(address)) })
    }

    pub(crate) fn listen(&self) -> io::Result<()> {
        check(raw::listen(self.number(), 128))
    }

    pub(crate) fn connect(&self, address: &SocketAddr) -> io::Result<()> {
        // SAFETY: the address is read.
        check(unsafe { raw::connect(self.number(), &RawAddress::of(address)) })
    }

    pub(crate) fn connect_timeout(&self, address: &SocketAddr, limit: Duration) -> io::Result<()> {
        if limit.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no time at all",
            ));
        }
        self.set_nonblocking(true)?;
        match self.connect(address) {
            Err(error) if error.raw_os_error() == Some(IN_PROGRESS) => {
                if !self.wait(WRITE, limit)? {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.take_error()?.map_or(Ok(()), Err)?;
            }
            connected => connected?,
        }
        self.set_nonblocking(false)
    }

    pub(crate) fn accept(&self) -> io::Result<Self> {
        let mut fd = 0;
        // SAFETY: `fd` is written.
        check(unsafe { raw::sock_accept(self.number(), 0, &mut fd) })?;
        Ok(Self::take(fd))
    }

    fn address(&self, which: u32) -> io::Result<SocketAddr> {
        let mut address = RawAddress::default();
        // SAFETY: the address is written.
        check(unsafe { raw::address(self.number(), which, &mut address) })?;
        address.read()
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.address(0)
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.address(1)
    }

    pub(crate) fn option(&self, option: u32) -> io::Result<u64> {
        let mut value = 0;
        // SAFETY: the value is written.
        check(unsafe { raw::option(self.number(), option, &mut value) })?;
        Ok(value)
    }

    pub(crate) fn set_option(&self, option: u32, value: u64) -> io::Result<()> {
        check(raw::set_option(self.number(), option, value))
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        let number = self.option(ERROR)? as i32;
        Ok((number != 0).then(|| io::Error::from_raw_os_error(number)))
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        let flags = if nonblocking { NONBLOCK } else { 0 };
        check(raw::fd_fdstat_set_flags(self.number(), flags))
    }

    pub(crate) fn read_timeout(&self) -> &Cell<Option<Duration>> {
        &self.read_timeout
    }

    pub(crate) fn write_timeout(&self) -> &Cell<Option<Duration>> {
        &self.write_timeout
    }

    /// Waits until the socket is ready; `false` if the time is over first.
    fn wait(&self, kind: u64, limit: Duration) -> io::Result<bool> {
        let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let list = [
            [0, 0, MONOTONIC, nanoseconds, 0, 0],
            [1, kind, self.number().into(), 0, 0, 0],
        ];
        let mut events = [[0; 4]; 2];
        let mut count = 0;
        // SAFETY: the lists hold two subscriptions and events, and `count` is written.
        check(unsafe { raw::poll_oneoff(list.as_ptr(), events.as_mut_ptr(), 2, &mut count) })?;
        Ok(events[..count].iter().any(|event| event[0] == 1))
    }

    fn wait_for(&self, kind: u64, limit: &Cell<Option<Duration>>) -> io::Result<()> {
        match limit.get() {
            Some(limit) if !self.wait(kind, limit)? => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn wait_to_read(&self) -> io::Result<()> {
        self.wait_for(READ, &self.read_timeout)
    }

    pub(crate) fn wait_to_write(&self) -> io::Result<()> {
        self.wait_for(WRITE, &self.write_timeout)
    }

    pub(crate) fn receive(&self, buffer: &mut [u8], flags: u16) -> io::Result<usize> {
        self.wait_to_read()?;
        let vector = Vector {
            at: buffer.as_mut_ptr(),
            length: buffer.len(),
        };
        let (mut received, mut out_flags) = (0, 0);
        // SAFETY: the vector is that of the buffer, and the results are written.
        check(unsafe {
            raw::sock_recv(
                self.number(),
                &vector,
                1,
                flags,
                &mut received,
                &mut out_flags,
            )
        })?;
        Ok(received)
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.wait_to_write()?;
        let vector = Vector {
            at: bytes.as_ptr().cast_mut(),
            length: bytes.len(),
        };
        let mut sent = 0;
        // SAFETY: the vector is that of the bytes, which are only read, and the result is written.
        check(unsafe { raw::sock_send(self.number(), &vector, 1, 0, &mut sent) })?;
        Ok(sent)
    }
}

/// A time limit that can be set: zero is none.
pub(crate) fn limit(limit: Option<Duration>) -> io::Result<Option<Duration>> {
    match limit {
        Some(limit) if limit.is_zero() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no time at all",
        )),
        limit => Ok(limit),
    }
}
