//! The sockets of programs with engines, in the folder of their user.

use std::io;
use std::path::{Path, PathBuf};

use super::VARIABLE;
use super::folder::{Folder, FolderError};

/// Why a running program could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Another user may change the folder.
    #[error("{path} is not a folder that only you can use, so no engine is looked for there")]
    Shared {
        /// The folder.
        path: PathBuf,
    },
    /// The system's error.
    #[error("{path}: {source}")]
    Folder {
        /// The folder, or a socket in it.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The program wants no socket.
    #[error("{VARIABLE} is `off`, so other programs cannot look at the engines of this one")]
    Off,
    /// It does not answer.
    #[error("engine {engine} does not answer: {source}")]
    Silent {
        /// Its process id.
        engine: u32,
        /// The error.
        source: io::Error,
    },
    /// Its answer is not understood.
    #[error(
        "engine {engine} sent an answer that this command does not understand, as an engine of another release does: use \
         everwarp {} for both ({reason})",
        env!("CARGO_PKG_VERSION")
    )]
    Garbled {
        /// Its process id.
        engine: u32,
        /// What is wrong with the answer.
        reason: String,
    },
    /// It did not carry the request out.
    #[error("engine {engine} refuses: {reason}")]
    Refused {
        /// Its process id.
        engine: u32,
        /// Why.
        reason: String,
    },
}

impl From<FolderError> for ControlError {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Shared { path } => Self::Shared { path },
            FolderError::System { path, source } => Self::Folder { path, source },
        }
    }
}

const ENDING: &str = "sock";

/// The socket of the engine with this process id.
pub(super) fn socket(folder: &Folder, os_pid: u32) -> PathBuf {
    folder.path().join(format!("{os_pid}.{ENDING}"))
}

/// The process ids of the engines that have a socket, in order; some engines may have ended.
pub(super) fn sockets(folder: &Folder) -> Result<Vec<u32>, ControlError> {
    if !folder.exists()? {
        return Ok(Vec::new());
    }
    let failed = |source: io::Error| ControlError::Folder {
        path: folder.path().to_owned(),
        source,
    };
    let mut numbers = Vec::new();
    for entry in folder.path().read_dir().map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = Path::new(&name);
        let number = name
            .file_stem()
            .and_then(|stem| stem.to_str()?.parse::<u32>().ok());
        let number = number.filter(|_| name.extension().is_some_and(|e| e == ENDING));
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_engines_are_listed() {
        let beneath = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::at(beneath.path().join("everwarp"));
        assert!(sockets(&folder).expect("none yet").is_empty());
        folder.make().expect("it can be made");
        for name in [
            "7.sock",
            "12.sock",
            "service.sock",
            "8.txt",
            "-1.sock",
            "99999999999.sock",
        ] {
            std::fs::write(folder.path().join(name), "").expect("the folder is writable");
        }
        assert_eq!(sockets(&folder).expect("it can be read"), [7, 12]);
    }
}
