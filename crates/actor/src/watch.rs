//! What a system of actors shows to other programs of the same user, and the orders that it takes from them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everwarp_contract::actor::{
    ACTOR_GENERATION_MAX, MAIL_BUSY, MAIL_KILL, MAIL_LIVE, MAIL_MUTED, MAIL_PAUSED, MAIL_STOP,
};
use everwarp_contract::{DevActor, DevActorControl};
use everwarp_runtime::{Buffer, Engine, Instance, turn_name};
use everwarp_telemetry::registry::{Order, Source, View};
use everwarp_telemetry::view::{ActorRow, Health, KindView, SystemView};
use everwarp_telemetry::{Histogram, Level, Registration, clock, level, register};

use crate::id::ActorId;
use crate::mail::Mail;
use crate::mailbox::Signal;
use crate::message::DeadReason;
use crate::program::{ActorProgram, Builtin};
use crate::slots::actor_in;
use crate::system::{Port, RECORD, from_words};

/// Slots that are read at a time.
const PART: usize = 4096;

/// A kind, as far as it is shown.
#[derive(Debug)]
struct ShownKind {
    name: String,
    bound: u32,
}

/// The parts of a system that are shown.
#[derive(Debug)]
pub(crate) struct SystemParts {
    pub(crate) engine: Engine,
    pub(crate) instance: Arc<Instance>,
    pub(crate) slots: Arc<Buffer<u64>>,
    pub(crate) states: Arc<Buffer<u64>>,
    pub(crate) control: Arc<Buffer<u64>>,
    pub(crate) ids: Arc<Buffer<u64>>,
    pub(crate) port: Arc<Mutex<Port>>,
    pub(crate) state_bytes: u32,
}

#[derive(Debug)]
struct Watched {
    parts: SystemParts,
    program: String,
    kinds: Vec<ShownKind>,
    /// How long the host's asks took.
    asks: Histogram,
    /// Set when the system ends; it takes no orders from then on.
    closed: Mutex<bool>,
}

/// Shows a system until it is dropped.
#[derive(Debug)]
pub(crate) struct Shown {
    watched: Arc<Watched>,
    _registration: Registration,
}

impl Shown {
    pub(crate) fn new(program: &ActorProgram, parts: SystemParts) -> Self {
        let kind = |kind: &crate::program::Kind| ShownKind {
            name: kind.name.to_string(),
            bound: kind.bound.into(),
        };
        let watched = Arc::new(Watched {
            parts,
            program: program.name.to_string(),
            kinds: program.kinds.iter().map(kind).collect(),
            asks: Histogram::default(),
            closed: Mutex::new(false),
        });
        let source: Arc<dyn Source> = Arc::clone(&watched) as _;
        let _registration = register(Arc::downgrade(&source));
        Self {
            watched,
            _registration,
        }
    }

    /// The system ends. Returns when no order is under way.
    pub(crate) fn close(&self) {
        *self.watched.closed() = true;
    }

    /// Measures how long an ask of the host takes.
    pub(crate) fn asked<T>(&self, ask: impl FnOnce() -> T) -> T {
        if level() == Level::Off {
            return ask();
        }
        let begin = clock::now();
        let reply = ask();
        self.watched.asks.record_shared(clock::now() - begin, 1);
        reply
    }
}

fn id_of(text: &str) -> Option<ActorId> {
    let (slot, generation) = text.split_once('.')?;
    let generation: u32 = generation.parse().ok()?;
    (generation <= ACTOR_GENERATION_MAX)
        .then(|| slot.parse().ok().map(|slot| ActorId::new(slot, generation)))?
}

fn named(id: ActorId) -> String {
    format!("{}.{}", id.slot(), id.generation())
}

fn state(mail: Mail) -> &'static str {
    match () {
        () if mail.has(MAIL_KILL) => "ending",
        () if mail.has(MAIL_STOP) => "stopping",
        () if mail.has(MAIL_PAUSED) => "deactivated",
        () if mail.has(MAIL_MUTED) => "muted",
        () if mail.has(MAIL_BUSY) => "busy",
        () => "idle",
    }
}

