//! The submission ring's consumer: whichever worker gets the lock.

use std::mem::offset_of;
use std::sync::TryLockError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everwarp_backend::Pools;
use everwarp_contract::DevTask;
use everwarp_contract::DevWords;
use everwarp_contract::fault::FAULT_BAD_SUBMISSION;
use everwarp_contract::ring::Slots;
use everwarp_contract::task::{
    FN_COMPLETE, FN_FETCH, HOST_DIRECT, PRIORITIES, TASK_BATCH, TASK_COUNTED, TASK_PRIORITY_SHIFT,
};

use crate::shared::Shared;

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

/// The slot's first half, if it is valid for this index.
fn peek(shared: &Shared, ring: Slots, index: u32) -> Option<u64> {
    // SAFETY: an aligned word of a live slot, accessed atomically on both sides. Acquire pairs with the
    // host's release: the other half, the arena and the parameters happen before.
    let word = unsafe { AtomicU64::from_ptr(shared.submissions.at(ring.slot(index)).cast()) }
        .load(Ordering::Acquire);
    ring.is_valid(index, word as u32).then_some(word)
}

/// Whether a submission waits; for a worker about to sleep.
pub(crate) fn waiting(shared: &Shared) -> bool {
    let taken = shared
        .word(offset_of!(DevWords, taken))
        .load(Ordering::Acquire);
    peek(shared, Slots::new(shared.pools.submission_slots), taken).is_some()
}

/// Moves submissions to the injectors. Answers how many, 0 also when somebody else is at it.
pub(crate) fn visit(shared: &Shared, groups: &mut Vec<u32>) -> u32 {
    let mut ingress = match shared.ingress.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(e)) => e.into_inner(),
        Err(TryLockError::WouldBlock) => return 0,
    };
    let queued: usize = shared
        .injectors
        .iter()
        .map(crossbeam_deque::Injector::len)
        .sum();
    let room = (shared.pools.tasks as usize)
        .saturating_sub(queued)
        .min(VISIT as usize) as u32;
    let mut count = 0;
    let mut bad = None;
    while count < room {
        let Some(word) = peek(shared, ingress.ring, ingress.taken) else {
            break;
        };
        // SAFETY: as in `peek`; written before the half that was valid.
        let arg = unsafe {
            AtomicU64::from_ptr(
                shared
                    .submissions
                    .at(ingress.ring.slot(ingress.taken))
                    .cast::<u64>()
                    .add(1),
            )
        }
        .load(Ordering::Relaxed);
        let submission = DevTask {
            head: word as u32,
            group: (word >> 32) as u32,
            arg,
        };
        match accept(shared, groups, submission) {
            Accepted::Queued => {}
            Accepted::NoGroup => break,
            Accepted::Bad => {
                bad = Some(submission);
                break;
            }
        }
        ingress.taken = ingress.taken.wrapping_add(1);
        count += 1;
    }
    if count > 0 {
        let taken: &AtomicU32 = shared.word(offset_of!(DevWords, taken));
        taken.store(ingress.taken, Ordering::Release);
    }
    drop(ingress);
    if let Some(task) = bad {
        shared.fault(FAULT_BAD_SUBMISSION, task.function(), task.head.into());
    }
    if count > 1 {
        shared.idle.wake();
    }
    count
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
