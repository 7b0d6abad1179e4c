//! The consumer of the submission ring: the worker that gets the lock.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use everwarp_contract::fault::FAULT_BAD_SUBMISSION;
use everwarp_contract::ring::Slots;
use everwarp_contract::task::{HOST_DIRECT, TASK_BATCH, TASK_COUNTED};
use everwarp_contract::{DevTask, DevWords, FunctionId, GroupId, InstanceId};
use everwarp_engine::sync::try_lock;

use crate::ring_slot::RingSlot;
use crate::shared::CpuShared;

/// How many submissions one visit takes at most, so that the visitor gets back to its tasks.
const VISIT: u32 = 256;

/// The ring's slot of an index.
fn slot(shared: &CpuShared, ring: Slots, index: u32) -> RingSlot<'_> {
    // SAFETY: two aligned words of a live slot, accessed atomically on both sides.
    unsafe { RingSlot::from_ptr(shared.submissions.at(ring.slot(index)).cast()) }
}

/// Whether a submission waits; for a worker about to sleep.
pub(crate) fn waiting(shared: &CpuShared) -> bool {
    let taken = shared
        .word(offset_of!(DevWords, taken))
        .load(Ordering::Acquire);
    let ring = Slots::new(shared.pools.submission_slots);
    slot(shared, ring, taken).is_valid(ring, taken)
}

/// The result of a visit.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// Nothing is left that this worker could take now, or another worker is at the ring.
    Done,
    /// A submission waits, but there is no room in the queues or no group for it.
    Blocked,
}

/// Moves submissions to the injectors.
pub(crate) fn visit(shared: &CpuShared, groups: &mut Vec<GroupId>) -> Visit {
    let Some(mut ingress) = try_lock(&shared.ingress) else {
        return Visit::Done;
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

/// Turns a submission into a queued task, with a group if its root needs one.
fn accept(shared: &CpuShared, groups: &mut Vec<GroupId>, submission: DevTask) -> Accepted {
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
        task.head = DevTask::new(FunctionId::FETCH, InstanceId(0), 0, priority, 0).head;
    } else if !shared.has_function(submission.function()) {
        return Accepted::Bad;
    }
    if batch || submission.head & TASK_COUNTED != 0 {
        let Some(id) = shared.group_ids.take(groups, false) else {
            return Accepted::NoGroup;
        };
        let group = shared.group(id);
        group.count.open(pending);
        // SAFETY: the id is fresh from the pool.
        unsafe {
            group.set_then(DevTask {
                head: FunctionId::COMPLETE.0,
                group: submission.group,
                arg: 0,
            });
        }
        task.group = id.0;
    } else {
        task.group |= HOST_DIRECT;
    }
    shared
        .priorities
        .fetch_or(1 << priority.level(), Ordering::Relaxed);
    shared.injectors[priority.index()].push(task);
    Accepted::Queued
}
