//! What a process is given.

use std::io;
use std::path::Path;
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use everwarp_process::{Input, Output};

/// A directory of the host that a process may use, with everything beneath it and nothing beside it.
///
/// Clones share one handle, so that a hundred thousand processes with the same directory need one.
#[derive(Clone, Debug)]
pub struct Directory {
    pub(crate) dir: Arc<Dir>,
    pub(crate) guest: String,
    pub(crate) read_only: bool,
}

impl Directory {
    /// Opens the directory `host`, which processes will call `guest`.
    ///
    /// # Errors
    /// If it is not a directory, or not one that this program may list.
    pub fn open(host: &Path, guest: impl Into<String>) -> io::Result<Self> {
        Self::new(&Dir::open_ambient_dir(host, ambient_authority())?, guest)
    }

    /// A directory that is open already.
    ///
    /// # Errors
    /// If this program may not list it.
    pub fn new(dir: &Dir, guest: impl Into<String>) -> io::Result<Self> {
        // cap-std's own handle may be one of those that only lead to what is beneath, and neither list the
        // directory nor set its times.
        let readable = dir.open(".")?.into_std();
        Ok(Self {
            dir: Arc::new(Dir::from_std_file(readable)),
            guest: guest.into(),
            read_only: false,
        })
    }

    /// A directory that the host's program has opened.
    ///
    /// # Errors
    /// The system has no descriptor left for another handle.
    pub fn of(directory: &everwarp_process::Directory) -> io::Result<Self> {
        let handle = directory.handle().try_clone()?;
        Ok(Self {
            dir: Arc::new(Dir::from_std_file(handle)),
            guest: directory.guest().to_owned(),
            read_only: directory.is_read_only(),
        })
    }

    /// What processes call it.
    pub fn guest(&self) -> &str {
        &self.guest
    }

    /// Whether a process that changes anything beneath it is answered `EPERM`.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }
}

/// What a process is given by the host. Arguments, environment and clocks are the device's to give.
#[derive(Clone, Debug)]
pub struct Config {
    /// What stands in the brackets before its lines; slot and generation with a point between if empty.
    pub name: String,
    /// The directories, in the order of their descriptors from 3.
    pub directories: Vec<Directory>,
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// How many descriptors it may have at a time, the three standard streams and the directories included.
    pub handles: u32,
    /// What each of several processes has of its own, all else being the same. With one configuration for many there
    /// is less to count when each begins and ends.
    pub own: Vec<Own>,
}

/// What one of several processes has of its own; nothing stands for what all have.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Its name.
    pub name: Option<String>,
    /// Its standard input.
    pub stdin: Option<Input>,
}

impl Config {
    /// The name of the process of that number among them.
    pub(crate) fn name_of(&self, number: u32) -> &str {
        let own = self.own.get(number as usize);
        own.and_then(|own| own.name.as_deref())
            .unwrap_or(&self.name)
    }

    /// Its standard input.
    pub(crate) fn stdin_of(&self, number: u32) -> &Input {
        let own = self.own.get(number as usize);
        own.and_then(|own| own.stdin.as_ref())
            .unwrap_or(&self.stdin)
    }
}

impl Default for Config {
    /// No directories, empty input, the host's output, and as many descriptors as Linux allows by default.
    fn default() -> Self {
        Self {
            name: String::new(),
            directories: Vec::new(),
            stdin: Input::default(),
            stdout: Output::default(),
            stderr: Output::default(),
            handles: 1024,
            own: Vec::new(),
        }
    }
}
