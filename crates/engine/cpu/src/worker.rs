//! The worker's loop: look for work by priority, run it, sleep when there is none.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_deque::Steal;
use everwarp_contract::telemetry::{WORKER_AWAY, WORKER_IDLE, WORKER_RUNNING, WORKER_STARVED};
use everwarp_contract::{DevTask, FunctionId, Priority, TaskParent};
use everwarp_engine::sync::lock;

use crate::group::GroupCredit;
use crate::ingress::{self, Visit};
use crate::observe::Observer;
use crate::reserve::{PATIENCE, PERSEVERANCE};
use crate::run::WorkerContext;
use crate::shared::{CpuShared, bump};
use crate::steal::steal;

/// Tasks between two looks at the submission ring.
const VISIT_EVERY: u32 = 64;
/// Tasks between two looks at new tasks before the worker's own, so that an endless chain does not starve them.
const INJECTOR_EVERY: u32 = 61;
/// Fruitless rounds before a worker sleeps.
const SPINS: u32 = 200;
/// Starved rounds in a row in which a worker only yields.
const YIELDS: u32 = 8;
/// Tasks of one priority that a starved worker looks at in one round, in either order.
const LOOK: usize = 64;
/// The longest sleep of a starved worker: room that another worker keeps for itself is not announced.
const NAP: Duration = Duration::from_millis(1);

/// How long a worker sleeps that has been starved for `rounds` rounds.
fn nap(rounds: u32) -> Duration {
    NAP.min(Duration::from_micros(16) * (1 << (rounds.saturating_sub(YIELDS) / 4).min(6)))
}

/// Runs tasks as worker number `own` until the engine tells the workers to leave.
pub(crate) fn work<'s, O: Observer<'s>>(shared: &'s CpuShared, own: usize) {
    let slot = &shared.workers[own];
    let deques = lock(&slot.deques).take();
    let mut worker = WorkerContext {
        shared,
        counters: &slot.counters,
        deques: deques.expect("each worker has one thread"),
        groups: Vec::new(),
        credit: GroupCredit::default(),
        has_reserve: shared.reserve_owner.is(own),
        functions: shared.functions.get(),
        observer: O::new(shared, own),
    };
    let mut scratch = Vec::new();
    let (mut turns, mut fruitless, mut starved) = (0u32, 0u32, 0u32);
    while !shared.leave.load(Ordering::Acquire) {
        turns = turns.wrapping_add(1);
        let mut blocked = false;
        // Read before the worker looks for tasks, so that it misses no room that comes after its look.
        let mut rooms = 0;
        if turns.is_multiple_of(VISIT_EVERY) || fruitless > 0 || starved > 0 {
            rooms = shared.rooms.load(Ordering::Acquire);
            if !worker.has_reserve {
                blocked = ingress::visit(shared, &mut worker.groups) == Visit::Blocked;
            } else if worker.needs_no_reserve() {
                worker.release_reserve();
            }
        }
        let alone = worker.has_reserve;
        let steals = alone || !shared.reserve_owner.is_taken();
        let new_first = !alone && turns.is_multiple_of(INJECTOR_EVERY);
        let Some(task) = next(&mut worker, own, new_first, steals) else {
            // This may fire a group; the next round finds its continuation.
            worker.settle();
            if alone {
                worker.release_reserve();
            }
            fruitless += 1;
            starved = 0;
            if fruitless < SPINS {
                worker.show(WORKER_IDLE, None);
                everwarp_engine::relax();
            } else if !steals {
                // The tasks that there are belong to the worker with the reserve.
                worker.show(WORKER_IDLE, None);
                let room = || {
                    shared.leave.load(Ordering::Acquire)
                        || shared.rooms.load(Ordering::Acquire) != rooms
                };
                shared.starving.sleep(NAP, room);
            } else if blocked {
                // The submission stays in the ring, and that alone must not keep a worker awake.
                bump(&worker.counters.starved, 1);
                worker.show(WORKER_STARVED, None);
                let room = || shared.has_tasks() || shared.rooms.load(Ordering::Acquire) != rooms;
                shared.idle.sleep(NAP, room);
            } else {
                worker.show(WORKER_IDLE, None);
                let work = || shared.has_tasks() || ingress::waiting(shared);
                shared.idle.sleep(Duration::from_secs(3600), work);
            }
            continue;
        };
        if !matches!(task.parent(), TaskParent::Group(g) if worker.credit.is_for(g)) {
            worker.settle();
        }
        let task = if worker.admits(&task) {
            task
        } else {
            worker.settle();
            worker.put_back(task);
            if let Some(other) = other(&mut worker, own) {
                other
            } else {
                bump(&worker.counters.starved, 1);
                worker.show(WORKER_STARVED, Some(task.function()));
                shared.idle.wake();
                starved = starved.saturating_add(1);
                if worker.has_reserve && starved > PERSEVERANCE {
                    worker.release_reserve();
                    starved = 0;
                } else if !worker.has_reserve && starved > PATIENCE && worker.claim_reserve(own) {
                    starved = 0;
                    continue;
                }
                if starved <= YIELDS {
                    std::thread::yield_now();
                } else {
                    let room = || {
                        shared.leave.load(Ordering::Acquire)
                            || shared.rooms.load(Ordering::Acquire) != rooms
                    };
                    shared.starving.sleep(nap(starved), room);
                }
                continue;
            }
        };
        if fruitless > 0 || starved > 0 || turns.is_multiple_of(VISIT_EVERY) {
            worker.show(WORKER_RUNNING, None);
        }
        (fruitless, starved) = (0, 0);
        worker.run(task, &mut scratch);
        bump(&worker.counters.batches, 1);
    }
    worker.settle();
    worker.show(WORKER_AWAY, None);
    shared.group_ids.free_all(&mut worker.groups);
    *lock(&slot.deques) = Some(worker.deques);
}

