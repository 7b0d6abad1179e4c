//! The configuration of processes.

use std::sync::{Arc, Mutex};

use everwarp_engine::sync::lock;
use everwarp_process::net::Launcher;
use everwarp_process::{Connection, Events, Input, Listener, Network, Output};

use crate::directory::ServedDirectory;

/// What the host gives to processes. They get arguments, environment and clocks from the device.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name in the brackets before a process's lines; if it is empty, the process's pid.
    pub name: String,
    /// The directories, in the order of their descriptors from 3.
    pub directories: Vec<ServedDirectory>,
    /// The listeners, in the order of their descriptors, which follow those of the directories.
    pub listeners: Vec<Listener>,
    /// Starts the programs that the processes ask for by name.
    pub launcher: Option<Arc<dyn Launcher>>,
    /// The addresses that the processes may connect to and bind; without it they open no sockets.
    pub network: Option<Arc<Network>>,
    /// Gives each process a descriptor of events, which follows those of the listeners.
    pub events: Option<Arc<Events>>,
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// How many descriptors a process may have at a time, including the three standard streams, the directories, the
    /// listeners and the events.
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
    /// A connection in the place of its standard input and output.
    pub connection: GivenConnection,
}

/// A connection that waits for its process, which takes it out: it must not stay open as long as the configuration, which
/// several processes share.
#[derive(Debug, Default)]
pub struct GivenConnection(Mutex<Option<Connection>>);

impl GivenConnection {
    /// A connection for a process.
    pub fn new(connection: Option<Connection>) -> Self {
        Self(Mutex::new(connection))
    }

    /// The connection, if it has not been taken out.
    fn get(&self) -> Option<Connection> {
        lock(&self.0).clone()
    }

    fn take(&self) -> Option<Connection> {
        lock(&self.0).take()
    }
}

impl Clone for GivenConnection {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

impl Config {
    /// The name of the process of that number among them.
    pub(crate) fn name_of(&self, number: u32) -> &str {
        let own = self.own.get(number as usize);
        own.and_then(|own| own.name.as_deref())
            .unwrap_or(&self.name)
    }

    /// Takes out its connection, if it was given one and none has taken it.
    pub(crate) fn take_connection(&self, number: u32) -> Option<Connection> {
        let own = self.own.get(number as usize);
        own.and_then(|own| own.connection.take())
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
            listeners: Vec::new(),
            launcher: None,
            network: None,
            events: None,
            stdin: Input::default(),
            stdout: Output::default(),
            stderr: Output::default(),
            handles: 1024,
            own: Vec::new(),
        }
    }
}
