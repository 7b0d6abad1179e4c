//! Loom models of the token and the instance slot: every interleaving of a few steps.

use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};
use std::task::{Wake, Waker};

use loom::sync::Arc;
use loom::thread;

use crate::slot::Slot;
use crate::sync::{AtomicU32, Ordering};
use crate::token::{Completed, Dropped, Info, Registered, Token};

const INFO: Info = Info {
    instance: 0,
    phase: false,
    batch: None,
};

/// A token in flight, completed by another thread, which answers whether it recycled and woke.
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
        // It can go round again.
        token.begin(INFO);
        assert_eq!(token.complete(8), Completed::ForOwner { wake: false });
        assert_eq!(token.take(), Some(8));
    });
}

#[test]
fn a_value_that_is_seen_is_the_right_one() {
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
fn a_registered_waker_is_woken_or_told() {
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
fn a_forgotten_waker_is_counted_once() {
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
fn a_slot_is_never_held_while_work_of_another_runs() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
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
