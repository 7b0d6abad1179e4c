//! What the host knows of its processes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use everwarp::Buffer;
use everwarp_interface::Pid;

use crate::channel::End;
use crate::exit::Exit;
use crate::layout::START_PROCESSES;

/// What processes that were spawned together have in common. Few enough share one that the threads which begin and end
/// them do not contend for its count.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) held: Arc<Held>,
    /// Their ends of channels, which are open as long as one of them waits.
    pub(crate) ends: Arc<[End]>,
    pub(crate) wasi: Arc<everwarp_wasi::Config>,
}

/// What is kept of it until all have ended; ends of channels must not be.
#[derive(Debug)]
pub(crate) struct Held {
    /// Read by the device.
    pub(crate) strings: Arc<Buffer<u8>>,
    /// What each began with.
    pub(crate) fuel: i64,
}

/// What a process needs to start.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) group: Arc<Group>,
    /// Which of the group it is.
    pub(crate) number: u32,
    /// Where its own strings lie.
    pub(crate) strings_at: u64,
    pub(crate) flags: u32,
    pub(crate) instance: u32,
}

/// Where a process is in its life.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The slot has none.
    Free,
    /// It waits for a place.
    Queued(Job),
    /// It has one.
    Running(Running),
    /// It has ended and has not been waited for.
    Exited(Exit),
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) module: usize,
    /// The place among those of its module, and which of its processes this is.
    pub(crate) place: u32,
    pub(crate) place_generation: u32,
    pub(crate) begin: Instant,
    pub(crate) held: Arc<Held>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) generation: u32,
    pub(crate) phase: Phase,
}

/// A place as the host sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Occupied {
    pub(crate) generation: u32,
    pub(crate) by: Option<Pid>,
}

/// The places of one module, and who waits for them.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) places: Vec<Occupied>,
    /// Free ones; the last is taken first.
    pub(crate) free: Vec<u32>,
    pub(crate) waiting: VecDeque<Pid>,
    /// How many more are about to wait.
    pub(crate) coming: usize,
}

/// Places that are started together are mostly of one group, whose processes a warp runs side by side.
const GROUP: usize = START_PROCESSES as usize;

impl Line {
    /// How many of those that wait have a place.
    pub(crate) fn startable(&self) -> usize {
        self.free.len().min(self.waiting.len())
    }

    /// The same with those that are about to wait.
    pub(crate) fn to_start(&self) -> usize {
        self.free.len().min(self.waiting.len() + self.coming)
    }

    /// Whether so few places are free, for more that wait, that others are better waited for: there is nothing to
    /// start, or others run whose places will be free.
    pub(crate) fn soon_more(&self) -> bool {
        let few = self.free.len() < GROUP && self.free.len() < self.places.len();
        self.startable() == 0 || few && self.waiting.len() > self.free.len()
    }
}

/// Everything, behind one lock.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) entries: Vec<Entry>,
    pub(crate) free: Vec<u32>,
    pub(crate) lines: Vec<Line>,
    /// Those that somebody waits for, once for each who does.
    pub(crate) awaited: Vec<Pid>,
    /// Why the host cannot go on.
    pub(crate) failed: Option<String>,
    pub(crate) stop: bool,
    /// The dispatcher waits to be called.
    pub(crate) dispatcher_waits: bool,
}

impl State {
    /// A slot for a new process.
    pub(crate) fn insert(&mut self, phase: Phase) -> Pid {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry {
                generation: 0,
                phase: Phase::Free,
            });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[slot as usize];
        entry.generation = entry.generation.wrapping_add(1).max(1);
        entry.phase = phase;
        Pid::new(slot, entry.generation)
    }

    /// The process's entry, unless it has been waited for.
    pub(crate) fn entry(&mut self, pid: Pid) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(pid.slot() as usize)?;
        let there = entry.generation == pid.generation() && !matches!(entry.phase, Phase::Free);
        there.then_some(entry)
    }

    /// Takes a process's exit, if it has ended; its slot is free then.
    pub(crate) fn take(&mut self, pid: Pid) -> Option<Exit> {
        let entry = self.entry(pid)?;
        if !matches!(entry.phase, Phase::Exited(_)) {
            return None;
        }
        let phase = std::mem::replace(&mut entry.phase, Phase::Free);
        self.free.push(pid.slot());
        match phase {
            Phase::Exited(exit) => Some(exit),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::exit::Reason;

    fn exit() -> Exit {
        Exit {
            reason: Reason::Normal(0),
            fuel_used: 0,
            elapsed: Duration::ZERO,
            stdout: None,
            stderr: None,
        }
    }

    #[test]
    fn a_slot_is_used_again_under_another_generation() {
        let mut state = State::default();
        let first = state.insert(Phase::Exited(exit()));
        assert_eq!(state.take(first), Some(exit()));
        assert_eq!(state.take(first), None, "it has been waited for");
        let second = state.insert(Phase::Exited(exit()));
        assert_eq!(second.slot(), first.slot());
        assert_ne!(second, first);
        assert!(state.entry(first).is_none());
        assert_eq!(state.take(second), Some(exit()));
    }
}
