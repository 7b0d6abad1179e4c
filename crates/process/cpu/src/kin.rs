//! What a process is to others: its ends of channels, its children, and what those get from it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use everwarp_process::{Pid, gpu};

use crate::channel::End;
use crate::config::Directory;
use crate::crowd::Seat;
use crate::host::Shared;
use crate::process::Process;
use crate::program::Program;
use crate::sink::Sink;

/// What a process gets from whoever spawns it, beside its configuration.
#[derive(Default)]
pub(crate) struct Birth {
    /// The streams of its parent, which it shares.
    pub(crate) stdout: Option<Sink>,
    pub(crate) stderr: Option<Sink>,
    /// Whether it has a parent whose streams it shares.
    pub(crate) shares: bool,
    /// Who that is.
    pub(crate) parent: Option<Pid>,
    /// How many descendants its first ancestor has; its own if it is the first.
    pub(crate) family: Arc<AtomicU32>,
}

/// An entry of the table of ends.
#[derive(Default)]
struct Entry {
    generation: u32,
    end: Option<End>,
}

/// A child that has not been waited for.
pub(crate) struct Child {
    pub(crate) process: Arc<Process>,
    /// The fuel that it was given, if there is a limit.
    pub(crate) fuel: Option<u64>,
}

/// What belongs to one process.
pub(crate) struct Kin {
    pub(crate) host: Weak<Shared>,
    pub(crate) seat: Arc<Seat>,
    pub(crate) program: Option<Program>,
    pub(crate) pid: u64,
    pub(crate) instance: u32,
    /// How many children it has had.
    pub(crate) spawned: u32,
    pub(crate) family: Arc<AtomicU32>,
    pub(crate) children: Vec<Child>,
    pub(crate) directories: Vec<Directory>,
    pub(crate) memory_limit: Option<u64>,
    /// What its children share, and where output goes that nobody collects.
    pub(crate) stdout: Option<Sink>,
    pub(crate) stderr: Option<Sink>,
    pub(crate) ends: Ends,
}

/// A process's table of ends.
#[derive(Default)]
pub(crate) struct Ends([Entry; gpu::HANDLES as usize]);

/// The bits of a handle that are its entry's generation.
const GENERATIONS: u32 = u32::MAX >> gpu::HANDLE_BITS;

impl Kin {
    pub(crate) fn new(host: Weak<Shared>, seat: Arc<Seat>, ends: Ends) -> Self {
        Self {
            host,
            seat,
            program: None,
            pid: 0,
            instance: 0,
            spawned: 0,
            family: Arc::default(),
            children: Vec::new(),
            directories: Vec::new(),
            memory_limit: None,
            stdout: None,
            stderr: None,
            ends,
        }
    }

    /// The child of a pid.
    pub(crate) fn child(&self, pid: u64) -> Option<usize> {
        let mut children = self.children.iter();
        children.position(|c| number(&c.process) == pid)
    }

    /// Forgets a child that has ended.
    pub(crate) fn forget(&mut self, child: usize) -> Child {
        self.family.fetch_sub(1, Ordering::Relaxed);
        self.children.swap_remove(child)
    }

    /// Gives up what an ended process has.
    pub(crate) async fn retire(&mut self) {
        self.ends = Ends::default();
        let Some(host) = self.host.upgrade() else {
            return;
        };
        for child in &self.children {
            host.kill(&child.process);
        }
        while !self.children.is_empty() {
            let process = Arc::clone(&self.children[0].process);
            let away = self.seat.leave();
            process.over().await;
            drop(away);
            self.forget(0);
            host.forget(&process);
        }
    }
}

impl Ends {
    /// A table with these ends, as the handles from 0.
    pub(crate) fn new(ends: Vec<End>) -> Self {
        let mut table = Self::default();
        for (entry, end) in table.0.iter_mut().zip(ends) {
            entry.end = Some(end);
        }
        table
    }

    fn entry(&mut self, handle: u32) -> Option<&mut Entry> {
        let entry = &mut self.0[(handle % gpu::HANDLES) as usize];
        (entry.generation == handle >> gpu::HANDLE_BITS && entry.end.is_some()).then_some(entry)
    }

    /// The end of a handle.
    pub(crate) fn end(&mut self, handle: u32) -> Option<&End> {
        self.entry(handle)?.end.as_ref()
    }

    /// Closes the end of a handle; whether there was one.
    pub(crate) fn close(&mut self, handle: u32) -> bool {
        let Some(entry) = self.entry(handle) else {
            return false;
        };
        entry.generation = (entry.generation + 1) & GENERATIONS;
        entry.end = None;
        true
    }

    /// Whether so many ends more fit.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.0.iter().filter(|e| e.end.is_none()).count() >= count
    }

    /// Puts an end into the first free entry: its handle. There is one.
    pub(crate) fn enter(&mut self, end: End) -> u32 {
        let free = self.0.iter().position(|e| e.end.is_none());
        let at = free.expect("there is room");
        self.0[at].end = Some(end);
        self.0[at].generation << gpu::HANDLE_BITS | at as u32
    }
}

/// A process's pid as processes have it.
pub(crate) fn number(process: &Process) -> u64 {
    process.pid.number()
}
