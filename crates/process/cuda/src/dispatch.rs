//! Putting processes that wait into places, and hearing from those that run.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use everwarp_hostcalls::{Ended, Events, Service, Woken};
use everwarp_runtime::{DevPtr, Engine, Pending};

use everwarp_process::{Exit, ExitStatus, Pid};

use crate::config::MODULES_MOST;
use crate::growing::Growing;
use crate::module::Loaded;
use crate::places::{Places, Start};
use crate::state::{Group, Line, Outcome, Phase, Running, State, With};
use crate::table::{Cursor, Table};
use crate::world::World;

/// How often a failed engine is looked for while nothing ends.
const LOOK: Duration = Duration::from_millis(100);
/// Processes of a module that are started together: so many that each warp has some, and no more, because the
/// first ones run while the next are made ready.
const BATCH: usize = 1 << 13;
/// How long the dispatcher gathers places that become free one by one.
const GATHER: Duration = Duration::from_micros(50);
/// Long enough for a wait to look at the engine itself, not only at what was submitted.
const GLANCE: Duration = Duration::from_micros(200);

/// What the threads of a host share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) modules: Growing<Loaded>,
    pub(crate) places: Growing<Places>,
    pub(crate) service: Arc<Service>,
    /// From when on a module asks for it.
    pub(crate) world: OnceLock<Mutex<World>>,
    pub(crate) table: Table,
    /// What was submitted last, by which a failure of the engine is noticed.
    last: Mutex<Option<Pending>>,
    state: Mutex<State>,
    /// Something has ended, or the host has failed.
    ended: Condvar,
    /// There is something for the dispatcher to do.
    work: Condvar,
}

/// A place that is to be a process's.
struct Place {
    pid: Pid,
    place: u32,
    generation: u32,
}

/// What became of a wish for a process's exit.
pub(crate) enum Taken {
    /// There is no such process any more.
    Unknown,
    /// It has not ended.
    NotYet,
    /// It had.
    Exit(Exit),
}

/// A process that has got a place and has not started.
struct Placed {
    pid: Pid,
    start: Start,
    /// Which of its group it is.
    number: u32,
    group: Arc<Group>,
}

