//! The sockets of commands with an engine of their own.

use std::io;
use std::path::{Path, PathBuf};

use everwarp_service::{Folder, FolderError};

/// Why a running engine could not be reached.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub(crate) enum ControlError {
    #[error("{path} is not a folder that only you can use, so no engine is looked for there")]
    #[diagnostic(help("remove it, or set XDG_RUNTIME_DIR to a folder that only you can use"))]
    Shared { path: PathBuf },
    #[error("{path}: {source}")]
    Folder { path: PathBuf, source: io::Error },
    #[error("no engine runs")]
    #[diagnostic(help("`everwarp run MODULE.wasm` is an engine as long as its processes run"))]
    NoEngine,
    #[error("there is no engine {engine}; the running engines are {known}")]
    #[diagnostic(help("see `everwarp ps`"))]
    UnknownEngine { engine: u32, known: String },
    #[error("several engines run: {known}")]
    #[diagnostic(help("choose one with --engine N"))]
    WhichEngine { known: String },
    #[error("engine {engine} does not answer: {source}")]
    Silent { engine: u32, source: io::Error },
    #[error("engine {engine} sent an answer that this command does not understand: {reason}")]
    Garbled { engine: u32, reason: String },
    #[error("engine {engine} refuses: {reason}")]
    Refused { engine: u32, reason: String },
    #[error("the service does not answer: {reason}")]
    Service { reason: String },
    #[error("engine {engine} has no process {pid}")]
    #[diagnostic(help("it has exited, or never existed; see `everwarp ps --all`"))]
    NoProcess { engine: u32, pid: String },
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
