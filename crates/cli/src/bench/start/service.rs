//! A service for one part of the benchmark, in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use everwarp::EngineKind;

use crate::error::CliError;

/// A service that ends with this value. Commands that [`Self::command`] makes use it and no other.
pub(super) struct BenchService {
    folder: tempfile::TempDir,
    program: PathBuf,
}

pub(super) fn failed(reason: impl ToString) -> CliError {
    CliError::Measurement {
        reason: reason.to_string(),
    }
}

impl BenchService {
    /// Starts a service with the CPU engine and the engine of this kind.
    pub(super) fn start(kind: EngineKind) -> Result<Self, CliError> {
        let service = Self {
            folder: tempfile::tempdir().map_err(CliError::Folder)?,
            program: std::env::current_exe().map_err(failed)?,
        };
        let mut up = service.command();
        up.args(["up", "--detach", "--engine", "cpu"]);
        if kind != EngineKind::Cpu {
            up.args(["--engine", &kind.to_string()]);
        }
        let up = up.stdin(Stdio::null()).output().map_err(failed)?;
        match up.status.success() {
            true => Ok(service),
            false => Err(failed(String::from_utf8_lossy(&up.stderr))),
        }
    }

    /// The folder for the service's socket and for the files of the benchmark.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command of this program that finds this service.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("XDG_RUNTIME_DIR", self.folder())
            // The user's own quotas must not change the figures.
            .env("XDG_CONFIG_HOME", self.folder());
        command
    }

    /// What `everwarp status` says.
    pub(super) fn status(&self) -> Result<serde_json::Value, CliError> {
        let mut status = self.command();
        let output = status.args(["status", "--json"]).output().map_err(failed)?;
        serde_json::from_slice(&output.stdout).map_err(failed)
    }
}

impl Drop for BenchService {
    fn drop(&mut self) {
        // A service that has failed is not there to be ended.
        let down = self.command().args(["down", "--now"]).output();
        drop(down);
    }
}
