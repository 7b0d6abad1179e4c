//! What processes learn of sockets through WASI preview 1, on every engine.
//!
//! A process with listeners, or with a connection as its standard streams, has sockets among its descriptors. Preview 1
//! has four calls for them, and `fd_read`, `fd_write`, `fd_close`, `fd_fdstat_get` and `poll_oneoff` work on them too.
//! Everything else is refused with [`other_call`].

use std::io;

use everwarp_contract::errno;

/// `filetype` of a socket: a stream.
pub const FILETYPE: u8 = 6;

/// `fdflags`: a call that would wait returns `EAGAIN` instead.
pub const NONBLOCK: u32 = 4;

/// `rights` that `fd_fdstat_get` reports. They are reported and not enforced.
const READ: u64 = 1 << 1;
const SET_FLAGS: u64 = 1 << 3;
const WRITE: u64 = 1 << 6;
const FILESTAT: u64 = 1 << 21;
const POLL: u64 = 1 << 27;
const SHUTDOWN: u64 = 1 << 28;
const ACCEPT: u64 = 1 << 29;

/// The rights of a connection.
pub const CONNECTION_RIGHTS: u64 = READ | SET_FLAGS | WRITE | FILESTAT | POLL | SHUTDOWN;
/// The rights of a listener; its connections have [`CONNECTION_RIGHTS`].
pub const LISTENER_RIGHTS: u64 = SET_FLAGS | FILESTAT | POLL | ACCEPT;

/// `riflags`: the bytes stay to be received again.
pub const PEEK: u32 = 1;
/// `riflags`: wait until the whole buffer is full, or the stream ends.
pub const WAIT_ALL: u32 = 2;

/// `sdflags`: end receiving.
pub const SHUT_READ: u32 = 1;
/// `sdflags`: end sending.
pub const SHUT_WRITE: u32 = 2;

/// The variable that holds the number of listeners that a process has, as systemd sets it.
pub const COUNT_VARIABLE: &str = "LISTEN_FDS";
/// The variable that holds the descriptor of the first listener; the others follow. systemd's is always 3, and so is this
/// one for a process without directories.
pub const FIRST_VARIABLE: &str = "LISTEN_FDS_FIRST";

/// How a call that works on files alone is refused on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherCall {
    /// A socket has no offset: `ESPIPE`.
    NoOffset,
    /// A socket is no file and no directory: `EBADF`.
    NoFile,
}

/// How the call with this name is refused on a socket.
pub fn other_call(name: &str) -> OtherCall {
    match name {
        "fd_seek" | "fd_tell" | "fd_pread" | "fd_pwrite" => OtherCall::NoOffset,
        _ => OtherCall::NoFile,
    }
}

/// The error number for an error of a socket.
pub fn errno_of(error: &io::Error) -> u32 {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::WouldBlock, _) => errno::ERRNO_AGAIN,
        (io::ErrorKind::ConnectionAborted, _) => errno::ERRNO_CONNABORTED,
        (io::ErrorKind::ConnectionRefused, _) => errno::ERRNO_CONNREFUSED,
        (io::ErrorKind::ConnectionReset, _) => errno::ERRNO_CONNRESET,
        (io::ErrorKind::BrokenPipe, _) => errno::ERRNO_PIPE,
        (io::ErrorKind::NotConnected, _) => errno::ERRNO_NOTCONN,
        (io::ErrorKind::TimedOut, _) => errno::ERRNO_TIMEDOUT,
        (io::ErrorKind::InvalidInput, _) => errno::ERRNO_INVAL,
        (io::ErrorKind::OutOfMemory, _) => errno::ERRNO_NOMEM,
        // Too many files are open in this program, or in the system; and no memory for a network buffer.
        (_, Some(23 | 24)) => errno::ERRNO_NFILE,
        (_, Some(105)) => errno::ERRNO_NOBUFS,
        _ => errno::ERRNO_IO,
    }
}
