//! The configuration of processes.

use everwarp_process::{Input, Output};

use crate::directory::ServedDirectory;

/// What the host gives to processes. They get arguments, environment and clocks from the device.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name in the brackets before a process's lines; if it is empty, the process's pid.
    pub name: String,
    /// The directories, in the order of their descriptors from 3.
    pub directories: Vec<ServedDirectory>,
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// How many descriptors a process may have at a time, including the three standard streams and the directories.
    pub handles: u32,
    /// The settings in which several processes that share this configuration differ. One configuration for many saves
    /// work when each starts and exits.
    pub own: Vec<Own>,
}

/// The settings of one of several processes. `None` stands for the setting that all share.
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
