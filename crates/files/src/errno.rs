//! The errors that tasks see: the error numbers of WASI.

use std::fmt;
use std::io;

use everwarp_contract::errno as wasi;

/// Why a request has failed: an error number of WASI preview 1, which is the same in device source (`ERRNO_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileErrno(pub u32);

macro_rules! errors {
    ($($name:ident = $number:ident, $text:literal $(, $host:ident)*;)*) => {
        impl FileErrno {
            $(#[doc = $text] pub const $name: Self = Self(wasi::$number);)*
            /// What the number means; `None` for a number that no request ends with.
            pub fn text(self) -> Option<&'static str> {
                match self.0 {
                    $(wasi::$number => Some($text),)*
                    _ => None,
                }
            }
            #[cfg(target_os = "linux")]
            fn of_system(number: i32) -> Self {
                match number {
                    $($(libc::$host => Self::$name,)*)*
                    _ => Self::IO,
                }
            }
        }
    };
}
errors! {
    ACCES = ERRNO_ACCES, "permission denied", EACCES;
    ADDRINUSE = ERRNO_ADDRINUSE, "another socket has the address", EADDRINUSE;
    ADDRNOTAVAIL = ERRNO_ADDRNOTAVAIL, "this machine does not have the address", EADDRNOTAVAIL;
    AFNOSUPPORT = ERRNO_AFNOSUPPORT, "the system has no such addresses", EAFNOSUPPORT;
    AGAIN = ERRNO_AGAIN, "the file has nothing for now", EAGAIN;
    BADF = ERRNO_BADF, "the handle is not open, or not for this", EBADF;
    BUSY = ERRNO_BUSY, "the file is in use, pages of it are held, or another task waits for the timer", EBUSY;
    CANCELED = ERRNO_CANCELED, "the request was cancelled, or the files, the timer or the socket were closed", ECANCELED;
    CONNABORTED = ERRNO_CONNABORTED, "the peer has given the connection up", ECONNABORTED;
    CONNREFUSED = ERRNO_CONNREFUSED, "no program listens at the address", ECONNREFUSED;
    CONNRESET = ERRNO_CONNRESET, "the peer has reset the connection", ECONNRESET;
    DESTADDRREQ = ERRNO_DESTADDRREQ, "a datagram has no destination", EDESTADDRREQ;
    DQUOT = ERRNO_DQUOT, "the disk quota is exceeded", EDQUOT;
    EXIST = ERRNO_EXIST, "the file exists", EEXIST;
    FAULT = ERRNO_FAULT, "the bytes are not in a shared buffer", EFAULT;
    FBIG = ERRNO_FBIG, "the file would be too large", EFBIG;
    HOSTUNREACH = ERRNO_HOSTUNREACH, "no way leads to the host", EHOSTUNREACH;
    INVAL = ERRNO_INVAL, "the request makes no sense", EINVAL;
    IO = ERRNO_IO, "input or output error", EIO;
    ISCONN = ERRNO_ISCONN, "the socket is connected", EISCONN;
    ISDIR = ERRNO_ISDIR, "it is a directory", EISDIR;
    LOOP = ERRNO_LOOP, "too many levels of symbolic links", ELOOP;
    MFILE = ERRNO_MFILE, "no handle is free";
    MSGSIZE = ERRNO_MSGSIZE, "the datagram is too long", EMSGSIZE;
    NAMETOOLONG = ERRNO_NAMETOOLONG, "a name is too long", ENAMETOOLONG;
    NETDOWN = ERRNO_NETDOWN, "the network is down", ENETDOWN;
    NETUNREACH = ERRNO_NETUNREACH, "no way leads to the network", ENETUNREACH;
    NFILE = ERRNO_NFILE, "the system has too many files open", ENFILE, EMFILE;
    NOBUFS = ERRNO_NOBUFS, "there is no room: a listing does not fit, every page of the cache is held, every timer is set, or too many requests wait", ENOBUFS;
    NODEV = ERRNO_NODEV, "no such device", ENODEV;
    NOENT = ERRNO_NOENT, "no such file or directory", ENOENT;
    NOMEM = ERRNO_NOMEM, "not enough memory", ENOMEM;
    NOSPC = ERRNO_NOSPC, "no space left on the device", ENOSPC;
    NOSYS = ERRNO_NOSYS, "no such request", ENOSYS;
    NOTCAPABLE = ERRNO_NOTCAPABLE, "the directory was not granted for this, or no rule allows the address";
    NOTCONN = ERRNO_NOTCONN, "the socket is not connected", ENOTCONN;
    NOTDIR = ERRNO_NOTDIR, "not a directory", ENOTDIR;
    NOTSOCK = ERRNO_NOTSOCK, "the handle is no socket", ENOTSOCK;
    NOTSUP = ERRNO_NOTSUP, "not a regular file, the host has made no room for timers, or the socket does not have this", EOPNOTSUPP, ENOPROTOOPT;
    NXIO = ERRNO_NXIO, "no such device or address", ENXIO;
    OVERFLOW = ERRNO_OVERFLOW, "a number is too large", EOVERFLOW;
    PERM = ERRNO_PERM, "operation not permitted", EPERM;
    PIPE = ERRNO_PIPE, "the reader has closed the pipe, or the peer the connection", EPIPE;
    ROFS = ERRNO_ROFS, "the file system is read-only", EROFS;
    STALE = ERRNO_STALE, "the file has become shorter since it was opened", ESTALE;
    SPIPE = ERRNO_SPIPE, "the file has no offsets", ESPIPE;
    TIMEDOUT = ERRNO_TIMEDOUT, "the peer did not answer in time", ETIMEDOUT;
    TXTBSY = ERRNO_TXTBSY, "the file is being executed", ETXTBSY;
    XDEV = ERRNO_XDEV, "a link would lead to another device", EXDEV;
}

impl fmt::Display for FileErrno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => f.write_str(text),
            None => write!(f, "error {}", self.0),
        }
    }
}
impl std::error::Error for FileErrno {}

#[cfg(target_os = "linux")]
impl From<io::Error> for FileErrno {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) => Self::of_system(number),
            // Paths that lead out of their directory, and paths that no system call takes.
            None => match error.kind() {
                io::ErrorKind::PermissionDenied => Self::NOTCAPABLE,
                io::ErrorKind::InvalidInput => Self::INVAL,
                io::ErrorKind::NotFound => Self::NOENT,
                _ => Self::IO,
            },
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_get_the_numbers_of_wasi() {
        for (host, wasi) in [(2, 44), (9, 8), (28, 51), (24, 41), (5, 29), (9999, 29)] {
            assert_eq!(FileErrno::from(io::Error::from_raw_os_error(host)).0, wasi);
        }
        let escape = io::Error::new(io::ErrorKind::PermissionDenied, "outside");
        assert_eq!(FileErrno::from(escape), FileErrno::NOTCAPABLE);
        assert_eq!(FileErrno::NOSPC.to_string(), "no space left on the device");
        assert_eq!(FileErrno(1000).to_string(), "error 1000");
    }
}