impl Watched {
    fn closed(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn control(&self) -> Result<DevActorControl, String> {
        let mut words = vec![0; self.parts.control.len()];
        let read = self.parts.control.read_into(&mut words);
        read.map_err(|error| error.to_string())?;
        Ok(from_words(&words))
    }

    /// Calls `each` with the actors that live.
    fn each(&self, used: usize, mut each: impl FnMut(u32, &DevActor)) -> Result<(), String> {
        let used = used.min(self.parts.slots.len() / RECORD);
        let mut words = vec![0; PART.min(used) * RECORD];
        for first in (0..used).step_by(PART) {
            let count = PART.min(used - first);
            let part = &mut words[..count * RECORD];
            let read = self.parts.slots.read_at(first * RECORD, part);
            read.map_err(|error| error.to_string())?;
            for (number, words) in (first as u32..).zip(part.chunks_exact(RECORD)) {
                let actor = actor_in(self.parts.engine.kind(), words);
                if Mail(actor.mail).has(MAIL_LIVE) {
                    each(number, &actor);
                }
            }
        }
        Ok(())
    }

    fn row(&self, number: u32, actor: &DevActor) -> ActorRow {
        let (mail, parent) = (Mail(actor.mail), ActorId::from_bits(actor.parent));
        ActorRow {
            id: named(ActorId::new(number, actor.generation)),
            kind: self
                .kinds
                .get(usize::from(actor.kind))
                .map(|kind| kind.name.clone())
                .unwrap_or_default(),
            state: state(mail).to_owned(),
            waiting: mail.count(),
            handled: actor.handled,
            parent: (!parent.is_none()).then(|| named(parent)),
            content: None,
        }
    }

    fn shown(&self, most: usize) -> Result<SystemView, String> {
        let control = self.control()?;
        let mut kinds: Vec<KindView> = self.kinds.iter().map(|kind| self.kind(kind)).collect();
        // The actors with the most messages handled, the last first.
        let mut hottest = std::collections::BinaryHeap::new();
        let mut live = 0;
        self.each(control.fresh_slots as usize, |number, actor| {
            let mail = Mail(actor.mail);
            live += 1;
            if let Some(kind) = kinds.get_mut(usize::from(actor.kind)) {
                kind.live += 1;
                kind.busy += u32::from(mail.has(MAIL_BUSY) && !mail.has(MAIL_MUTED));
                kind.muted += u32::from(mail.has(MAIL_MUTED));
                kind.deactivated += u32::from(mail.has(MAIL_PAUSED));
                kind.waiting += u64::from(mail.count());
                kind.longest = kind.longest.max(mail.count());
                kind.handled += actor.handled;
            }
            if most > 0 {
                hottest.push(std::cmp::Reverse((actor.handled, mail.count(), number)));
                if hottest.len() > most {
                    hottest.pop();
                }
            }
        })?;
        let mut actors = Vec::new();
        for std::cmp::Reverse((_, _, number)) in hottest.into_sorted_vec() {
            let mut words = vec![0; RECORD];
            if self
                .parts
                .slots
                .read_at(number as usize * RECORD, &mut words)
                .is_ok()
            {
                actors.push(self.row(number, &actor_in(self.parts.engine.kind(), &words)));
            }
        }
        for kind in &mut kinds {
            if kind.muted > 0 && kind.busy == 0 {
                kind.health = Health::degraded(format!(
                    "{} actors wait until receivers have room",
                    kind.muted
                ));
            } else if kind.longest >= kind.bound {
                kind.health = Health::degraded("a mailbox is full, so senders to it wait");
            } else if kind.deactivated > 0 {
                kind.health =
                    Health::degraded(format!("{} actors are deactivated", kind.deactivated));
            }
        }
        let [gone, ended, no_reply, failed] = control.dead;
        let counts = [gone, ended, no_reply, failed, control.dropped];
        let dead = DeadReason::ALL.into_iter().zip(counts);
        let dead: Vec<_> = dead
            .map(|(reason, count)| (format!("{reason:?}"), count))
            .collect();
        let health = match control.launch_refusals {
            0 => Health::default(),
            count => Health::degraded(format!(
                "there was no room for {count} actors: raise ActorConfig::actors"
            )),
        };
        Ok(SystemView {
            number: 0,
            program: self.program.clone(),
            engine: self.parts.engine.kind().to_string(),
            health,
            limit: (self.parts.slots.len() / RECORD) as u32,
            live,
            dead,
            mutes: control.mutes,
            launch_refusals: control.launch_refusals,
            restarts: control.restarts,
            ask: Some(self.asks.read()).filter(|asks| asks.count > 0),
            kinds,
            actors,
        })
    }

    fn kind(&self, kind: &ShownKind) -> KindView {
        let function = turn_name(&kind.name);
        let times = self.parts.engine.function_times(&self.program, &function);
        let [_, wait, handling] = times.unwrap_or_default();
        KindView {
            kind: kind.name.clone(),
            bound: kind.bound,
            wait: Some(wait).filter(|times| times.count > 0),
            handling: Some(handling).filter(|times| times.count > 0),
            ..KindView::default()
        }
    }

    fn signal(&self, actor: ActorId, signal: Signal) -> Result<bool, String> {
        let closed = self.closed();
        if *closed || actor.slot() as usize >= self.parts.slots.len() / RECORD {
            return Ok(false);
        }
        let failed = |error: everwarp_runtime::Error| error.to_string();
        let _port = self
            .parts
            .port
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.parts
            .ids
            .write_at(0, &[actor.bits()])
            .map_err(failed)?;
        let function = self.kinds.len() as u32 + Builtin::Signal as u32;
        let task = self
            .parts
            .instance
            .task(function)
            .tag(signal as u8)
            .args(0, 1)
            .build();
        let mut pending = self.parts.engine.submit_batch(&[task]).map_err(failed)?;
        // The task reports how many of the actors did not live.
        Ok(pending.wait().map_err(failed)?.value == 0)
    }
}

impl Source for Watched {
    fn view(&self, most: usize) -> Option<View> {
        if *self.closed() {
            return None;
        }
        Some(View::System(self.shown(most).unwrap_or_else(|reason| {
            SystemView {
                program: self.program.clone(),
                engine: self.parts.engine.kind().to_string(),
                health: Health::failed(reason),
                ..SystemView::default()
            }
        })))
    }