impl Shared {
    pub(crate) fn new(
        engine: Engine,
        modules: Vec<Loaded>,
        places: Vec<Places>,
        service: Arc<Service>,
        world: Option<World>,
        not_ours: Vec<Range<u32>>,
        state: State,
    ) -> Self {
        Self {
            engine,
            modules: Growing::new(modules, MODULES_MOST),
            places: Growing::new(places, MODULES_MOST),
            service,
            world: world.map_or_else(OnceLock::new, |world| Mutex::new(world).into()),
            table: Table::without(not_ours),
            last: Mutex::default(),
            state: Mutex::new(state),
            ended: Condvar::new(),
            work: Condvar::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the dispatcher look for work.
    pub(crate) fn call_dispatcher(&self) {
        self.work.notify_one();
    }

    /// Waits for the end of a process or a failure, for a while at most.
    pub(crate) fn await_end(&self, pid: Pid, most: Duration) {
        let mut state = self.state();
        state.awaited.push(pid);
        let before = state.ends;
        drop(state);
        // It may have ended before anybody could know that it is waited for. Who ends it later finds that out, since
        // the phase changes first, and counts.
        let runs = |phase: &mut Phase| matches!(phase, Phase::Queued(_) | Phase::Running(_));
        let waits = self.table.cursor().phase(pid).is_some_and(runs);
        let mut state = self.state();
        if waits && state.ends == before && state.failed.is_none() {
            let waited = self.ended.wait_timeout(state, most.min(LOOK));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut awaited = state.awaited.iter();
        if let Some(at) = awaited.position(|other| *other == pid) {
            state.awaited.swap_remove(at);
        }
    }

    /// Tells all that wait for one of these processes that it has ended.
    fn notify(&self, mut state: MutexGuard<'_, State>, ended: impl Iterator<Item = Pid> + Clone) {
        // Mostly a caller waits for one of many; the ends of the others need not wake it.
        let awaited = ended.clone().any(|pid| state.awaited.contains(&pid));
        let wakers: Vec<_> = match state.wakers.is_empty() {
            true => Vec::new(),
            false => ended.filter_map(|pid| state.wakers.remove(&pid)).collect(),
        };
        if awaited {
            state.ends += 1;
        }
        drop(state);
        if awaited {
            self.ended.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes the exit of a process.
    pub(crate) fn take(&self, pid: Pid) -> Taken {
        let taken = self.take_from(&mut self.table.cursor(), pid);
        if let Taken::Exit(_) = &taken {
            self.table.release([pid.slot()].into_iter());
        }
        taken
    }

    /// The same with many, whose slots are to be released afterwards.
    pub(crate) fn take_from(&self, cursor: &mut Cursor<'_>, pid: Pid) -> Taken {
        let Some(phase) = cursor.phase(pid) else {
            return Taken::Unknown;
        };
        match std::mem::replace(phase, Phase::Free) {
            Phase::Exited(end) => Taken::Exit(self.exit(end)),
            other => {
                *phase = other;
                Taken::NotYet
            }
        }
    }

    /// An end in words.
    fn exit(&self, end: Outcome) -> Exit {
        let [stdout, stderr] = end.kept.map_or([None, None], |kept| *kept);
        Exit {
            status: self.status(end.module, end.reason),
            fuel_used: Some(end.fuel_used),
            elapsed: end.elapsed,
            stdout,
            stderr,
        }
    }

    pub(crate) fn status(&self, module: u32, reason: everwarp_hostcalls::Reason) -> ExitStatus {
        self.modules[module as usize].status(reason)
    }

    fn fail(&self, error: &dyn std::fmt::Display) {
        let mut state = self.state();
        state.failed.get_or_insert_with(|| error.to_string());
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.ended.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }

    /// The dispatcher's thread.
    pub(crate) fn dispatch(&self) {
        let ready = |state: &State| {
            let mut lines = state.lines.iter();
            state.stop || lines.any(|l| !l.waiting.is_empty() && !l.free.is_empty())
        };
        loop {
            let mut state = self.state();
            while !ready(&state) {
                state.dispatcher_waits = true;
                let (guard, timeout) = self
                    .work
                    .wait_timeout(state, LOOK)
                    .unwrap_or_else(PoisonError::into_inner);
                state = guard;
                state.dispatcher_waits = false;
                if timeout.timed_out() {
                    drop(state);
                    self.look_at_last();
                    state = self.state();
                }
            }
            if state.stop {
                return;
            }
            if state.lines.iter().all(Line::soon_more) {
                drop(state);
                std::thread::sleep(GATHER);
                state = self.state();
            }
            let modules = 0..self.places.len();
            let batches: Vec<_> = modules.map(|m| self.place(&mut state, m)).collect();
            let with: Vec<_> = state.lines.iter().map(Line::with).collect();
            drop(state);
            for ((module, batch), with) in batches.into_iter().enumerate().zip(with) {
                self.begin(module, &batch, with);
            }
        }
    }

    /// Begins what was just put into a module's line, on the caller's thread: where many spawn, each begins some.
    pub(crate) fn begin_some(&self, mut state: MutexGuard<'_, State>, module: usize) {
        let line = &state.lines[module];
        if line.soon_more() {
            drop(state);
            return self.call_dispatcher();
        }
        let batch = self.place(&mut state, module);
        let line = &state.lines[module];
        let (with, rest) = (line.with(), line.startable());
        drop(state);
        if rest > 0 {
            self.call_dispatcher();
        }
        self.begin(module, &batch, with);
    }

    fn begin(&self, module: usize, batch: &[Place], with: With) {
        let batch = self.settle(module, batch);
        if batch.is_empty() {
            return;
        }
        match self.start(&self.places[module], batch, with) {
            Ok(None) => {}
            Ok(last) => *self.last() = last,
            Err(e) => self.fail(&e),
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<Pending>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a submission that is done, and notices when the engine has ended.
    fn look_at_last(&self) {
        let Some(mut pending) = self.last().take() else {
            return;
        };
        match pending.wait_timeout(GLANCE) {
            Err(everwarp_runtime::Error::Timeout { .. }) => {
                self.last().get_or_insert(pending);
            }
            Ok(_) => {}
            Err(e) => self.fail(&e),
        }
    }

    /// Gives places of a module to those that wait for them.
    fn place(&self, state: &mut State, module: usize) -> Vec<Place> {
        let line = &mut state.lines[module];
        let count = BATCH.min(line.free.len()).min(line.waiting.len());
        let pids = line.waiting.drain(..count);
        let places = line.free.drain(..count);
        let place = |(pid, place): (Pid, u32)| {
            let generation = &mut line.generations[place as usize];
            *generation = generation.wrapping_add(1).max(1);
            let generation = *generation;
            Place {
                pid,
                place,
                generation,
            }
        };
        pids.zip(places).map(place).collect()
    }

    /// What is to be started in these places; those of processes that were ended while they waited are free again.
    fn settle(&self, module: usize, batch: &[Place]) -> Vec<Placed> {
        let begin = Instant::now();
        let (mut placed, mut free) = (Vec::with_capacity(batch.len()), Vec::new());
        let mut cursor = self.table.cursor();
        for at in batch {
            let phase = cursor.phase(at.pid);
            let Some(phase) = phase.filter(|phase| matches!(phase, Phase::Queued(_))) else {
                free.push(at.place);
                continue;
            };
            let Phase::Queued(job) = std::mem::replace(phase, Phase::Free) else {
                continue;
            };
            *phase = Phase::Running(Running {
                module: module as u32,
                place: at.place,
                place_generation: at.generation,
                begin,
                held: Arc::clone(&job.group.held),
            });
            let start = Start {
                place: at.place,
                generation: at.generation,
                strings: DevPtr::new(job.group.held.strings.ptr().address() + job.strings_at),
                fuel: job.group.held.fuel,
                flags: job.flags,
                given: job.group.ends.len() as u32,
                instance: job.instance,
            };
            placed.push(Placed {
                pid: at.pid,
                start,
                number: job.number,
                group: job.group,
            });
        }
        drop(cursor);
        if !free.is_empty() {
            self.state().lines[module].free.extend(free);
        }
        placed
    }

    /// Opens processes that have places for their host calls, and starts them.
    fn start(
        &self,
        places: &Places,
        mut batch: Vec<Placed>,
        with: With,
    ) -> Result<Option<Pending>, everwarp_runtime::Error> {
        // Without the lock, because others have much to do with it. Who kills one of them meanwhile has asked for its
        // end before it starts, so that it makes no call that would have to be called off.
        for Placed {
            pid,
            start,
            number,
            group,
        } in &batch
        {
            let process = places.first + start.place;
            let wasi = Arc::clone(&group.wasi);
            let opened =
                self.service
                    .open_as(process, start.generation, wasi, *number, pid.number());
            opened.expect("the place is free, and the descriptors were counted");
        }
        batch.sort_unstable_by_key(|placed| placed.start.place);
        // The host's own are closed behind the start at the earliest, so theirs are open without a gap.
        for same in batch.chunk_by(|a, b| Arc::ptr_eq(&a.group, &b.group)) {
            for end in &same[0].group.ends[..] {
                if let Err(e) = end.keep(self, same.len() as u32) {
                    self.fail(&e);
                }
            }
        }
        let starts: Vec<Start> = batch.iter().map(|placed| placed.start).collect();
        let together = with.more + starts.len();
        places.start(&self.engine, &starts, together.max(with.together))
    }

    fn wake(&self, woken: &[Woken]) {
        for places in self.places.iter() {
            let of_these = |w: &Woken| {
                // A thread calls by its process's name, with a slot of its own.
                let place = w.slot.wrapping_sub(places.first);
                (place < places.total()).then_some(place)
            };
            let mut here: Vec<_> = woken.iter().filter_map(of_these).collect();
            here.sort_unstable();
            if let Err(e) = places.wake(&self.engine, &here) {
                self.fail(&e);
            }
        }
    }

    fn exited(&self, ended: &mut Vec<Ended>) {
        let now = Instant::now();
        let (mut ends, mut held) = (
            Vec::with_capacity(ended.len()),
            Vec::with_capacity(ended.len()),
        );
        let mut cursor = self.table.cursor();
        for Ended { tag, exit, .. } in ended.drain(..) {
            // Of one that another process has spawned, that one knows.
            let pid = Pid::of_number(tag);
            let Some(phase) = cursor.phase(pid).filter(|_| tag != 0) else {
                continue;
            };
            match std::mem::replace(phase, Phase::Free) {
                Phase::Running(running) => {
                    let kept = [exit.stdout, exit.stderr];
                    *phase = Phase::Exited(Outcome {
                        module: running.module,
                        reason: exit.reason,
                        fuel_used: (running.held.fuel as u64).saturating_sub(exit.fuel_left),
                        elapsed: now.saturating_duration_since(running.begin),
                        kept: kept.iter().any(Option::is_some).then(|| Box::new(kept)),
                    });
                    ends.push((pid, running.module, running.place));
                    held.push(running.held);
                }
                other => *phase = other,
            }
        }
        drop(cursor);
        let mut state = self.state();
        for (_, module, place) in &ends {
            state.lines[*module as usize].free.push_back(*place);
        }
        let more = state.dispatcher_waits && state.lines.iter().any(|l| l.startable() > 0);
        self.notify(state, ends.iter().map(|(pid, ..)| *pid));
        if more {
            self.call_dispatcher();
        }
        // Behind the lock: with the last of them goes what it was given.
        drop(held);
    }

    /// Ends a process, which need not be there any more.
    pub(crate) fn kill(&self, pid: Pid) -> Result<(), everwarp_runtime::Error> {
        if self.names_child(pid) {
            return self.kill_child(pid);
        }
        let mut cursor = self.table.cursor();
        let Some(phase) = cursor.phase(pid) else {
            return Ok(());
        };
        match phase {
            Phase::Free | Phase::Exited(_) => Ok(()),
            Phase::Queued(job) => {
                let module = job.module;
                let job = std::mem::replace(phase, Phase::Exited(Outcome::killed(module)));
                drop(cursor);
                // Its ends of channels go with it, which asks the engine for something.
                drop(job);
                self.notify(self.state(), std::iter::once(pid));
                Ok(())
            }
            Phase::Running(running) => {
                let (module, place) = (running.module as usize, running.place);
                let generation = running.place_generation;
                // Under the lock of its part: the place must not become somebody else's meanwhile.
                self.places[module].kill(place, generation)?;
                let number = self.places[module].first + place;
                self.service.interrupt(number, generation);
                if self.places[module].meets_others() {
                    // It may wait for another process.
                    self.places[module].wake(&self.engine, &[place])?;
                }
                Ok(())
            }
        }
    }
}

/// What the service tells; it exists before what hears it.
#[derive(Default)]
pub(crate) struct Ears(OnceLock<Weak<Shared>>);

impl Ears {
    pub(crate) fn hear(&self, shared: &Arc<Shared>) {
        self.0.get_or_init(|| Arc::downgrade(shared));
    }
    fn shared(&self) -> Option<Arc<Shared>> {
        self.0.get()?.upgrade()
    }
}

impl Events for Ears {
    fn wake(&self, woken: &[Woken]) {
        if let Some(shared) = self.shared() {
            shared.wake(woken);
        }
    }
    fn exited(&self, ended: &mut Vec<Ended>) {
        if let Some(shared) = self.shared() {
            shared.exited(ended);
        }
    }
}
