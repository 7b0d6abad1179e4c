//! Twin of `await`, `wish_for_wake` and `Call::look` of `crates/process/cuda/device/call.cuh` with the park of the process
//! that has given up, and of `Ring::answer` of the host.

use std::sync::Arc;

use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};
use loom::thread;

use super::turn::{AS_WRITTEN, Turn};
use super::{Tally, explore};

/// The number of the call.
const SEQUENCE: u32 = 1;

/// The fences that a mutant leaves out.
#[derive(Clone, Copy)]
struct Fences {
    device: bool,
    host: bool,
}

struct Slot {
    status: AtomicU32,
    given_up: AtomicU64,
    turn: Turn,
    /// The process goes on, once.
    goes_on: Tally,
}

impl Slot {
    /// The lane gives up and looks once more.
    fn give_up(&self, fences: Fences) {
        self.given_up.store(SEQUENCE.into(), Relaxed);
        if fences.device {
            fence(SeqCst);
        }
        if self.status.load(Relaxed) == SEQUENCE || !self.turn.park() {
            self.go_on();
        }
    }

    /// The host answers, and wakes the process if it is to.
    fn answer(&self, fences: Fences) {
        self.status.store(SEQUENCE, Release);
        if fences.host {
            fence(SeqCst);
        }
        let wished = self.given_up.load(Relaxed) == u64::from(SEQUENCE);
        if wished && self.turn.resume() {
            self.go_on();
        }
    }

    fn go_on(&self) {
        assert_eq!(self.status.load(Acquire), SEQUENCE, "it is answered");
        self.goes_on.arrived(0);
    }
}

fn answer_against_giving_up(fences: Fences) {
    explore(move || {
        let slot = Arc::new(Slot {
            status: AtomicU32::new(0),
            given_up: AtomicU64::new(0),
            turn: Turn::new(AS_WRITTEN),
            goes_on: Tally::new(1),
        });
        let host = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.answer(fences))
        };
        slot.give_up(fences);
        host.join().expect("the host ends");
        slot.goes_on.assert_all();
    });
}

const BOTH: Fences = Fences {
    device: true,
    host: true,
};

#[test]
fn process_that_gives_up_goes_on_once() {
    answer_against_giving_up(BOTH);
}

#[test]
#[should_panic(expected = "lost")]
fn mutant_without_the_fence_of_the_device_loses_the_process() {
    let device = false;
    answer_against_giving_up(Fences { device, ..BOTH });
}

#[test]
#[should_panic(expected = "lost")]
fn mutant_without_the_fence_of_the_host_loses_the_process() {
    let host = false;
    answer_against_giving_up(Fences { host, ..BOTH });
}
