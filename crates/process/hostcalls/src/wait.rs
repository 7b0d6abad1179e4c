//! Requests that cannot be answered yet: one thread waits for all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::errno::Errno;
use crate::openings::Saved;
use crate::poll::Poll;
use crate::process::Process;
use crate::request::{Reply, Request};
use crate::service::Woken;
use crate::sink::lock;

/// A request that waits for time, for standard input, or for room to open something.
#[must_use = "a request that nobody waits for is never answered"]
pub struct Wait {
    process: Arc<Process>,
    until: Until,
    /// The slot of the request, where somebody may call it off by that.
    slot: Option<u32>,
}

enum Until {
    Input {
        limit: usize,
    },
    Poll(Poll),
    /// Until others close what they have open; it does not wait here.
    Open(Saved),
}

impl Wait {
    pub(crate) fn input(process: Arc<Process>, limit: usize) -> Self {
        Self::until(process, Until::Input { limit })
    }

    pub(crate) fn poll(process: Arc<Process>, poll: Poll) -> Self {
        Self::until(process, Until::Poll(poll))
    }

    pub(crate) fn open(process: Arc<Process>, request: &Request<'_>) -> Self {
        Self::until(process, Until::Open(Saved::new(request)))
    }

    fn until(process: Arc<Process>, until: Until) -> Self {
        Self {
            process,
            until,
            slot: None,
        }
    }

    /// The same, for a request that came with this slot.
    pub(crate) fn of_slot(self, slot: u32) -> Self {
        Self {
            slot: Some(slot),
            ..self
        }
    }

    /// The request, if it waits for room to open something.
    pub(crate) fn into_open(self) -> std::result::Result<(Arc<Process>, Saved), Self> {
        match self.until {
            Until::Open(request) => Ok((self.process, request)),
            until => Err(Self { until, ..self }),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.until {
            Until::Input { .. } | Until::Open(_) => None,
            Until::Poll(poll) => poll.deadline(),
        }
    }

    fn wants_input(&self) -> bool {
        match &self.until {
            Until::Input { .. } => true,
            Until::Poll(poll) => poll.wants_input(),
            Until::Open(_) => false,
        }
    }

    /// Whether what it waits for has come; then `reply` is the answer.
    pub(crate) fn finish(&self, now: Instant, reply: &mut Reply) -> bool {
        reply.clear();
        match &self.until {
            Until::Input { limit } => match self.process.stdin.read(*limit, &mut reply.data) {
                Ok(false) => return false,
                Ok(true) => reply.count(),
                Err(errno) => reply.set(Err(errno)),
            },
            Until::Poll(poll) => {
                reply.values[0] = poll.finish(&self.process, now, &mut reply.data);
                return reply.values[0] > 0;
            }
            Until::Open(_) => return false,
        }
        true
    }
}

/// What is to be done with the answer of a request that had to wait. Answers who is to be woken then.
pub type Later = Box<dyn FnOnce(&Reply) -> Option<Woken> + Send>;
/// The same with the waking.
type Done = Box<dyn FnOnce(&Reply) + Send>;

/// All the requests that wait.
#[derive(Default)]
pub(crate) struct Waits {
    state: Mutex<State>,
    /// Something for the thread to look at.
    changed: Condvar,
    /// Nothing waits any more.
    empty: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    entries: BTreeMap<u64, (Wait, Done)>,
    deadlines: BTreeSet<(Instant, u64)>,
    inputs: BTreeSet<u64>,
    /// There may be input that nobody has been offered.
    input: bool,
    /// A process with requests here has ended.
    ended: bool,
    /// Requests that their process has called off.
    called_off: Vec<u64>,
    /// How many ask for everything that waits to be called off.
    cancels: usize,
    /// The thread is answering requests that it has taken out.
    answering: bool,
    stop: bool,
}

impl State {
    fn remove(&mut self, id: u64) -> Option<Done> {
        let (wait, later) = self.entries.remove(&id)?;
        self.inputs.remove(&id);
        if let Some(at) = wait.deadline() {
            self.deadlines.remove(&(at, id));
        }
        wait.process.waits.fetch_sub(1, SeqCst);
        Some(later)
    }

