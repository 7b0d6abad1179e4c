//! The submission ring's consumer: whichever worker gets the lock.

use std::mem::offset_of;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;

use everwarp_contract::DevTask;
use everwarp_contract::DevWords;
use everwarp_contract::fault::FAULT_BAD_SUBMISSION;
use everwarp_contract::ring::Slots;
use everwarp_contract::task::{
    FN_COMPLETE, FN_FETCH, HOST_DIRECT, PRIORITIES, TASK_BATCH, TASK_COUNTED, TASK_PRIORITY_SHIFT,
};
use everwarp_engine::Pools;

use crate::shared::Shared;
use crate::slot::Slot;

/// The consumer's state.
#[derive(Debug)]
pub(crate) struct Ingress {
    ring: Slots,
    taken: u32,
}

impl Ingress {
    pub(crate) fn new(pools: Pools) -> Self {
        Self {
            ring: Slots::new(pools.submission_slots),
            taken: 0,
        }
    }
}

/// How many submissions one visit takes at most, so that the visitor gets back to its tasks.
const VISIT: u32 = 256;

/// The slot of an index.
fn slot(shared: &Shared, ring: Slots, index: u32) -> Slot<'_> {
    // SAFETY: two aligned words of a live slot, accessed atomically on both sides.
    unsafe { Slot::from_ptr(shared.submissions.at(ring.slot(index)).cast()) }
}

/// Whether a submission waits; for a worker about to sleep.
pub(crate) fn waiting(shared: &Shared) -> bool {
    let taken = shared
        .word(offset_of!(DevWords, taken))
        .load(Ordering::Acquire);
    let ring = Slots::new(shared.pools.submission_slots);
    slot(shared, ring, taken).is_valid(ring, taken)
}

/// What a visit found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// Nothing is left that this worker could take now, or somebody else is at it.
    Done,
    /// A submission waits, but there is no room in the queues or no group for it.
    Blocked,
}

/// Moves submissions to the injectors.
pub(crate) fn visit(shared: &Shared, groups: &mut Vec<u32>) -> Visit {
    let mut ingress = match shared.ingress.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(e)) => e.into_inner(),
        Err(TryLockError::WouldBlock) => return Visit::Done,
    };
    let queued: usize = shared
        .injectors
        .iter()
        .map(crossbeam_deque::Injector::len)
        .sum();
    let room = (shared.pools.tasks as usize).saturating_sub(queued);
    let mut count = 0;
    let mut bad = None;
    let mut answer = Visit::Done;
    while count < VISIT {
        let ring = ingress.ring;
        let Some(submission) = slot(shared, ring, ingress.taken).submission(ring, ingress.taken)
        else {
            break;
        };
        if count as usize >= room {
            shared.task_refusals.fetch_add(1, Ordering::Relaxed);
            answer = Visit::Blocked;
            break;
        }
        match accept(shared, groups, submission) {
            Accepted::Queued => {}
            Accepted::NoGroup => {
                shared.group_refusals.fetch_add(1, Ordering::Relaxed);
                answer = Visit::Blocked;
                break;
            }
            Accepted::Bad => {
                bad = Some(submission);
                break;
            }
        }
        ingress.taken = ingress.taken.wrapping_add(1);
        count += 1;
    }
    if count > 0 {
        // Release: the slots were read before the host may write them again.
        shared
            .word(offset_of!(DevWords, taken))
            .store(ingress.taken, Ordering::Release);
    }
    drop(ingress);
    if let Some(task) = bad {
        shared.fault(FAULT_BAD_SUBMISSION, task.function(), task.head.into());
    }
    if count > 1 {
        shared.idle.wake();
    }
    answer
}

enum Accepted {
    Queued,
    NoGroup,
    Bad,
}

fn accept(shared: &Shared, groups: &mut Vec<u32>, submission: DevTask) -> Accepted {
    let priority = submission.priority();
    let mut task = DevTask {
        head: submission.head & (TASK_BATCH - 1),
        ..submission
    };
    let batch = submission.head & TASK_BATCH != 0;
    let pending = if batch {
        (submission.arg >> 32) as u32
    } else {
        1
    };
    if batch {
        if pending == 0 || pending > shared.pools.arena_tasks {
            return Accepted::Bad;
        }
        task.head = FN_FETCH | submission.head & (PRIORITIES - 1) << TASK_PRIORITY_SHIFT;
    } else if shared.function(submission.function()).is_none() {
        return Accepted::Bad;
    }
    if batch || submission.head & TASK_COUNTED != 0 {
        let Some(id) = crate::run::group_alloc(shared, groups) else {
            return Accepted::NoGroup;
        };
        let group = &shared.groups[id as usize];
        group.count.open(pending);
        // SAFETY: the id is fresh from the pool.
        unsafe {
            group.set_then(DevTask {
                head: FN_COMPLETE,
                group: submission.group,
                arg: 0,
            });
        }
        task.group = id;
    } else {
        task.group |= HOST_DIRECT;
    }
    shared.priorities.fetch_or(1 << priority, Ordering::Relaxed);
    shared.injectors[usize::from(priority)].push(task);
    Accepted::Queued
}