impl<'s, O: Observer<'s>> WorkerContext<'s, O> {
    /// Publishes the worker's state, the function that it concerns, and how many tasks wait in the worker's queues.
    fn show(&self, state: u32, function: Option<FunctionId>) {
        let counters = self.counters;
        counters.state.store(state, Ordering::Relaxed);
        if let Some(function) = function {
            counters.function.store(function.0, Ordering::Relaxed);
        }
        let queued = self.deques.len() as u32;
        counters.queued.store(queued, Ordering::Relaxed);
    }
}

/// The priorities that were ever used; the first is served first.
fn priorities(shared: &CpuShared) -> impl Iterator<Item = Priority> + use<> {
    let used = shared.priorities.load(Ordering::Relaxed);
    let all = Priority::ALL.into_iter();
    all.filter(move |p| used & 1 << p.level() != 0)
}

/// The next task, highest priority first: from the worker's own queues, then new from the host, then from other workers.
/// With `new_first` new tasks come before the worker's own; without `steals` it takes none from other workers.
fn next<'s, O: Observer<'s>>(
    worker: &mut WorkerContext<'s, O>,
    own: usize,
    new_first: bool,
    steals: bool,
) -> Option<DevTask> {
    let task = next_queued(worker, own, new_first, steals)?;
    Some(worker.observer.take(task))
}

fn next_queued<'s, O: Observer<'s>>(
    worker: &mut WorkerContext<'s, O>,
    own: usize,
    new_first: bool,
    steals: bool,
) -> Option<DevTask> {
    let shared = worker.shared;
    for priority in priorities(shared) {
        if new_first && let Some(task) = injected(shared, priority) {
            return Some(task);
        }
        let deques = &mut worker.deques;
        let queued = deques
            .pop_depth(priority)
            .or_else(|| deques.pop_breadth(priority, &shared.workers, own));
        if queued.is_some() {
            return queued;
        }
        if !new_first && let Some(task) = injected(shared, priority) {
            return Some(task);
        }
        if steals && let Some(task) = steal(deques, priority, &shared.workers, own) {
            bump(&worker.counters.received, 1);
            return Some(task);
        }
    }
    None
}

/// Looks through some of the worker's own tasks, the longest not looked at first, and takes the first that there is room
/// for. A task that needs less room than the next in turn must not wait for that one's room, which it may make.
fn other<'s, O: Observer<'s>>(worker: &mut WorkerContext<'s, O>, own: usize) -> Option<DevTask> {
    let shared = worker.shared;
    for priority in priorities(shared) {
        let ends = &shared.workers[own].stealers;
        for _ in 0..LOOK {
            let Some(task) = worker.deques.oldest(priority, ends) else {
                break;
            };
            let task = worker.observer.take(task);
            if worker.admits(&task) {
                return Some(task);
            }
            worker.deques.lay_aside(priority, task);
        }
        for _ in 0..LOOK.min(worker.deques.breadth(priority)) {
            let Some(task) = worker.deques.pop_breadth(priority, &shared.workers, own) else {
                break;
            };
            let task = worker.observer.take(task);
            if worker.admits(&task) {
                return Some(task);
            }
            worker.push(task);
        }
    }
    None
}

/// A new task from the host. One at a time, so that the workers divide new tasks and the first one to look does not take
/// them all.
fn injected(shared: &CpuShared, priority: Priority) -> Option<DevTask> {
    loop {
        match shared.injectors[priority.index()].steal() {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
