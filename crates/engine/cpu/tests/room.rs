//! A submission for which there is no room waits, without keeping the workers busy.
#![cfg(all(not(loom), target_os = "linux"))]

mod rig;

use std::sync::atomic::Ordering;
use std::time::Duration;

use everwarp_contract::telemetry::WORKER_STARVED;
use everwarp_engine::{Pools, TaskEngine};
use rig::{DEEP, HOLDING, RELEASED, RETURN, Rig, within};

/// CPU time of this process in clock ticks of 10 ms.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc is there");
    let after_name = stat.rsplit_once(')').expect("the name is in parentheses").1;
    after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|t| t.parse::<u64>().expect("a number"))
        .sum()
}

fn sleeps(what: &str) {
    std::thread::sleep(Duration::from_millis(50));
    let before = ticks();
    std::thread::sleep(Duration::from_millis(500));
    let used = ticks() - before;
    assert!(used <= 15, "{what}: {used} ticks of CPU time in 50");
}

/// One test, because it measures the CPU time of the process.
#[test]
fn starved_workers_sleep() {
    let groups = 16;
    let pools = Pools {
        groups,
        ..Pools::default()
    };
    let starved = |rig: &Rig| rig.states().contains(&WORKER_STARVED);

    // All groups are open, one in the other, and the task in the innermost holds: the next submission that
    // needs a group stays in the ring.
    let mut rig = Rig::new(2, pools);
    rig.submit(DEEP, false, groups.into());
    within("running task", || HOLDING.load(Ordering::Acquire) == 1);
    rig.submit(RETURN, true, 3);
    within("starved worker", || starved(&rig));
    sleeps("a submission without a group");
    assert!(starved(&rig));
    assert!(rig.engine.pool_state().expect("counters").group_refusals > 0);
    RELEASED.store(true, Ordering::Release);
    let mut done = [0, 1].map(|_| rig.reap(Duration::from_secs(10)).expect("a completion"));
    done.sort_unstable();
    assert_eq!(done, [(0, 5), (1, 3)]);
    drop(rig);

    // A task that needs one group more than there are: its worker starves with the task in its hands.
    let mut rig = Rig::new(2, pools);
    rig.submit(DEEP, false, u64::from(groups) + 1);
    within("starved worker", || starved(&rig));
    sleeps("a task without a group");
    rig.engine
        .park(Duration::from_secs(2))
        .expect("starved workers park");
    rig.engine.resume(None).expect("and resume");
    within("starved worker", || starved(&rig));
}
