//! Names that mean nothing any more.

use everwarp_process::Pid;

/// The caller named a process that has been waited for already, or that this host never had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no process {0}: it has been waited for, or belongs to another host")]
pub struct StalePid(pub Pid);
