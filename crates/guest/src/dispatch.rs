//! Putting processes that wait into places, and hearing from those that run.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use everwarp::{DevPtr, Engine, Pending};
use everwarp_wasi::{Ended, Events, Service, Woken};
use everwarp_wasm::Trap;

use everwarp_interface::Pid;

use crate::exit::{Exit, Reason};
use crate::growing::Growing;
use crate::module::Loaded;
use crate::places::{Places, Start};
use crate::state::{Group, Line, Phase, Running, State};
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

/// Each module is an instance of the program, of which an engine has room for 256, and one reads the clock.
const MODULES_MOST: usize = 255;

/// What the threads of a host share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) modules: Growing<Loaded>,
    pub(crate) places: Growing<Places>,
    pub(crate) service: Arc<Service>,
    /// Where a module asks for it.
    pub(crate) world: Option<Mutex<World>>,
    state: Mutex<State>,
    /// Something has ended, or the host has failed.
    ended: Condvar,
    /// There is something for the dispatcher to do.
    work: Condvar,
}

/// A process that has got a place and has not started.
struct Placed {
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
        state: State,
    ) -> Self {
        Self {
            engine,
            modules: Growing::new(modules, MODULES_MOST),
            places: Growing::new(places, MODULES_MOST),
            service,
            world: world.map(Mutex::new),
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
    pub(crate) fn await_end<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        pid: Pid,
        most: Duration,
    ) -> MutexGuard<'s, State> {
        state.awaited.push(pid);
        let waited = self.ended.wait_timeout(state, most.min(LOOK));
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let mut awaited = state.awaited.iter();
        if let Some(at) = awaited.position(|other| *other == pid) {
            state.awaited.swap_remove(at);
        }
        state
    }

    fn fail(&self, error: &dyn std::fmt::Display) {
        let mut state = self.state();
        state.failed.get_or_insert_with(|| error.to_string());
        self.ended.notify_all();
    }

    /// The dispatcher's thread.
    pub(crate) fn dispatch(&self) {
        // What was submitted last, by which a failure of the engine is noticed.
        let mut last: Option<Pending> = None;
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
                if timeout.timed_out() && last.is_some() {
                    drop(state);
                    self.look_at(&mut last);
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
            let more: Vec<_> = state.lines.iter().map(Line::to_start).collect();
            drop(state);
            for ((places, batch), more) in self.places.iter().zip(batches).zip(more) {
                if batch.is_empty() {
                    continue;
                }
                match self.start(places, batch, more) {
                    Ok(started) => last = started.or(last),
                    Err(e) => self.fail(&e),
                }
            }
        }
    }

    /// Forgets a submission that is done, and notices when the engine has ended.
    fn look_at(&self, last: &mut Option<Pending>) {
        let Some(pending) = last else { return };
        match pending.wait_timeout(GLANCE) {
            Err(everwarp::Error::Timeout { .. }) => {}
            Ok(_) => *last = None,
            Err(e) => {
                *last = None;
                self.fail(&e);
            }
        }
    }

    /// Gives places of a module to those that wait for them.
    fn place(&self, state: &mut State, module: usize) -> Vec<Placed> {
        let mut batch = Vec::new();
        let now = Instant::now();
        while batch.len() < BATCH {
            let line = &mut state.lines[module];
            if line.free.is_empty() {
                break;
            }
            let Some(pid) = line.waiting.pop_front() else {
                break;
            };
            let entry = &mut state.entries[pid.slot() as usize];
            if entry.generation != pid.generation() || !matches!(entry.phase, Phase::Queued(_)) {
                // It was ended while it waited.
                continue;
            }
            let Phase::Queued(job) = std::mem::replace(&mut entry.phase, Phase::Free) else {
                continue;
            };
            let line = &mut state.lines[module];
            let Some(place) = line.free.pop() else { break };
            let occupied = &mut line.places[place as usize];
            occupied.generation = occupied.generation.wrapping_add(1).max(1);
            occupied.by = Some(pid);
            let generation = occupied.generation;
            let group = job.group;
            let start = Start {
                place,
                generation,
                strings: DevPtr::new(group.held.strings.ptr().address() + job.strings_at),
                fuel: group.held.fuel,
                flags: job.flags,
                given: group.ends.len() as u32,
                instance: job.instance,
            };
            let held = Arc::clone(&group.held);
            batch.push(Placed {
                start,
                number: job.number,
                group,
            });
            state.entries[pid.slot() as usize].phase = Phase::Running(Running {
                module,
                place,
                place_generation: generation,
                begin: now,
                held,
            });
        }
        batch
    }

    /// Opens processes that have places for their host calls, and starts them.
    fn start(
        &self,
        places: &Places,
        mut batch: Vec<Placed>,
        more: usize,
    ) -> Result<Option<Pending>, everwarp::Error> {
        // Without the lock, because others have much to do with it. Who kills one of them meanwhile has asked for its
        // end before it starts, so that it makes no call that would have to be called off.
        for Placed {
            start,
            number,
            group,
        } in &batch
        {
            let process = places.first + start.place;
            let wasi = Arc::clone(&group.wasi);
            let opened = self
                .service
                .open_as(process, start.generation, wasi, *number);
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
        places.start(&self.engine, &starts, more)
    }

    fn module_of(&self, number: u32) -> Option<usize> {
        let holds = |p: &Places| number.wrapping_sub(p.first) < p.total();
        self.places.iter().position(holds)
    }

    fn wake(&self, woken: &[Woken]) {
        for places in self.places.iter() {
            let of_these = |w: &Woken| {
                // A thread calls by its process's name, with a slot of its own.
                let place = w.slot.wrapping_sub(places.first);
                (place < places.total()).then_some((place, w.reply_bytes))
            };
            let mut here: Vec<_> = woken.iter().filter_map(of_these).collect();
            here.sort_unstable();
            if let Err(e) = places.wake(&self.engine, &here) {
                self.fail(&e);
            }
        }
    }

    /// The module, place, generation and end of a process that the host has started, and the fuel that it left; nothing
    /// if another process has spawned it, and knows.
    fn end_of(&self, ended: Ended) -> Option<(usize, u32, u32, Exit, u64)> {
        let module = self.module_of(ended.process)?;
        let place = ended.process - self.places[module].first;
        if place >= self.places[module].count {
            return None;
        }
        let exit = Exit {
            reason: reason(&self.modules[module], ended.exit.reason),
            fuel_used: 0,
            elapsed: Duration::ZERO,
            stdout: ended.exit.stdout,
            stderr: ended.exit.stderr,
        };
        Some((module, place, ended.generation, exit, ended.exit.fuel_left))
    }

    fn exited(&self, ended: &mut Vec<Ended>) {
        let ends: Vec<_> = ended
            .drain(..)
            .filter_map(|ended| self.end_of(ended))
            .collect();
        let now = Instant::now();
        // Dropped behind the lock: with the last of a group goes what it was given.
        let mut held = Vec::with_capacity(ends.len());
        let (mut awaited, mut more) = (false, false);
        let mut state = self.state();
        for (module, place, generation, mut exit, fuel_left) in ends {
            let line = &mut state.lines[module];
            let occupied = &mut line.places[place as usize];
            let Some(pid) = occupied.by.take_if(|_| occupied.generation == generation) else {
                continue;
            };
            line.free.push(place);
            more |= !line.waiting.is_empty();
            let entry = &mut state.entries[pid.slot() as usize];
            if let Phase::Running(running) = std::mem::replace(&mut entry.phase, Phase::Free) {
                exit.elapsed = now.saturating_duration_since(running.begin);
                exit.fuel_used = (running.held.fuel as u64).saturating_sub(fuel_left);
                held.push(running.held);
            }
            entry.phase = Phase::Exited(exit);
            // Mostly somebody waits for one of many; the ends of the others need not wake anybody.
            awaited |= state.awaited.contains(&pid);
        }
        more &= state.dispatcher_waits;
        drop(state);
        if awaited {
            self.ended.notify_all();
        }
        if more {
            self.call_dispatcher();
        }
    }

    /// Ends a process, which need not be there any more.
    pub(crate) fn kill(&self, pid: Pid) -> Result<(), everwarp::Error> {
        let mut state = self.state();
        let Some(entry) = state.entry(pid) else {
            return Ok(());
        };
        match &entry.phase {
            Phase::Free | Phase::Exited(_) => Ok(()),
            Phase::Queued(_) => {
                entry.phase = Phase::Exited(Exit {
                    reason: Reason::Killed,
                    fuel_used: 0,
                    elapsed: Duration::ZERO,
                    stdout: None,
                    stderr: None,
                });
                self.ended.notify_all();
                Ok(())
            }
            Phase::Running(running) => {
                let (module, place) = (running.module, running.place);
                let generation = running.place_generation;
                // Under the lock: the place must not become somebody else's meanwhile.
                self.places[module].kill(place, generation)?;
                let number = self.places[module].first + place;
                self.service.interrupt(number, generation);
                if self.places[module].table.world.address() != 0 {
                    // It may wait for another process.
                    self.places[module].wake(&self.engine, &[(place, 0)])?;
                }
                Ok(())
            }
        }
    }
}

/// What the device says of an end, in words.
fn reason(loaded: &Loaded, reason: everwarp_wasi::Reason) -> Reason {
    use everwarp_wasi::Reason as R;
    match reason {
        R::Normal(code) => Reason::Normal(code),
        R::Killed => Reason::Killed,
        R::OutOfFuel => Reason::OutOfFuel,
        R::OutOfMemory => Reason::OutOfMemory,
        R::Trap {
            kind,
            function,
            offset,
        } => {
            let trap = Trap::from_code(kind).unwrap_or(Trap::UnlinkedImport);
            Reason::Trap {
                trap,
                function: loaded.compiled.function_name(function).map(str::to_owned),
                sentence: loaded.compiled.describe_trap(trap, function, offset),
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
