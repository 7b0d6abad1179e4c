//! The host's end of the submission ring and of the arena.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everwarp_contract::ring::Slots;
use everwarp_contract::task::{TASK_BATCH, TASK_COUNTED};
use everwarp_contract::{DevTask, FunctionId, InstanceId, TokenId};
use everwarp_engine::{EngineRings, Pools};

use crate::core::EngineCore;
use crate::error::Error;
use crate::sync::lock;
use crate::token::{Counted, SubmissionInfo};

/// Sequence numbers of batches have 31 bits.
const SEQUENCE: u32 = u32::MAX >> 1;

/// The only writer of the submission ring and the arena.
#[derive(Debug)]
pub(crate) struct Producer {
    rings: EngineRings,
    ring: Slots,
    tail: u32,
    /// Slots after `tail` that are kept for batches whose tasks are being written.
    reserved: u32,
    /// The engine's `taken` as last seen: read again only when the ring looks full.
    taken: u32,
    free: Vec<TokenId>,
    arena: Slots,
    arena_tail: u32,
    arena_head: u32,
    /// The batches in flight in the order of their ranges: the end of the range, and whether the batch has completed.
    batches: VecDeque<(u32, bool)>,
    /// The sequence number of the oldest batch in flight.
    oldest: u32,
}

impl Producer {
    pub(crate) fn new(rings: EngineRings, pools: Pools) -> Self {
        Self {
            rings,
            ring: Slots::new(pools.submission_slots),
            tail: 0,
            reserved: 0,
            taken: 0,
            free: (0..pools.tokens).rev().map(TokenId).collect(),
            arena: Slots::new(pools.arena_tasks),
            arena_tail: 0,
            arena_head: 0,
            batches: VecDeque::new(),
            oldest: 0,
        }
    }

    fn has_room(&mut self) -> bool {
        let next = self.tail.wrapping_add(self.reserved);
        if !self.ring.has_room(next, self.taken) {
            // SAFETY: the words outlive the producer; `taken` is aligned and only accessed atomically.
            // Acquire pairs with the engine's release store after it has read the slots.
            self.taken =
                unsafe { AtomicU32::from_ptr((&raw const (*self.rings.words).taken).cast_mut()) }
                    .load(Ordering::Acquire);
        }
        self.ring.has_room(next, self.taken)
    }

    /// Writes one slot. The caller has made sure of room.
    fn publish(&mut self, head: u32, token: TokenId, arg: u64) {
        let slot = self.ring.slot(self.tail);
        let word = u64::from(token.0) << 32 | u64::from(head | self.ring.lap(self.tail));
        // SAFETY: `slot` is inside the ring, and the engine has taken the submission that was there a lap ago. The two
        // halves are aligned 8-byte words: `arg` first, then the half with the lap bit, with release.
        unsafe {
            let at = self.rings.submissions.add(slot).cast::<u64>();
            AtomicU64::from_ptr(at.add(1)).store(arg, Ordering::Relaxed);
            AtomicU64::from_ptr(at).store(word, Ordering::Release);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Takes a token and makes sure of room in the ring for its submission, which counts as in flight from here on.
    fn token(
        &mut self,
        core: &EngineCore,
        instance: InstanceId,
        batch: Option<u32>,
        lasts: bool,
    ) -> Result<TokenId, Error> {
        if !self.has_room() {
            return Err(Error::Full {
                what: "the submission ring",
            });
        }
        if self.free.is_empty() {
            std::mem::swap(&mut self.free, &mut lock(&core.recycled));
        }
        let token = self.free.pop().ok_or(Error::Full {
            what: "the completion ring",
        })?;
        core.slot(instance).begin();
        let counted = match lasts {
            true => Counted::NOT,
            false => core.regions.begin(core.slot(instance).region()),
        };
        core.token(token).begin(SubmissionInfo {
            instance,
            counted,
            batch,
        });
        Ok(token)
    }

    /// Submits one task. Returns its token. One that `lasts` keeps no dropped buffer until it is counted.
    pub(crate) fn task(
        &mut self,
        core: &EngineCore,
        task: DevTask,
        counted: bool,
        lasts: bool,
    ) -> Result<TokenId, Error> {
        let token = self.token(core, task.instance(), None, lasts)?;
        self.publish(
            task.head | if counted { TASK_COUNTED } else { 0 },
            token,
            task.arg,
        );
        Ok(token)
    }

    /// Counts a submission in flight that lasts, and has not been counted.
    pub(crate) fn count(&mut self, core: &EngineCore, token: TokenId) {
        let token = core.token(token);
        if let Some(info) = token.in_flight() {
            let region = core.slot(info.instance).region();
            token.set_counted(core.regions.begin(region));
        }
    }

    /// Makes room for a batch of 1 to `arena_tasks` tasks of one instance.
    pub(crate) fn reserve<'t>(
        &mut self,
        core: &EngineCore,
        tasks: &'t [DevTask],
    ) -> Result<Reserved<'t>, Error> {
        let count = tasks.len() as u32;
        if self.arena.capacity() - self.arena_tail.wrapping_sub(self.arena_head) < count {
            return Err(Error::Full { what: "the arena" });
        }
        let instance = tasks[0].instance();
        let sequence = self.oldest.wrapping_add(self.batches.len() as u32) & SEQUENCE;
        let token = self.token(core, instance, Some(sequence), false)?;
        let start = self.arena.slot(self.arena_tail) as u32;
        self.arena_tail = self.arena_tail.wrapping_add(count);
        self.batches.push_back((self.arena_tail, false));
        self.reserved += 1;
        Ok(Reserved {
            tasks,
            token,
            start,
            arena: self.rings.arena,
            capacity: self.arena.capacity(),
        })
    }

