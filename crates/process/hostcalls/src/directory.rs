//! A directory that processes are given, as this crate opens paths in it.

use std::io;
use std::sync::Arc;

use cap_std::fs::Dir;
use everwarp_process::Directory;

/// A directory of the host, ready to open paths in it.
///
/// Clones share one descriptor, so that a hundred thousand processes with the same directory need one.
#[derive(Clone, Debug)]
pub struct ServedDirectory {
    pub(crate) dir: Arc<Dir>,
    pub(crate) guest: Arc<str>,
    pub(crate) read_only: bool,
}

impl ServedDirectory {
    /// Makes a descriptor of its own for a directory.
    ///
    /// # Errors
    /// The program cannot have another descriptor.
    pub fn of(directory: &Directory) -> io::Result<Self> {
        let handle = directory.handle().try_clone()?;
        Ok(Self {
            dir: Arc::new(Dir::from_std_file(handle)),
            guest: directory.guest().into(),
            read_only: directory.is_read_only(),
        })
    }

    /// The name that processes have for it.
    pub fn guest(&self) -> &str {
        &self.guest
    }
}
