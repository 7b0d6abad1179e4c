//! What actors on a GPU get from the host and want from it. `actor/news.cuh` is the GPU's side.
//!
//! A thread waits with a submission that ends when there are events, copies them out of their ring, and does with the
//! [`Side`] what turns on the CPU engine do by themselves. What follows for actors goes back as news and signals. The thread
//! needs the port for that, as all that wakes turns does; while another thread holds it, events are taken all the same, so
//! that actors that wait for room in the ring go on.
//!
//! An actor of a supervised group that fails or would end is held until the host has decided: `actor/hold.cuh` has the rules.
//! That needs no port, because the group that counts turns is open while an actor is held. What follows for other members comes
//! first, and then the actor goes on or ends.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everwarp_contract::actor::{
    ACTOR_EVENTS, ACTOR_EVENTS_STEP, DEAD_DROPPED, DEAD_ENDED, EVENT_AFTER, EVENT_ANSWER,
    EVENT_ASKS, EVENT_CANCEL, EVENT_CLOSES, EVENT_DEMONITOR, EVENT_ENDED, EVENT_EVERY, EVENT_HELD,
    EVENT_LENT, EVENT_LETTER, EVENT_LINK, EVENT_MONITOR, EVENT_PAYLOAD, EVENT_RECEIVES,
    EVENT_SENDS, EVENT_SHIFT, EVENT_TICK, EVENT_UNLINK, EVENT_VALUE, HELD_FAILS, HELD_GOES_ON,
    ITEM_END, ITEM_HELD, ITEM_NEWS, ITEM_NOTE, ITEM_REVIVE, ITEM_SIGNAL, MESSAGE_DEADLINE,
    MESSAGE_FAILED, MESSAGE_HOST, MESSAGE_TICK, MESSAGE_TIMER, MESSAGE_WORDS_SHIFT, PART_ITEMS,
    TELL_DELIVERED,
};
use everwarp_contract::{DevMessage, DevType};
use everwarp_runtime::{Buffer, Engine, Error, Instance};

use crate::channel::ChannelId;
use crate::ending::Ending;
use crate::error::wrong_value;
use crate::failures::FailureLog;
use crate::far::{DeviceWire, Loan, OF_HOST, Threads, Wire, item};
use crate::id::ActorId;
use crate::mailbox::Signal;
use crate::message::{DeadReason, MAX_ASK_WORDS, Message};
use crate::notes::{FAILED, KNOWN};
use crate::program::Builtin;
use crate::side::{DeadLetter, Held, Op, Receiving, Sending, Side, TimerId, ValueType, Words};
use crate::system::{Port, RECORD, from_words, to_words};

/// How long the thread waits for the port.
const SOON: Duration = Duration::from_millis(1);
/// After this time the host looks again how far the thread has come.
const LITTLE: Duration = Duration::from_micros(20);
/// After how many such times it rings again.
const RINGS_AFTER: u32 = 10;
const LONG: Duration = Duration::from_secs(3600);
/// The most news that are sent at a time.
const NEWS: usize = 256;

/// What it takes to reach the actors of a GPU. All of it needs the port.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub(crate) engine: Engine,
    pub(crate) instance: Arc<Instance>,
    /// The number of the first builtin function.
    pub(crate) builtins: u32,
    pub(crate) tells: Arc<Buffer<u64>>,
    pub(crate) ids: Arc<Buffer<u64>>,
    /// How far the thread has come that takes events.
    pub(crate) handled: Arc<Handled>,
}

impl Reach {
    pub(crate) fn run(
        &self,
        builtin: Builtin,
        tag: u8,
        first: u32,
        count: u32,
    ) -> Result<u64, Error> {
        let task = self.instance.task(self.builtins + builtin as u32);
        let task = task.tag(tag).args(first, count);
        Ok(self.engine.submit(task)?.wait()?.value)
    }
    /// Sets notes of an actor. Returns whether it lives; not if the engine has ended.
    pub(crate) fn note(&self, actor: ActorId, notes: u32) -> bool {
        let mut id = [actor.bits()];
        let noted = self
            .ids
            .write_at(0, &id)
            .and_then(|()| self.run(Builtin::Note, notes as u8, 0, 1))
            .and_then(|_| self.ids.read_at(0, &mut id));
        noted.is_ok() && id[0] != 0
    }
    fn signal(&self, actor: ActorId, signal: Signal) -> Result<(), Error> {
        self.ids.write_at(0, &[actor.bits()])?;
        self.run(Builtin::Signal, signal as u8, 0, 1).map(drop)
    }
    /// Gives actors news, in order. Returns those that do not live.
    fn news(&self, news: &[(ActorId, Message)]) -> Result<Vec<ActorId>, Error> {
        let mut words = Vec::with_capacity(news.len() * RECORD);
        for (to, message) in news {
            let record = DevMessage {
                head: message.head,
                from: message.from,
                words: message.words,
                to: to.bits(),
                ..DevMessage::ZERO
            };
            words.extend(to_words(&record));
        }
        self.tells.write_at(0, &words)?;
        if self.run(Builtin::News, 0, 0, news.len() as u32)? == 0 {
            return Ok(Vec::new());
        }
        self.tells.read_at(0, &mut words)?;
        let gone = |record: &[u64]| from_words::<DevMessage>(record).next != 0;
        let records = words.chunks_exact(RECORD).zip(news);
        Ok(records.filter(|(r, _)| gone(r)).map(|(_, n)| n.0).collect())
    }
}

