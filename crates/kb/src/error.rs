//! What can go wrong.

use std::path::PathBuf;

use crate::FindingId;

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KbError {
    /// No topic has this name.
    #[error("there is no topic `{}`; the nearest is `{nearest}`", name.escape_debug())]
    UnknownTopic {
        /// What was asked for.
        name: String,
        /// The topic whose name is most alike.
        nearest: String,
    },
    /// No finding has this id.
    #[error("there is no finding {id}; the nearest is {nearest}")]
    UnknownId {
        /// What was asked for.
        id: FindingId,
        /// The id that is nearest.
        nearest: FindingId,
    },
    /// The user's file cannot be understood. It is left as it is.
    #[error("{path}, line {line}: {message}; the file was left as it is")]
    UserFile {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// A finding that is to be added is incomplete.
    #[error("a finding needs {what}")]
    Incomplete {
        /// What is missing.
        what: &'static str,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A report is no report of `everwarp bench --out`.
    #[error("{path} is no report of `everwarp bench --json`: {message}")]
    Report {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
}
