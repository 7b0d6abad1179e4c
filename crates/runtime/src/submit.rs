//! The host's end of the submission ring and of the arena.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everwarp_contract::DevTask;
use everwarp_contract::ring::Slots;
use everwarp_contract::task::{TASK_BATCH, TASK_COUNTED};
use everwarp_engine::{Pools, SharedMemory};

use crate::core::Core;
use crate::error::Error;
use crate::sync::lock;
use crate::token::Info;

/// Sequence numbers of batches have 31 bits.
const SEQUENCE: u32 = u32::MAX >> 1;

/// The only writer of the submission ring and the arena.
#[derive(Debug)]
pub(crate) struct Producer {
    shared: SharedMemory,
    ring: Slots,
    tail: u32,
    /// Slots behind `tail` that batches will need which are being written.
    reserved: u32,
    /// The engine's `taken` as last seen: read again only when the ring looks full.
    taken: u32,
    free: Vec<u32>,
    arena: Slots,
    arena_tail: u32,
    arena_head: u32,
    /// Batches in flight in the order of their ranges: end of the range, completed.
    batches: VecDeque<(u32, bool)>,
    /// The sequence number of the oldest batch in flight.
    oldest: u32,
}

impl Producer {
    pub(crate) fn new(shared: SharedMemory, pools: Pools) -> Self {
        Self {
            shared,
            ring: Slots::new(pools.submission_slots),
            tail: 0,
            reserved: 0,
            taken: 0,
            free: (0..pools.tokens).rev().collect(),
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
                unsafe { AtomicU32::from_ptr((&raw const (*self.shared.words).taken).cast_mut()) }
                    .load(Ordering::Acquire);
        }
        self.ring.has_room(next, self.taken)
    }

    /// Writes one slot; there is room.
    fn publish(&mut self, head: u32, token: u32, arg: u64) {
        let slot = self.ring.slot(self.tail);
        let word = u64::from(token) << 32 | u64::from(head | self.ring.lap(self.tail));
        // SAFETY: `slot` is inside the ring, and the engine has taken what was there a lap ago. The two
        // halves are aligned 8-byte words: `arg` first, then the half with the lap bit, with release.
        unsafe {
            let at = self.shared.submissions.add(slot).cast::<u64>();
            AtomicU64::from_ptr(at.add(1)).store(arg, Ordering::Relaxed);
            AtomicU64::from_ptr(at).store(word, Ordering::Release);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// A token, and room in the ring for its submission; its state and the counters begin.
    fn token(&mut self, core: &Core, instance: u8, batch: Option<u32>) -> Result<u32, Error> {
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
        core.slots[usize::from(instance)].begin();
        let phase = core.graveyard.begin();
        core.tokens[token as usize].begin(Info {
            instance,
            phase,
            batch,
        });
        Ok(token)
    }

    /// Submits one task; answers its token.
    pub(crate) fn task(&mut self, core: &Core, task: DevTask, counted: bool) -> Result<u32, Error> {
        let token = self.token(core, task.instance(), None)?;
        self.publish(
            task.head | if counted { TASK_COUNTED } else { 0 },
            token,
            task.arg,
        );
        Ok(token)
    }

    /// Makes room for tasks of one instance as a batch, of which there are 1 to `arena_tasks`.
    pub(crate) fn reserve<'t>(
        &mut self,
        core: &Core,
        tasks: &'t [DevTask],
    ) -> Result<Reserved<'t>, Error> {
        let count = tasks.len() as u32;
        if self.arena.capacity() - self.arena_tail.wrapping_sub(self.arena_head) < count {
            return Err(Error::Full { what: "the arena" });
        }
        let instance = tasks[0].instance();
        let sequence = self.oldest.wrapping_add(self.batches.len() as u32) & SEQUENCE;
        let token = self.token(core, instance, Some(sequence))?;
        let start = self.arena.slot(self.arena_tail) as u32;
        self.arena_tail = self.arena_tail.wrapping_add(count);
        self.batches.push_back((self.arena_tail, false));
        self.reserved += 1;
        Ok(Reserved {
            tasks,
            token,
            start,
            arena: self.shared.arena,
            capacity: self.arena.capacity(),
        })
    }

    /// Publishes what [`Reserved::fill`] has written; answers its token.
    pub(crate) fn announce(&mut self, filled: Filled<'_>) -> u32 {
        let Reserved {
            tasks,
            token,
            start,
            ..
        } = filled.0;
        self.reserved -= 1;
        let (instance, priority) = (tasks[0].instance(), tasks[0].priority());
        let head = TASK_BATCH | DevTask::new(0, instance, 0, priority, 0).head;
        self.publish(head, token, (tasks.len() as u64) << 32 | u64::from(start));
        token
    }

    /// A batch completed: its range of the arena is free once all before it are.
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

/// A batch that has its place and is not written yet. Writing needs no lock, so several threads do it at a time. It
/// cannot be given up: its place would never come free.
#[derive(Debug)]
#[must_use = "what is reserved has to be announced"]
pub(crate) struct Reserved<'t> {
    tasks: &'t [DevTask],
    token: u32,
    /// The first of its slots in the arena.
    start: u32,
    arena: *mut DevTask,
    capacity: u32,
}

/// A batch that is written.
#[derive(Debug)]
#[must_use = "what is written has to be announced"]
pub(crate) struct Filled<'t>(Reserved<'t>);

impl<'t> Reserved<'t> {
    /// Writes the tasks.
    pub(crate) fn fill(self) -> Filled<'t> {
        let first = self.tasks.len().min((self.capacity - self.start) as usize);
        let (before, behind) = self.tasks.split_at(first);
        // SAFETY: the range is this batch's alone: those that used it have completed. It may wrap once, and the two
        // pieces together are `tasks`.
        unsafe {
            let start = self.arena.add(self.start as usize);
            std::ptr::copy_nonoverlapping(before.as_ptr(), start, before.len());
            std::ptr::copy_nonoverlapping(behind.as_ptr(), self.arena, behind.len());
        }
        Filled(self)
    }
}