/// How far the thread has come.
#[derive(Debug, Default)]
pub(crate) struct Handled {
    /// Events that were handled, with all that follows for actors.
    events: AtomicU64,
    /// Those of them after which an actor may have a message: answers, and what is about the ends of others. It changes only
    /// while the thread holds the port.
    answers: AtomicU64,
    /// How often closures and timers wanted something to be done that follows for actors.
    wanted: AtomicU64,
    /// How many of those wishes the thread knows of: it does not wait for events alone before they are done.
    seen: AtomicU64,
    /// How many of them are done.
    done: AtomicU64,
}

impl Handled {
    /// A closure wants something, and its actor is not given back yet. Returns how many wishes there are.
    pub(crate) fn want(&self) -> u64 {
        self.wanted.fetch_add(1, Ordering::AcqRel) + 1
    }
    /// Rings for the thread until it knows of this many wishes, or has ended. A ring reaches it only once its task waits at the
    /// bell.
    pub(crate) fn ring_until_known(
        &self,
        wishes: u64,
        ring: impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            ring()?;
            for _ in 0..RINGS_AFTER {
                if self.seen.load(Ordering::Acquire) >= wishes {
                    return Ok(());
                }
                std::thread::sleep(LITTLE);
            }
        }
    }
}

/// Whether an actor may have a message because of this event. Timers send theirs when it is time.
fn answers(event: &DevMessage) -> bool {
    let what = event.head >> EVENT_SHIFT;
    let none = [
        EVENT_ASKS,
        EVENT_AFTER,
        EVENT_EVERY,
        EVENT_CANCEL,
        EVENT_TICK,
    ];
    what == EVENT_CLOSES || what < EVENT_LETTER && !none.contains(&what)
}

/// The thread that takes events.
#[derive(Debug)]
pub(crate) struct Pump {
    stops: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    reach: Reach,
    /// Of a program with kinds for actors of the host.
    hosts: Option<Threads>,
}

impl Pump {
    pub(crate) fn start(
        reach: Reach,
        ring: Buffer<u64>,
        desk: Desk,
        port: Arc<Mutex<Port>>,
        hosts: Option<Threads>,
        wire: DeviceWire,
    ) -> Self {
        let stops = Arc::new(AtomicBool::new(false));
        let taker = Taker {
            reach: reach.clone(),
            ring,
            desk,
            port,
            stops: stops.clone(),
            taken: 0,
            waiting: VecDeque::new(),
            hosts: hosts.clone(),
            wire,
        };
        let thread = std::thread::Builder::new().name("everwarp-events".to_owned());
        // Without a thread no actor could use a service, which no caller can mend.
        let thread = thread.spawn(move || drop(taker.run()));
        Self {
            stops,
            thread: Mutex::new(Some(thread.expect("a thread for events starts"))),
            reach,
            hosts,
        }
    }
    /// Whether actors are lent to the host.
    pub(crate) fn lends(&self) -> bool {
        self.hosts.is_some()
    }
    /// How many events were handled after which an actor may have a message. The caller holds the port.
    pub(crate) fn answers(&self) -> u64 {
        self.reach.handled.answers.load(Ordering::Acquire)
    }
    /// How many wishes of closures there were, and how many of them are done. The caller holds the port.
    pub(crate) fn wishes(&self) -> (u64, u64) {
        let Handled { wanted, done, .. } = &*self.reach.handled;
        (wanted.load(Ordering::Acquire), done.load(Ordering::Acquire))
    }
    /// Waits until this many events were handled and this many wishes are done, or the thread has ended. The caller does not
    /// hold the port.
    pub(crate) fn reaches(&self, events: u64, wishes: u64) {
        let ended = || {
            let held = self.thread.lock();
            let held = held.unwrap_or_else(PoisonError::into_inner);
            held.as_ref().is_none_or(JoinHandle::is_finished)
        };
        let Handled {
            events: so_far,
            done,
            ..
        } = &*self.reach.handled;
        let reached =
            || so_far.load(Ordering::Acquire) >= events && done.load(Ordering::Acquire) >= wishes;
        while !reached() && !ended() {
            std::thread::sleep(LITTLE);
        }
    }
    /// The way to the actors, for callers that hold the port.
    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }
    /// Ends the thread. The caller does not hold the port.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
        let held = self.thread.lock();
        let thread = held.unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        // More than once, since the thread may be about to wait once more.
        while !thread.is_finished() {
            // An engine that has ended has ended the thread's submission, too.
            let _ = self.reach.run(Builtin::Ring, 0, 0, 0);
            std::thread::sleep(SOON);
        }
        // A panic of the thread was printed.
        let _ = thread.join();
        if let Some(hosts) = &self.hosts {
            hosts.stop();
        }
    }
}

