//! An engine whose task does not end says so when it is parked.
#![cfg(not(loom))]

mod rig;

use std::sync::atomic::Ordering;
use std::time::Duration;

use everwarp_engine::{EngineError, Pools, TaskEngine};
use rig::{HOLD, HOLDING, RELEASED, Rig, within};

#[test]
fn stuck_report_names_states_in_words() {
    let mut rig = Rig::new(2, Pools::default());
    rig.submit(HOLD, false, 0);
    within("running task", || HOLDING.load(Ordering::Acquire) == 1);
    let parked = rig.engine.park(Duration::from_millis(50));
    RELEASED.store(true, Ordering::Release);
    let Err(EngineError::Stuck { report, .. }) = parked else {
        panic!("a running task was parked: {parked:?}");
    };
    assert!(report.contains(": running rig/hold"), "{report}");
    assert!(
        report.lines().all(|line| line.starts_with("  thread ")),
        "{report}"
    );
    assert!(!report.contains("state "), "{report}");
}
