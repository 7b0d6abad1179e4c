//! Finding the service.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use everwarp_engine::EngineKind;
use everwarp_telemetry::control::{Folder, FolderError};

use crate::hello::{ClientHello, GreetingError, Purpose, Wanted, greet};

/// Why the service that is up cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The folder of its socket.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The socket.
    #[error("the service's socket {path}: {source}")]
    Socket {
        /// The socket.
        path: std::path::PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It has refused.
    #[error("the service refuses: {0}")]
    Greeting(GreetingError),
}

/// A connection that has been greeted.
#[derive(Debug)]
pub struct Connected {
    /// The socket.
    pub socket: OwnedFd,
    /// The engine.
    pub kind: EngineKind,
    /// The process that serves it.
    pub os_pid: u32,
}

/// Connects to the service of the user; `None` if none is up. A socket that an earlier service has left is removed.
///
/// # Errors
/// A service is up and cannot be used.
pub fn connect(purpose: Purpose, wanted: Wanted) -> Result<Option<Connected>, ConnectError> {
    connect_in(&Folder::of_user(), purpose, wanted)
}

/// The same for the service of a folder.
///
/// # Errors
/// As [`connect`].
pub fn connect_in(
    folder: &Folder,
    purpose: Purpose,
    wanted: Wanted,
) -> Result<Option<Connected>, ConnectError> {
    if !folder.exists()? {
        return Ok(None);
    }
    // A service that ends, and one that takes its place, may each be met once.
    for _ in 0..2 {
        let Some(mut stream) = open(folder)? else {
            return Ok(None);
        };
        let hello = ClientHello::new(purpose, wanted);
        match greet(&mut stream, &hello) {
            Ok(welcome) => {
                return Ok(Some(Connected {
                    socket: stream.into(),
                    kind: welcome.kind,
                    os_pid: welcome.os_pid,
                }));
            }
            Err(GreetingError::Ended | GreetingError::Refused { stopping: true, .. }) => {}
            Err(error) => return Err(ConnectError::Greeting(error)),
        }
    }
    Ok(None)
}

fn open(folder: &Folder) -> Result<Option<UnixStream>, ConnectError> {
    let path = folder.socket();
    match UnixStream::connect(&path) {
        Ok(stream) => Ok(Some(stream)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            // With the lock no service can be starting, so the socket is an old one.
            if let Some(_lock) = folder.lock()? {
                drop(std::fs::remove_file(&path));
            }
            Ok(None)
        }
        Err(source) => Err(ConnectError::Socket { path, source }),
    }
}
