//! The folder with the sockets.

use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

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
    #[error("engine {engine} has no process {pid}")]
    #[diagnostic(help("it has exited, or never existed; see `everwarp ps --all`"))]
    NoProcess { engine: u32, pid: String },
}

/// A folder that only its user can use.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

const ENDING: &str = "sock";

impl Folder {
    /// The folder at this path.
    #[cfg(test)]
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The current user's folder: in `XDG_RUNTIME_DIR`, or in the folder for temporary files.
    pub(crate) fn of_user() -> Self {
        let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        Self(match given.filter(|path| path.is_absolute()) {
            Some(path) => path.join("everwarp"),
            None => {
                let user = rustix::process::geteuid().as_raw();
                std::env::temp_dir().join(format!("everwarp-{user}"))
            }
        })
    }

    fn failed(&self, source: io::Error) -> ControlError {
        let path = self.0.clone();
        ControlError::Folder { path, source }
    }

    /// Refuses a path that is not a folder, or a folder that another user made or may change.
    fn check(&self, found: &Metadata) -> Result<(), ControlError> {
        let own = found.uid() == rustix::process::geteuid().as_raw();
        match found.is_dir() && own && found.mode() & 0o077 == 0 {
            true => Ok(()),
            false => Err(ControlError::Shared {
                path: self.0.clone(),
            }),
        }
    }

    /// Makes the folder, unless it exists.
    pub(super) fn make(&self) -> Result<(), ControlError> {
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(self.failed(e)),
            _ => {}
        }
        let found = self.0.symlink_metadata().map_err(|e| self.failed(e))?;
        self.check(&found)
    }

    /// The socket of the engine with this process id.
    pub(super) fn socket(&self, os_pid: u32) -> PathBuf {
        self.0.join(format!("{os_pid}.{ENDING}"))
    }

    /// The process ids of the engines that have a socket, in order; some engines may have ended.
    pub(super) fn sockets(&self) -> Result<Vec<u32>, ControlError> {
        let found = match self.0.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            found => found.map_err(|e| self.failed(e))?,
        };
        self.check(&found)?;
        let mut numbers = Vec::new();
        for entry in self.0.read_dir().map_err(|e| self.failed(e))? {
            let name = entry.map_err(|e| self.failed(e))?.file_name();
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
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_of_another_user_is_refused() {
        let beneath = tempfile::tempdir().expect("a temporary folder");
        let folder = |name: &str| Folder(beneath.path().join(name));
        let fresh = folder("fresh");
        assert!(fresh.sockets().expect("none yet").is_empty());
        fresh.make().expect("it can be made");
        fresh.make().expect("it is there");
        for name in [
            "7.sock",
            "12.sock",
            "x.sock",
            "8.txt",
            "-1.sock",
            "99999999999.sock",
        ] {
            std::fs::write(fresh.0.join(name), "").expect("the folder is writable");
        }
        assert_eq!(fresh.sockets().expect("it can be read"), [7, 12]);

        let open = folder("open");
        std::fs::create_dir(&open.0).expect("the folder is writable");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&open.0, mode).expect("it is ours");
        let link = folder("link");
        symlink(&fresh.0, &link.0).expect("the folder is writable");
        let file = folder("file");
        std::fs::write(&file.0, "").expect("the folder is writable");
        for refused in [open, link, file] {
            for found in [refused.make(), refused.sockets().map(drop)] {
                assert!(
                    matches!(found, Err(ControlError::Shared { .. })),
                    "{found:?}"
                );
            }
        }
    }
}
