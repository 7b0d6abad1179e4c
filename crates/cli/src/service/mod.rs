//! The service: `everwarp up`, `down` and `status`.

mod compiler;
mod config;
mod detach;
mod engine;
mod notify;
mod status;
mod up;

use std::path::PathBuf;

use everwarp_service::{ConnectError, SupervisorError};

pub(crate) use compiler::{CompilerArgs, command as compiler_command, compiler};
pub(crate) use engine::{EngineArgs, engine};
pub(crate) use status::{DownArgs, StatusArgs, down, status};
pub(crate) use up::{UpArgs, up};

/// Why the service is not started or reached.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub(crate) enum UpError {
    #[error("a service is up already")]
    #[diagnostic(help("`everwarp status` describes it, and `everwarp down` ends it"))]
    Already,
    #[error(transparent)]
    Supervisor(SupervisorError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{path}: {reason}")]
    #[diagnostic(help("see the chapter on the service in the book"))]
    Config { path: PathBuf, reason: String },
    #[error("there is no folder of modules {path}")]
    #[diagnostic(help("make it, or leave --modules out"))]
    NoModules { path: PathBuf },
    #[error("no service is up")]
    #[diagnostic(help("start one with `everwarp up`"))]
    Down,
    #[error("the service does not answer: {0}")]
    Silent(everwarp::process::HostError),
    #[error("`{text}` is no duration: use a number followed by s, m or h")]
    Duration { text: String },
    #[error("`{text}` is no level: use error, warn, info or debug")]
    Level { text: String },
    #[error("the service did not start: {reason}")]
    #[diagnostic(help("its log is {}", log.display()))]
    Detached { reason: String, log: PathBuf },
    #[error("{what}: {source}")]
    System {
        what: String,
        source: std::io::Error,
    },
}

impl From<SupervisorError> for UpError {
    fn from(error: SupervisorError) -> Self {
        match error {
            SupervisorError::Already => Self::Already,
            error => Self::Supervisor(error),
        }
    }
}
