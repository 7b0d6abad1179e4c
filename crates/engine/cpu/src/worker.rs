//! The worker's loop: look for work by priority, run it, sleep when there is none.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_deque::Steal;
use everwarp_contract::DevTask;
use everwarp_contract::task::PRIORITIES;
use everwarp_contract::telemetry::{WORKER_AWAY, WORKER_IDLE, WORKER_RUNNING, WORKER_STARVED};

use crate::group::Ledger;
use crate::ingress::{self, Visit};
use crate::run::Hands;
use crate::shared::{Shared, bump};

/// Tasks between two looks at the submission ring.
const VISIT_EVERY: u32 = 64;
/// Tasks between two looks at new tasks before the worker's own: a chain without end starves nobody.
const INJECTOR_EVERY: u32 = 61;
/// Fruitless rounds before a worker sleeps.
const SPINS: u32 = 200;
/// Starved rounds in a row in which a worker only yields.
const YIELDS: u32 = 8;
/// Tasks of one priority that a starved worker looks at in one round, of either order.
const LOOK: usize = 64;
/// The longest sleep of a starved worker: room in another's hands announces itself to nobody.
const NAP: Duration = Duration::from_millis(1);

/// How long a worker sleeps that has been starved for so many rounds.
fn nap(rounds: u32) -> Duration {
    NAP.min(Duration::from_micros(16) * (1 << (rounds.saturating_sub(YIELDS) / 4).min(6)))
}

/// Runs tasks in seat `seat` until told to leave.
pub(crate) fn work(shared: &Shared, seat: usize) {
    let place = &shared.seats[seat];
    let deques = place
        .deques
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let deques = deques.expect("one thread a seat");
    let mut hands = Hands {
        shared,
        counters: &place.counters,
        deques,
        groups: Vec::new(),
        ledger: Ledger::default(),
        functions: shared.functions(),
    };
    let mut scratch = Vec::new();
    let (mut turns, mut fruitless, mut starved) = (0u32, 0u32, 0u32);
    while !shared.leave.load(Ordering::Acquire) {
        turns = turns.wrapping_add(1);
        let mut blocked = false;
        // Before anything is looked at, so that no room is missed that comes after the look.
        let mut rooms = 0;
        if turns.is_multiple_of(VISIT_EVERY) || fruitless > 0 || starved > 0 {
            rooms = shared.rooms.load(Ordering::Acquire);
            blocked = ingress::visit(shared, &mut hands.groups) == Visit::Blocked;
        }
        let Some(task) = next(&mut hands, seat, turns.is_multiple_of(INJECTOR_EVERY)) else {
            // May fire a group, whose continuation the next round finds.
            hands.settle();
            fruitless += 1;
            starved = 0;
            if fruitless < SPINS {
                hands.show(WORKER_IDLE, None);
                std::hint::spin_loop();
            } else if blocked {
                // The submission stays where it is, so that alone must not keep anybody awake.
                bump(&hands.counters.starved, 1);
                hands.show(WORKER_STARVED, None);
                let room = || shared.has_tasks() || shared.rooms.load(Ordering::Acquire) != rooms;
                shared.idle.sleep(NAP, room);
            } else {
                hands.show(WORKER_IDLE, None);
                shared
                    .idle
                    .sleep(Duration::from_secs(3600), || shared.has_work());
            }
            continue;
        };
        if !hands.ledger.is_for(task.group) {
            hands.settle();
        }
        let task = if hands.admits(&task) {
            task
        } else {
            hands.settle();
            // Back where it was; somebody else may steal it, or room may come.
            hands.push(task);
            if let Some(other) = other(&mut hands, seat) {
                other
            } else {
                bump(&hands.counters.starved, 1);
                hands.show(WORKER_STARVED, Some(task.function()));
                shared.idle.wake();
                starved = starved.saturating_add(1);
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
            hands.show(WORKER_RUNNING, None);
        }
        (fruitless, starved) = (0, 0);
        hands.run(task, &mut scratch);
        bump(&hands.counters.batches, 1);
    }
    hands.settle();
    hands.show(WORKER_AWAY, None);
    let Hands { deques, groups, .. } = hands;
    shared
        .free_groups
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(groups);
    *place.deques.lock().unwrap_or_else(PoisonError::into_inner) = Some(deques);
}

impl Hands<'_> {
    /// Shows a state, the function it concerns, and how many tasks wait here.
    fn show(&self, state: u32, function: Option<u32>) {
        let counters = self.counters;
        counters.state.store(state, Ordering::Relaxed);
        if let Some(function) = function {
            counters.function.store(function, Ordering::Relaxed);
        }
        let queued = self.deques.len() as u32;
        counters.queued.store(queued, Ordering::Relaxed);
    }
}

/// The priorities that were ever used, the first served first.
fn priorities(shared: &Shared) -> impl Iterator<Item = usize> + use<> {
    let used = shared.priorities.load(Ordering::Relaxed);
    (0..PRIORITIES as usize).filter(move |p| used & 1 << p != 0)
}

/// The next task, highest priority first: the worker's own, then new ones, then others'; `new_first` if
/// it is the new ones' turn.
fn next(hands: &mut Hands<'_>, seat: usize, new_first: bool) -> Option<DevTask> {
    let shared = hands.shared;
    for priority in priorities(shared) {
        if new_first && let Some(task) = injected(shared, priority) {
            return Some(task);
        }
        let deques = &mut hands.deques;
        let own = deques
            .pop_depth(priority)
            .or_else(|| deques.pop_breadth(priority, &shared.seats, seat));
        if own.is_some() {
            return own;
        }
        if !new_first && let Some(task) = injected(shared, priority) {
            return Some(task);
        }
        for step in 1..shared.seats.len() {
            let victim = &shared.seats[(seat + step) % shared.seats.len()].stealers;
            if !victim.has(priority) {
                continue;
            }
            let own = &shared.seats[seat].stealers;
            if let Some(task) = hands.deques.rob(priority, victim, own) {
                bump(&hands.counters.received, 1);
                return Some(task);
            }
        }
    }
    None
}

/// Of the worker's own tasks, some that were not looked at for longest: the first that there is room for.
/// One that needs less than the next in turn must not wait for that one's room, which it may make.
fn other(hands: &mut Hands<'_>, seat: usize) -> Option<DevTask> {
    let shared = hands.shared;
    for priority in priorities(shared) {
        let own = &shared.seats[seat].stealers;
        for _ in 0..LOOK {
            let Some(task) = hands.deques.oldest(priority, own) else {
                break;
            };
            if hands.admits(&task) {
                return Some(task);
            }
            hands.deques.lay_by(priority, task);
        }
        for _ in 0..LOOK.min(hands.deques.breadth(priority)) {
            let Some(task) = hands.deques.pop_breadth(priority, &shared.seats, seat) else {
                break;
            };
            if hands.admits(&task) {
                return Some(task);
            }
            hands.push(task);
        }
    }
    None
}

/// A new task. One at a time: what comes in is divided by the workers, not by who looks first.
fn injected(shared: &Shared, priority: usize) -> Option<DevTask> {
    loop {
        match shared.injectors[priority].steal() {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
