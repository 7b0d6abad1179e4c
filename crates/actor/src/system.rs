//! A system of actors, as the host sees it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use everwarp_contract::actor::{
    ACTOR_EVENTS, ACTOR_FAULT_CELLS, ACTOR_FAULT_KEEPS, ACTOR_FAULT_PANIC, ACTOR_FAULT_SENDS,
    ACTOR_SHARD_STRIDE, ACTOR_SHARDS, MAIL_CELL_BITS, MAIL_COUNT_MAX, PART_RECORDS, TELL_DELIVERED,
    TELL_FULL,
};
use everwarp_contract::wgpu::WGPU_LINK_SHIFT;
use everwarp_contract::{DevActorControl, DevActors, DevMessage, DevPtr, DevType, Layout};
use everwarp_runtime::{Buffer, DevNone, Engine, EngineKind, Error, Instance, Pending, turn_name};

use crate::asked::Records;
use crate::columns::PART;
use crate::device::DeviceHandler;
use crate::error::{ActorError, LongMailbox};
use crate::events::{Desk, Handled, Pump, Reach};
use crate::failures::{Failure, FailureLog};
use crate::far::{DeviceWire, Lent, REGION_OF_EVENTS, REGIONS, Threads};
use crate::id::ActorId;
use crate::mail::Mail;
use crate::mailbox::Signal;
use crate::message::{DeadReason, MAX_WORDS, Message};
use crate::near::{HandedOver, Messages, Stamps, Values, records};
use crate::post::Post;
use crate::program::{ActorProgram, Builtin, Kind};
use crate::side::{Clock, Side, Sides};
use crate::slots::actor_in;
use crate::typed::{MessageType, Value};
use crate::watch::{Shown, SystemParts};

/// The sizes of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActorConfig {
    /// Actors that live at a time.
    pub actors: u32,
    /// Messages that wait at a time, in mailboxes and with muted senders.
    pub messages: u32,
    /// Messages that the host hands over at a time, at most; on a GPU half of them, because it writes the next ones meanwhile, and no more
    /// than a quarter of `messages`. They take 64 bytes each of memory that both reach.
    pub host_messages: u32,
    /// Asks of the host that wait at a time.
    pub asks: u32,
    /// How long the host waits for room in a mailbox, and for a reply.
    pub patience: Duration,
}

impl Default for ActorConfig {
    fn default() -> Self {
        Self {
            actors: 1 << 16,
            messages: 1 << 18,
            host_messages: 1 << 17,
            asks: 1 << 10,
            patience: Duration::from_secs(10),
        }
    }
}

/// A message from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tell {
    to: ActorId,
    pub(crate) head: u32,
    pub(crate) words: [u64; MAX_WORDS],
}

impl Tell {
    /// A message to an actor.
    ///
    /// # Panics
    /// There are more than [`MAX_WORDS`] words.
    pub fn new(to: ActorId, tag: u8, words: &[u64]) -> Self {
        let mut all = [0; MAX_WORDS];
        let head = Message::head_of(tag, words.len(), MAX_WORDS);
        all[..words.len()].copy_from_slice(words);
        Self {
            to,
            head,
            words: all,
        }
    }
    /// The words of its record.
    pub(crate) fn words(&self) -> [u64; RECORD] {
        let record = self.record();
        let bytes = record.bytes();
        std::array::from_fn(|i| {
            let word = bytes[8 * i..].first_chunk().expect("eight bytes");
            u64::from_ne_bytes(*word)
        })
    }
    fn record(&self) -> DevMessage {
        DevMessage {
            head: self.head,
            words: self.words,
            to: self.to.bits(),
            ..DevMessage::ZERO
        }
    }
}

impl Messages for &[Tell] {
    fn count(&self) -> usize {
        self.len()
    }
    fn to(&self, number: usize) -> ActorId {
        self[number].to
    }
    fn heads(&self, some: Range<usize>) -> Values<impl Fn(usize) -> u64> {
        let head = |number: usize| u64::from(self[number].head);
        Values::of(some, head)
    }
    fn words(&self, word: usize, some: Range<usize>) -> Values<impl Fn(usize) -> u64> {
        Values::of(some, move |number| self[number].words[word])
    }
}

/// The counters of a system in which nothing moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActorStats {
    /// Dead letters by reason, in the order of [`DeadReason::ALL`].
    pub dead: [u64; 5],
    /// How often a sender was muted.
    pub mutes: u64,
    /// How often an actor was to be launched and there was no slot.
    pub launch_refusals: u64,
    /// How often an actor was restarted.
    pub restarts: u64,
    /// Replies that came after the deadline of their ask, and reached no actor.
    pub late: u64,
}

impl ActorStats {
    /// Dead letters with this reason.
    pub fn dead(&self, reason: DeadReason) -> u64 {
        DeadReason::ALL
            .into_iter()
            .zip(self.dead)
            .filter(|(r, _)| *r == reason)
            .map(|(_, n)| n)
            .sum()
    }
}

/// What the host writes to and reads from; one thread at a time.
#[derive(Debug)]
pub(crate) struct Port {
    /// The submission that ends when no turn is left.
    anchor: Option<Pending>,
    /// Asks sent so far.
    pub(crate) asked: u64,
    pub(crate) stamps: Stamps,
}

