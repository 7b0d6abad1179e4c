//! Waiting for what tasks wait for: times and peers.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::errno::FileErrno;
use crate::request::{After, Ended, OfTime};
use crate::server::Server;

impl Server {
    /// Takes a request for a timer in. It is counted among those in flight already.
    pub(crate) fn ask_clock(&self, asked: OfTime, after: After) {
        if matches!(asked, OfTime::Stop(_)) {
            // However many wait: this one makes room.
            self.work().waiting += 1;
        } else if !self.begin_wait(after) {
            return;
        }
        let mut ended = Vec::new();
        let sooner = {
            let mut state = self.waits.state();
            let before = state.clock.next();
            let clock = &mut state.clock;
            clock.ask(Instant::now(), asked, after, &self.handles, &mut ended);
            match (state.clock.next(), before) {
                (Some(next), Some(before)) => next < before,
                (next, _) => next.is_some(),
            }
        };
        if sooner {
            self.waits.wake();
        }
        self.finish_waits(ended);
    }
    /// Hands on what requests that waited have ended with, all at once.
    pub(crate) fn finish_waits(&self, ended: Ended) {
        if ended.is_empty() {
            return;
        }
        let (all, failed) = (
            ended.len(),
            ended.iter().filter(|(_, r)| r.is_err()).count(),
        );
        self.failed.fetch_add(failed as u64, Ordering::Relaxed);
        self.served
            .fetch_add((all - failed) as u64, Ordering::Relaxed);
        self.set(|work| {
            work.waiting -= all as u64;
            let done = ended.into_iter().map(|(after, result)| after.done(result));
            work.done.extend(done);
        });
    }
    /// Waits for times and peers until nothing is waited for any more.
    pub(crate) fn keep_waits(&self) {
        let mut ready = Vec::new();
        loop {
            let mut ended = Vec::new();
            let (next, over) = {
                let mut state = self.waits.state();
                state.clock.expire(Instant::now(), &mut ended);
                (state.clock.next(), state.over)
            };
            self.finish_waits(ended);
            if over || self.is_lost() {
                return;
            }
            if self.waits.reactor.wait_until(&mut ready, next).is_err() {
                return self.abandon();
            }
            for number in ready.drain(..) {
                let socket = self.waits.state().watched.remove(&number);
                if let Some(socket) = socket {
                    self.drive_ready(socket);
                }
            }
        }
    }
    /// Ends everything that is waited for.
    pub(crate) fn end_waits(&self) {
        let mut ended = Vec::new();
        // Of those that are being connected only the thread knows that waits for them.
        let watched: Vec<_> = {
            let mut state = self.waits.state();
            state.clock.end(&self.handles, &mut ended);
            // A socket that is being driven finds out when it has to wait.
            state.over = true;
            state.watched.drain().map(|(_, socket)| socket).collect()
        };
        for socket in watched.iter().chain(&self.handles.remove_sockets()) {
            socket.close(FileErrno::CANCELED, &mut ended);
        }
        self.finish_waits(ended);
        self.waits.wake();
    }
}
