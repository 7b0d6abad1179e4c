//! Twin of `Actor::reply_with` of `crates/engine/cuda/device/actor/actor.cuh` for asks of the host, and of
//! `Asked::near_reply` of `crates/actor/src/asked.rs`: the reply is in the ask's record before the ask completes.

use std::sync::Arc;

use loom::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
    fence,
};
use loom::thread;

use super::explore;

/// `ASK_ANSWERED`.
const ANSWERED: u64 = 3;
const REPLY: u64 = 7;

struct Record {
    /// The state, with the head of the reply.
    state: AtomicU64,
    words: [AtomicU64; 2],
}

impl Record {
    /// The turn of the actor that is asked.
    fn reply(&self, fences: bool) {
        for word in &self.words {
            word.store(REPLY, Relaxed);
        }
        if fences {
            fence(AcqRel);
        }
        self.state.store(ANSWERED, Relaxed);
    }
    /// The host.
    fn await_reply(&self) {
        while self.state.load(Acquire) != ANSWERED {
            thread::yield_now();
        }
        for word in &self.words {
            assert_eq!(word.load(Relaxed), REPLY, "the words of another ask");
        }
    }
}

fn reply_against_wait(fences: bool) {
    explore(move || {
        let record = Arc::new(Record {
            state: AtomicU64::new(0),
            words: [AtomicU64::new(1), AtomicU64::new(1)],
        });
        let turn = {
            let record = Arc::clone(&record);
            thread::spawn(move || record.reply(fences))
        };
        record.await_reply();
        turn.join().expect("the turn ends");
    });
}

#[test]
fn host_that_sees_the_state_sees_the_reply() {
    reply_against_wait(true);
}

#[test]
#[should_panic(expected = "the words of another ask")]
fn mutant_without_the_fence_shows_the_state_first() {
    reply_against_wait(false);
}