/// A system of actors on an engine. If it is dropped, its actors end.
#[derive(Debug)]
pub struct ActorSystem {
    pub(crate) engine: Engine,
    pub(crate) instance: Arc<Instance>,
    pub(crate) config: ActorConfig,
    /// The names of the kinds, and how many messages their handlers send.
    kinds: Vec<(String, u16)>,
    /// Which of them are for actors of the host.
    host_kinds: Vec<bool>,
    /// Messages with names.
    messages: Vec<MessageType>,
    failures: Arc<FailureLog>,
    /// The handlers of modules for GPUs, by kind.
    device: Vec<Option<Arc<DeviceHandler>>>,
    /// Where there are services: what is kept apart from the slots, and the tables.
    pub(crate) local: Option<Local>,
    pub(crate) program: String,
    state_bytes: u32,
    slots: Arc<Buffer<u64>>,
    states: Arc<Buffer<u64>>,
    pub(crate) control: Arc<Buffer<u64>>,
    pub(crate) tells: Arc<Buffer<u64>>,
    pub(crate) replies: Arc<Buffer<u64>>,
    pub(crate) records: Arc<Mutex<Records>>,
    ids: Arc<Buffer<u64>>,
    /// Shows the system to other programs.
    shown: Shown,
    /// Memory that only tasks touch once they run.
    _kept: (Buffer<u64>, Buffer<u64>, Buffer<u64>, Buffer<u8>),
    pub(crate) port: Arc<Mutex<Port>>,
}

/// What a system on the CPU engine has in this process.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) side: Arc<Side>,
    pub(crate) post: Post,
    sides: Arc<Sides>,
    /// Its number among them.
    number: u64,
    pub(crate) tables: DevActors,
    /// On a GPU.
    pub(crate) pump: Option<Pump>,
}

/// Messages of the host that one task of the CPU engine delivers at least, if there are as many.
pub(crate) const TELLS_OF_TASK: usize = 32;

/// 64-bit words of a message, and of an actor.
pub(crate) const RECORD: usize = size_of::<DevMessage>() / 8;

pub(crate) fn to_words<T: Layout>(value: &T) -> Vec<u64> {
    let bytes = value.bytes().chunks_exact(8);
    bytes
        .map(|b| u64::from_ne_bytes(b.try_into().expect("eight bytes")))
        .collect()
}
pub(crate) fn from_words<T: Layout>(words: &[u64]) -> T {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    T::from_bytes(&bytes[..size_of::<T>()])
}

impl ActorSystem {
    /// Starts a system of a program without parameters.
    ///
    /// # Errors
    /// A kind that the engine cannot run; the engine does not hold the program, memory is short, or a limit cannot work.
    pub fn start(
        engine: &Engine,
        program: &ActorProgram,
        config: ActorConfig,
    ) -> Result<Self, ActorError> {
        // SAFETY: there are no parameters, so nothing that they point to.
        unsafe { Self::start_with(engine, program, &DevNone::NEW, config) }
    }

