//! What the host keeps of a process.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, Weak};

use everwarp_contract::hostcall::Fd;
use everwarp_engine::sync::lock;
use everwarp_process::Pid;

use crate::config::Config;
use crate::errno::{Errno, Result};
use crate::input::ProcessInput;
use crate::open::{Descriptor, OpenConnection, OpenDir, OpenListener};
use crate::sink::Sink;
use crate::streams::Streams;
use crate::table::DescriptorTable;

/// A slot of the process table.
#[derive(Default)]
pub(crate) enum ProcessSlot {
    /// No process.
    #[default]
    Free,
    /// A process that has not called yet. Many never do, but compute, print and exit.
    Silent(Pid, StartConfig),
    /// A process that has called.
    Open(Arc<Process>),
}

/// What a process is opened with: a configuration for several processes, and which of them it is.
#[derive(Clone)]
pub(crate) struct StartConfig {
    pub(crate) config: Arc<Config>,
    pub(crate) number: u32,
    /// The host's tag, reported when the process ends.
    pub(crate) tag: u64,
}

impl StartConfig {
    /// The name in the brackets before its lines.
    pub(crate) fn name(&self, process: Pid) -> Cow<'_, str> {
        match self.config.name_of(self.number) {
            "" => process.to_string().into(),
            name => name.into(),
        }
    }
}

impl ProcessSlot {
    /// The process that has the slot.
    pub(crate) fn process(&self) -> Option<Pid> {
        match self {
            Self::Free => None,
            Self::Silent(pid, _) => Some(*pid),
            Self::Open(process) => Some(process.pid),
        }
    }

    /// The process with this name, which from now on has called.
    ///
    /// # Errors
    /// `ESRCH`: the slot has no such process.
    pub(crate) fn open(&mut self, pid: Pid, streams: &Streams) -> Result<Arc<Process>> {
        if self.process() != Some(pid) {
            return Err(Errno::SRCH);
        }
        if let Self::Silent(_, start) = self {
            *self = Self::Open(Arc::new(Process::new(pid, start, streams)?));
        }
        match self {
            Self::Open(process) => Ok(Arc::clone(process)),
            _ => Err(Errno::SRCH),
        }
    }
}

/// A process that has called.
pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// The host's tag, reported when the process ends.
    pub(crate) tag: u64,
    pub(crate) stdin: ProcessInput,
    pub(crate) stdout: Sink,
    pub(crate) stderr: Sink,
    pub(crate) table: Mutex<DescriptorTable>,
    /// The configuration that it was opened with.
    pub(crate) config: Arc<Config>,
    /// Its directories that have a listing, beginning with the oldest listing.
    pub(crate) listed: Mutex<VecDeque<Weak<Descriptor>>>,
    /// How many files and directories it has opened.
    pub(crate) held: Arc<AtomicU32>,
    /// How many of its requests wait.
    pub(crate) waits: AtomicUsize,
    /// Set once the process has ended; its requests must not wait any more.
    pub(crate) ended: AtomicBool,
}

impl Process {
    pub(crate) fn new(pid: Pid, start: &StartConfig, streams: &Streams) -> Result<Self> {
        let (config, name) = (&start.config, start.name(pid));
        let mut table = DescriptorTable::new(config.handles);
        let connection = config.take_connection(start.number);
        let stream = |otherwise| match &connection {
            Some(connection) => Descriptor::Connection(OpenConnection {
                connection: connection.clone(),
                nonblock: AtomicBool::new(false),
                _permit: None,
            }),
            None => otherwise,
        };
        table.insert(stream(Descriptor::Input))?;
        table.insert(stream(Descriptor::Output))?;
        table.insert(Descriptor::Error)?;
        for directory in &config.directories {
            table.insert(Descriptor::Directory(OpenDir {
                dir: Arc::clone(&directory.dir),
                given: Some(Arc::clone(&directory.guest)),
                readable: true,
                read_only: directory.read_only,
                listing: Mutex::default(),
                _permit: None,
            }))?;
        }
        for listener in &config.listeners {
            table.insert(Descriptor::Listener(OpenListener {
                listener: listener.clone(),
                nonblock: AtomicBool::new(false),
            }))?;
        }
        if let Some(events) = &config.events {
            let connection = events.open();
            table.insert(Descriptor::Connection(OpenConnection {
                connection: connection.map_err(|error| Errno::of_socket(&error))?,
                nonblock: AtomicBool::new(false),
                _permit: None,
            }))?;
        }
        Ok(Self {
            pid,
            tag: start.tag,
            stdin: ProcessInput::new(config.stdin_of(start.number).clone(), &streams.stdin),
            stdout: Sink::stdout(config.stdout, &name, streams),
            stderr: Sink::stderr(config.stderr, &name, streams),
            table: Mutex::new(table),
            config: Arc::clone(config),
            listed: Mutex::default(),
            held: Arc::default(),
            waits: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        })
    }

    pub(crate) fn descriptor(&self, fd: Fd) -> Result<Arc<Descriptor>> {
        lock(&self.table).get(fd)
    }

    /// The stream of a descriptor of standard output or error.
    pub(crate) fn sink(&self, descriptor: &Descriptor) -> Option<&Sink> {
        match descriptor {
            Descriptor::Output => Some(&self.stdout),
            Descriptor::Error => Some(&self.stderr),
            _ => None,
        }
    }
}
