//! Loom models of the token and the instance slot: every interleaving of a few steps.

use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};
use std::task::{Wake, Waker};

use loom::sync::Arc;
use loom::thread;

use everwarp_contract::InstanceId;

use crate::instance_slot::InstanceSlot;
use crate::sync::{AtomicU32, Ordering};
use crate::token::{Completed, Counted, Dropped, RegionId, Registered, SubmissionInfo, Token};

const INFO: SubmissionInfo = SubmissionInfo {
    instance: InstanceId(0),
    counted: Counted {
        common: Some(false),
        region: RegionId::COMMON,
        own: false,
    },
    batch: None,
};

/// A token in flight that another thread completes. The thread returns whether it recycled and whether it woke.
fn in_flight() -> (Arc<Token>, thread::JoinHandle<(bool, bool)>) {
    let token = Arc::new(Token::new());
    token.begin(INFO);
    let other = token.clone();
    let reaper = thread::spawn(move || {
        assert_eq!(other.in_flight(), Some(INFO));
        match other.complete(7) {
            Completed::Recycle => (true, false),
            Completed::ForOwner { wake } => (false, wake && other.wake()),
        }
    });
    (token, reaper)
}

#[test]
fn either_the_reaper_or_the_owner_recycles() {
    loom::model(|| {
        let (token, reaper) = in_flight();
        let by_owner = token.abandon() == Dropped::Recycle;
        let (by_reaper, _) = reaper.join().unwrap();
        assert!(by_owner != by_reaper);
        assert_eq!(token.in_flight(), None);
        // The token can be used again.
        token.begin(INFO);
        assert_eq!(token.complete(8), Completed::ForOwner { wake: false });
        assert_eq!(token.take(), Some(8));
    });
}

#[test]
fn early_take_returns_the_completed_value() {
    loom::model(|| {
        let (token, reaper) = in_flight();
        let early = token.take();
        let (recycled, _) = reaper.join().unwrap();
        assert!(!recycled);
        assert_eq!(early.or_else(|| token.take()), Some(7));
        assert_eq!(token.take(), None);
    });
}

struct Woken(AtomicBool);
impl Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, StdOrdering::SeqCst);
    }
}

#[test]
fn registered_waker_is_woken_or_told() {
    loom::model(|| {
        let (token, reaper) = in_flight();
        let woken = std::sync::Arc::new(Woken(AtomicBool::new(false)));
        let registered = token.register(Waker::from(woken.clone()));
        let (_, woke) = reaper.join().unwrap();
        if registered == Registered::Waits {
            assert!(
                woke && woken.0.load(StdOrdering::SeqCst),
                "the wake-up was lost"
            );
        }
        assert_eq!(token.take(), Some(7));
    });
}

#[test]
fn forgotten_waker_is_counted_once() {
    loom::model(|| {
        let (token, reaper) = in_flight();
        let woken = std::sync::Arc::new(Woken(AtomicBool::new(false)));
        let registered = token.register(Waker::from(woken));
        let forgot = token.forget_waker();
        let dropped = token.abandon();
        let (recycled, woke) = reaper.join().unwrap();
        assert!(forgot != woke, "{registered:?}: one side takes the waker");
        assert!(recycled != (dropped == Dropped::Recycle));
    });
}

#[test]
fn slot_is_not_held_while_work_of_its_last_instance_runs() {
    loom::model(|| {
        let slot = Arc::new(InstanceSlot::new());
        let running = Arc::new(AtomicU32::new(1));
        assert!(slot.hold());
        slot.begin();
        let reaper = {
            let (slot, running) = (slot.clone(), running.clone());
            thread::spawn(move || {
                running.store(0, Ordering::Relaxed);
                slot.end();
            })
        };
        let next = {
            let (slot, running) = (slot.clone(), running.clone());
            thread::spawn(move || {
                if slot.hold() {
                    assert_eq!(
                        running.load(Ordering::Relaxed),
                        0,
                        "parameters would be overwritten"
                    );
                    slot.release();
                }
            })
        };
        slot.release();
        reaper.join().unwrap();
        next.join().unwrap();
        assert!(slot.hold(), "nothing holds it any more");
    });
}
