//! A task that fits runs, even if the worker's newest one does not.
#![cfg(not(loom))]

mod rig;

use std::sync::atomic::Ordering;
use std::time::Duration;

use everwarp_engine::{Pools, TaskEngine};
use rig::{MARKED, Rig, UNDER_WIDE, within};

#[test]
fn older_task_that_fits_runs_although_a_newer_one_starves() {
    // Room for fewer tasks than `WIDE` says it may spawn: it never runs.
    let pools = Pools {
        tasks: 64,
        ..Pools::default()
    };
    let mut rig = Rig::new(1, pools);
    rig.submit(UNDER_WIDE, true, 0);
    within("older task", || MARKED.load(Ordering::Acquire) == 1);
    assert!(rig.engine.pool_state().expect("counters").task_refusals > 0);
    assert_eq!(rig.reap(Duration::from_millis(50)), None, "`WIDE` ran");

    // The one that starved is still there, and runs when a program that has room for it could.
    rig.engine.park(Duration::from_secs(2)).expect("parks");
    let queued: u32 = rig
        .engine
        .workers()
        .expect("counters")
        .iter()
        .map(|w| w.queued)
        .sum();
    assert_eq!(queued, 1);
}
