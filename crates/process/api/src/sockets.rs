//! What processes learn of sockets through WASI preview 1, on every engine.
//!
//! A process with listeners, or with a connection as its standard streams, has sockets among its descriptors. Preview 1
//! has four calls for them, and `fd_read`, `fd_write`, `fd_close`, `fd_fdstat_get` and `poll_oneoff` work on them too.
//! Everything else is refused with [`other_call`].

use std::io;

use everwarp_contract::errno;
use everwarp_io::{NotGranted, Socket, SocketOption, Transport};

/// `filetype` of a socket: a stream.
pub const FILETYPE: u8 = 6;
/// `filetype` of a socket for datagrams.
pub const FILETYPE_DATAGRAM: u8 = 5;

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

/// The rights of a socket that a process has opened: it may become either.
pub const ENDPOINT_RIGHTS: u64 = CONNECTION_RIGHTS | ACCEPT;

/// The `filetype` of a socket that a process has opened.
pub fn filetype_of(transport: Transport) -> u8 {
    match transport {
        Transport::Stream => FILETYPE,
        Transport::Datagram => FILETYPE_DATAGRAM,
    }
}

/// `eventrwflags`: the peer has hung up, or there is no more.
pub const HANGUP: u16 = 1;
/// `eventrwflags` that WASI does not have: others wait for the place of this connection, and a process that can hand it back is
/// asked to.
pub const ASKED_BACK: u16 = 1 << 8;

/// The `eventrwflags` of an event of a socket.
pub fn event_flags(socket: &Socket, hung_up: bool) -> u16 {
    let hung_up = if hung_up { HANGUP } else { 0 };
    let asked_back = if socket.is_asked_back() {
        ASKED_BACK
    } else {
        0
    };
    hung_up | asked_back
}

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

/// The variable that holds the descriptor of a process's events, which follows those of its listeners.
pub const EVENTS_VARIABLE: &str = "EVERWARP_EVENTS";

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

/// The system's error numbers with their numbers in WASI. Linux has these numbers on every machine that this project runs on.
const SYSTEM: &[(i32, u32)] = &[
    (1, errno::ERRNO_PERM),
    (11, errno::ERRNO_AGAIN),
    (12, errno::ERRNO_NOMEM),
    (13, errno::ERRNO_ACCES),
    (22, errno::ERRNO_INVAL),
    // Too many files are open in this program, or in the system.
    (23, errno::ERRNO_NFILE),
    (24, errno::ERRNO_NFILE),
    (32, errno::ERRNO_PIPE),
    (89, errno::ERRNO_DESTADDRREQ),
    (90, errno::ERRNO_MSGSIZE),
    (91, errno::ERRNO_PROTOTYPE),
    (92, errno::ERRNO_NOPROTOOPT),
    (93, errno::ERRNO_PROTONOSUPPORT),
    (95, errno::ERRNO_NOTSUP),
    (97, errno::ERRNO_AFNOSUPPORT),
    (98, errno::ERRNO_ADDRINUSE),
    (99, errno::ERRNO_ADDRNOTAVAIL),
    (100, errno::ERRNO_NETDOWN),
    (101, errno::ERRNO_NETUNREACH),
    (103, errno::ERRNO_CONNABORTED),
    (104, errno::ERRNO_CONNRESET),
    (105, errno::ERRNO_NOBUFS),
    (106, errno::ERRNO_ISCONN),
    (107, errno::ERRNO_NOTCONN),
    (110, errno::ERRNO_TIMEDOUT),
    (111, errno::ERRNO_CONNREFUSED),
    (113, errno::ERRNO_HOSTUNREACH),
    (114, errno::ERRNO_ALREADY),
    (115, errno::ERRNO_INPROGRESS),
];

/// The number in WASI for an error number of the system.
pub fn errno_of_system(number: i32) -> u32 {
    let found = SYSTEM.binary_search_by_key(&number, |(number, _)| *number);
    found.map_or(errno::ERRNO_IO, |at| SYSTEM[at].1)
}

/// The error number for an error of a socket.
pub fn errno_of(error: &io::Error) -> u32 {
    if let Some(number) = error.raw_os_error() {
        return errno_of_system(number);
    }
    match error.kind() {
        io::ErrorKind::WouldBlock => errno::ERRNO_AGAIN,
        io::ErrorKind::BrokenPipe => errno::ERRNO_PIPE,
        io::ErrorKind::NotFound => errno::ERRNO_NOENT,
        io::ErrorKind::InvalidInput => errno::ERRNO_INVAL,
        io::ErrorKind::OutOfMemory => errno::ERRNO_NOBUFS,
        io::ErrorKind::PermissionDenied if NotGranted::is(error) => errno::ERRNO_NOTCAPABLE,
        _ => errno::ERRNO_IO,
    }
}

/// The value of a socket's setting as processes know it: error numbers are WASI's.
///
/// # Errors
/// The socket does not have the setting.
pub fn option_value(option: SocketOption, socket: &Socket) -> io::Result<u64> {
    let value = option.get(socket)?;
    Ok(match option {
        SocketOption::Error if value != 0 => errno_of_system(value as i32).into(),
        _ => value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_get_the_numbers_of_wasi() {
        assert!(SYSTEM.is_sorted_by(|a, b| a.0 < b.0));
        for (system, wasi) in [(98, 3), (111, 14), (104, 15), (24, 41), (90, 35), (77, 29)] {
            assert_eq!(errno_of(&io::Error::from_raw_os_error(system)), wasi);
        }
        assert_eq!(
            errno_of(&io::ErrorKind::WouldBlock.into()),
            errno::ERRNO_AGAIN
        );
        assert_eq!(
            errno_of(&io::ErrorKind::PermissionDenied.into()),
            errno::ERRNO_IO
        );
    }
}