/// Numbers of a GPU and what they are on the host.
#[derive(Debug, Default)]
struct Numbers {
    deadlines: HashMap<u64, u64>,
    timers: HashMap<u64, TimerId>,
    /// Of timers that a GPU knows.
    on_gpu: HashMap<TimerId, u64>,
}

impl Numbers {
    /// The deadline that the answer with this number meets.
    fn deadline(&mut self, number: u64) -> Option<u64> {
        match number & OF_HOST {
            0 => self.deadlines.remove(&number),
            _ => Some(number & !OF_HOST),
        }
    }
    /// The number by which an actor knows a timer.
    fn of_timer(&self, number: u64) -> u64 {
        let known = self.on_gpu.get(&TimerId(number));
        known.copied().unwrap_or(number | OF_HOST)
    }
    /// The timer that an actor knows by this number.
    fn timer(&self, number: u64) -> Option<TimerId> {
        match number & OF_HOST {
            0 => self.timers.get(&number).copied(),
            _ => Some(TimerId(number & !OF_HOST)),
        }
    }
    fn forget(&mut self, timer: TimerId) {
        if let Some(number) = self.on_gpu.remove(&timer) {
            self.timers.remove(&number);
        }
    }
}

struct Taker {
    reach: Reach,
    ring: Buffer<u64>,
    desk: Desk,
    port: Arc<Mutex<Port>>,
    stops: Arc<AtomicBool>,
    /// Events taken so far.
    taken: u64,
    waiting: VecDeque<DevMessage>,
    hosts: Option<Threads>,
    /// Its own way to do items.
    wire: DeviceWire,
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.reach.handled.seen.store(u64::MAX, Ordering::Release);
    }
}

