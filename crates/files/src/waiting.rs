//! Waiting for what tasks wait for: times and peers.

use std::time::Instant;

use crate::driver::Driver;
use crate::errno::FileErrno;
use crate::lines::Name;
use crate::request::{After, Ended, OfTime};
use crate::server::{ROUND, Server, WAITING};
use crate::waits::Limited;

/// Timers that expire together, at most: tasks go on after these while others expire.
const TOGETHER: usize = 1024;

/// Whether the thread that waits has to wait for less long than before.
pub(crate) fn is_sooner(next: Option<Instant>, before: Option<Instant>) -> bool {
    match (next, before) {
        (Some(next), Some(before)) => next < before,
        (next, _) => next.is_some(),
    }
}

impl Server {
    /// Takes requests for timers in, which are counted among those in flight already.
    pub(crate) fn ask_clock(&self, mut asked: Vec<(OfTime, After)>) {
        if asked.is_empty() {
            return;
        }
        let mut refused = Vec::new();
        {
            let mut work = self.work();
            asked.retain(|(asked, after)| {
                // However many wait: a stop and a cancel make room.
                let counted = work.waiting < WAITING
                    || matches!(asked, OfTime::Stop(_) | OfTime::Cancel { .. });
                work.waiting += u64::from(counted);
                if !counted {
                    refused.push(*after);
                }
                counted
            });
        }
        for after in refused {
            self.finish(after, Err(FileErrno::NOBUFS));
        }
        let mut ended = Vec::new();
        let sooner = {
            let mut state = self.waits.state();
            let before = state.next();
            let now = Instant::now();
            for (asked, after) in asked {
                state
                    .clock
                    .ask(now, asked, after, &self.handles, &mut ended);
            }
            is_sooner(state.next(), before)
        };
        if sooner {
            self.waits.wake();
        }
        self.finish_waits(ended);
    }
    /// Notes what requests that waited have ended with, all at once.
    pub(crate) fn finish_waits(&self, ended: Ended) {
        if ended.is_empty() {
            return;
        }
        if ended.iter().any(|(after, _)| after.deadline.is_some()) {
            let mut state = self.waits.state();
            for key in ended.iter().filter_map(|(after, _)| after.deadline) {
                state.deadlines.remove(&key);
            }
        }
        let (all, failed) = (
            ended.len(),
            ended.iter().filter(|(_, r)| r.is_err()).count(),
        );
        let bytes: u64 = ended.iter().map(|(after, _)| u64::from(after.bytes)).sum();
        let done = ended.into_iter().map(|(after, result)| after.done(result));
        let mut work = self.work();
        work.waiting -= all as u64;
        work.bytes -= bytes;
        work.end(done, failed);
    }
    /// Waits for times and peers until nothing is waited for any more.
    pub(crate) fn keep_waits(&self) {
        let mut ready = Vec::new();
        let mut driver = Driver::default();
        loop {
            let mut ended = Vec::new();
            let (all, next, over, overdue) = {
                let mut state = self.waits.state();
                let now = Instant::now();
                let overdue = state.overdue(now);
                let all = state.clock.expire(now, TOGETHER, &mut ended);
                (all, state.next(), state.over, overdue)
            };
            for ((_, number), of) in overdue {
                let name = Name::Deadline(number);
                match of {
                    Limited::Socket(socket) => {
                        self.give_up(&socket, name, FileErrno::TIMEDOUT, &mut ended);
                    }
                    Limited::File(file) => self.give_up_file(&file, name, FileErrno::TIMEDOUT),
                }
            }
            self.finish_waits(ended);
            self.deliver();
            if over || self.is_lost() {
                return;
            }
            // Peers have their turn between timers.
            let until = if all { next } else { Some(Instant::now()) };
            if self.system.ends_wait() {
                continue;
            }
            if self.waits.reactor.wait_until(&mut ready, until).is_err() {
                return self.abandon();
            }
            for round in ready.chunks(ROUND) {
                driver.begin(self.workers);
                for number in round {
                    let socket = self.waits.state().watched.remove(number);
                    if let Some(socket) = socket {
                        self.drive_ready(&socket, &mut driver);
                    }
                }
                self.deliver();
            }
            ready.clear();
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
            state.deadlines.clear();
            state.watched.drain().map(|(_, socket)| socket).collect()
        };
        for socket in watched.iter().chain(&self.handles.remove_sockets()) {
            socket.close(FileErrno::CANCELED, &mut ended);
        }
        self.finish_waits(ended);
        self.deliver();
        self.waits.wake();
    }
}
