//! The worker's loop: look for work by priority, run it, sleep when there is none.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_deque::Steal;
use everwarp_contract::DevTask;
use everwarp_contract::task::PRIORITIES;
use everwarp_contract::telemetry::{WORKER_AWAY, WORKER_IDLE, WORKER_RUNNING, WORKER_STARVED};

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
        let Some(task) = next(&hands, seat, turns.is_multiple_of(INJECTOR_EVERY)) else {
            fruitless += 1;
            starved = 0;
            hands.counters.queued.store(0, Ordering::Relaxed);
            if fruitless < SPINS {
                hands.counters.state.store(WORKER_IDLE, Ordering::Relaxed);
                std::hint::spin_loop();
            } else if blocked {
                // The submission stays where it is, so that alone must not keep anybody awake.
                bump(&hands.counters.starved, 1);
                hands
                    .counters
                    .state
                    .store(WORKER_STARVED, Ordering::Relaxed);
                let room = || shared.has_tasks() || shared.rooms.load(Ordering::Acquire) != rooms;
                shared.idle.sleep(NAP, room);
            } else {
                hands.counters.state.store(WORKER_IDLE, Ordering::Relaxed);
                shared
                    .idle
                    .sleep(Duration::from_secs(3600), || shared.has_work());
            }
            continue;
        };
        let queued = hands.deques.len();
        if !hands.admits(&task, queued) {
            // Back where it was; somebody else may steal it, or room may come.
            hands.push(task);
            bump(&hands.counters.starved, 1);
            hands
                .counters
                .state
                .store(WORKER_STARVED, Ordering::Relaxed);
            hands
                .counters
                .function
                .store(task.function(), Ordering::Relaxed);
            hands
                .counters
                .queued
                .store(queued as u32 + 1, Ordering::Relaxed);
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
        if fruitless > 0 || turns.is_multiple_of(VISIT_EVERY) {
            hands
                .counters
                .queued
                .store(queued as u32, Ordering::Relaxed);
        }
        (fruitless, starved) = (0, 0);
        hands
            .counters
            .state
            .store(WORKER_RUNNING, Ordering::Relaxed);
        hands.run(task, &mut scratch);
        bump(&hands.counters.batches, 1);
    }
    hands.counters.state.store(WORKER_AWAY, Ordering::Relaxed);
    hands
        .counters
        .queued
        .store(hands.deques.len() as u32, Ordering::Relaxed);
    let Hands { deques, groups, .. } = hands;
    shared
        .free_groups
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(groups);
    *place.deques.lock().unwrap_or_else(PoisonError::into_inner) = Some(deques);
}

/// The next task, highest priority first: the worker's own, then new ones, then others'; `new_first` if
/// it is the new ones' turn.
fn next(hands: &Hands<'_>, seat: usize, new_first: bool) -> Option<DevTask> {
    let shared = hands.shared;
    let used = shared.priorities.load(Ordering::Relaxed);
    for priority in (0..PRIORITIES as usize).filter(|p| used & 1 << p != 0) {
        let injected = || injected(shared, priority);
        let own = || {
            hands.deques.depth[priority]
                .pop()
                .or_else(|| hands.deques.breadth[priority].pop())
        };
        let found = if new_first {
            injected().or_else(own)
        } else {
            own().or_else(injected)
        };
        if found.is_some() {
            return found;
        }
        for step in 1..shared.seats.len() {
            let victim = &shared.seats[(seat + step) % shared.seats.len()];
            if !victim.stealers.has(priority) {
                continue;
            }
            for (from, to) in [
                (
                    &victim.stealers.depth[priority],
                    &hands.deques.depth[priority],
                ),
                (
                    &victim.stealers.breadth[priority],
                    &hands.deques.breadth[priority],
                ),
            ] {
                loop {
                    match from.steal_batch_with_limit_and_pop(to, 32) {
                        Steal::Success(task) => {
                            bump(&hands.counters.received, 1);
                            return Some(task);
                        }
                        Steal::Empty => break,
                        Steal::Retry => {}
                    }
                }
            }
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
