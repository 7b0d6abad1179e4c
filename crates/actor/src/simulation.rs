//! A system of actors without an engine: its handlers run in the caller's thread, one turn at a time, in an order that is
//! drawn from a seed, and its time is virtual. The same seed gives the same run.
//!
//! The turns, the mailboxes and all that belongs to them are those of the CPU engine. What a simulation cannot show is what
//! threads do to each other within a turn; models with loom do that.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use everwarp_contract::actor::{
    ACTOR_FAULT_CELLS, ACTOR_SHARD_STRIDE, ACTOR_SHARDS, DEAD_REASONS, MESSAGE_FAILED,
};
use everwarp_contract::{
    DevActor, DevActorControl, DevActors, DevMessage, DevPtr, DevTask, FunctionId, GroupId,
    InstanceId, Layout, Priority,
};
use everwarp_runtime::{DevNone, Program, ProgramRef, TaskCx};

use crate::context::{record, table};
use crate::error::ActorError;
use crate::failures::{Failure, FailureLog};
use crate::id::ActorId;
use crate::mailbox::{Sent, Signal, Signalled, generation_of};
use crate::message::{DeadReason, MAX_ASK_WORDS, MAX_WORDS, Message};
use crate::notes::{FAILED, KNOWN, SUPERVISED};
use crate::pool::Pool;
use crate::program::{ActorProgram, Builtin, Kind};
use crate::side::{
    COURIER, Clock, DeadLetters, GroupId as Group, GroupStats, Member, Monitor, Side, Sides,
    Supervision, TimerId,
};
use crate::sync::Ordering;
use crate::system::{ActorConfig, ActorStats};

/// The group of all turns.
const WORLD: u32 = 1;

/// What goes wrong while a simulation runs: how many of 1,000 turns it happens before, each to the actor of that turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Its next handler fails.
    pub fails: u32,
    /// It is killed.
    pub killed: u32,
}

/// An ask of the host in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AskId(u32);

/// Memory that is aligned as the tables need it.
#[derive(Debug)]
struct Memory(Vec<Aligned>);
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
struct Aligned([u64; 16]);

impl Memory {
    fn new(bytes: usize) -> Self {
        Self(vec![Aligned([0; 16]); bytes.div_ceil(128).max(1)])
    }
    fn address(&mut self) -> u64 {
        self.0.as_mut_ptr() as u64
    }
}

/// A simulated system. Its actors end when it is dropped.
///
/// ```
/// use std::time::Duration;
///
/// use everwarp_actor::{ActorConfig, ActorProgram, Kind, Simulation};
///
/// const START: u8 = 1;
/// const RING: u8 = 2;
/// const RINGS: u8 = 3;
///
/// // Rings once an hour, and counts in its first byte.
/// let clock = Kind::closure("clock", 1, |actor, message| match message.tag() {
///     START => {
///         actor.every(Duration::from_secs(3600), RING, &[]);
///     }
///     RING => actor.state_bytes()[0] += 1,
///     _ => {
///         let rings = actor.state_bytes()[0];
///         actor.reply(RINGS, &[rings.into()]);
///     }
/// });
/// let program = ActorProgram::closures("clocks", vec![clock]);
/// let mut world = Simulation::new(&program, 7, ActorConfig::default())?;
/// let clock = world.launch(0)?;
/// world.tell(clock, START, &[])?;
/// world.advance(Duration::from_secs(24 * 3600))?;
/// let asked = world.ask(clock, RINGS, &[])?;
/// world.run()?;
/// let reply = world.reply(asked).expect("it has ended").expect("the clock replies");
/// assert_eq!(reply.word(0), 24);
/// # Ok::<_, everwarp_actor::ActorError>(())
/// ```
#[derive(Debug)]
pub struct Simulation {
    program: ProgramRef,
    failures: Arc<FailureLog>,
    sides: Arc<Sides>,
    side: Arc<Side>,
    tables: DevActors,
    config: ActorConfig,
    kinds: u32,
    random: u64,
    faults: Faults,
    /// Tasks that wait: turns, couriers, and ends of asks.
    tasks: Vec<DevTask>,
    turns: u64,
    /// Asks whose reply has not come; the next number, and the replies of the others.
    open: HashSet<u32>,
    asked: u32,
    replies: HashMap<u32, Result<Message, DeadReason>>,
    fault: Option<u64>,
    _memory: Vec<Memory>,
}

/// A task of a simulation, with what it spawns.
struct SimTask<'s> {
    task: DevTask,
    params: &'s Params,
    spawned: Vec<DevTask>,
    fault: Option<u64>,
}

