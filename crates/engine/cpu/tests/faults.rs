//! After a fault nothing completes, and the engine parks at once and does not run again.
#![cfg(not(loom))]

mod rig;

use std::time::Duration;

use everwarp_contract::fault::FAULT_PROGRAM;
use everwarp_engine::{EngineError, Pools, TaskEngine};
use rig::{FAULT, HALVES, PANIC, RETURN, Rig};

const MOMENT: Duration = Duration::from_millis(50);

fn ends(mut rig: Rig, function: u32, detail: u64) {
    assert_eq!(rig.fault(), (FAULT_PROGRAM, function, detail));
    rig.submit(RETURN, false, 1);
    assert_eq!(
        rig.reap(MOMENT),
        None,
        "something completed after the fault"
    );
    let refused = |answer| matches!(answer, Err(EngineError::Lost { .. }));
    assert!(
        refused(rig.engine.resume(None)),
        "resumed although never parked"
    );
    rig.engine
        .park(Duration::from_secs(2))
        .expect("a faulted engine parks");
    assert!(refused(rig.engine.resume(None)), "resumed");
    assert!(
        refused(rig.engine.resume(Some(1))),
        "resumed with another size"
    );
    assert_eq!(rig.reap(MOMENT), None);
}

#[test]
fn twin_that_panics_is_a_fault_and_the_engine_still_parks() {
    for counted in [false, true] {
        let mut rig = Rig::new(2, Pools::default());
        rig.submit(RETURN, false, 9);
        assert_eq!(rig.reap(Duration::from_secs(10)), Some((0, 9)));
        rig.submit(PANIC, counted, 0);
        ends(rig, PANIC, u64::MAX);
    }
}

#[test]
fn faulted_task_does_not_complete() {
    for counted in [false, true] {
        let mut rig = Rig::new(2, Pools::default());
        rig.submit(FAULT, counted, 0);
        ends(rig, FAULT, 77);
    }
}

#[test]
fn group_with_a_faulted_task_does_not_complete() {
    for _ in 0..50 {
        let mut rig = Rig::new(2, Pools::default());
        rig.submit(HALVES, true, 0);
        assert_eq!(rig.fault(), (FAULT_PROGRAM, FAULT, 77));
        assert_eq!(rig.reap(Duration::from_millis(2)), None);
    }
}
