//! The threads that hand completions over: each one that has done something, and one that may wait for room.

use std::sync::PoisonError;

use everwarp_contract::DevFileDone;

use crate::handover::Giver;
use crate::server::Server;

/// How often in a row a thread that has other work hands over, while others add completions.
const ROUNDS: usize = 16;

impl Server {
    /// Hands over what this thread and others have done, unless another thread is at it. Never waits for the engine.
    pub(crate) fn deliver(&self) {
        let done = self.work().giving.begin();
        if let Some(done) = done {
            self.hand_over(done, Giver::Busy);
        }
    }
    /// Hands completions over where that has to wait, until all are handed over and no more can come.
    pub(crate) fn give(&self) {
        loop {
            let done = {
                let mut work = self.work();
                loop {
                    if self.is_lost() || work.closing && work.in_flight == 0 {
                        return;
                    }
                    match work.giving.take_over() {
                        Some(done) => break done,
                        None => work = self.full.wait(work),
                    }
                }
            };
            self.hand_over(done, Giver::Patient);
        }
    }
    fn hand_over(&self, mut done: Vec<DevFileDone>, giver: Giver) {
        let handover = self.handover.lock();
        let mut handover = handover.unwrap_or_else(PoisonError::into_inner);
        // Without a port no request has come.
        let Some(handover) = handover.as_mut() else {
            return;
        };
        let wait = |pending: &mut _| self.wait(pending);
        for round in 1.. {
            let Ok(handed) = handover.hand_over(&self.engine, &wait, &done, giver) else {
                return self.abandon();
            };
            let rest = done.split_off(handed);
            let (more, over) = {
                let mut work = self.work();
                work.in_flight -= handed as u64;
                // Nothing is left of it if all was abandoned meanwhile.
                let outside = (handed as u64).min(work.outside);
                work.outside -= outside;
                self.engine.end_outside(outside);
                let more = match rest.is_empty() {
                    true => work.giving.next(),
                    false => Some(rest),
                };
                let over = work.closing && work.in_flight == 0;
                work.written_back |= over && self.cache.is_none();
                (more, over)
            };
            self.room.ring(1);
            if over {
                self.ring_all();
            }
            let goes_on = giver == Giver::Patient || handed > 0 && round < ROUNDS;
            match more {
                None => return,
                Some(more) if goes_on => done = more,
                Some(more) => {
                    self.work().giving.pass(more);
                    return self.full.ring(1);
                }
            }
        }
    }
}