impl Taker {
    /// Whether there is something to do that no event will tell of.
    fn is_behind(&self) -> bool {
        let Handled {
            wanted, seen, done, ..
        } = &*self.reach.handled;
        // Wishes first: what they are about was there before them.
        let wishes = wanted.load(Ordering::Acquire);
        seen.store(wishes, Ordering::Release);
        !self.waiting.is_empty()
            || done.load(Ordering::Acquire) < wishes
            || self.desk.side.has_ops()
    }
    /// Until the system or the engine ends.
    fn run(mut self) -> Result<(), Error> {
        loop {
            let task = self.reach.builtins + Builtin::Events as u32;
            let task = self.reach.instance.task(task).arg(self.taken);
            let mut pending = self.reach.engine.submit(task)?;
            let count = loop {
                let within = if self.is_behind() { SOON } else { LONG };
                let begin = Instant::now();
                // Not `wait_timeout`: an engine on which no actor runs for a long time is not stuck.
                match pending.wait_lasting(|| begin.elapsed() < within)? {
                    Some(done) => break done.value,
                    None => self.work()?,
                }
            };
            self.take(count)?;
            if self.stops.load(Ordering::Acquire) {
                return Ok(());
            }
            self.work()?;
        }
    }
    /// Copies events out of their ring. What a GPU says is checked: a number beyond what it may report is cut, and an event
    /// that is not complete, which no GPU reports, ends the thread.
    fn take(&mut self, count: u64) -> Result<(), Error> {
        let mut left = count.min(ACTOR_EVENTS_STEP.into());
        let mut held = Vec::new();
        while left > 0 {
            let first = self.taken % u64::from(ACTOR_EVENTS);
            let part = left.min(u64::from(ACTOR_EVENTS) - first) as usize;
            let mut words = vec![0; part * RECORD];
            self.ring.read_at(first as usize * RECORD, &mut words)?;
            for record in words.chunks_exact(RECORD) {
                let event = from_words::<DevMessage>(record);
                assert_eq!(
                    event.next,
                    (self.taken + 1) as u32,
                    "an event is not complete"
                );
                self.taken += 1;
                match &self.hosts {
                    _ if event.head >> EVENT_SHIFT == EVENT_HELD => {
                        held.push((ActorId::from_bits(event.from), event.words[0]));
                    }
                    // It has its own thread, which does not wait for the port: the group of turns is open until it is back.
                    Some(hosts) if event.head >> EVENT_SHIFT == EVENT_LENT => hosts.push(Loan {
                        actor: ActorId::from_bits(event.from),
                        kind: event.words[0] as u32,
                    }),
                    _ => self.waiting.push_back(event),
                }
            }
            left -= part as u64;
        }
        self.decide(&held)?;
        if self.waiting.is_empty() {
            // Loans and actors that were held, for which nothing else is to be done here.
            self.reach
                .handled
                .events
                .store(self.taken, Ordering::Release);
        }
        Ok(())
    }
    /// Does all that there is to do, unless another thread holds the port.
    fn work(&mut self) -> Result<(), Error> {
        let port = self.port.clone();
        let _port = match port.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        let mut answered = 0;
        let wanted = self.reach.handled.wanted.load(Ordering::Acquire);
        while let Some(event) = self.waiting.pop_front() {
            self.desk
                .handle(&event, |actor| self.reach.note(actor, KNOWN));
            answered += u64::from(answers(&event));
        }
        self.carry()?;
        let handled = &self.reach.handled;
        handled.answers.fetch_add(answered, Ordering::Release);
        handled.events.store(self.taken, Ordering::Release);
        handled.done.store(wanted, Ordering::Release);
        Ok(())
    }
    /// What follows for actors, in its order.
    fn carry(&mut self) -> Result<(), Error> {
        let most = NEWS.min(self.reach.tells.len() / RECORD);
        let mut news = Vec::new();
        loop {
            let given = self.desk.next();
            let ends_run = !matches!(given, Some(Given::News(..))) || news.len() == most;
            if ends_run && !news.is_empty() {
                let gone = self.reach.news(&news)?;
                gone.into_iter().for_each(|id| self.desk.side.forget(id));
                news.clear();
            }
            match given {
                Some(Given::News(actor, message)) => news.push((actor, message)),
                Some(Given::Signal(actor, signal)) => self.reach.signal(actor, signal)?,
                Some(Given::Fails(actor)) => {
                    if self.reach.note(actor, FAILED) {
                        self.reach.signal(actor, Signal::Kill)?;
                    }
                }
                Some(Given::Lost(actor, cell, reason)) => self.lose(actor, cell, reason)?,
                None => return Ok(()),
            }
        }
    }
}

impl Taker {
    /// Decides about actors that a GPU holds. It needs no port: they are counted in the group of turns, which is open until
    /// the last of them goes on or ends, and so until what follows for other members is done.
    fn decide(&mut self, held: &[(ActorId, u64)]) -> Result<(), Error> {
        let mut items = Vec::new();
        for &(actor, word) in held {
            let held = Held::of(word);
            let goes_on = self.desk.decide(actor, held);
            if goes_on && held != Held::Fails {
                // It accepts messages again before what follows is done, because that may kill it.
                items.push(item(ITEM_REVIVE, 0, actor));
            }
            while let Some(given) = self.desk.next() {
                match given {
                    Given::News(to, message) => items.push(DevMessage {
                        from: message.from,
                        words: message.words,
                        ..item(ITEM_NEWS, message.head, to)
                    }),
                    Given::Signal(to, signal) => items.push(item(ITEM_SIGNAL, signal as u32, to)),
                    Given::Fails(to) => {
                        items.push(item(ITEM_NOTE, FAILED, to));
                        items.push(item(ITEM_SIGNAL, Signal::Kill as u32, to));
                    }
                    Given::Lost(owner, cell, reason) => {
                        self.act(&mut items)?;
                        self.lose(owner, cell, reason)?;
                    }
                }
            }
            let flag = if goes_on { HELD_GOES_ON } else { 0 };
            items.push(item(
                ITEM_HELD,
                flag | word.min(HELD_FAILS.into()) as u32,
                actor,
            ));
        }
        self.act(&mut items)
    }
    /// Does items, in their order.
    fn act(&mut self, items: &mut Vec<DevMessage>) -> Result<(), Error> {
        for part in items.chunks_mut(PART_ITEMS as usize) {
            let news: Vec<bool> = part.iter().map(|item| item.next == ITEM_NEWS).collect();
            self.wire.act(part, false)?;
            for (item, _) in part.iter().zip(news).filter(|(_, news)| *news) {
                if item.next != TELL_DELIVERED {
                    self.desk.side.forget(ActorId::from_bits(item.to));
                }
            }
        }
        items.clear();
        Ok(())
    }
    /// An ask ends whose actor, one of the host, has kept it and does not know it any more.
    fn lose(&mut self, owner: ActorId, cell: u32, reason: u32) -> Result<(), Error> {
        let mut items = [DevMessage {
            next: ITEM_END,
            head: reason,
            from: cell.into(),
            ..DevMessage::ZERO
        }];
        self.wire.act(&mut items, false)?;
        self.desk.lost(owner, &items[0], reason);
        Ok(())
    }
}

