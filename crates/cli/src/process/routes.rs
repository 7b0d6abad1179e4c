//! The programs of a server's routes: each request that asks for one is a process of it.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Mutex, mpsc};

use everwarp::process::sync::lock;
use everwarp::process::{Command, Connection, Host, LaunchError, Launcher, Module, SpawnError};

use super::load;
use super::options::Route;
use crate::error::CliError;

/// Requests whose processes are started together.
const BATCH: usize = 256;

/// A request for a program.
pub(super) struct Launch {
    name: String,
    variables: Vec<(String, String)>,
    connection: Connection,
}

/// Takes requests for programs and leaves them to a thread of its own: an engine must not wait for itself.
pub(super) struct Routes {
    /// The modules by the paths of their routes.
    modules: HashMap<String, Module>,
    requests: Mutex<Option<mpsc::Sender<Launch>>>,
    received: Mutex<Option<mpsc::Receiver<Launch>>>,
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes")
            .field("modules", &self.modules.len())
            .finish_non_exhaustive()
    }
}

impl Routes {
    /// Loads the modules of routes.
    pub(super) fn load(routes: &[Route]) -> Result<Self, CliError> {
        let mut modules = HashMap::new();
        for route in routes {
            modules.insert(route.path.clone(), load(&route.module, false)?);
        }
        let (sender, receiver) = mpsc::channel();
        Ok(Self {
            modules,
            requests: Mutex::new(Some(sender)),
            received: Mutex::new(Some(receiver)),
        })
    }

    /// The modules.
    pub(super) fn modules(&self) -> impl Iterator<Item = &Module> {
        self.modules.values()
    }

    /// Takes no further requests.
    pub(super) fn close(&self) {
        drop(lock(&self.requests).take());
    }

    /// Starts the processes of requests until [`Routes::close`] is called. `prepare` makes the command of a module;
    /// `start` counts processes that are about to start, and starts them.
    pub(super) fn run(
        &self,
        host: &Host,
        prepare: impl Fn(&Host, &Module) -> Command,
        start: impl Fn(&Command, &[Launch]) -> Result<(), SpawnError>,
    ) -> Result<(), SpawnError> {
        let Some(received) = lock(&self.received).take() else {
            return Ok(());
        };
        let commands: HashMap<_, _> = self
            .modules
            .iter()
            .map(|(path, module)| (path.as_str(), prepare(host, module)))
            .collect();
        while let Ok(first) = received.recv() {
            let mut waiting = HashMap::<String, Vec<Launch>>::new();
            let more = received.try_iter().take(BATCH - 1);
            for launch in std::iter::once(first).chain(more) {
                waiting.entry(launch.name.clone()).or_default().push(launch);
            }
            for (name, launches) in waiting {
                // Its name was looked up when the request came.
                start(&commands[name.as_str()], &launches)?;
            }
        }
        Ok(())
    }
}

impl Launch {
    /// Writes what its process is given.
    pub(super) fn write(&self, start: &mut dyn everwarp::process::StartWriter) {
        for (name, value) in &self.variables {
            start.variable(name, &[value]);
        }
        start.connection(self.connection.clone());
    }
}

impl Launcher for Routes {
    fn launch(
        &self,
        name: &str,
        variables: Vec<(String, String)>,
    ) -> Result<Connection, LaunchError> {
        if !self.modules.contains_key(name) {
            return Err(LaunchError::Unknown);
        }
        let (own, connection) = Connection::pair()?;
        let launch = Launch {
            name: name.to_owned(),
            variables,
            connection,
        };
        let requests = lock(&self.requests);
        let sent = requests.as_ref().map(|requests| requests.send(launch));
        match sent {
            Some(Ok(())) => Ok(own),
            _ => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        }
    }
}
