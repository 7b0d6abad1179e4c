//! What the host knows of its processes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use everwarp_process::{Captured, Pid};
use everwarp_runtime::Buffer;

use crate::channel::HostEnd;
use crate::layout::START_PROCESSES;

/// What processes that were spawned together have in common. Few enough share one that the threads which begin and end
/// them do not contend for its count.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) held: Arc<Held>,
    /// Their ends of channels, which are open as long as one of them waits.
    pub(crate) ends: Arc<[HostEnd]>,
    pub(crate) wasi: Arc<everwarp_hostcalls::Config>,
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
    pub(crate) module: u32,
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
    Exited(Outcome),
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) module: u32,
    /// The place among those of its module, and which of its processes this is.
    pub(crate) place: u32,
    pub(crate) place_generation: u32,
    pub(crate) begin: Instant,
    pub(crate) held: Arc<Held>,
}

/// How a process ended, in few bytes; who waits for it is told in words.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) module: u32,
    pub(crate) reason: everwarp_hostcalls::Reason,
    pub(crate) fuel_used: u64,
    pub(crate) elapsed: Duration,
    /// Standard output and standard error, if either was kept.
    pub(crate) kept: Option<Box<[Option<Captured>; 2]>>,
}

impl Outcome {
    /// The end of one that was ended before it began.
    pub(crate) fn killed(module: u32) -> Self {
        Self {
            module,
            reason: everwarp_hostcalls::Reason::Killed,
            fuel_used: 0,
            elapsed: Duration::ZERO,
            kept: None,
        }
    }
}

/// The places of one module, and who waits for them.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Which of its processes each place had last.
    pub(crate) generations: Vec<u32>,
    /// Free ones; who is free for longest is taken first, because those that nobody has had lie side by side.
    pub(crate) free: VecDeque<u32>,
    pub(crate) waiting: VecDeque<Pid>,
    /// How many are spawned together, as long as some of them are still to come.
    pub(crate) together: usize,
}

/// What begins at about the same time as something else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct With {
    /// Others that can begin.
    pub(crate) more: usize,
    /// How many there are together, if they are known to come.
    pub(crate) together: usize,
}

/// Places that are started together are mostly of one group, whose processes a warp runs side by side.
const GROUP: usize = START_PROCESSES as usize;

impl Line {
    /// How many of those that wait have a place.
    pub(crate) fn startable(&self) -> usize {
        self.free.len().min(self.waiting.len())
    }

    /// What begins beside those that begin now.
    pub(crate) fn with(&self) -> With {
        With {
            more: self.startable(),
            together: self.together.min(self.generations.len()),
        }
    }

    /// Whether so few places are free, for more that wait, that others are better waited for: there is nothing to
    /// start, or others run whose places will be free.
    pub(crate) fn soon_more(&self) -> bool {
        let few = self.free.len() < GROUP && self.free.len() < self.generations.len();
        self.startable() == 0 || few && self.waiting.len() > self.free.len()
    }
}

/// What all threads share but the processes themselves, behind one lock.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) lines: Vec<Line>,
    /// Those that somebody waits for, once for each who does.
    pub(crate) awaited: Vec<Pid>,
    /// What wakes the futures that wait for processes.
    pub(crate) wakers: HashMap<Pid, Waker>,
    /// How often something ended that was waited for.
    pub(crate) ends: u64,
    /// Why the host cannot go on.
    pub(crate) failed: Option<String>,
    pub(crate) stop: bool,
    /// The dispatcher waits to be called.
    pub(crate) dispatcher_waits: bool,
}
