//! Starting processes.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use everwarp_process::net::Launcher;
use everwarp_process::sockets;
use everwarp_process::sync::{ignore_poison, lock};
use everwarp_process::{
    ChannelEnd, Directory, Events, Exit, Grants, Input, Listener, Module, Network, Output, Pid,
    SpawnError, SpawnRequest, StartWriter,
};

use super::child::{Child, Children};
use super::error::Error;
use super::host::Host;

/// How many bytes [`Command::output`] keeps of each stream.
const OUTPUT_LIMIT: usize = 1 << 20;
/// The descriptor of the first directory, after the standard streams.
const FIRST_DIRECTORY: usize = 3;

/// A process to start, or many: the counterpart of [`std::process::Command`].
///
/// A process sees only what its command grants. By default that is nothing: no arguments but the module's name, no
/// environment, no directories and an empty standard input. Standard output and standard error go to this program's
/// own.
///
/// A command can be used any number of times.
///
/// ```
/// # use everwarp::process::{Command, Host, Module};
/// # use everwarp::{Device, Select};
/// # fn main() -> Result<(), everwarp::process::Error> {
/// # let device = Device::open(Select::Cpu)?;
/// # let hello = Module::from_file(concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/built/hello.wasm"))?;
/// # let host = Host::builder(&device).module(&hello).start()?;
/// let exit = Command::new(&host, &hello).arg("everwarp").output()?;
/// assert!(exit.success());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Command {
    host: Host,
    module: Module,
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    directories: Vec<GrantedDirectory>,
    grants: Grants,
}

/// A directory that is opened when processes are started, or that the caller has opened.
#[derive(Clone, Debug)]
enum GrantedDirectory {
    Path(PathBuf, String),
    Open(Directory),
}

impl GrantedDirectory {
    fn open(&self) -> Result<Directory, SpawnError> {
        match self {
            Self::Open(directory) => Ok(directory.clone()),
            Self::Path(path, guest) => {
                Directory::open(path, guest.clone()).map_err(|source| SpawnError::Directory {
                    path: path.clone(),
                    source,
                })
            }
        }
    }
}

impl Command {
    /// A process of a module that the host has loaded.
    pub fn new(host: &Host, module: &Module) -> Self {
        Self {
            host: host.clone(),
            module: module.clone(),
            program: module.name().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            directories: Vec::new(),
            grants: Grants::default(),
        }
    }

