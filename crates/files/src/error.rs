//! What can be wrong before any request is made.

use std::io;
use std::path::PathBuf;

use everwarp_io::BackendError;
use everwarp_runtime::{EngineKind, Error};

use crate::errno::FileErrno;

/// Why an engine's tasks get no files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The engine has no files for tasks.
    #[error(
        "files of native tasks do not run on the {engine} engine yet: use --engine cpu or cuda"
    )]
    NotOnEngine {
        /// The engine.
        engine: EngineKind,
    },
    /// The system has no files for tasks.
    #[error("files of native tasks need Linux so far")]
    LinuxOnly,
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] Error),
    /// A size that cannot work.
    #[error("{what} must be {rule}, not {value}")]
    Size {
        /// Which size.
        what: &'static str,
        /// The rule.
        rule: &'static str,
        /// The given size.
        value: u64,
    },
    /// A directory cannot be granted.
    #[error("the directory {} cannot be granted: {source}", path.display())]
    Grant {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// All handles are in use.
    #[error("all {limit} handles are in use: close one, or set FilesConfig::handles higher")]
    Handles {
        /// How many there are.
        limit: u32,
    },
    /// A file cannot be cached.
    #[error("the file cannot be cached: {source}; see FilesConfig::cache")]
    Cached {
        /// Why.
        source: FileErrno,
    },
    /// A backend that there is not.
    #[error(transparent)]
    Backend {
        /// Which name.
        source: BackendError,
    },
    /// The system gives no io_uring.
    #[error("the system gives no io_uring: {source}; use --io threads, or see `everwarp doctor`")]
    NoRing {
        /// The system's error.
        source: io::Error,
    },
    /// The program's door is not declared as it must be.
    #[error(
        "function {function} of `{program}` is no door for files: declare it as a warp with .spawns({room}) or more, and \
         call everwarp::files::door in it"
    )]
    Door {
        /// The program.
        program: String,
        /// The function's number.
        function: u32,
        /// The room that it needs.
        room: u16,
    },
    /// Requests are served already.
    #[error(
        "these files serve an instance already, or have done so: make others for another instance"
    )]
    Served,
    /// The system refuses a thread.
    #[error("no thread for files: {source}")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
    /// The system refuses what a thread needs to wait for timers and sockets.
    #[error("nothing can be waited for: {source}")]
    Waiting {
        /// The system's error.
        source: io::Error,
    },
    /// A setting in the environment is wrong.
    #[error("{name} is `{value}`: give a number, {what}, or unset it")]
    Setting {
        /// The variable.
        name: &'static str,
        /// What it should be.
        what: String,
        /// Its value.
        value: String,
    },
}
