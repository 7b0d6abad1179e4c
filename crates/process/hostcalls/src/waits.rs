//! The requests that wait for time, for standard input, for sockets or for functions. One thread waits for all of them, and another one
//! for the sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_io::Reactor;

use crate::errno::Errno;
use crate::process::Process;
use crate::request::Reply;
use crate::wait::Wait;
use crate::watched::WatchedSockets;

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
    /// Watches sockets, from the first request on that waits for one.
    sockets: OnceLock<Option<SocketThread>>,
}

/// The thread that watches sockets.
struct SocketThread {
    reactor: Arc<Reactor>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct WaitList {
    next: u64,
    entries: BTreeMap<u64, (Wait, Done)>,
    deadlines: BTreeSet<(Instant, u64)>,
    inputs: BTreeSet<u64>,
    functions: BTreeSet<u64>,
    sockets: WatchedSockets,
    /// There may be answers to requests for functions.
    functions_changed: bool,
    /// There may be input that no request has been offered.
    input: bool,
    /// A process with requests here has ended.
    ended: bool,
    /// Requests that their processes have cancelled.
    cancelled: Vec<u64>,
    /// How many calls of [`Waits::cancel`] ask for everything to be cancelled.
    cancels: usize,
    /// How many threads are answering requests that they have taken out.
    answering: usize,
    stop: bool,
}

/// The answer of a request that was cancelled.
pub(crate) fn cancelled() -> Reply {
    let mut reply = Reply::default();
    reply.set(Err(Errno::CANCELED));
    reply
}

/// The answer where the system cannot watch another socket.
fn no_memory() -> Reply {
    let mut reply = Reply::default();
    reply.set(Err(Errno::NOMEM));
    reply
}

/// Gives answers, outside all locks.
fn answer(due: Vec<(Done, Reply)>) {
    for (done, reply) in due {
        // A panic here is the embedder's and has printed its own message. The other requests are answered all the same.
        drop(catch_unwind(AssertUnwindSafe(|| done(&reply))));
    }
}

impl WaitList {
    fn remove(&mut self, id: u64) -> Option<Done> {
        let (wait, done) = self.entries.remove(&id)?;
        self.inputs.remove(&id);
        self.functions.remove(&id);
        for (socket, _) in wait.sockets() {
            self.sockets.remove(id, &socket);
        }
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
        if take(&mut self.functions_changed) {
            ids.extend(self.functions.iter());
        }
        for id in ids {
            due.extend(self.finished(id, now));
        }
        due
    }

    /// Takes out a request if it can be answered, with the answer.
    fn finished(&mut self, id: u64, now: Instant) -> Option<(Done, Reply)> {
        let mut reply = Reply::default();
        let (wait, _) = self.entries.get(&id)?;
        let finished = wait.finish(now, &mut reply);
        finished.then(|| self.remove(id).map(|done| (done, reply)))?
    }

    /// Takes out what can be answered because sockets are ready, with the answers, and watches these sockets on.
    fn ready(&mut self, reactor: &Reactor, numbers: &[u64]) -> Vec<(Done, Reply)> {
        let now = Instant::now();
        let mut due = Vec::new();
        for number in numbers {
            for id in self.sockets.waiting(*number) {
                let takes = self.entries.get(&id).is_some_and(|(wait, _)| wait.takes());
                let finished = self.finished(id, now);
                // A request that got nothing leaves nothing for the next ones.
                let drained = takes && finished.is_none();
                due.extend(finished);
                if drained {
                    break;
                }
            }
            if self.sockets.watch(reactor, *number).is_err() {
                for id in self.sockets.waiting(*number) {
                    due.extend(self.remove(id).map(|done| (done, no_memory())));
                }
            }
        }
        due
    }
}

impl Waits {
    /// Waits for `wait` and then calls `done`.
    pub(crate) fn add(self: &Arc<Self>, wait: Wait, done: Done) {
        let sockets = wait.sockets();
        let watching = match sockets.is_empty() {
            true => None,
            false => self.sockets.get_or_init(|| self.watch_sockets()).as_ref(),
        };
        if watching.is_none() && !sockets.is_empty() {
            return done(&no_memory());
        }
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
        let process = Arc::clone(&wait.process);
        let for_function = wait.wants_function();
        let timed = wait.deadline().is_some() || wait.wants_input();
        state.entries.insert(id, (wait, done));
        // The function may have come since the request was served. Only this request is looked at, because there may be many.
        let came = match for_function && state.functions.insert(id) {
            true => state.finished(id, Instant::now()),
            false => None,
        };
        // A socket may be ready by now, and is reported then.
        let watched = watching.map_or(Ok(()), |watching| {
            let mut sockets = sockets.iter();
            let reactor = &watching.reactor;
            sockets.try_for_each(|(socket, interest)| {
                state.sockets.add(reactor, id, socket, *interest)
            })
        });
        let failed = watched.err().and_then(|_| state.remove(id));
        if timed
            || watching.is_none()
            || process.ended.load(SeqCst)
            || state.stop
            || state.cancels > 0
        {
            self.changed.notify_one();
        }
        drop(state);
        if let Some(done) = failed {
            done(&no_memory());
        }
        if let Some((done, reply)) = came {
            done(&reply);
        }
    }

    /// Starts the thread that watches sockets; `None` if the system gives no descriptors or no thread.
    fn watch_sockets(self: &Arc<Self>) -> Option<SocketThread> {
        let reactor = Arc::new(Reactor::new().ok()?);
        let (waits, watched) = (Arc::clone(self), Arc::clone(&reactor));
        let builder = thread::Builder::new().name("everwarp-sockets".into());
        let thread = builder.spawn(move || waits.run_sockets(&watched)).ok()?;
        Some(SocketThread {
            reactor,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The thread that watches sockets.
    fn run_sockets(&self, reactor: &Reactor) {
        let mut ready = Vec::new();
        loop {
            ready.clear();
            let waited = reactor.wait(&mut ready);
            let mut state = lock(&self.state);
            if state.stop || waited.is_err() {
                return;
            }
            let due = state.ready(reactor, &ready);
            if due.is_empty() {
                continue;
            }
            state.answering += 1;
            drop(state);
            answer(due);
            let mut state = lock(&self.state);
            state.answering -= 1;
            if state.answering == 0 && state.entries.is_empty() {
                self.empty.notify_all();
            }
        }
    }

    /// There may be answers to requests for functions.
    pub(crate) fn functions_changed(&self) {
        lock(&self.state).functions_changed = true;
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
        while !state.stop && (state.answering > 0 || !state.entries.is_empty()) {
            state = ignore_poison(self.empty.wait(state));
        }
        state.cancels -= 1;
    }

    /// Ends the threads. The one for time and input cancels everything first.
    pub(crate) fn stop(&self) {
        lock(&self.state).stop = true;
        self.changed.notify_one();
        let Some(Some(sockets)) = self.sockets.get() else {
            return;
        };
        sockets.reactor.wake();
        // The last owner of the service may be a callback on that thread, and a thread cannot wait for itself.
        let joined = lock(&sockets.thread).take();
        if let Some(thread) = joined.filter(|thread| thread.thread().id() != thread::current().id())
        {
            // It cannot have panicked: it catches the panics of callbacks.
            drop(thread.join());
        }
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
                state.answering += 1;
                drop(state);
                answer(due);
                state = lock(&self.state);
                state.answering -= 1;
                continue;
            }
            if state.entries.is_empty() && state.answering == 0 {
                self.empty.notify_all();
            }
            if state.stop {
                return;
            }
            state = self.sleep(state, now);
        }
    }
}
