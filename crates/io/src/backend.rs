//! Which way of the system files are read: through an io_uring, or by threads with plain calls.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// The setting of the environment.
pub const BACKEND_SETTING: &str = "EVERWARP_IO";

/// How files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Threads with plain calls.
    Threads,
    /// Threads with an io_uring each.
    Uring,
}

/// A name that no backend has.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is no way of reading files: use threads or io_uring")]
pub struct BackendError {
    /// The name.
    pub name: String,
}

static FORCED: OnceLock<Backend> = OnceLock::new();

impl Backend {
    /// The name that reports print.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Uring => "io_uring",
        }
    }
    /// Has everything that this program starts from now on read this way. The first caller decides.
    pub fn force(self) {
        let _ = FORCED.set(self);
    }
    /// What the program or the environment asks for; `None`: what the system allows.
    ///
    /// # Errors
    /// The environment names no backend.
    pub fn asked() -> Result<Option<Self>, BackendError> {
        if let Some(&forced) = FORCED.get() {
            return Ok(Some(forced));
        }
        match std::env::var_os(BACKEND_SETTING) {
            Some(name) if !name.is_empty() => name.to_string_lossy().parse().map(Some),
            _ => Ok(None),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = BackendError;

    fn from_str(name: &str) -> Result<Self, BackendError> {
        let all = [Self::Threads, Self::Uring];
        let found = all.into_iter().find(|backend| backend.name() == name);
        found.ok_or_else(|| BackendError {
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_have_names() {
        for backend in [Backend::Threads, Backend::Uring] {
            assert_eq!(backend.to_string().parse::<Backend>().ok(), Some(backend));
        }
        let error = "epoll".parse::<Backend>().expect_err("no backend of files");
        assert!(error.to_string().contains("threads or io_uring"));
    }
}