    /// Publishes a batch that [`Reserved::fill`] has written. Returns its token.
    pub(crate) fn announce(&mut self, filled: Filled<'_>) -> TokenId {
        let Reserved {
            tasks,
            token,
            start,
            ..
        } = filled.0;
        self.reserved -= 1;
        let (instance, priority) = (tasks[0].instance(), tasks[0].priority());
        let head = TASK_BATCH | DevTask::new(FunctionId::NONE, instance, 0, priority, 0).head;
        self.publish(head, token, (tasks.len() as u64) << 32 | u64::from(start));
        token
    }

    /// Notes that a batch has completed. Its range of the arena is free once all ranges before it are.
    pub(crate) fn release(&mut self, sequence: u32) {
        if let Some(batch) = self
            .batches
            .get_mut((sequence.wrapping_sub(self.oldest) & SEQUENCE) as usize)
        {
            batch.1 = true;
        }
        while let Some(&(end, true)) = self.batches.front() {
            self.arena_head = end;
            self.oldest = self.oldest.wrapping_add(1) & SEQUENCE;
            self.batches.pop_front();
        }
    }
}

/// A batch that has its range of the arena and is not written yet. Writing needs no lock, so several threads can write at
/// a time. A reservation must be used: its range would never come free.
#[derive(Debug)]
#[must_use = "a reserved batch has to be announced"]
pub(crate) struct Reserved<'t> {
    tasks: &'t [DevTask],
    token: TokenId,
    /// The first of its slots in the arena.
    start: u32,
    arena: *mut DevTask,
    capacity: u32,
}

/// A batch that is written.
#[derive(Debug)]
#[must_use = "a written batch has to be announced"]
pub(crate) struct Filled<'t>(Reserved<'t>);

impl<'t> Reserved<'t> {
    /// Writes the tasks.
    pub(crate) fn fill(self) -> Filled<'t> {
        let split = self.tasks.len().min((self.capacity - self.start) as usize);
        let (first, rest) = self.tasks.split_at(split);
        // SAFETY: the range belongs to this batch alone: the batches that used it before have completed. It may wrap
        // once, and the two pieces together are `tasks`.
        unsafe {
            let start = self.arena.add(self.start as usize);
            std::ptr::copy_nonoverlapping(first.as_ptr(), start, first.len());
            std::ptr::copy_nonoverlapping(rest.as_ptr(), self.arena, rest.len());
        }
        Filled(self)
    }
}