    fn order(&self, target: &str, order: Order) -> Result<bool, String> {
        let Some(actor) = id_of(target) else {
            return Ok(false);
        };
        self.signal(
            actor,
            match order {
                Order::Kill => Signal::Kill,
                Order::Stop => Signal::Stop,
                Order::Deactivate => Signal::Pause,
                Order::Activate => Signal::Resume,
            },
        )
    }

    fn actor(&self, id: &str) -> Result<Option<ActorRow>, String> {
        let Some(id) =
            id_of(id).filter(|id| (id.slot() as usize) < self.parts.slots.len() / RECORD)
        else {
            return Ok(None);
        };
        let failed = |error: everwarp_runtime::Error| error.to_string();
        let mut words = vec![0; RECORD];
        let at = id.slot() as usize;
        self.parts
            .slots
            .read_at(at * RECORD, &mut words)
            .map_err(failed)?;
        let actor = actor_in(self.parts.engine.kind(), &words);
        if !Mail(actor.mail).has(MAIL_LIVE) || actor.generation != id.generation() {
            return Ok(None);
        }
        let each = self.parts.state_bytes as usize / 8;
        let mut state = vec![0; each];
        self.parts
            .states
            .read_at(at * each, &mut state)
            .map_err(failed)?;
        let bytes = state.iter().flat_map(|word| word.to_le_bytes());
        let content: Vec<_> = bytes.map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(ActorRow {
            content: Some(content.concat()),
            ..self.row(id.slot(), &actor)
        }))
    }
}
