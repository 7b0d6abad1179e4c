//! The host's end of the submission ring and of the arena.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everwarp_backend::{Pools, SharedMemory};
use everwarp_contract::DevTask;
use everwarp_contract::ring::Slots;
use everwarp_contract::task::{TASK_BATCH, TASK_COUNTED};

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
        if !self.ring.has_room(self.tail, self.taken) {
            // SAFETY: the words outlive the producer; `taken` is aligned and only accessed atomically.
            // Acquire pairs with the engine's release store after it has read the slots.
            self.taken =
                unsafe { AtomicU32::from_ptr((&raw const (*self.shared.words).taken).cast_mut()) }
                    .load(Ordering::Acquire);
        }
        self.ring.has_room(self.tail, self.taken)
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

    /// Submits tasks of one instance as a batch; answers its token. There are 1 to `arena_tasks` tasks.
    pub(crate) fn batch(&mut self, core: &Core, tasks: &[DevTask]) -> Result<u32, Error> {
        let count = tasks.len() as u32;
        if self.arena.capacity() - self.arena_tail.wrapping_sub(self.arena_head) < count {
            return Err(Error::Full { what: "the arena" });
        }
        let instance = tasks[0].instance();
        let sequence = self.oldest.wrapping_add(self.batches.len() as u32) & SEQUENCE;
        let token = self.token(core, instance, Some(sequence))?;
        let start = self.arena.slot(self.arena_tail);
        let first = tasks.len().min(self.arena.capacity() as usize - start);
        // SAFETY: the range is free: the batches that used it have completed. It may wrap once, and the
        // two pieces together are `tasks`.
        unsafe {
            std::ptr::copy_nonoverlapping(tasks.as_ptr(), self.shared.arena.add(start), first);
            std::ptr::copy_nonoverlapping(
                tasks.as_ptr().add(first),
                self.shared.arena,
                tasks.len() - first,
            );
        }
        self.arena_tail = self.arena_tail.wrapping_add(count);
        self.batches.push_back((self.arena_tail, false));
        let head = TASK_BATCH | DevTask::new(0, instance, 0, tasks[0].priority(), 0).head;
        self.publish(head, token, u64::from(count) << 32 | start as u64);
        Ok(token)
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
