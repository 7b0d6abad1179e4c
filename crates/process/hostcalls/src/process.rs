//! A process, as far as the host is concerned.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::mem::take;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, Weak};

use crate::config::Config;
use crate::errno::{Errno, Result};
use crate::input::ProcessInput;
use crate::sink::{Sink, lock};
use crate::streams::Streams;
use crate::table::{Descriptor, OpenDir, OpenFile, Table};

/// Descriptors that every process begins with.
pub(crate) const STREAMS: usize = 3;

/// A place in the table of processes.
#[derive(Default)]
pub(crate) enum Slot {
    /// Nobody's.
    #[default]
    Free,
    /// A process of this generation that has asked for nothing yet. Many never do, but compute, print and end.
    Given(u32, Given),
    /// One that has.
    Open(Arc<Process>),
}

/// What a process is opened with: a configuration for several, and which of them it is.
#[derive(Clone)]
pub(crate) struct Given {
    pub(crate) config: Arc<Config>,
    pub(crate) number: u32,
    /// What who hears of its end knows it by.
    pub(crate) tag: u64,
}

impl Given {
    /// What stands before its lines.
    pub(crate) fn name(&self, slot: u32, generation: u32) -> Cow<'_, str> {
        match self.config.name_of(self.number) {
            "" => format!("{slot}.{generation}").into(),
            name => name.into(),
        }
    }
}

impl Slot {
    /// Which process has it.
    pub(crate) fn generation(&self) -> Option<u32> {
        match self {
            Self::Free => None,
            Self::Given(generation, _) => Some(*generation),
            Self::Open(process) => Some(process.generation),
        }
    }

    /// The process of this slot, if it is of that generation.
    pub(crate) fn open(
        &mut self,
        slot: u32,
        generation: u32,
        streams: &Streams,
    ) -> Result<Arc<Process>> {
        if self.generation() != Some(generation) {
            return Err(Errno::SRCH);
        }
        *self = match take(self) {
            Self::Given(_, given) => {
                let process = Process::new(slot, generation, &given, streams)?;
                Self::Open(Arc::new(process))
            }
            other => other,
        };
        match self {
            Self::Open(process) => Ok(Arc::clone(process)),
            _ => Err(Errno::SRCH),
        }
    }
}

/// What the host keeps of a process.
pub(crate) struct Process {
    pub(crate) generation: u32,
    /// What who hears of its end knows it by.
    pub(crate) tag: u64,
    pub(crate) stdin: ProcessInput,
    pub(crate) stdout: Sink,
    pub(crate) stderr: Sink,
    pub(crate) table: Mutex<Table>,
    /// What it was opened with.
    pub(crate) given: Arc<Config>,
    /// Directories that have a listing, the longest first.
    pub(crate) listed: Mutex<VecDeque<Weak<Descriptor>>>,
    /// How many files and directories it has open, but for those that it was given.
    pub(crate) held: Arc<AtomicU32>,
    /// How many of its requests wait for time or input.
    pub(crate) waits: AtomicUsize,
    /// Whether it has ended, so that no request of its may begin to wait.
    pub(crate) ended: AtomicBool,
}

impl Process {
    pub(crate) fn new(
        slot: u32,
        generation: u32,
        given: &Given,
        streams: &Streams,
    ) -> Result<Self> {
        let (config, name) = (&given.config, given.name(slot, generation));
        let mut table = Table::new(config.handles);
        for descriptor in [Descriptor::Input, Descriptor::Output, Descriptor::Error] {
            table.insert(descriptor)?;
        }
        for directory in &config.directories {
            table.insert(Descriptor::Directory(OpenDir {
                dir: Arc::clone(&directory.dir),
                given: Some(directory.guest.clone()),
                readable: true,
                read_only: directory.read_only,
                listing: Mutex::default(),
                _permit: None,
            }))?;
        }
        Ok(Self {
            generation,
            tag: given.tag,
            stdin: ProcessInput::new(config.stdin_of(given.number).clone(), &streams.stdin),
            stdout: Sink::stdout(config.stdout, &name, streams),
            stderr: Sink::stderr(config.stderr, &name, streams),
            table: Mutex::new(table),
            given: Arc::clone(config),
            listed: Mutex::default(),
            held: Arc::default(),
            waits: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        })
    }

    pub(crate) fn descriptor(&self, fd: u32) -> Result<Arc<Descriptor>> {
        lock(&self.table).get(fd)
    }

    /// The stream behind a descriptor of standard output or error.
    pub(crate) fn sink(&self, descriptor: &Descriptor) -> Option<&Sink> {
        match descriptor {
            Descriptor::Output => Some(&self.stdout),
            Descriptor::Error => Some(&self.stderr),
            _ => None,
        }
    }
}

impl Descriptor {
    /// The file, where nothing but a file will do.
    pub(crate) fn file(&self) -> Result<&OpenFile> {
        match self {
            Self::File(file) => Ok(file),
            _ => Err(Errno::BADF),
        }
    }

    /// The file, where something that has no offset is told so.
    pub(crate) fn seekable(&self) -> Result<&OpenFile> {
        match self {
            Self::File(file) => Ok(file),
            Self::Input | Self::Output | Self::Error => Err(Errno::SPIPE),
            Self::Directory(_) => Err(Errno::BADF),
        }
    }

    /// The directory, where nothing but a directory will do.
    pub(crate) fn directory(&self) -> Result<&OpenDir> {
        match self {
            Self::Directory(dir) => Ok(dir),
            _ => Err(Errno::BADF),
        }
    }
}
