//! The files, directories and streams that a process has open.

use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use cap_std::fs::Dir;
use everwarp_io::{Connection, Endpoint, Listener, Socket};

use crate::errno::{Errno, Result};
use crate::listing::Listing;
use crate::permit::Permit;

/// What a descriptor refers to.
#[derive(Debug)]
pub(crate) enum Descriptor {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
    /// An open file.
    File(OpenFile),
    /// An open directory.
    Directory(OpenDir),
    /// A listener that the host has given to the process.
    Listener(OpenListener),
    /// A connection that the process has accepted or was given.
    Connection(OpenConnection),
    /// A socket that the process has opened itself.
    Endpoint(OpenEndpoint),
}

/// A listener among a process's descriptors.
#[derive(Debug)]
pub(crate) struct OpenListener {
    pub(crate) listener: Listener,
    /// Whether `sock_accept` returns `EAGAIN` where it would wait.
    pub(crate) nonblock: AtomicBool,
}

/// A connection among a process's descriptors.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    pub(crate) connection: Connection,
    /// Whether calls return `EAGAIN` where they would wait.
    pub(crate) nonblock: AtomicBool,
    /// Permission to be open, if the process has accepted it. It is dropped after the connection.
    pub(crate) _permit: Option<Permit>,
}

/// A socket that a process has opened itself.
#[derive(Debug)]
pub(crate) struct OpenEndpoint {
    pub(crate) endpoint: Endpoint,
    /// Whether calls return `EAGAIN` where they would wait.
    pub(crate) nonblock: AtomicBool,
    /// Permission to be open. It is dropped after the socket.
    pub(crate) _permit: Permit,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// Locked while bytes at the offset are read or written, so that no two reads get the same bytes.
    pub(crate) offset: Mutex<u64>,
    pub(crate) append: AtomicBool,
    /// Reported by `fd_fdstat_get`; files are never waited for.
    pub(crate) nonblock: AtomicBool,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Whether it is neither a pipe nor a device nor a socket.
    pub(crate) regular: bool,
    /// Whether it was opened in a directory that may not be changed.
    pub(crate) read_only: bool,
    /// Permission to be open. It is dropped after the file, because its field comes later.
    pub(crate) _permit: Permit,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenDir {
    pub(crate) dir: Arc<Dir>,
    /// The name that the process has for it, if the host has given it to the process.
    pub(crate) given: Option<Arc<str>>,
    pub(crate) readable: bool,
    pub(crate) read_only: bool,
    /// The listing that `fd_readdir` took last.
    pub(crate) listing: Mutex<Option<Arc<Listing>>>,
    /// Permission to be open, if the process has opened it.
    pub(crate) _permit: Option<Permit>,
}

impl OpenDir {
    /// The directory, if processes may change what is beneath it.
    pub(crate) fn writable(&self) -> Result<&Dir> {
        match self.read_only {
            true => Err(Errno::PERM),
            false => Ok(&self.dir),
        }
    }
}

impl Descriptor {
    /// The file, for a call that works on files only.
    pub(crate) fn file(&self) -> Result<&OpenFile> {
        match self {
            Self::File(file) => Ok(file),
            _ => Err(Errno::BADF),
        }
    }

    /// The file, for a call on its offset: streams have none, which has an error number of its own.
    pub(crate) fn seekable(&self) -> Result<&OpenFile> {
        match self {
            Self::File(file) => Ok(file),
            Self::Input | Self::Output | Self::Error => Err(Errno::SPIPE),
            Self::Listener(_) | Self::Connection(_) | Self::Endpoint(_) => Err(Errno::SPIPE),
            Self::Directory(_) => Err(Errno::BADF),
        }
    }

    /// The socket, for a call that waits for readiness.
    pub(crate) fn socket(&self) -> Option<&Arc<Socket>> {
        match self {
            Self::Listener(open) => Some(open.listener.socket()),
            Self::Connection(open) => Some(open.connection.socket()),
            Self::Endpoint(open) => Some(open.endpoint.socket()),
            _ => None,
        }
    }

    /// The socket's switch for calls that would wait.
    pub(crate) fn nonblock(&self) -> Option<&AtomicBool> {
        match self {
            Self::Listener(open) => Some(&open.nonblock),
            Self::Connection(open) => Some(&open.nonblock),
            Self::Endpoint(open) => Some(&open.nonblock),
            _ => None,
        }
    }

    /// The directory, for a call that works on directories only.
    pub(crate) fn directory(&self) -> Result<&OpenDir> {
        match self {
            Self::Directory(dir) => Ok(dir),
            _ => Err(Errno::BADF),
        }
    }
}