/// What is done to an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    News(ActorId, Message),
    Signal(ActorId, Signal),
    /// It ends as failed.
    Fails(ActorId),
    /// An ask in a cell, which this actor has kept, ends with this reason.
    Lost(ActorId, u32, u32),
}

/// What events mean: it turns them into what the [`Side`] knows, and numbers of a GPU into its own and back.
pub(crate) struct Desk {
    side: Arc<Side>,
    numbers: Numbers,
    /// Actors that have used a channel wrongly.
    fails: VecDeque<ActorId>,
    failures: Arc<FailureLog>,
    /// The number of the system in the log.
    key: u64,
}

impl Desk {
    pub(crate) fn new(side: Arc<Side>, failures: Arc<FailureLog>, key: u64) -> Self {
        Self {
            side,
            numbers: Numbers::default(),
            fails: VecDeque::new(),
            failures,
            key,
        }
    }
    /// An actor sends a value on a channel, which has the number of the value's type in its upper half.
    fn send(&mut self, actor: ActorId, channel: u64, number: u64, value: Words, known: bool) {
        let (id, ty) = typed(channel);
        let sending = self
            .side
            .send_of((id.bits(), ty), value, actor, number, |_| known);
        let reply = match sending {
            Some(Sending::Waits) => return,
            Some(Sending::Wrong(carries)) => return self.fail(actor, id, carries),
            Some(Sending::Sent) => Message::of_reply(&[], number),
            Some(Sending::Closed | Sending::Full) => Message::of_closed(number),
            None => Message::of_refused(number),
        };
        self.side.tell(actor, reply);
    }
    /// The same for receiving.
    fn receive(&mut self, actor: ActorId, channel: u64, number: u64, known: bool) {
        let (id, ty) = typed(channel);
        match self
            .side
            .receive_of((id.bits(), ty), actor, number, |_| known)
        {
            Receiving::Waits => {}
            Receiving::Value(_) => self.side.request(actor, Op::News),
            Receiving::Closed | Receiving::Empty => {
                self.side.tell(actor, Message::of_closed(number));
            }
            Receiving::Wrong(carries) => self.fail(actor, id, carries),
        }
    }
    fn fail(&mut self, actor: ActorId, channel: ChannelId, carries: &str) {
        let reason = wrong_value(channel, carries, None);
        self.failures.add(self.key, actor, 0, &reason);
        self.fails.push_back(actor);
    }
    /// `note` makes the end of an actor known, and returns whether it lives.
    fn handle(&mut self, event: &DevMessage, note: impl Fn(ActorId) -> bool) {
        let side = &self.side;
        let (from, to) = (ActorId::from_bits(event.from), ActorId::from_bits(event.to));
        let [a, b, c, ..] = event.words;
        let other = ActorId::from_bits(a);
        // The end of an actor that has sent an event is an event, too.
        let know = |id| id == from || note(id);
        let what = event.head >> EVENT_SHIFT;
        match what {
            EVENT_ENDED => side.ended(to, Ending::ALL[a.min(2) as usize]),
            EVENT_ASKS => {
                let number = side.deadline(from, b, Duration::from_nanos(c));
                self.numbers.deadlines.insert(a, number);
            }
            EVENT_ANSWER => {
                let mut message = message_of(event);
                message.head &= !MESSAGE_DEADLINE;
                let last = &mut message.words[MAX_ASK_WORDS];
                let number = self.numbers.deadline(*last);
                // A late reply reaches no actor.
                if let Some(own) = number.and_then(|number| side.answer(number)) {
                    *last = own;
                    side.tell(to, message);
                }
            }
            EVENT_AFTER | EVENT_EVERY => {
                let count = (event.head >> MESSAGE_WORDS_SHIFT & 0xff) as usize;
                let [.., first, second, third] = event.words;
                // The fourth is in the receiver's place.
                let words = [first, second, third, event.to];
                let words = &words[..count.min(MAX_ASK_WORDS)];
                let message = Message::new(ActorId::NONE, event.head as u8, words, MAX_ASK_WORDS);
                let repeats = what == EVENT_EVERY;
                let timer = side.timer(from, Duration::from_nanos(a), repeats, message, know);
                self.numbers.timers.insert(b, timer);
                self.numbers.on_gpu.insert(timer, b);
            }
            EVENT_CANCEL => {
                if let Some(timer) = self.numbers.timer(a) {
                    side.cancel(timer);
                    self.numbers.forget(timer);
                }
            }
            EVENT_TICK => {
                if let Some(timer) = self.numbers.timer(a) {
                    side.ticked(timer);
                }
            }
            EVENT_MONITOR => side.monitor(from, b, other, know),
            EVENT_DEMONITOR => drop(side.demonitor(from, other)),
            EVENT_LINK => drop(side.link(from, other, know)),
            EVENT_UNLINK => side.unlink(from, other),
            EVENT_SENDS => {
                let [_, _, first, second, third] = event.words;
                let value = [first, second, third, event.to];
                self.send(from, a, b, value, know(from));
            }
            EVENT_RECEIVES => self.receive(from, a, b, know(from)),
            EVENT_VALUE => side.value_handled(from),
            EVENT_CLOSES => side.close_channel(a),
            EVENT_PAYLOAD => side.payloads.end(&message_of(event)),
            EVENT_LETTER.. if what <= EVENT_LETTER + DEAD_DROPPED => {
                side.payloads.end(&message_of(event));
                side.dead_letters.send(DeadLetter {
                    reason: DeadReason::of(what - EVENT_LETTER),
                    to,
                    message: message_of(event),
                });
            }
            // No handler can write another one.
            _ => {}
        }
    }

