//! The command's side of the socket.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::folder::{ControlError, Folder};
use super::server::{encode, read_line, write_line};
use super::{Answer, Request};

/// How long an engine may take. A GPU's records of 65,536 processes take it about a second.
const PATIENCE: Duration = Duration::from_secs(30);
/// A hundred thousand processes take some 15 MB.
const ANSWER_MOST: usize = 1 << 30;

/// The socket of an engine; nothing if it has ended, and then what it left is removed.
fn connect(folder: &Folder, engine: u32) -> io::Result<Option<UnixStream>> {
    let path = folder.socket(engine);
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

/// The numbers of the engines that run.
pub(crate) fn engines(folder: &Folder) -> Result<Vec<u32>, ControlError> {
    let mut running = Vec::new();
    for engine in folder.sockets()? {
        match connect(folder, engine) {
            Ok(None) => {}
            // One that is there and cannot be reached is for its user to hear of.
            Ok(Some(_)) | Err(_) => running.push(engine),
        }
    }
    Ok(running)
}

/// Asks an engine; nothing if it has ended meanwhile.
pub(crate) fn ask(
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