#[repr(C, align(16))]
struct Params(DevActors);

impl SimTask<'_> {
    fn push(&mut self, group: u32, function: u32, tag: u8, arg: u64) {
        let mut task = DevTask::new(
            FunctionId(function),
            InstanceId(0),
            tag,
            Priority::NORMAL,
            arg,
        );
        task.group = group;
        self.spawned.push(task);
    }
}

impl TaskCx for SimTask<'_> {
    fn task(&self) -> DevTask {
        self.task
    }
    fn params_block(&self) -> *const u8 {
        std::ptr::from_ref(self.params).cast()
    }
    fn spawn_at(&mut self, _: Priority, function: u32, tag: u8, arg: u64) {
        self.push(self.task.group, function, tag, arg);
    }
    fn spawn_held_at(&mut self, _: Priority, group: GroupId, function: u32, tag: u8, arg: u64) {
        self.push(group.0, function, tag, arg);
    }
    fn spawn_into(&mut self, group: GroupId, function: u32, tag: u8, arg: u64) {
        self.push(group.0, function, tag, arg);
    }
    fn fault(&mut self, detail: u64) {
        self.fault = Some(detail);
    }
    crate::task::turns_use_no_more!();
}

impl Simulation {
    /// A system of a program without parameters.
    ///
    /// # Errors
    /// [`ActorError::Config`]: there is no room for actors, messages or asks.
    ///
    /// # Panics
    /// The program takes parameters.
    pub fn new(program: &ActorProgram, seed: u64, config: ActorConfig) -> Result<Self, ActorError> {
        assert_eq!(
            program.params.name,
            DevNone::NAME,
            "a simulation has no parameters for a program"
        );
        for (what, value) in [
            ("ActorConfig::actors", config.actors),
            ("ActorConfig::messages", config.messages),
            ("ActorConfig::asks", config.asks),
        ] {
            if value == 0 || value >= 1 << 28 {
                return Err(ActorError::Config {
                    what,
                    rule: "1 to 2^28 - 1".to_owned(),
                    value: value.into(),
                });
            }
        }
        let kinds = &program.kinds;
        let bytes = |kind: &Kind| kind.state_bytes.next_multiple_of(16).max(16);
        let state_bytes = kinds.iter().map(bytes).max().unwrap_or(16);
        let actors = config.actors as usize;
        let mut memory: Vec<Memory> = [
            actors * size_of::<DevActor>(),
            config.messages as usize * size_of::<DevMessage>(),
            actors * state_bytes as usize,
            (2 * ACTOR_SHARDS * ACTOR_SHARD_STRIDE) as usize * 8,
            size_of::<DevActorControl>(),
            config.asks as usize * size_of::<DevMessage>(),
            kinds.len() * 2,
        ]
        .map(Memory::new)
        .into();
        let at: Vec<u64> = memory.iter_mut().map(Memory::address).collect();
        for (i, kind) in kinds.iter().enumerate() {
            // SAFETY: the memory has room for a bound of each kind.
            unsafe { *(at[6] as *mut u16).add(i) = kind.room_for_messages() };
        }
        let side = Arc::new(Side::new(Clock::Virtual(AtomicU64::new(0))));
        let number = program.sides().add(&side);
        let tables = DevActors {
            slots: DevPtr::new(at[0]),
            cells: DevPtr::new(at[1]),
            states: DevPtr::new(at[2]),
            shards: DevPtr::new(at[3]),
            control: DevPtr::new(at[4]),
            tells: DevPtr::new(at[5]),
            replies: DevPtr::new(at[5]),
            ids: DevPtr::new(at[5]),
            user: DevPtr::new(at[5]),
            slot_limit: config.actors,
            cell_limit: config.messages,
            state_bytes,
            kinds: kinds.len() as u32,
            bounds: DevPtr::new(at[6]),
            side: number,
            events: DevPtr::new(0),
            parts: DevPtr::new(0),
            hole0: 0,
        };
        let simulation = Self {
            program: program.program(),
            failures: program.failures().clone(),
            sides: program.sides().clone(),
            side,
            tables,
            config,
            kinds: kinds.len() as u32,
            random: seed,
            faults: Faults::default(),
            tasks: Vec::new(),
            turns: 0,
            open: HashSet::new(),
            asked: 0,
            replies: HashMap::new(),
            fault: None,
            _memory: memory,
        };
        let control = simulation.table().control;
        control.world.store(WORLD.into(), Ordering::Relaxed);
        Ok(simulation)
    }
    /// Lets things go wrong from now on.
    pub fn inject(&mut self, faults: Faults) {
        self.faults = faults;
    }
    fn table<'t>(&self) -> crate::table::Table<'t> {
        table(&self.tables)
    }
    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn draw(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ z >> 31) * below as u128) >> 64) as usize
    }
    fn queue(&mut self, function: u32, arg: u64) {
        let mut task = DevTask::new(
            FunctionId(function),
            InstanceId(0),
            0,
            Priority::NORMAL,
            arg,
        );
        task.group = WORLD;
        self.tasks.push(task);
    }
    fn activate(&mut self, slot: u32) {
        let meta = self.table().slots[slot as usize]
            .meta
            .load(Ordering::Relaxed);
        self.queue((meta as u16).into(), slot.into());
    }
    /// Queues a courier, if there is something for it to do.
    fn post(&mut self) {
        if self.side.wants_courier() {
            self.queue(0, u64::from(COURIER) << 32);
        }
    }

    /// Launches an actor.
    ///
    /// # Errors
    /// [`ActorError::NoKind`] or [`ActorError::TooManyActors`].
    pub fn launch(&mut self, kind: u32) -> Result<ActorId, ActorError> {
        if kind >= self.kinds {
            return Err(ActorError::NoKind {
                program: self.program.name.to_string(),
                kinds: self.kinds,
                kind,
            });
        }
        // SAFETY: there is a bound for each kind.
        let bound = unsafe { *(self.tables.bounds.address() as *const u16).add(kind as usize) };
        let (states, bytes) = (self.tables.states.address(), self.tables.state_bytes);
        let clear = |slot: u32| {
            let at = states + u64::from(slot) * u64::from(bytes);
            // SAFETY: the state of a slot that no actor has.
            unsafe { std::ptr::write_bytes(at as *mut u8, 0, bytes as usize) };
        };
        let launched = self
            .table()
            .launch(0, kind as u16, bound, ActorId::NONE, clear);
        launched.ok_or(ActorError::TooManyActors {
            limit: self.config.actors,
        })
    }
    fn send(&mut self, to: ActorId, message: Message) -> Result<(), ActorError> {
        let table = self.table();
        let Some(cell) = table.take(Pool::Cells, 0) else {
            return Err(self.out_of_messages());
        };
        let at = &table.cells[cell as usize];
        at.head.store(message.head, Ordering::Relaxed);
        at.from.store(message.from, Ordering::Relaxed);
        at.to.store(to.bits(), Ordering::Relaxed);
        for (word, value) in at.words.iter().zip(message.words) {
            word.store(value, Ordering::Relaxed);
        }
        match table.send(to, cell) {
            Sent::Delivered => return Ok(()),
            Sent::Activate => {
                self.activate(to.slot());
                return Ok(());
            }
            Sent::Full | Sent::Gone => table.give(Pool::Cells, 0, cell, cell),
        }
        Err(match self.lives(to) {
            true => ActorError::Full { actor: to },
            false => ActorError::Gone { actor: to },
        })
    }
    fn out_of_messages(&self) -> ActorError {
        ActorError::OutOfMessages {
            limit: self.config.messages,
            mailboxes: Vec::new(),
            longest: "a simulation does not say where they are".to_owned(),
        }
    }
    /// Whether an actor lives and has not been told to end.
    pub fn lives(&self, actor: ActorId) -> bool {
        self.table().named(actor).is_some_and(|slot| {
            let mail = crate::mail::Mail(slot.mail.load(Ordering::Relaxed));
            let ends = everwarp_contract::actor::MAIL_STOP | everwarp_contract::actor::MAIL_KILL;
            crate::table::Table::lives(slot, mail, actor) && !mail.has(ends)
        })
    }
    /// Sends a message from the host.
    ///
    /// # Errors
    /// [`ActorError::Gone`] or [`ActorError::Full`].
    ///
    /// # Panics
    /// There are more than [`MAX_WORDS`] words.
    pub fn tell(&mut self, to: ActorId, tag: u8, words: &[u64]) -> Result<(), ActorError> {
        self.send(to, Message::new(ActorId::NONE, tag, words, MAX_WORDS))
    }
    /// Sends an ask from the host. [`reply`](Self::reply) has its end.
    ///
    /// # Errors
    /// [`ActorError::Gone`], [`ActorError::Full`], or [`ActorError::TooManyAsks`].
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`] words.
    pub fn ask(&mut self, to: ActorId, tag: u8, words: &[u64]) -> Result<AskId, ActorError> {
        use everwarp_contract::actor::{MESSAGE_ASK, MESSAGE_HOST};
        let limit = self.config.asks;
        if self.open.len() >= limit as usize {
            return Err(ActorError::TooManyAsks { limit });
        }
        // The place of its reply: one that no open ask has.
        let place = (0..limit).find(|i| self.open.iter().all(|ask| ask % limit != *i));
        let place = place.unwrap_or(0);
        let number = self.asked.next_multiple_of(limit) + place;
        self.asked = number + 1;
        let mut message = Message::new(ActorId::NONE, tag, words, MAX_ASK_WORDS);
        message.head |= MESSAGE_ASK | MESSAGE_HOST;
        // The group is the ask's number, which no turn has, and its upper half is the place.
        message.from = u64::from(place) << 32 | u64::from(number + WORLD + 1);
        self.send(to, message)?;
        self.open.insert(number);
        Ok(AskId(number))
    }
    /// The end of an ask, once: the reply or why there is none. None while it is under way.
    pub fn reply(&mut self, ask: AskId) -> Option<Result<Message, DeadReason>> {
        self.replies.remove(&ask.0)
    }

    fn signal(&mut self, actor: ActorId, signal: Signal) -> bool {
        match self.table().signal(actor, signal) {
            Signalled::Activate => {
                self.activate(actor.slot());
                true
            }
            Signalled::Done => true,
            Signalled::Gone => false,
        }
    }
    /// Ends an actor once it has handled what is in its mailbox. Returns whether it lived.
    pub fn stop(&mut self, actor: ActorId) -> bool {
        self.signal(actor, Signal::Stop)
    }
    /// Ends an actor; its messages become dead letters. Returns whether it lived.
    pub fn kill(&mut self, actor: ActorId) -> bool {
        self.signal(actor, Signal::Kill)
    }
    /// Makes an actor keep its messages and handle none. Returns whether it lived.
    pub fn deactivate(&mut self, actor: ActorId) -> bool {
        self.signal(actor, Signal::Pause)
    }
    /// Makes an actor handle messages again. Returns whether it lived.
    pub fn reactivate(&mut self, actor: ActorId) -> bool {
        self.signal(actor, Signal::Resume)
    }
    /// Lets the next handler of an actor fail. Returns whether it lives.
    pub fn fail_next(&mut self, actor: ActorId) -> bool {
        self.table().note_for(actor, FAILED)
    }

    /// Runs one task that is drawn from those that wait. Returns false when none waits, or the system has ended.
    pub fn step(&mut self) -> bool {
        if self.tasks.is_empty() || self.fault.is_some() {
            return false;
        }
        let drawn = self.draw(self.tasks.len());
        let task = self.tasks.swap_remove(drawn);
        let function = task.function().0;
        if function < self.kinds && task.arg >> 32 == 0 {
            self.harm(task.arg as u32);
        } else if function == self.kinds + Builtin::Value as u32 {
            self.end_ask(task);
            return true;
        }
        self.turns += 1;
        let params = Params(self.tables);
        let mut running = SimTask {
            task,
            params: &params,
            spawned: Vec::new(),
            fault: None,
        };
        let program: &Program = &self.program;
        program.functions[function as usize].twin.call(&mut running);
        let SimTask { spawned, fault, .. } = running;
        self.tasks.extend(spawned);
        self.fault = fault;
        true
    }
    /// Injects faults before a turn.
    fn harm(&mut self, slot: u32) {
        let Faults { fails, killed } = self.faults;
        if fails == 0 && killed == 0 {
            return;
        }
        let table = self.table();
        let meta = table.slots[slot as usize].meta.load(Ordering::Relaxed);
        let actor = ActorId::new(slot, generation_of(meta));
        let drawn = self.draw(1000);
        if drawn < fails as usize {
            self.fail_next(actor);
        } else if drawn < (fails + killed) as usize {
            // Its turn is about to run, so that no other is queued.
            self.kill(actor);
        }
    }
    /// The reply to an ask is in its place.
    fn end_ask(&mut self, task: DevTask) {
        let number = task.group - WORLD - 1;
        if !self.open.remove(&number) {
            return;
        }
        let reply = record(self.tables.replies.address(), number % self.config.asks);
        let message = crate::context::message_in(reply);
        let failed = message.head & MESSAGE_FAILED != 0;
        let reply = match failed {
            true => Err(DeadReason::of(message.head & 0xff)),
            false => Ok(message),
        };
        self.replies.insert(number, reply);
    }
    /// Runs until no task waits. Time stands still. Returns how many turns there were.
    ///
    /// # Errors
    /// [`ActorError::OutOfMessages`], or [`ActorError::SimulationEnded`] if a handler has ended the system.
    pub fn run(&mut self) -> Result<u64, ActorError> {
        let before = self.turns;
        while self.step() {}
        match self.fault {
            None => Ok(self.turns - before),
            Some(detail) if detail == u64::from(ACTOR_FAULT_CELLS) => Err(self.out_of_messages()),
            Some(_) => Err(ActorError::SimulationEnded),
        }
    }
    /// Lets time pass: each timer that is due fires at its time, and all turns that follow run before the next. Returns how
    /// many turns there were.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn advance(&mut self, time: Duration) -> Result<u64, ActorError> {
        self.side.fire();
        self.post();
        let mut turns = self.run()?;
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let end = self.side.clock.now().saturating_add(nanos);
        while let Some(due) = self.side.next_due().filter(|due| *due <= end) {
            self.set_time(due.max(self.side.clock.now()));
            self.side.fire();
            self.post();
            turns += self.run()?;
        }
        self.set_time(end);
        Ok(turns)
    }
    fn set_time(&self, now: u64) {
        if let Clock::Virtual(time) = &self.side.clock {
            time.store(now, Ordering::Relaxed);
        }
    }
    /// The time that has passed.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.side.clock.now())
    }

    /// The state of an actor.
    ///
    /// # Panics
    /// The id is of another system, or `S` is larger than the states of the program.
    pub fn state<S: Layout>(&self, actor: ActorId) -> S {
        assert!(
            actor.slot() < self.config.actors,
            "{actor:?} is of another system"
        );
        let bytes = self.tables.state_bytes as usize;
        assert!(size_of::<S>() <= bytes, "the states are smaller");
        let at = self.tables.states.address() + u64::from(actor.slot()) * bytes as u64;
        // SAFETY: the slot has a state of this size, and no turn runs.
        S::from_bytes(unsafe { std::slice::from_raw_parts(at as *const u8, size_of::<S>()) })
    }
    /// The counters.
    pub fn stats(&self) -> ActorStats {
        let control = self.table().control;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut dead = [0; 5];
        for (i, counter) in control.dead.iter().enumerate() {
            dead[i] = count(counter);
        }
        dead[DEAD_REASONS as usize] = count(&control.dropped);
        ActorStats {
            dead,
            mutes: count(&control.mutes),
            launch_refusals: count(&control.launch_refusals),
            restarts: count(&control.restarts),
            late: count(&self.side.late),
        }
    }
    /// Why actors failed, as [`ActorSystem::failures`](crate::ActorSystem::failures).
    pub fn failures(&self) -> (Vec<Failure>, u64) {
        self.failures.of(self.tables.control.address())
    }

    /// Subscribes to dead letters, as [`ActorSystem::dead_letters`](crate::ActorSystem::dead_letters).
    pub fn dead_letters(&self, most: usize) -> DeadLetters {
        self.side.dead_letters.add(most)
    }
    /// Monitors an actor, as [`ActorSystem::monitor`](crate::ActorSystem::monitor).
    pub fn monitor(&mut self, actor: ActorId) -> Monitor {
        let table = self.table();
        let know = |id| table.note_for(id, KNOWN);
        self.side.monitor_from_host(actor, know)
    }
    /// Supervises members, as [`ActorSystem::supervise`](crate::ActorSystem::supervise).
    ///
    /// # Errors
    /// As there.
    pub fn supervise(
        &mut self,
        supervision: Supervision,
        members: &[Member],
    ) -> Result<Group, ActorError> {
        let table = self.table();
        let know = |id| table.note_for(id, KNOWN | SUPERVISED);
        let group = self.side.supervise(supervision, members, know);
        group.map_err(ActorError::not_supervised)
    }
    /// The state of a group.
    ///
    /// # Errors
    /// [`ActorError::NoGroup`].
    pub fn group(&self, group: Group) -> Result<GroupStats, ActorError> {
        self.side.group(group).ok_or(ActorError::NoGroup { group })
    }
    /// Sends an actor a message after a virtual time.
    ///
    /// # Errors
    /// [`ActorError::Gone`].
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`] words.
    pub fn after(
        &mut self,
        to: ActorId,
        time: Duration,
        tag: u8,
        words: &[u64],
    ) -> Result<TimerId, ActorError> {
        let message = Message::new(ActorId::NONE, tag, words, MAX_ASK_WORDS);
        let table = self.table();
        let know = |id| table.note_for(id, KNOWN);
        match self.side.timer(to, time, false, message, know) {
            TimerId::NONE => Err(ActorError::Gone { actor: to }),
            timer => Ok(timer),
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.sides.remove(self.tables.side);
        self.failures.forget(self.tables.control.address());
    }
}
