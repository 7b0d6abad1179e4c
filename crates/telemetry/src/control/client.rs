//! The client's side of the socket.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::folder::Folder;
use super::server::{encode, read_line, write_line};
use super::sockets::{self, ControlError};
use super::{Answer, Request};

/// How long an engine may take to answer. To read the records of 65,536 processes on a GPU takes about a second.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer. A description of 100,000 processes takes some 15 MB.
const ANSWER_MOST: usize = 1 << 30;

/// Connects to an engine; `None` if it has ended, and then its socket is removed.
pub(super) fn connect(folder: &Folder, engine: u32) -> io::Result<Option<UnixStream>> {
    let path = sockets::socket(folder, engine);
    match UnixStream::connect(&path) {
        Ok(stream) => Ok(Some(stream)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            drop(std::fs::remove_file(&path));
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// The process ids of the programs with engines that run.
///
/// # Errors
/// The folder cannot be used.
pub fn engines(folder: &Folder) -> Result<Vec<u32>, ControlError> {
    let mut running = Vec::new();
    for engine in sockets::sockets(folder)? {
        match connect(folder, engine) {
            Ok(None) => {}
            // An engine that exists and cannot be reached is listed too, so that the user learns of it.
            Ok(Some(_)) | Err(_) => running.push(engine),
        }
    }
    Ok(running)
}

/// Sends a request to an engine and returns the answer; `None` if the engine has ended meanwhile.
///
/// # Errors
/// It does not answer, or refuses.
pub fn ask(
    folder: &Folder,
    engine: u32,
    request: &Request,
) -> Result<Option<Answer>, ControlError> {
    let silent = |source| ControlError::Silent { engine, source };
    let Some(mut stream) = connect(folder, engine).map_err(silent)? else {
        return Ok(None);
    };
    write_line(&mut stream, &encode(request), PATIENCE).map_err(silent)?;
    let line = read_line(&mut stream, ANSWER_MOST, PATIENCE).map_err(silent)?;
    let garbled = |e: serde_json::Error| ControlError::Garbled {
        engine,
        reason: e.to_string(),
    };
    match serde_json::from_slice(&line).map_err(garbled)? {
        Answer::Refused { reason } => Err(ControlError::Refused { engine, reason }),
        answer => Ok(Some(answer)),
    }
}
