//! An endless chain of tasks does not keep new submissions from running.
#![cfg(not(loom))]

mod rig;

use std::sync::atomic::Ordering;
use std::time::Duration;

use everwarp_engine::Pools;
use rig::{CHAIN, RELEASED, RETURN, Rig};

#[test]
fn endless_chain_does_not_starve_new_submissions() {
    let mut rig = Rig::new(1, Pools::default());
    rig.submit(CHAIN, true, 0);
    assert_eq!(rig.reap(Duration::from_millis(20)), None);
    for token in 1..100 {
        rig.submit(RETURN, false, 7);
        assert_eq!(rig.reap(Duration::from_secs(10)), Some((token, 7)));
    }
    RELEASED.store(true, Ordering::Release);
    assert_eq!(rig.reap(Duration::from_secs(10)), Some((0, 0)));
}