    /// Starts a system.
    ///
    /// # Safety
    /// - The memory that the parameters point to is as the program's documentation asks, until the system's actors have
    ///   ended.
    ///
    /// # Errors
    /// As [`start`](Self::start), or the program takes other parameters.
    pub unsafe fn start_with<P: Layout>(
        engine: &Engine,
        program: &ActorProgram,
        params: &P,
        config: ActorConfig,
    ) -> Result<Self, ActorError> {
        if P::NAME != program.params.name {
            return Err(Error::WrongParams {
                program: program.name.to_string(),
                expected: program.params.name.to_string(),
                given: P::NAME.to_owned(),
            }
            .into());
        }
        let refused = match engine.kind() {
            EngineKind::Cpu => None,
            EngineKind::Cuda => program.not_on_cuda(),
            EngineKind::Wgpu => program.kinds.iter().find_map(Kind::needs_cpu),
        };
        if let Some((kind, why)) = refused {
            return Err(ActorError::KindOnCpuOnly { kind, why });
        }
        let on_wgpu = engine.kind() == EngineKind::Wgpu;
        if on_wgpu && program.serves() {
            return Err(ActorError::NotOnEngine {
                engine: engine.kind(),
                what: "programs with kinds that say .services()".to_owned(),
            });
        }
        check(engine, &config)?;
        let kinds = &program.kinds;
        let on_cpu = engine.kind() == EngineKind::Cpu;
        let state_bytes = kinds.iter().map(|kind| kind.state_room(on_cpu)).max();
        let state_bytes = state_bytes.unwrap_or(0).max(16);
        // A GPU has a second state for each slot, for what atomic kinds had before the message.
        let remembers = engine.kind() != EngineKind::Cpu && kinds.iter().any(|k| k.atomic);
        let states_of_slot = 1 + usize::from(remembers);
        let actors = config.actors as usize;
        let slots = Arc::new(engine.buffer(actors * RECORD)?);
        let cells = engine.buffer(config.messages as usize * RECORD)?;
        let states = Arc::new(engine.buffer(states_of_slot * actors * state_bytes as usize / 8)?);
        let shards = match on_wgpu {
            true => engine.buffer_from(&crate::slots::free_numbers(&config))?,
            false => engine.buffer((2 * ACTOR_SHARDS * ACTOR_SHARD_STRIDE) as usize)?,
        };
        let control = Arc::new(engine.buffer(size_of::<DevActorControl>() / 8)?);
        // Both sides reach these without copies, if the engine has memory for that.
        let tells = Arc::new(engine.near_buffer(records(config.host_messages) * RECORD)?);
        let replies = Arc::new(engine.near_buffer(config.asks as usize * RECORD)?);
        let ids = Arc::new(engine.buffer(config.host_messages.max(2) as usize)?);
        let user = engine.buffer_from(&to_words(params))?;
        let bounds = kinds.iter().map(Kind::room_for_messages);
        let bounds: Vec<u8> = bounds.flat_map(u16::to_ne_bytes).collect();
        let bounds = engine.buffer_from(&bounds)?;
        let at = |buffer: &Buffer<u64>| buffer.ptr().address();
        let side = match on_cpu {
            true => Side::new,
            false => Side::on_gpu,
        };
        let local =
            (on_cpu || program.serves()).then(|| Arc::new(side(Clock::Real(Instant::now()))));
        local.iter().for_each(|side| side.payloads.run_on(engine));
        let ring = match on_cpu || !program.serves() {
            true => None,
            false => Some(engine.buffer(ACTOR_EVENTS as usize * RECORD)?),
        };
        let parts = match ring.is_some() {
            true => {
                let regions = if program.lends() { REGIONS } else { 1 };
                let records = regions as usize * PART_RECORDS as usize;
                Some(Arc::new(engine.near_buffer(records * RECORD)?))
            }
            false => None,
        };
        let number = local.as_ref().map_or(0, |side| program.sides().add(side));
        let tables = DevActors {
            slots: DevPtr::new(at(&slots)),
            cells: DevPtr::new(at(&cells)),
            states: DevPtr::new(at(&states)),
            shards: shards.ptr(),
            control: DevPtr::new(at(&control)),
            tells: DevPtr::new(at(&tells)),
            replies: DevPtr::new(at(&replies)),
            ids: ids.ptr(),
            user: user.ptr(),
            slot_limit: config.actors,
            cell_limit: config.messages,
            state_bytes,
            kinds: kinds.len() as u32,
            bounds: DevPtr::new(bounds.ptr().address()),
            side: number,
            events: DevPtr::new(ring.as_ref().map_or(0, at)),
            parts: DevPtr::new(parts.as_deref().map_or(0, at)),
            hole0: 0,
        };
        // SAFETY: all buffers are kept with the instance; the caller vouches for the program's own parameters.
        let instance = unsafe { engine.instance(program.program(), &tables) };
        let instance = Arc::new(instance.inspect_err(|_| program.sides().remove(number))?);
        let port = Arc::new(Mutex::new(Port {
            anchor: None,
            asked: 0,
            stamps: Stamps::new(config.actors),
        }));
        let local = local.map(|side| {
            let handled = Arc::<Handled>::default();
            let function = kinds.len() as u32 + Builtin::Ring as u32;
            let wakes = ring.as_ref().map(|_| (function, handled.clone()));
            let post = Post::new(engine, &instance, &port, wakes);
            post.start_with(&side);
            let sides = program.sides().clone();
            let pump = ring.zip(parts).map(|(ring, parts)| {
                let reach = Reach {
                    engine: engine.clone(),
                    instance: instance.clone(),
                    builtins: kinds.len() as u32,
                    tells: tells.clone(),
                    ids: ids.clone(),
                    handled,
                };
                let hosts = program.lends().then(|| {
                    let lent = Lent {
                        kinds: program.lent(),
                        sides: sides.clone(),
                        side: number,
                        user: to_words(params),
                    };
                    Threads::new(reach.clone(), parts.clone(), lent, at(&control))
                });
                let wire = DeviceWire {
                    reach: reach.clone(),
                    parts,
                    region: REGION_OF_EVENTS,
                    wish: 0,
                };
                let desk = Desk::new(side.clone(), program.failures().clone(), at(&control));
                Pump::start(reach, ring, desk, port.clone(), hosts, wire)
            });
            Local {
                side,
                post,
                sides,
                number,
                tables,
                pump,
            }
        });
        let parts = SystemParts {
            engine: engine.clone(),
            instance: instance.clone(),
            slots: slots.clone(),
            states: states.clone(),
            control: control.clone(),
            ids: ids.clone(),
            port: port.clone(),
            state_bytes,
        };
        let system = Self {
            shown: Shown::new(program, parts),
            engine: engine.clone(),
            instance,
            config,
            kinds: kinds
                .iter()
                .map(|k| (k.name.to_string(), k.sends))
                .collect(),
            host_kinds: kinds.iter().map(|k| k.is_host).collect(),
            messages: program.messages().cloned().collect(),
            failures: program.failures().clone(),
            device: kinds.iter().map(|kind| kind.device().cloned()).collect(),
            local,
            program: program.name.to_string(),
            state_bytes,
            slots,
            states,
            control,
            tells,
            replies,
            records: Arc::new(Mutex::new(Records::new(config.asks))),
            ids,
            _kept: (cells, shards, user, bounds),
            port,
        };
        system.open(&mut system.port())?;
        Ok(system)
    }

