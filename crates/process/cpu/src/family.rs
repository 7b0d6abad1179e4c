//! What one process has to do with others: its channel ends, its children, and what those inherit.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use everwarp_process::{Directory, HostBudgets, OutputErrors, Pid, gpu};

use crate::channel::{ChannelSide, HostId};
use crate::host_input::HostStdin;
use crate::host_stream::HostStream;
use crate::process::Process;
use crate::scheduler::Scheduler;
use crate::sink::OutputSink;
use crate::worker_load::WorkerLoad;

/// What a child gets from its parent.
#[derive(Clone)]
pub(crate) struct Inheritance {
    pub(crate) parent: Pid,
    /// The parent's streams.
    pub(crate) stdout: OutputSink,
    pub(crate) stderr: OutputSink,
    /// How many descendants the first ancestor has.
    pub(crate) descendants: Arc<AtomicU32>,
}

/// A child that a process asks for.
pub(crate) struct ChildRequest {
    /// The name of its module; empty for the parent's own module.
    pub(crate) module: Vec<u8>,
    pub(crate) args: Vec<String>,
    pub(crate) ends: Vec<ChannelSide>,
    pub(crate) directories: Arc<[Directory]>,
    pub(crate) fuel: Option<u64>,
    /// The child's number among its parent's children.
    pub(crate) instance: u32,
    pub(crate) inheritance: Inheritance,
}

/// Why there is no child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildRefused {
    /// No module has this name.
    UnknownModule,
    /// The module cannot be a child's, or every pid is in use.
    Limit,
}

/// Starts children. The modules of a host implement it.
pub(crate) trait ChildLauncher: Send + Sync {
    /// Whether a module of this name could be a child's.
    fn check(&self, own: ModuleIndex, name: &[u8]) -> Result<(), ChildRefused>;
    /// Queues a child of a process of module `own`.
    fn launch(&self, own: ModuleIndex, request: ChildRequest)
    -> Result<Arc<Process>, ChildRefused>;
}

/// The module of a process, by the order of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModuleIndex(pub(crate) u32);

/// The host of a process, as far as the process may use it. All processes share one record, so that a process costs one
/// reference.
pub(crate) type HostAccess = Arc<HostParts>;

/// What a host has for its processes.
pub(crate) struct HostParts {
    pub(crate) id: HostId,
    /// Its standard input.
    pub(crate) stdin: HostStdin,
    /// Its standard output and standard error.
    pub(crate) streams: [Arc<HostStream>; 2],
    /// Failed writes of its processes.
    pub(crate) errors: Arc<OutputErrors>,
    /// What its processes may take together, if that is limited.
    pub(crate) budgets: Option<Arc<HostBudgets>>,
    pub(crate) scheduler: Weak<Scheduler>,
    pub(crate) launcher: Weak<dyn ChildLauncher>,
}

/// A child that has not been waited for.
pub(crate) struct Child {
    pub(crate) process: Arc<Process>,
    /// The fuel that it was given, if there is a limit.
    pub(crate) fuel: Option<u64>,
}

/// What one process has to do with others.
pub(crate) struct Family {
    pub(crate) host: HostAccess,
    pub(crate) load: Arc<WorkerLoad>,
    pub(crate) pid: Pid,
    pub(crate) module: ModuleIndex,
    /// The process's number among those that were spawned with it.
    pub(crate) instance: u32,
    /// How many children it has had.
    pub(crate) spawned: u32,
    /// How many descendants the first ancestor has.
    pub(crate) descendants: Arc<AtomicU32>,
    pub(crate) children: Vec<Child>,
    pub(crate) directories: Arc<[Directory]>,
    pub(crate) stdout: OutputSink,
    pub(crate) stderr: OutputSink,
    pub(crate) handles: HandleTable,
}

impl Family {
    /// What the next child gets.
    pub(crate) fn inheritance(&self) -> Inheritance {
        Inheritance {
            parent: self.pid,
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
            descendants: Arc::clone(&self.descendants),
        }
    }

    /// The position of the child with this pid.
    pub(crate) fn child(&self, pid: Pid) -> Option<usize> {
        let mut children = self.children.iter();
        children.position(|child| child.process.pid == pid)
    }

    /// Removes a child that has ended.
    pub(crate) fn remove_child(&mut self, position: usize) -> Child {
        self.descendants.fetch_sub(1, Ordering::Relaxed);
        self.children.swap_remove(position)
    }

    /// Closes the channel ends of a process that has ended, kills its children and waits for their ends.
    pub(crate) async fn dissolve(&mut self) {
        self.handles = HandleTable::default();
        let Some(scheduler) = self.host.scheduler.upgrade() else {
            return;
        };
        for child in &self.children {
            scheduler.kill(&child.process);
        }
        while let Some(child) = self.children.first() {
            let process = Arc::clone(&child.process);
            let blocked = self.load.block();
            process.ended().await;
            drop(blocked);
            self.remove_child(0);
            scheduler.forget(process.pid);
        }
    }
}

#[derive(Default)]
struct HandleEntry {
    generation: u32,
    end: Option<ChannelSide>,
}

/// The channel ends of a process by handle.
#[derive(Default)]
pub(crate) struct HandleTable([HandleEntry; gpu::HANDLES as usize]);

/// The bits of a handle that are its entry's generation.
const GENERATIONS: u32 = u32::MAX >> gpu::HANDLE_BITS;

impl HandleTable {
    /// A table with these ends as the handles from 0.
    pub(crate) fn new(ends: Vec<ChannelSide>) -> Self {
        let mut table = Self::default();
        for (entry, end) in table.0.iter_mut().zip(ends) {
            entry.end = Some(end);
        }
        table
    }

    fn entry(&mut self, handle: u32) -> Option<&mut HandleEntry> {
        let entry = &mut self.0[(handle % gpu::HANDLES) as usize];
        (entry.generation == handle >> gpu::HANDLE_BITS && entry.end.is_some()).then_some(entry)
    }

    /// The end with this handle.
    pub(crate) fn end(&mut self, handle: u32) -> Option<&ChannelSide> {
        self.entry(handle)?.end.as_ref()
    }

    /// Closes the end with this handle; returns whether there was one.
    pub(crate) fn close(&mut self, handle: u32) -> bool {
        let Some(entry) = self.entry(handle) else {
            return false;
        };
        entry.generation = (entry.generation + 1) & GENERATIONS;
        entry.end = None;
        true
    }

    /// Whether `count` more ends fit.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        let free = self.0.iter().filter(|entry| entry.end.is_none());
        free.count() >= count
    }

    /// Stores an end in the first free entry, which must exist, and returns its handle.
    pub(crate) fn insert(&mut self, end: ChannelSide) -> u32 {
        let free = self.0.iter().position(|entry| entry.end.is_none());
        let at = free.expect("there is room");
        self.0[at].end = Some(end);
        self.0[at].generation << gpu::HANDLE_BITS | at as u32
    }
}