    /// Sets the first argument, by convention the program's name; by default the module's name.
    pub fn arg0(&mut self, name: impl Into<String>) -> &mut Self {
        self.program = name.into();
        self
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl Into<String>) -> &mut Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<S: Into<String>>(&mut self, args: impl IntoIterator<Item = S>) -> &mut Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds an environment variable. The environment starts empty; nothing is inherited from this program.
    pub fn env(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Adds environment variables.
    pub fn envs<K: Into<String>, V: Into<String>>(
        &mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> &mut Self {
        let variables = variables.into_iter();
        self.env
            .extend(variables.map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Grants the directory `host` of this machine with everything in it, which the processes see as `guest`. It is
    /// opened when processes are started.
    pub fn dir(&mut self, host: impl Into<PathBuf>, guest: impl Into<String>) -> &mut Self {
        let directory = GrantedDirectory::Path(host.into(), guest.into());
        self.directories.push(directory);
        self
    }

    /// Grants an open directory, which may be read-only ([`Directory::read_only`]).
    pub fn directory(&mut self, directory: Directory) -> &mut Self {
        self.directories.push(GrantedDirectory::Open(directory));
        self
    }

    /// Grants a listener, on which the processes accept connections. The descriptors of listeners follow those of the
    /// directories, in the order of the calls; the variables `LISTEN_FDS` and `LISTEN_FDS_FIRST` hold how many there are
    /// and the first one's number.
    pub fn listener(&mut self, listener: Listener) -> &mut Self {
        self.grants.listeners.push(listener);
        self
    }

    /// Lets the processes start programs by name ([`Launcher`]).
    pub fn launcher(&mut self, launcher: Arc<dyn Launcher>) -> &mut Self {
        self.grants.launcher = Some(launcher);
        self
    }

    /// Lets the processes open sockets, for the addresses that the network has rules for (`guests/NET.md`).
    pub fn network(&mut self, network: Arc<Network>) -> &mut Self {
        self.grants.network = Some(network);
        self
    }

    /// Gives each process a descriptor of events, which follows those of the listeners (`guests/EVENTS.md`); the variable
    /// `EVERWARP_EVENTS` holds its number.
    pub fn events(&mut self, events: Arc<Events>) -> &mut Self {
        self.grants.events = Some(events);
        self
    }

    /// Sets standard input, for processes that do not get one of their own; empty by default.
    pub fn stdin(&mut self, input: impl Into<Input>) -> &mut Self {
        self.grants.stdin = input.into();
        self
    }

    /// Sets where standard output goes; by default to this program's own.
    pub fn stdout(&mut self, output: Output) -> &mut Self {
        self.grants.stdout = output;
        self
    }

    /// Sets where standard error goes; by default to this program's own.
    pub fn stderr(&mut self, output: Output) -> &mut Self {
        self.grants.stderr = output;
        self
    }

    /// Limits how much each process may execute; it is ended when the fuel is used up. On the CPU engine a unit is about
    /// one instruction; on a GPU it is an iteration of a loop, or a call of a function that calls others. Without a
    /// limit the CPU engine does not count fuel.
    pub fn fuel(&mut self, fuel: u64) -> &mut Self {
        self.grants.fuel = Some(fuel);
        self
    }

    /// Limits how many files and directories each process may have open.
    pub fn handles(&mut self, handles: u32) -> &mut Self {
        self.grants.handles = Some(handles);
        self
    }

    /// Passes an end of a channel ([`Host::channel`]). The ends become the process's handles from 0.
    pub fn end(&mut self, end: ChannelEnd) -> &mut Self {
        self.grants.ends.push(end);
        self
    }

    /// Starts one process.
    ///
    /// # Errors
    /// [`SpawnError`]: the host has not loaded the module, or cannot grant what the command asks for.
    pub fn spawn(&self) -> Result<Child, SpawnError> {
        let mut children = self.spawn_many(1)?.into_iter();
        Ok(children.next().expect("one process was started"))
    }

    /// Starts `count` processes.
    ///
    /// # Errors
    /// As [`spawn_each`](Self::spawn_each).
    pub fn spawn_many(&self, count: u32) -> Result<Children, SpawnError> {
        self.spawn_each(count, |_, _| {})
    }

    /// Starts `count` processes that differ in their arguments, environment or standard input. `write` adds to those of
    /// the command for the process with the given number, from 0 on; several threads call it at the same time. It
    /// allocates nothing for each process, so 100,000 processes start in milliseconds.
    ///
    /// ```
    /// # use everwarp::process::{Command, Host, Module, Output};
    /// # use everwarp::{Device, Select};
    /// # fn main() -> Result<(), everwarp::process::Error> {
    /// # let device = Device::open(Select::Cpu)?;
    /// # let hello = Module::from_file(concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/built/hello.wasm"))?;
    /// # let host = Host::builder(&device).module(&hello).start()?;
    /// let children = Command::new(&host, &hello)
    ///     .stdout(Output::Capture { limit: 100 })
    ///     .spawn_each(3, |number, start| start.arg(&["number ", &number.to_string()]))?;
    /// for exit in children.wait_all()? {
    ///     assert!(exit.success());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`]. If some processes have started by then, they are asked to end.
    pub fn spawn_each(
        &self,
        count: u32,
        write: impl Fn(u32, &mut dyn StartWriter) + Sync,
    ) -> Result<Children, SpawnError> {
        let parts = Mutex::new(Vec::<(u32, Vec<Pid>)>::new());
        let spawned = self.spawn_pids(count, &write, &|first, pids: &[Pid]| {
            lock(&parts).push((first, pids.to_vec()));
            ControlFlow::Continue(())
        });
        let mut parts = ignore_poison(parts.into_inner());
        parts.sort_unstable_by_key(|(first, _)| *first);
        let pids = parts.into_iter().flat_map(|(_, pids)| pids).collect();
        let children = Children::new(self.host.engine(), pids);
        match spawned {
            Ok(()) => Ok(children),
            Err(error) => {
                // The caller gets no handles, so the processes must not run on. The first error is the one to report.
                drop(children.kill());
                Err(error)
            }
        }
    }

    /// Starts `count` processes as [`spawn_each`](Self::spawn_each), and passes them to `started` in parts as soon as
    /// they have started: the number of a part's first process, and the part. Several threads call it at the same time,
    /// and parts come in any order. After [`ControlFlow::Break`] no further processes are started.
    ///
    /// So one thread can wait for the first processes while another still starts the last ones.
    ///
    /// # Errors
    /// [`SpawnError`]. The processes that were passed to `started` keep running.
    pub fn spawn_parts(
        &self,
        count: u32,
        write: impl Fn(u32, &mut dyn StartWriter) + Sync,
        started: impl Fn(u32, Children) -> ControlFlow<()> + Sync,
    ) -> Result<(), SpawnError> {
        self.spawn_pids(count, &write, &|first, pids: &[Pid]| {
            started(first, Children::new(self.host.engine(), pids.to_vec()))
        })
    }

    fn spawn_pids(
        &self,
        count: u32,
        write: &(dyn Fn(u32, &mut dyn StartWriter) + Sync),
        started: &(dyn Fn(u32, &[Pid]) -> ControlFlow<()> + Sync),
    ) -> Result<(), SpawnError> {
        let module = self.host.module_id(&self.module);
        let module = module.ok_or_else(|| SpawnError::NotLoaded {
            module: self.module.name().to_owned(),
        })?;
        let directories = self.directories.iter().map(GrantedDirectory::open);
        let grants = Grants {
            directories: directories.collect::<Result<_, _>>()?,
            ..self.grants.clone()
        };
        self.host.engine().spawn(&SpawnRequest {
            module,
            grants: &grants,
            count,
            write: &|number, start| {
                self.write_start(start);
                write(number, start);
            },
            started,
        })
    }

    /// Writes what all processes of this command have in common.
    fn write_start(&self, start: &mut dyn StartWriter) {
        start.arg(&[&self.program]);
        for arg in &self.args {
            start.arg(&[arg]);
        }
        for (name, value) in &self.env {
            start.variable(name, &[value]);
        }
        if !self.grants.listeners.is_empty() {
            let count = self.grants.listeners.len().to_string();
            let first = (FIRST_DIRECTORY + self.directories.len()).to_string();
            start.variable(sockets::COUNT_VARIABLE, &[&count]);
            start.variable(sockets::FIRST_VARIABLE, &[&first]);
        }
        if self.grants.events.is_some() {
            let number = FIRST_DIRECTORY + self.directories.len() + self.grants.listeners.len();
            start.variable(sockets::EVENTS_VARIABLE, &[&number.to_string()]);
        }
    }

    /// Runs one process to its end, with its output where the command says.
    ///
    /// # Errors
    /// The process did not start, or the engine failed. A process that fails is not an error: see [`Exit::status`].
    pub fn status(&self) -> Result<Exit, Error> {
        Ok(self.spawn()?.wait()?)
    }

    /// Runs one process to its end and returns what it wrote, up to 1 MiB of each stream.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn output(&self) -> Result<Exit, Error> {
        let limit = OUTPUT_LIMIT;
        let mut command = self.clone();
        command
            .stdout(Output::Capture { limit })
            .stderr(Output::Capture { limit });
        command.status()
    }
}