    /// Whether an actor that is held goes on. What follows for other members is to be done before it does.
    fn decide(&self, actor: ActorId, held: Held) -> bool {
        let goes_on = self.side.goes_on(actor, held);
        if goes_on && held != Held::Fails {
            self.side.lose_kept(actor, DEAD_ENDED);
            if let Some(part) = self.side.part(actor) {
                part.begins_anew();
            }
        }
        goes_on
    }

    /// An ask that this actor has kept has ended, and the host's own asks know it. An actor has that as news.
    fn lost(&mut self, owner: ActorId, ask: &DevMessage, reason: u32) {
        let message = message_of(ask);
        self.side.dead_letters.send(DeadLetter {
            reason: DeadReason::of(reason),
            to: owner,
            message,
        });
        if message.head & MESSAGE_HOST != 0 {
            return;
        }
        let mut number = Some(message.ask());
        if message.head & MESSAGE_DEADLINE != 0 {
            let deadline = self.numbers.deadline(message.ask());
            number = deadline.and_then(|number| self.side.answer(number));
        }
        if let Some(number) = number {
            let mut end = Message::of_reply(&[], number);
            end.head |= MESSAGE_FAILED | reason;
            end.from = owner.bits();
            self.side.tell(ActorId::from_bits(message.from), end);
        }
    }

    /// The next thing to be done to an actor. None when there is nothing.
    fn next(&mut self) -> Option<Given> {
        if let Some(actor) = self.fails.pop_front() {
            return Some(Given::Fails(actor));
        }
        loop {
            return Some(match self.side.next_op()? {
                (actor, Op::News) => match self.side.send_news(actor) {
                    Some((mut message, periodic)) => {
                        self.name_timer(&mut message, periodic);
                        Given::News(actor, message)
                    }
                    // A timer was cancelled.
                    None => continue,
                },
                (actor, Op::Kill) => Given::Signal(actor, Signal::Kill),
                (actor, Op::Resume) => Given::Signal(actor, Signal::Resume),
                (actor, Op::Lost { cell, reason }) => Given::Lost(actor, cell, reason),
            });
        }
    }
    /// Puts the number by which the actor knows its timer into the timer's message.
    fn name_timer(&mut self, message: &mut Message, periodic: bool) {
        if message.head & MESSAGE_TIMER == 0 {
            return;
        }
        let number = message.words[MAX_ASK_WORDS];
        message.words[MAX_ASK_WORDS] = self.numbers.of_timer(number);
        match periodic {
            true => message.head |= MESSAGE_TICK,
            false => self.numbers.forget(TimerId(number)),
        }
    }
}