    /// Takes out what can be answered, with the answers.
    fn due(&mut self, now: Instant) -> Vec<(Done, Reply)> {
        let mut due = Vec::new();
        let cancel = self.cancels > 0 || self.stop;
        if cancel || take(&mut self.ended) {
            let ended = |wait: &Wait| cancel || wait.process.ended.load(SeqCst);
            let entries = self.entries.iter();
            let ids: Vec<u64> = entries
                .filter(|(_, entry)| ended(&entry.0))
                .map(|(id, _)| *id)
                .collect();
            let mut reply = Reply::default();
            reply.set(Err(Errno::CANCELED));
            due.extend(
                ids.into_iter()
                    .filter_map(|id| Some((self.remove(id)?, reply.clone()))),
            );
        }
        let mut ids: Vec<u64> = self
            .deadlines
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, id)| *id)
            .collect();
        if take(&mut self.input) {
            ids.extend(self.inputs.iter());
        }
        for id in take(&mut self.called_off) {
            let mut reply = Reply::default();
            reply.set(Err(Errno::CANCELED));
            due.extend(self.remove(id).map(|later| (later, reply)));
        }
        for id in ids {
            let mut reply = Reply::default();
            let finished = self
                .entries
                .get(&id)
                .is_some_and(|(wait, _)| wait.finish(now, &mut reply));
            if finished {
                due.extend(self.remove(id).map(|later| (later, reply)));
            }
        }
        due
    }
}

impl Waits {
    /// Waits for `wait` and then does `later`.
    pub(crate) fn add(&self, wait: Wait, later: Done) {
        let mut state = lock(&self.state);
        let id = state.next;
        state.next += 1;
        if let Some(at) = wait.deadline() {
            state.deadlines.insert((at, id));
        }
        if wait.wants_input() {
            state.inputs.insert(id);
            // It may have come since the request was looked at.
            state.input = true;
        }
        wait.process.waits.fetch_add(1, SeqCst);
        state.ended |= wait.process.ended.load(SeqCst);
        state.entries.insert(id, (wait, later));
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

    /// Calls off what a process waits for with a slot, if it does.
    pub(crate) fn call_off(&self, process: &Arc<Process>, slot: u32) {
        let mut state = lock(&self.state);
        let is_it = |wait: &Wait| Arc::ptr_eq(&wait.process, process) && wait.slot == Some(slot);
        let mut entries = state.entries.iter();
        let found = entries.find(|(_, entry)| is_it(&entry.0));
        if let Some(id) = found.map(|(id, _)| *id) {
            state.called_off.push(id);
            self.changed.notify_one();
        }
    }

    /// Calls off everything that waits, and returns when nothing does and no answer is under way.
    pub(crate) fn cancel(&self) {
        let mut state = lock(&self.state);
        state.cancels += 1;
        self.changed.notify_one();
        while !state.stop && (state.answering || !state.entries.is_empty()) {
            state = self
                .empty
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.cancels -= 1;
    }

    /// Ends the thread, which calls off everything first.
    pub(crate) fn stop(&self) {
        lock(&self.state).stop = true;
        self.changed.notify_one();
    }

    fn sleep<'a>(&'a self, state: MutexGuard<'a, State>, now: Instant) -> MutexGuard<'a, State> {
        match state.deadlines.first() {
            None => self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some((at, _)) => {
                let timeout = at.saturating_duration_since(now);
                let woken = self.changed.wait_timeout(state, timeout);
                woken.unwrap_or_else(PoisonError::into_inner).0
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
                for (later, reply) in due {
                    // What panics here is somebody else's, who is told by the panic's own message; the others'
                    // requests are answered all the same.
                    drop(catch_unwind(AssertUnwindSafe(|| later(&reply))));
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
