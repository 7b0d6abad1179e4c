//! WASI's error numbers, and which of them stand for the host's errors.

use std::io;

use everwarp_contract::errno as wasi;
use everwarp_contract::hostcall::HOSTCALL_LATER;
use rustix::io::Errno as Host;

/// A WASI error number other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(u32);

impl Errno {
    /// The number that a process sees.
    pub const fn number(self) -> u32 {
        self.0
    }
}

#[expect(missing_docs, reason = "the contract documents what each means")]
impl Errno {
    // Not a number of WASI: the device sends the call again.
    pub const LATER: Self = Self(HOSTCALL_LATER);
    pub const ACCES: Self = Self(wasi::ERRNO_ACCES);
    pub const AFNOSUPPORT: Self = Self(wasi::ERRNO_AFNOSUPPORT);
    pub const AGAIN: Self = Self(wasi::ERRNO_AGAIN);
    pub const BADF: Self = Self(wasi::ERRNO_BADF);
    pub const BUSY: Self = Self(wasi::ERRNO_BUSY);
    pub const CANCELED: Self = Self(wasi::ERRNO_CANCELED);
    pub const CONNABORTED: Self = Self(wasi::ERRNO_CONNABORTED);
    pub const CONNREFUSED: Self = Self(wasi::ERRNO_CONNREFUSED);
    pub const CONNRESET: Self = Self(wasi::ERRNO_CONNRESET);
    pub const DQUOT: Self = Self(wasi::ERRNO_DQUOT);
    pub const EXIST: Self = Self(wasi::ERRNO_EXIST);
    pub const FBIG: Self = Self(wasi::ERRNO_FBIG);
    pub const ILSEQ: Self = Self(wasi::ERRNO_ILSEQ);
    pub const INPROGRESS: Self = Self(wasi::ERRNO_INPROGRESS);
    pub const INTR: Self = Self(wasi::ERRNO_INTR);
    pub const INVAL: Self = Self(wasi::ERRNO_INVAL);
    pub const IO: Self = Self(wasi::ERRNO_IO);
    pub const ISCONN: Self = Self(wasi::ERRNO_ISCONN);
    pub const ISDIR: Self = Self(wasi::ERRNO_ISDIR);
    pub const LOOP: Self = Self(wasi::ERRNO_LOOP);
    pub const MFILE: Self = Self(wasi::ERRNO_MFILE);
    pub const MLINK: Self = Self(wasi::ERRNO_MLINK);
    pub const NAMETOOLONG: Self = Self(wasi::ERRNO_NAMETOOLONG);
    pub const NFILE: Self = Self(wasi::ERRNO_NFILE);
    pub const NOBUFS: Self = Self(wasi::ERRNO_NOBUFS);
    pub const NODEV: Self = Self(wasi::ERRNO_NODEV);
    pub const NOENT: Self = Self(wasi::ERRNO_NOENT);
    pub const NOMEM: Self = Self(wasi::ERRNO_NOMEM);
    pub const NOPROTOOPT: Self = Self(wasi::ERRNO_NOPROTOOPT);
    pub const NOSPC: Self = Self(wasi::ERRNO_NOSPC);
    pub const NOSYS: Self = Self(wasi::ERRNO_NOSYS);
    pub const NOTCAPABLE: Self = Self(wasi::ERRNO_NOTCAPABLE);
    pub const NOTCONN: Self = Self(wasi::ERRNO_NOTCONN);
    pub const NOTDIR: Self = Self(wasi::ERRNO_NOTDIR);
    pub const NOTEMPTY: Self = Self(wasi::ERRNO_NOTEMPTY);
    pub const NOTSOCK: Self = Self(wasi::ERRNO_NOTSOCK);
    pub const NOTSUP: Self = Self(wasi::ERRNO_NOTSUP);
    pub const NOTTY: Self = Self(wasi::ERRNO_NOTTY);
    pub const NXIO: Self = Self(wasi::ERRNO_NXIO);
    pub const OVERFLOW: Self = Self(wasi::ERRNO_OVERFLOW);
    pub const PERM: Self = Self(wasi::ERRNO_PERM);
    pub const PIPE: Self = Self(wasi::ERRNO_PIPE);
    pub const ROFS: Self = Self(wasi::ERRNO_ROFS);
    pub const SPIPE: Self = Self(wasi::ERRNO_SPIPE);
    pub const SRCH: Self = Self(wasi::ERRNO_SRCH);
    pub const TIMEDOUT: Self = Self(wasi::ERRNO_TIMEDOUT);
    pub const TXTBSY: Self = Self(wasi::ERRNO_TXTBSY);
    pub const XDEV: Self = Self(wasi::ERRNO_XDEV);
}

