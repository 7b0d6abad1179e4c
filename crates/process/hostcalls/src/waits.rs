//! The requests that wait for time or for standard input. One thread waits for all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use everwarp_engine::sync::{ignore_poison, lock};

use crate::errno::Errno;
use crate::process::Process;
use crate::request::Reply;
use crate::wait::Wait;

/// Receives the answer, and wakes the process if that is to be woken.
type Done = Box<dyn FnOnce(&Reply) + Send>;

/// All the requests that wait.
#[derive(Default)]
pub(crate) struct Waits {
    state: Mutex<WaitList>,
    /// There is something for the thread to look at.
    changed: Condvar,
    /// Nothing waits any more.
    empty: Condvar,
}

#[derive(Default)]
struct WaitList {
    next: u64,
    entries: BTreeMap<u64, (Wait, Done)>,
    deadlines: BTreeSet<(Instant, u64)>,
    inputs: BTreeSet<u64>,
    /// There may be input that no request has been offered.
    input: bool,
    /// A process with requests here has ended.
    ended: bool,
    /// Requests that their processes have cancelled.
    cancelled: Vec<u64>,
    /// How many calls of [`Waits::cancel`] ask for everything to be cancelled.
    cancels: usize,
    /// The thread is answering requests that it has taken out.
    answering: bool,
    stop: bool,
}

/// The answer of a request that was cancelled.
pub(crate) fn cancelled() -> Reply {
    let mut reply = Reply::default();
    reply.set(Err(Errno::CANCELED));
    reply
}

impl WaitList {
    fn remove(&mut self, id: u64) -> Option<Done> {
        let (wait, done) = self.entries.remove(&id)?;
        self.inputs.remove(&id);
        if let Some(at) = wait.deadline() {
            self.deadlines.remove(&(at, id));
        }
        wait.process.waits.fetch_sub(1, SeqCst);
        Some(done)
    }

    /// Takes out what can be answered, with the answers.
    fn due(&mut self, now: Instant) -> Vec<(Done, Reply)> {
        let mut due = Vec::new();
        let all = self.cancels > 0 || self.stop;
        let mut off = take(&mut self.cancelled);
        if all || take(&mut self.ended) {
            let ended = |wait: &Wait| all || wait.process.ended.load(SeqCst);
            let entries = self.entries.iter();
            off.extend(
                entries
                    .filter(|(_, entry)| ended(&entry.0))
                    .map(|(id, _)| *id),
            );
        }
        for id in off {
            due.extend(self.remove(id).map(|done| (done, cancelled())));
        }
        let passed = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        let mut ids: Vec<u64> = passed.map(|(_, id)| *id).collect();
        if take(&mut self.input) {
            ids.extend(self.inputs.iter());
        }
        for id in ids {
            let mut reply = Reply::default();
            let finished = self
                .entries
                .get(&id)
                .is_some_and(|(wait, _)| wait.finish(now, &mut reply));
            if finished {
                due.extend(self.remove(id).map(|done| (done, reply)));
            }
        }
        due
    }
}

impl Waits {
    /// Waits for `wait` and then calls `done`.
    pub(crate) fn add(&self, wait: Wait, done: Done) {
        let mut state = lock(&self.state);
        let id = state.next;
        state.next += 1;
        if let Some(at) = wait.deadline() {
            state.deadlines.insert((at, id));
        }
        if wait.wants_input() {
            state.inputs.insert(id);
            // It may have come since the request was served.
            state.input = true;
        }
        wait.process.waits.fetch_add(1, SeqCst);
        state.ended |= wait.process.ended.load(SeqCst);
        state.entries.insert(id, (wait, done));
        self.changed.notify_one();
    }

    /// There may be input.
    pub(crate) fn input(&self) {
        lock(&self.state).input = true;
        self.changed.notify_one();
    }

    /// A process has been marked as ended.
    pub(crate) fn ended(&self, process: &Process) {
        if process.waits.load(SeqCst) > 0 {
            lock(&self.state).ended = true;
            self.changed.notify_one();
        }
    }

    /// Cancels the request of a process that came with a slot of the ring, if it waits.
    pub(crate) fn call_off(&self, process: &Arc<Process>, slot: u32) {
        let mut state = lock(&self.state);
        let is_it = |wait: &Wait| Arc::ptr_eq(&wait.process, process) && wait.slot == Some(slot);
        let mut entries = state.entries.iter();
        let found = entries.find(|(_, entry)| is_it(&entry.0));
        if let Some(id) = found.map(|(id, _)| *id) {
            state.cancelled.push(id);
            self.changed.notify_one();
        }
    }

    /// Cancels everything that waits, and returns when nothing waits and no answer is being given.
    pub(crate) fn cancel(&self) {
        let mut state = lock(&self.state);
        state.cancels += 1;
        self.changed.notify_one();
        while !state.stop && (state.answering || !state.entries.is_empty()) {
            state = ignore_poison(self.empty.wait(state));
        }
        state.cancels -= 1;
    }

    /// Ends the thread, which cancels everything first.
    pub(crate) fn stop(&self) {
        lock(&self.state).stop = true;
        self.changed.notify_one();
    }

    fn sleep<'a>(
        &'a self,
        state: MutexGuard<'a, WaitList>,
        now: Instant,
    ) -> MutexGuard<'a, WaitList> {
        match state.deadlines.first() {
            None => ignore_poison(self.changed.wait(state)),
            Some((at, _)) => {
                let timeout = at.saturating_duration_since(now);
                ignore_poison(self.changed.wait_timeout(state, timeout)).0
            }
        }
    }

    /// The thread.
    pub(crate) fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            let due = state.due(now);
            if !due.is_empty() {
                state.answering = true;
                drop(state);
                for (done, reply) in due {
                    // A panic here is the embedder's and has printed its own message. The other requests are
                    // answered all the same.
                    drop(catch_unwind(AssertUnwindSafe(|| done(&reply))));
                }
                state = lock(&self.state);
                state.answering = false;
                continue;
            }
            if state.entries.is_empty() {
                self.empty.notify_all();
            }
            if state.stop {
                return;
            }
            state = self.sleep(state, now);
        }
    }
}