    pub(crate) fn is_host_kind(&self, kind: u32) -> bool {
        self.host_kinds.get(kind as usize) == Some(&true)
    }
    /// Refuses a handler that waits for other actors, which could not have a turn meanwhile.
    pub(crate) fn may_wait(call: &'static str) -> Result<(), ActorError> {
        match crate::context::handles() {
            true => Err(ActorError::InHandler { call }),
            false => Ok(()),
        }
    }
    /// The port. No panic leaves it in a state that is wrong.
    pub(crate) fn port(&self) -> std::sync::MutexGuard<'_, Port> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn function(&self, builtin: Builtin) -> u32 {
        self.kinds.len() as u32 + builtin as u32
    }
    fn word(&self, field: usize) -> Result<u64, ActorError> {
        let mut word = [0];
        self.control.read_at(field / 8, &mut word)?;
        Ok(word[0])
    }
    /// Waits until a control word satisfies a condition, which takes as long as a task that is submitted.
    fn await_word(&self, field: usize, holds: impl Fn(u64) -> bool) -> Result<(), ActorError> {
        const LOOKS: Duration = Duration::from_millis(10);
        let begin = Instant::now();
        let mut looks = begin + LOOKS;
        while !holds(self.word(field)?) {
            let now = Instant::now();
            if now >= looks {
                // The engine may have failed meanwhile. Its counters take longer to copy than a task takes.
                self.engine.stats()?;
                looks = now + LOOKS;
            }
            if now - begin > self.config.patience {
                return Err(Error::Timeout {
                    after: self.config.patience,
                }
                .into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }
    /// Opens the group that counts turns.
    fn open(&self, port: &mut Port) -> Result<(), ActorError> {
        const NONE: u64 = u64::MAX;
        let world = std::mem::offset_of!(DevActorControl, world);
        self.control.write_at(world / 8, &[NONE])?;
        port.anchor = Some(
            self.engine
                .submit(self.instance.task(self.function(Builtin::Anchor)))?,
        );
        self.await_word(world, |word| word != NONE)
    }
    /// Replaces the fault of a handler by an error that says what to do.
    pub(crate) fn explain(&self, error: Error) -> ActorError {
        let (function, detail) = match &error {
            Error::Fault {
                function, detail, ..
            } => (&**function, *detail),
            // Another thread has got the fault.
            Error::Lost { .. } => match self.engine.fault() {
                Some(fault) => fault,
                None => return error.into(),
            },
            _ => return error.into(),
        };
        let function = function.rsplit('/').next().unwrap_or_default();
        // What a closure of the host has done has the number of its kind.
        let (detail, kind) = match function {
            "host_return" => (detail as u32, self.kinds.get((detail >> 32) as usize)),
            _ => {
                let mut kinds = self.kinds.iter();
                let kind = kinds.find(|(name, _)| turn_name(name) == function);
                (u32::try_from(detail).unwrap_or(0), kind)
            }
        };
        if detail == ACTOR_FAULT_CELLS {
            return self.out_of_messages().unwrap_or_else(|| error.into());
        }
        if detail == ACTOR_FAULT_PANIC {
            return ActorError::HostPanicked;
        }
        match kind {
            Some((kind, sends)) if detail == ACTOR_FAULT_SENDS => ActorError::TooManySends {
                kind: kind.clone(),
                sends: *sends,
            },
            Some((kind, _)) if detail == ACTOR_FAULT_KEEPS => {
                ActorError::KeepsUndeclared { kind: kind.clone() }
            }
            _ => error.into(),
        }
    }
    fn out_of_messages(&self) -> Option<ActorError> {
        let slots = self.slots.read().ok()?;
        let mut all: Vec<LongMailbox> = (0..)
            .zip(slots.chunks_exact(RECORD))
            .map(|(number, slot)| {
                let actor = actor_in(self.engine.kind(), slot);
                LongMailbox {
                    actor: ActorId::new(number, actor.generation),
                    kind: self.kinds[actor.kind as usize].0.clone(),
                    waiting: Mail(actor.mail).count(),
                }
            })
            .filter(|mailbox| mailbox.waiting != 0)
            .collect();
        all.sort_by_key(|mailbox| std::cmp::Reverse(mailbox.waiting));
        all.truncate(5);
        let names = all
            .iter()
            .map(|m| format!("{} `{}` {:?}", m.waiting, m.kind, m.actor));
        let longest = format!("most wait for {}", names.collect::<Vec<_>>().join(", "));
        Some(ActorError::OutOfMessages {
            limit: self.config.messages,
            mailboxes: all,
            longest,
        })
    }
    pub(crate) fn wait(&self, mut pending: Pending) -> Result<u64, ActorError> {
        Ok(pending.wait().map_err(|error| self.explain(error))?.value)
    }
    /// Submits a task for each range of records, and waits. Returns the sum of what they report.
    pub(crate) fn run_ranges(
        &self,
        builtin: Builtin,
        tag: u8,
        ranges: impl Iterator<Item = (u32, u32)>,
    ) -> Result<u64, ActorError> {
        let mut ranges = ranges.peekable();
        match ranges.peek() {
            Some(_) => self.wait(self.submit_ranges(builtin, tag, ranges)?),
            None => Ok(0),
        }
    }
    /// Submits a task for each range of records. There must be one at least.
    fn submit_ranges(
        &self,
        builtin: Builtin,
        tag: u8,
        ranges: impl Iterator<Item = (u32, u32)>,
    ) -> Result<Pending, ActorError> {
        let function = self.function(builtin);
        let task = |(first, count)| {
            self.instance
                .task(function)
                .tag(tag)
                .args(first, count)
                .build()
        };
        let tasks: Vec<_> = ranges.map(task).collect();
        Ok(self.engine.submit_batch(&tasks)?)
    }

    /// Launches an actor with an empty mailbox and a state of zeros.
    ///
    /// # Errors
    /// [`ActorError::NoKind`], [`ActorError::TooManyActors`], or the engine failed.
    pub fn launch(&self, kind: u32) -> Result<ActorId, ActorError> {
        Ok(self.launch_all(kind, 1)?[0])
    }
    /// Launches `count` actors.
    ///
    /// # Errors
    /// As [`launch`](Self::launch). Where there is not room for all, those that were launched live.
    pub fn launch_all(&self, kind: u32, count: usize) -> Result<Vec<ActorId>, ActorError> {
        let all = self.launch_up_to(kind, count)?;
        if all.len() < count {
            return Err(ActorError::TooManyActors {
                limit: self.config.actors,
            });
        }
        Ok(all)
    }
    /// Launches `count` actors, or as many as there is room for.
    ///
    /// # Errors
    /// [`ActorError::NoKind`], or the engine failed.
    pub fn launch_up_to(&self, kind: u32, count: usize) -> Result<Vec<ActorId>, ActorError> {
        if kind as usize >= self.kinds.len() {
            return Err(ActorError::NoKind {
                program: self.program.clone(),
                kinds: self.kinds.len() as u32,
                kind,
            });
        }
        Self::may_wait("ActorSystem::launch")?;
        const EACH: usize = 8;
        let mut all = Vec::with_capacity(count.min(self.config.actors as usize));
        // In one half of the ids are those of the tasks that run, while those in the other one are read.
        let half = self.ids.len() / 2;
        let mut ids = vec![0; count.min(half)];
        let _port = self.port();
        let (mut asked, mut turn, mut refused) = (0, 0, false);
        let mut under_way = None;
        loop {
            let part = if refused { 0 } else { half.min(count - asked) };
            let first = turn % 2 * half;
            let next = match part {
                0 => None,
                _ => {
                    let ranges = (0..part).step_by(EACH);
                    let ranges = ranges.map(|at| ((first + at) as u32, EACH.min(part - at) as u32));
                    Some(self.submit_ranges(Builtin::Launch, kind as u8, ranges)?)
                }
            };
            asked += part;
            turn += 1;
            if let Some((first, part, pending)) = under_way.take() {
                self.wait(pending)?;
                let ids = &mut ids[..part];
                self.ids.read_at(first, ids)?;
                let before = all.len();
                let launched = ids.iter().map(|&id| ActorId::from_bits(id));
                match ids.iter().all(|&id| id != 0) {
                    true => all.extend(launched),
                    false => all.extend(launched.filter(|id| !id.is_none())),
                }
                refused |= all.len() - before < part;
            }
            match next {
                Some(pending) => under_way = Some((first, part, pending)),
                None => return Ok(all),
            }
        }
    }

    /// Sends a message; waits for room in the mailbox.
    ///
    /// # Errors
    /// [`ActorError::Gone`]; [`ActorError::Full`] if there is no room for as long as [`ActorConfig::patience`]; or the
    /// engine failed.
    pub fn tell(&self, to: ActorId, tag: u8, words: &[u64]) -> Result<(), ActorError> {
        self.tell_all(&[Tell::new(to, tag, words)])
    }
    /// Sends a message.
    ///
    /// # Errors
    /// [`ActorError::Full`], and nothing was sent; or as [`tell`](Self::tell).
    pub fn try_tell(&self, to: ActorId, tag: u8, words: &[u64]) -> Result<(), ActorError> {
        Self::may_wait("ActorSystem::try_tell")?;
        let (_, problem) = self.hand_over(&[Tell::new(to, tag, words)])?;
        problem.map_or(Ok(()), Err)
    }
    /// Sends messages; waits for room in mailboxes. Messages to one actor arrive in their order, also those of several
    /// calls.
    ///
    /// # Errors
    /// [`ActorError::Gone`] or [`ActorError::Full`] as in [`tell`](Self::tell), for the first such message. Messages to
    /// other actors are sent all the same; those to the same full actor that come later are not.
    pub fn tell_all(&self, tells: &[Tell]) -> Result<(), ActorError> {
        Self::may_wait("ActorSystem::tell")?;
        let (full, problem) = self.hand_over(tells)?;
        self.tell_full(full, problem)
    }
    /// Sends messages that found their mailboxes full, in their order, and waits for room. Returns the problem of those that
    /// were handed over with them, if another one than a full mailbox, once all are sent.
    pub(crate) fn tell_full(
        &self,
        full: Vec<Tell>,
        problem: Option<ActorError>,
    ) -> Result<(), ActorError> {
        let mut error = problem.filter(|problem| matches!(problem, ActorError::Gone { .. }));
        // By actor, so that each time as many are tried as a mailbox may have room for.
        let mut places = HashMap::new();
        let mut waiting: VecDeque<(ActorId, VecDeque<Tell>)> = VecDeque::new();
        for tell in full {
            let place = *places.entry(tell.to).or_insert(waiting.len());
            if place == waiting.len() {
                waiting.push_back((tell.to, VecDeque::new()));
            }
            waiting[place].1.push_back(tell);
        }
        const SHORTLY: Duration = Duration::from_micros(20);
        let (mut begin, mut pause) = (Instant::now(), SHORTLY);
        while !waiting.is_empty() {
            std::thread::sleep(pause);
            let (mut some, mut tried) = (Vec::new(), Vec::new());
            while some.len() < self.config.host_messages as usize
                && let Some((to, mut tells)) = waiting.pop_front()
            {
                let most = tells.len().min(MAIL_COUNT_MAX as usize);
                some.extend(tells.drain(..most));
                tried.push((to, tells));
            }
            let (full, problem) = self.hand_over(&some)?;
            match problem {
                Some(gone @ ActorError::Gone { .. }) => error = error.or(Some(gone)),
                Some(full) if begin.elapsed() > self.config.patience => return Err(full),
                _ => {}
            }
            pause = (2 * pause).min(Duration::from_millis(2));
            if full.len() < some.len() {
                (begin, pause) = (Instant::now(), SHORTLY);
            }
            let places: HashMap<_, _> = (tried.iter().enumerate())
                .map(|(place, (to, _))| (*to, place))
                .collect();
            for tell in full.into_iter().rev() {
                let place = places[&tell.to];
                tried[place].1.push_front(tell);
            }
            waiting.extend(tried.into_iter().filter(|(_, tells)| !tells.is_empty()));
        }
        error.map_or(Ok(()), Err)
    }
    /// Hands messages over. Returns those that do not fit, and the first problem.
    fn hand_over(&self, tells: &[Tell]) -> Result<(Vec<Tell>, Option<ActorError>), ActorError> {
        if let Some(memory) = self.tells.near() {
            let mut port = self.port();
            let HandedOver { full, problem, .. } =
                self.hand_over_near(&mut port, memory, &tells)?;
            let full = full.into_iter().map(|number| tells[number as usize]);
            return Ok((full.collect(), problem));
        }
        let (mut full, mut problem) = (Vec::new(), None);
        // Actors whose mailbox is full: their later messages stay behind the earlier ones.
        let mut behind = HashSet::new();
        let (mut order, mut records) = (Vec::new(), Vec::new());
        let _port = self.port();
        for part in tells.chunks((self.config.host_messages as usize).min(PART)) {
            order.clear();
            order.extend((0..).zip(part).map(|(place, tell)| (tell.to, place as u32)));
            if !behind.is_empty() {
                let stays = |tell: &&Tell| behind.contains(&tell.to);
                full.extend(part.iter().filter(stays).copied());
                order.retain(|(to, _)| !behind.contains(to));
            }
            // Messages to one actor are one task's work, in their order.
            if !order.is_sorted() {
                order.sort_unstable();
            }
            records.clear();
            let record = |&(_, place): &(ActorId, u32)| part[place as usize].words();
            records.extend(order.iter().flat_map(record));
            self.tells.write_at(0, &records)?;
            if self.run_ranges(Builtin::Tell, 0, self.tell_ranges(&order))? == 0 {
                continue;
            }
            self.tells.read_at(0, &mut records)?;
            for (&(to, place), record) in order.iter().zip(records.chunks_exact(RECORD)) {
                match from_words::<DevMessage>(record).next {
                    TELL_DELIVERED => {}
                    TELL_FULL => {
                        problem.get_or_insert(ActorError::Full { actor: to });
                        behind.insert(to);
                        full.push(part[place as usize]);
                    }
                    _ => problem = Some(ActorError::Gone { actor: to }),
                }
            }
        }
        Ok((full, problem))
    }
    /// The ranges of records that one task each delivers: no actor is in two of them. On a GPU each has one actor, so that
    /// the lanes of a warp have one each.
    fn tell_ranges(&self, order: &[(ActorId, u32)]) -> impl Iterator<Item = (u32, u32)> {
        let least = match self.engine.kind() {
            EngineKind::Cpu => TELLS_OF_TASK,
            _ => 1,
        };
        let mut first = 0;
        std::iter::from_fn(move || {
            let rest = order.get(first..).filter(|rest| !rest.is_empty())?;
            let last = rest.get(least - 1).or(rest.last())?.0;
            let more = rest.get(least..).unwrap_or(&[]);
            // Mostly few: halving the rest would touch memory all over it.
            let count =
                least.min(rest.len()) + more.iter().take_while(|(to, _)| *to == last).count();
            let range = (first as u32, count as u32);
            first += count;
            Some(range)
        })
    }

    /// Sends an ask and waits for its reply, up to [`ActorConfig::patience`].
    ///
    /// # Errors
    /// [`ActorError::NoReply`] with the reason; [`ActorError::Gone`], [`ActorError::Full`],
    /// [`ActorError::Timeout`], [`ActorError::TooManyAsks`]; or the engine failed.
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`](crate::MAX_ASK_WORDS) words.
    pub fn ask(&self, to: ActorId, tag: u8, words: &[u64]) -> Result<Message, ActorError> {
        let ask = || self.ask_within(to, tag, words, self.config.patience);
        self.shown.asked(ask)
    }
    /// Sends an ask and waits for its reply up to a time. A later reply is dropped.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`](crate::MAX_ASK_WORDS) words.
    pub fn ask_within(
        &self,
        to: ActorId,
        tag: u8,
        words: &[u64],
        within: Duration,
    ) -> Result<Message, ActorError> {
        Self::may_wait("ActorSystem::ask")?;
        let begin = Instant::now();
        let mut pause = Duration::from_micros(20);
        loop {
            let left = within.saturating_sub(begin.elapsed());
            match self.ask_once(to, tag, words, left) {
                Err(ActorError::Timeout { .. }) => {
                    return Err(ActorError::Timeout { after: within });
                }
                Err(ActorError::Full { .. }) if begin.elapsed() < within => {
                    std::thread::sleep(pause);
                    pause = (2 * pause).min(Duration::from_millis(2));
                }
                other => return other,
            }
        }
    }
    fn ask_once(
        &self,
        to: ActorId,
        tag: u8,
        content: &[u64],
        within: Duration,
    ) -> Result<Message, ActorError> {
        let mut asked = self.ask_later(to, tag, content)?;
        asked.wait(within, |error| self.explain(error))
    }

    /// Launches an actor of the kind with this name.
    ///
    /// # Errors
    /// [`ActorError::NoKindNamed`], or as [`launch`](Self::launch).
    pub fn launch_named(&self, kind: &str) -> Result<ActorId, ActorError> {
        self.launch(self.kind(kind)?)
    }
    /// The number of the kind with this name.
    ///
    /// # Errors
    /// [`ActorError::NoKindNamed`].
    pub fn kind(&self, name: &str) -> Result<u32, ActorError> {
        let position = self.kinds.iter().position(|(kind, _)| kind == name);
        let number = position.map(|number| number as u32);
        number.ok_or_else(|| ActorError::NoKindNamed {
            program: self.program.clone(),
            name: name.to_owned(),
            known: listed(self.kinds.iter().map(|(kind, _)| &**kind)),
        })
    }
    /// The message with this name.
    ///
    /// # Errors
    /// [`ActorError::NoMessage`].
    pub fn message(&self, name: &str) -> Result<&MessageType, ActorError> {
        let found = self.messages.iter().find(|message| message.name == name);
        found.ok_or_else(|| ActorError::NoMessage {
            program: self.program.clone(),
            name: name.to_owned(),
            known: listed(self.messages.iter().map(|message| &*message.name)),
        })
    }
    /// Sends the message with this name; the values are in the order of its fields.
    ///
    /// # Errors
    /// [`ActorError::NoMessage`], [`ActorError::WrongFields`], or as [`tell`](Self::tell).
    pub fn tell_named(
        &self,
        to: ActorId,
        message: &str,
        values: &[Value],
    ) -> Result<(), ActorError> {
        let message = self.message(message)?;
        self.tell(to, message.tag, &message.words(values)?)
    }
    /// Sends the ask with this name, and waits for its reply.
    ///
    /// # Errors
    /// [`ActorError::NoMessage`], [`ActorError::WrongFields`], or as [`ask`](Self::ask).
    pub fn ask_named(
        &self,
        to: ActorId,
        message: &str,
        values: &[Value],
    ) -> Result<Vec<Value>, ActorError> {
        let message = self.message(message)?;
        let reply = self.ask(to, message.tag, &message.words(values)?)?;
        Ok(message.reply_values(reply.words()))
    }
    /// Why actors failed, the oldest first, for those that gave a reason: traps and spent fuel of WebAssembly handlers,
    /// and [`fail_because`](crate::ActorCx::fail_because). The last 64 are kept; the number is how many there were.
    pub fn failures(&self) -> (Vec<Failure>, u64) {
        if self.engine.kind() == EngineKind::Cpu {
            return self.failures.of(self.control.ptr().address());
        }
        let mut control = vec![0; self.control.len()];
        // Closures of the host run here.
        let (mut all, mut count) = self.failures.of(self.control.ptr().address());
        // Where this fails, other calls say that the engine is lost.
        if self.control.read_into(&mut control).is_ok() {
            let (more, counted) = crate::device::failures(&from_words(&control), &self.device);
            all.extend(more);
            count += counted;
        }
        (all, count)
    }

    fn signal(&self, actors: &[ActorId], signal: Signal) -> Result<u64, ActorError> {
        Self::may_wait("ActorSystem::stop, kill, activate or deactivate")?;
        const EACH: usize = 4;
        let _port = self.port();
        let mut gone = 0;
        for part in actors.chunks(self.ids.len()) {
            let bits: Vec<u64> = part.iter().map(|id| id.bits()).collect();
            self.ids.write_at(0, &bits)?;
            let ranges = (0..part.len()).step_by(EACH);
            let ranges = ranges.map(|first| (first as u32, EACH.min(part.len() - first) as u32));
            gone += self.run_ranges(Builtin::Signal, signal as u8, ranges)?;
        }
        Ok(gone)
    }
    /// Ends actors once they have handled what is in their mailboxes; they accept no more. Returns how many of them did
    /// not live.
    ///
    /// # Errors
    /// The engine failed.
    pub fn stop(&self, actors: &[ActorId]) -> Result<u64, ActorError> {
        self.signal(actors, Signal::Stop)
    }
    /// Ends actors; their messages become dead letters. Returns how many of them did not live.
    ///
    /// # Errors
    /// The engine failed.
    pub fn kill(&self, actors: &[ActorId]) -> Result<u64, ActorError> {
        self.signal(actors, Signal::Kill)
    }
    /// Makes actors keep their messages and handle none. Returns how many of them did not live.
    ///
    /// # Errors
    /// The engine failed.
    pub fn deactivate(&self, actors: &[ActorId]) -> Result<u64, ActorError> {
        self.signal(actors, Signal::Pause)
    }
    /// Makes actors handle messages again. Returns how many of them did not live.
    ///
    /// # Errors
    /// The engine failed.
    pub fn activate(&self, actors: &[ActorId]) -> Result<u64, ActorError> {
        self.signal(actors, Signal::Resume)
    }

    /// Waits until no actor has a turn: all messages are handled, but those of actors that are deactivated, and those that
    /// wait for these. What the host has asked for before, such as news of a stream, comes first. Returns the counters.
    /// Meanwhile the host sends nothing.
    ///
    /// # Errors
    /// The engine failed.
    pub fn settle(&self) -> Result<ActorStats, ActorError> {
        // What is submitted to an engine that has ended says only that.
        self.settled().map_err(|error| match error {
            ActorError::Engine(error) => self.explain(error),
            other => other,
        })
    }

    fn settled(&self) -> Result<ActorStats, ActorError> {
        Self::may_wait("ActorSystem::settle")?;
        self.carry_first()?;
        let pump = self.local.as_ref().and_then(|local| local.pump.as_ref());
        let control = loop {
            let mut port = self.port();
            self.leave(&mut port)?;
            if let Some(anchor) = port.anchor.take() {
                self.wait(anchor)?;
            }
            let mut control = vec![0; self.control.len()];
            self.control.read_into(&mut control)?;
            let control = from_words::<DevActorControl>(&control);
            self.open(&mut port)?;
            let Some(pump) = pump else { break control };
            let (before, (wanted, done)) = (pump.answers(), pump.wishes());
            drop(port);
            // Answers to asks with deadlines, news of ends, and what follows from closures go through the host, and actors
            // handle them then.
            pump.reaches(control.events_begun, wanted);
            if pump.answers() == before && done == wanted {
                break control;
            }
        };
        let [gone, ended, no_reply, failed] = control.dead;
        let late = |local: &Local| local.side.late.load(Ordering::Relaxed);
        Ok(ActorStats {
            dead: [gone, ended, no_reply, failed, control.dropped],
            mutes: control.mutes,
            launch_refusals: control.launch_refusals,
            restarts: control.restarts,
            late: self.local.as_ref().map_or(0, late),
        })
    }
    /// Waits until what is to be done to actors of a GPU so far has been taken by the thread that does it, which holds the
    /// port until it is done.
    fn carry_first(&self) -> Result<(), ActorError> {
        let local = self.local.as_ref().filter(|local| local.pump.is_some());
        let Some(local) = local else { return Ok(()) };
        let (_, asked) = local.side.ops_so_far();
        while local.side.ops_so_far().0 < asked {
            local.post.carry(&local.side)?;
            std::thread::yield_now();
        }
        Ok(())
    }
    /// Lets the group that counts turns end once there is none.
    fn leave(&self, port: &mut Port) -> Result<(), ActorError> {
        let asked = port.asked;
        self.await_word(std::mem::offset_of!(DevActorControl, asked), |word| {
            word >= asked
        })?;
        let leave = self.instance.task(self.function(Builtin::Leave));
        self.wait(self.engine.submit(leave)?).map(drop)
    }

    /// The state of an actor, for a system that has settled. While the actor runs, it is a mixture of old and new.
    ///
    /// # Errors
    /// [`ActorError::Gone`] for an id of another system; or the copy fails.
    pub fn state<S: Layout>(&self, actor: ActorId) -> Result<S, ActorError> {
        Ok(self.states::<S>(&[actor])?.remove(0))
    }
    /// The states of actors; as [`state`](Self::state).
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub fn states<S: Layout>(&self, actors: &[ActorId]) -> Result<Vec<S>, ActorError> {
        let each = self.state_bytes as usize / 8;
        let Some(last) = actors.iter().map(|id| id.slot() as usize).max() else {
            return Ok(Vec::new());
        };
        let strange = actors.iter().find(|id| id.slot() >= self.config.actors);
        if let Some(&actor) = strange {
            return Err(ActorError::Gone { actor });
        }
        let first = actors
            .iter()
            .map(|id| id.slot() as usize)
            .min()
            .unwrap_or(0);
        let mut all = vec![0; (last + 1 - first) * each];
        self.states.read_at(first * each, &mut all)?;
        let state = |id: &ActorId| from_words(&all[(id.slot() as usize - first) * each..][..each]);
        Ok(actors.iter().map(state).collect())
    }
}

impl Drop for ActorSystem {
    fn drop(&mut self) {
        self.shown.close();
        let has_groups = |local: &Local| local.pump.is_some() && local.side.has_groups();
        let holds = self.local.as_ref().is_some_and(has_groups);
        if let Some(local) = &self.local {
            local.sides.remove(local.number);
        }
        // An engine that has ended or is lost has nothing left to end.
        let closed = self.close();
        let lends = |local: &Local| local.pump.as_ref().is_some_and(Pump::lends);
        // A closure that drops its system cannot wait for itself.
        let waits = closed.is_ok() && !crate::context::handles();
        if waits && (holds || self.local.as_ref().is_some_and(lends)) {
            // Actors that the host was lent, or that are held for it, go on before the threads end that see to that.
            let anchor = self.port().anchor.take();
            if let Some(anchor) = anchor {
                let _ = self.wait(anchor);
            }
        }
        if let Some(pump) = self.local.as_ref().and_then(|local| local.pump.as_ref()) {
            pump.stop();
        }
        self.failures.forget(self.control.ptr().address());
    }
}

impl ActorSystem {
    /// Ends all actors. Their memory is kept until their last turns are over.
    fn close(&self) -> Result<(), ActorError> {
        let closing = std::mem::offset_of!(DevActorControl, closing);
        self.control.write_at(closing / 8, &[1])?;
        let mut port = self.port();
        const EACH: u32 = 64;
        let used = self.word(std::mem::offset_of!(DevActorControl, fresh_cells))? >> 32;
        let used = self.config.actors.min(used as u32);
        let ranges = (0..used).step_by(EACH as usize);
        let ranges: Vec<_> = ranges
            .map(|first| (first, EACH.min(used - first)))
            .collect();
        for part in ranges.chunks(self.engine.pools().arena_tasks as usize / 2) {
            self.run_ranges(Builtin::Close, 0, part.iter().copied())?;
        }
        self.leave(&mut port)
    }
}

/// Names in a sentence, each once.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    names.sort();
    names.dedup();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

fn check(engine: &Engine, config: &ActorConfig) -> Result<(), ActorError> {
    let tasks = engine.pools().tasks;
    let limit = 1 << MAIL_CELL_BITS;
    let (messages, rule) = match engine.kind() {
        EngineKind::Wgpu => ((1 << WGPU_LINK_SHIFT) - 1, "1 to 2^26 - 1"),
        _ => (limit - 1, "1 to 2^28 - 1"),
    };
    let rules = [
        (
            "ActorConfig::actors",
            config.actors,
            limit.min(tasks),
            "1 to the engine's Pools::tasks",
        ),
        ("ActorConfig::messages", config.messages, messages, rule),
        (
            "ActorConfig::host_messages",
            config.host_messages,
            engine.pools().arena_tasks,
            "1 to the engine's Pools::arena_tasks",
        ),
        (
            "ActorConfig::asks",
            config.asks,
            engine.pools().tokens / 2,
            "1 to half of the engine's Pools::tokens",
        ),
    ];
    for (what, value, most, rule) in rules {
        if value == 0 || value > most {
            return Err(ActorError::Config {
                what,
                rule: format!("{rule} ({most})"),
                value: value.into(),
            });
        }
    }
    Ok(())
}