/// The result of a step in serving a call.
pub(crate) type Result<T = ()> = std::result::Result<T, Errno>;

impl From<Host> for Errno {
    fn from(host: Host) -> Self {
        match host {
            Host::ACCESS => Self::ACCES,
            Host::AGAIN => Self::AGAIN,
            Host::BADF => Self::BADF,
            Host::BUSY => Self::BUSY,
            Host::CONNABORTED => Self::CONNABORTED,
            Host::CONNREFUSED => Self::CONNREFUSED,
            Host::CONNRESET => Self::CONNRESET,
            Host::DQUOT => Self::DQUOT,
            Host::EXIST => Self::EXIST,
            Host::FBIG => Self::FBIG,
            Host::ILSEQ => Self::ILSEQ,
            Host::INTR => Self::INTR,
            Host::INVAL => Self::INVAL,
            Host::IO => Self::IO,
            Host::ISDIR => Self::ISDIR,
            Host::LOOP => Self::LOOP,
            Host::MLINK => Self::MLINK,
            Host::NAMETOOLONG => Self::NAMETOOLONG,
            Host::NFILE => Self::NFILE,
            Host::NOBUFS => Self::NOBUFS,
            Host::NODEV => Self::NODEV,
            Host::NOENT => Self::NOENT,
            Host::NOMEM => Self::NOMEM,
            Host::NOSPC => Self::NOSPC,
            Host::NOSYS => Self::NOSYS,
            Host::NOTCONN => Self::NOTCONN,
            Host::NOTDIR => Self::NOTDIR,
            Host::NOTEMPTY => Self::NOTEMPTY,
            Host::NOTTY => Self::NOTTY,
            Host::NXIO => Self::NXIO,
            Host::OVERFLOW => Self::OVERFLOW,
            Host::PERM => Self::PERM,
            Host::PIPE => Self::PIPE,
            Host::ROFS => Self::ROFS,
            Host::SPIPE => Self::SPIPE,
            Host::TIMEDOUT => Self::TIMEDOUT,
            Host::TXTBSY => Self::TXTBSY,
            Host::XDEV => Self::XDEV,
            // Linux has one number for both names of this error.
            Host::NOTSUP => Self::NOTSUP,
            // This program has too many files open, not the process.
            Host::MFILE => Self::NFILE,
            _ => Self::IO,
        }
    }
}

impl Errno {
    /// The number for an error of the host's.
    pub(crate) fn of(error: &io::Error) -> Self {
        match Host::from_io_error(error) {
            Some(host) => host.into(),
            // Errors of the host's libraries, which refuse some calls before the system is asked: a path that leads
            // outside is `PermissionDenied`, one with a NUL in it `InvalidInput`.
            None => match error.kind() {
                io::ErrorKind::PermissionDenied => Self::PERM,
                io::ErrorKind::InvalidInput => Self::INVAL,
                io::ErrorKind::NotFound => Self::NOENT,
                io::ErrorKind::AlreadyExists => Self::EXIST,
                io::ErrorKind::BrokenPipe => Self::PIPE,
                io::ErrorKind::StorageFull => Self::NOSPC,
                _ => Self::IO,
            },
        }
    }

    /// The number for an error of a socket.
    pub(crate) fn of_socket(error: &io::Error) -> Self {
        Self(everwarp_process::sockets::errno_of(error))
    }

    /// The error with this number; `None` for success.
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self::of(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_errors_get_the_numbers_of_wasi() {
        for (host, wasi) in [
            (2, 44),
            (13, 2),
            (20, 54),
            (24, 41),
            (30, 69),
            (40, 32),
            (95, 58),
        ] {
            assert_eq!(
                Errno::from(io::Error::from_raw_os_error(host)).number(),
                wasi
            );
        }
        let escape = io::Error::new(io::ErrorKind::PermissionDenied, "outside");
        assert_eq!(Errno::from(escape), Errno::PERM);
    }
}