/// The channel and the type that a GPU has put into one word.
fn typed(word: u64) -> (ChannelId, ValueType) {
    let channel = ChannelId::from_bits(u64::from(word as u32));
    (channel, ValueType::on_gpu((word >> 32) as u32))
}

/// The message that an event is about.
fn message_of(event: &DevMessage) -> Message {
    Message {
        head: event.head & ((1 << EVENT_SHIFT) - 1),
        from: event.from,
        words: event.words,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use everwarp_contract::actor::{DEAD_TIMEOUT, MESSAGE_DOWN, MESSAGE_REPLY};

    use super::*;
    use crate::side::{Clock, Member, Policy, Strategy, Supervision};

    const ADA: ActorId = ActorId::new(1, 1);
    const BOB: ActorId = ActorId::new(2, 1);

    fn desk() -> Desk {
        let side = Side::new(Clock::Virtual(AtomicU64::new(0)));
        Desk::new(Arc::new(side), Arc::default(), 1)
    }
    fn event(what: u32, head: u32, from: ActorId, words: &[u64]) -> DevMessage {
        let mut event = DevMessage {
            head: head | what << EVENT_SHIFT,
            from: from.bits(),
            ..DevMessage::ZERO
        };
        event.words[..words.len()].copy_from_slice(words);
        event
    }
    /// All that is to be done.
    fn all(desk: &mut Desk) -> Vec<Given> {
        std::iter::from_fn(|| desk.next()).collect()
    }
    fn pass(desk: &Desk, time: u64) {
        let Clock::Virtual(now) = &desk.side.clock else {
            unreachable!("the clock of the tests")
        };
        now.fetch_add(time, Ordering::Relaxed);
        desk.side.fire();
    }
    fn news(given: &[Given]) -> Vec<(ActorId, u32, [u64; 5])> {
        let one = |given: &Given| match *given {
            Given::News(actor, message) => (actor, message.head, message.words),
            Given::Signal(..) | Given::Fails(..) | Given::Lost(..) => panic!("no news"),
        };
        given.iter().map(one).collect()
    }

    #[test]
    fn ask_ends_with_its_answer_or_at_its_deadline_and_a_late_answer_reaches_no_actor() {
        let mut desk = desk();
        for number in [1, 2] {
            let asks = event(EVENT_ASKS, 3 << 8, ADA, &[number, 70 + number, 50]);
            desk.handle(&asks, |_| true);
        }
        let answer = |number| {
            let head = 9 | MESSAGE_REPLY | MESSAGE_DEADLINE;
            let mut answer = event(EVENT_ANSWER, head, BOB, &[5, 0, 0, 0, number]);
            answer.to = ADA.bits();
            answer
        };
        pass(&desk, 49);
        desk.handle(&answer(2), |_| true);
        let given = news(&all(&mut desk));
        assert_eq!(given, [(ADA, 9 | MESSAGE_REPLY, [5, 0, 0, 0, 72])]);
        pass(&desk, 1);
        let failed = MESSAGE_REPLY | MESSAGE_FAILED | DEAD_TIMEOUT;
        let given = news(&all(&mut desk));
        assert_eq!(given, [(ADA, failed, [0, 0, 0, 0, 71])]);
        desk.handle(&answer(1), |_| true);
        // One that was never asked.
        desk.handle(&answer(3), |_| true);
        assert_eq!(all(&mut desk), []);
        assert_eq!(desk.side.late.load(Ordering::Relaxed), 1);
        assert!(desk.numbers.deadlines.is_empty());
    }

    #[test]
    fn timers_have_the_numbers_of_the_gpu_and_periodic_ones_wait_until_they_are_handled() {
        let mut desk = desk();
        let mut once = event(EVENT_AFTER, 7 | 4 << 8, ADA, &[10, 1, 40, 41, 42]);
        once.to = 43;
        desk.handle(&once, |_| true);
        desk.handle(&event(EVENT_EVERY, 8, ADA, &[10, 2]), |_| true);
        desk.handle(&event(EVENT_AFTER, 9, ADA, &[10, 3]), |_| true);
        desk.handle(&event(EVENT_CANCEL, 0, ADA, &[3]), |_| true);
        pass(&desk, 10);
        let once = (ADA, 7 | 4 << 8 | MESSAGE_TIMER, [40, 41, 42, 43, 1]);
        let tick = (ADA, 8 | MESSAGE_TIMER | MESSAGE_TICK, [0, 0, 0, 0, 2]);
        assert_eq!(news(&all(&mut desk)), [once, tick]);
        // The last one is not handled yet.
        pass(&desk, 10);
        assert_eq!(all(&mut desk), []);
        desk.handle(&event(EVENT_TICK, 0, ADA, &[2]), |_| true);
        pass(&desk, 10);
        assert_eq!(news(&all(&mut desk)), [tick]);
        desk.handle(&event(EVENT_CANCEL, 0, ADA, &[2]), |_| true);
        desk.handle(&event(EVENT_TICK, 0, ADA, &[2]), |_| true);
        pass(&desk, 100);
        assert_eq!(all(&mut desk), []);
        assert!(desk.numbers.timers.is_empty() && desk.numbers.on_gpu.is_empty());
    }

    #[test]
    fn ends_are_reported_to_monitors_and_links_once() {
        let mut desk = desk();
        desk.handle(&event(EVENT_MONITOR, 0, ADA, &[BOB.bits(), 5]), |_| true);
        desk.handle(&event(EVENT_LINK, 0, ADA, &[BOB.bits()]), |_| true);
        assert_eq!(all(&mut desk), []);
        let mut ended = event(EVENT_ENDED, 0, ActorId::NONE, &[Ending::Failed as u64]);
        ended.to = BOB.bits();
        desk.handle(&ended, |_| true);
        desk.handle(&ended, |_| true);
        let down = Message::of_down(BOB, Ending::Failed, 5);
        assert!(down.head & MESSAGE_DOWN != 0);
        let expected = [Given::News(ADA, down), Given::Signal(ADA, Signal::Kill)];
        assert_eq!(all(&mut desk), expected);
        // Of an actor that does not live.
        desk.handle(&event(EVENT_MONITOR, 0, ADA, &[BOB.bits(), 6]), |_| false);
        let unknown = Message::of_down(BOB, Ending::Unknown, 6);
        assert_eq!(all(&mut desk), [Given::News(ADA, unknown)]);
    }

    #[test]
    fn members_that_are_held_go_on_as_their_group_says() {
        let mut desk = desk();
        let members = [
            Member::Actor(ADA, Policy::Permanent),
            Member::Actor(BOB, Policy::Transient),
        ];
        let supervision = Supervision::new(Strategy::OneForAll, 2, Duration::from_secs(60));
        let group = desk.side.supervise(supervision, &members, |_| true);
        let group = group.expect("they are free");
        // No end that its policy does not want is a restart.
        assert!(!desk.decide(BOB, Held::of(Ending::Stopped as u64)));
        assert_eq!(all(&mut desk), []);
        assert!(desk.decide(ADA, Held::of(HELD_FAILS.into())));
        let reset = |id| Given::News(id, Message::OF_RESET);
        assert_eq!(all(&mut desk), [reset(BOB)]);
        assert!(desk.decide(BOB, Held::of(Ending::Killed as u64)));
        assert_eq!(all(&mut desk), [reset(ADA)]);
        // The restarts are used up: the group ends, the last member first.
        assert!(!desk.decide(ADA, Held::of(HELD_FAILS.into())));
        let kill = |id| Given::Signal(id, Signal::Kill);
        assert_eq!(all(&mut desk), [kill(BOB), kill(ADA)]);
        for (id, ending) in [(ADA, Ending::Failed), (BOB, Ending::Killed)] {
            assert!(!desk.decide(id, Held::of(ending as u64)));
            let mut ended = event(EVENT_ENDED, 0, ActorId::NONE, &[ending as u64]);
            ended.to = id.bits();
            desk.handle(&ended, |_| true);
        }
        let stats = desk.side.group(group).expect("it exists");
        assert_eq!((stats.restarts, stats.members, stats.ended), (2, 0, true));
        // One that is in no group ends.
        assert!(!desk.decide(ADA, Held::Fails));
        assert_eq!(all(&mut desk), []);
    }

    #[test]
    fn dead_letters_reach_subscribers_and_strange_events_do_nothing() {
        let mut desk = desk();
        let letters = desk.side.dead_letters.add(10);
        let mut letter = event(EVENT_LETTER + DEAD_ENDED, 4 | 1 << 8, ADA, &[7]);
        letter.to = BOB.bits();
        desk.handle(&letter, |_| true);
        desk.handle(&event(EVENT_LETTER + DEAD_DROPPED + 1, 0, ADA, &[]), |_| {
            true
        });
        desk.handle(&event(255, 0, ADA, &[]), |_| true);
        let got: Vec<_> = letters.drain().collect();
        let message = Message::new(ADA, 4, &[7], MAX_ASK_WORDS);
        let expected = DeadLetter {
            reason: DeadReason::Ended,
            to: BOB,
            message,
        };
        assert_eq!(got, [expected]);
        assert_eq!(all(&mut desk), []);
    }
}
