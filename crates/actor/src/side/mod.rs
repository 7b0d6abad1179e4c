//! What the host keeps for the actors of a system on the CPU engine, apart from their slots: news, monitors and links,
//! names, timers, deadlines, kept asks and supervised groups. One lock guards it. Ordinary messages never come here.
//!
//! *News* are messages that do not go through a mailbox: they overtake it, have no bound of their own, and each stands for
//! something that the program has made (a timer, a monitor, an ask). [`Op`]s are what follows for other actors; a
//! *courier*, which is a task of the first kind's turn function with [`COURIER`] in the upper half of its argument,
//! carries them out a few at a time.

mod channels;
mod dead_letters;
mod groups;
mod kept;
mod names;
#[cfg(not(loom))]
mod part;
#[cfg(loom)]
#[path = "part_in_models.rs"]
mod part;
mod sending;
mod timers;
mod watching;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;

use everwarp_contract::actor::DEAD_ENDED;
use everwarp_telemetry::recorder::news_sent;

use crate::id::ActorId;
use crate::message::Message;
use crate::mutant::{Mutant, broken};
use crate::sync::{Condvar, Mutex, MutexGuard};

pub(crate) use channels::{Receiving, Sending, TypeNumber, ValueType, Words};
pub use dead_letters::{DeadLetter, DeadLetters};
pub use groups::{GroupId, GroupStats, Member, Policy, Strategy, Supervision};
pub(crate) use groups::{Held, NotSupervised};
pub use kept::KeptAsk;
pub(crate) use names::NotNamed;
pub(crate) use part::Part;
pub use timers::TimerId;
pub use watching::Monitor;

pub(crate) use dead_letters::Subscribers;
pub(crate) use timers::Clock;

use channels::{After, Announced, Channel};
use groups::Groups;
use kept::Kept;
use names::Names;
use part::{Closure, Payloads};
use timers::Timers;
use watching::Watcher;

/// The upper half of the argument of a courier.
pub(crate) const COURIER: u32 = 1;

/// What is to be done to an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// It has news.
    News,
    /// It is killed.
    Kill,
    /// It is activated.
    Resume,
    /// The ask in this cell, which it has kept, ends with this reason.
    Lost { cell: u32, reason: u32 },
}

/// Something that an actor handles before the messages in its mailbox.
#[derive(Debug)]
enum News {
    /// A message.
    Message(Message),
    /// The message of a timer, which may have been cancelled meanwhile.
    Timer(u64),
    /// A value of a channel.
    Value(Announced),
    /// It begins anew.
    Reset,
}

/// News in an actor's list.
#[derive(Debug)]
struct Listed {
    news: News,
    /// What a trace knows them by; 0 if it does not.
    key: u64,
}

/// An actor's oldest news, as its turn sees them.
#[derive(Debug)]
pub(crate) enum Taken {
    /// A message, and what a trace knows it by; 0 if it does not.
    Message(Message, u64),
    Reset,
    /// There was none, or it was cancelled.
    Nothing,
}

/// What is kept for one actor.
#[derive(Debug, Default)]
struct Record {
    news: VecDeque<Listed>,
    /// Values that are on their way to an actor of the host on a GPU.
    sent: VecDeque<News>,
    watchers: Vec<Watcher>,
    /// Actors that this one monitors.
    watches: Vec<ActorId>,
    links: Vec<ActorId>,
    names: Vec<String>,
    key: Option<(u32, u64)>,
    timers: Vec<u64>,
    /// Numbers of asks that it keeps.
    kept: Vec<u64>,
    /// Channels that it has waited for.
    channels: BTreeSet<u64>,
    group: Option<GroupId>,
    part: Option<Part>,
}

impl Record {
    /// Takes the news that are sent, and those that are not.
    fn all_news(&mut self) -> impl Iterator<Item = News> + use<> {
        let listed = std::mem::take(&mut self.news).into_iter();
        let listed = listed.map(|listed| listed.news);
        std::mem::take(&mut self.sent).into_iter().chain(listed)
    }
    /// Whether nothing follows from the end of the actor.
    fn is_empty(&self) -> bool {
        self.watchers.is_empty()
            && self.watches.is_empty()
            && self.links.is_empty()
            && self.names.is_empty()
            && self.key.is_none()
            && self.channels.is_empty()
            && self.group.is_none()
            && self.part.is_none()
    }
}

#[derive(Debug, Default)]
struct State {
    records: HashMap<ActorId, Record>,
    ops: VecDeque<(ActorId, Op)>,
    /// How many were taken from there.
    ops_taken: u64,
    /// A courier is queued or runs.
    courier: bool,
    names: Names,
    timers: Timers,
    kept: HashMap<u64, Kept>,
    last_kept: u64,
    groups: Groups,
    channels: HashMap<u64, Channel>,
    last_channel: u64,
    /// The clock's thread is to let a courier run.
    kicked: bool,
    closed: bool,
    /// A GPU has the actors. It writes into a trace itself when their news are sent.
    on_gpu: bool,
}

impl State {
    /// News that are about to be put into a list.
    fn listed(&self, news: News) -> Listed {
        let key = if self.on_gpu { 0 } else { news_sent() };
        Listed { news, key }
    }
    fn record(&mut self, actor: ActorId) -> &mut Record {
        self.records.entry(actor).or_default()
    }
    fn push(&mut self, actor: ActorId, news: News) {
        let news = self.listed(news);
        self.record(actor).news.push_back(news);
        self.ops.push_back((actor, Op::News));
    }
    fn tell(&mut self, actor: ActorId, message: Message) {
        self.push(actor, News::Message(message));
    }
}

/// What is kept for one system.
#[derive(Debug)]
pub(crate) struct Side {
    state: Mutex<State>,
    /// The first timer has changed, or the system ends.
    changed: Condvar,
    pub(crate) clock: Clock,
    pub(crate) dead_letters: Subscribers,
    pub(crate) payloads: Payloads,
    /// Replies that came after their deadline.
    pub(crate) late: AtomicU64,
    thread: Mutex<ClockThread>,
}

/// The thread that fires timers, which the first timer starts.
#[derive(Default)]
enum ClockThread {
    /// There is none: the system is simulated, or ends.
    #[default]
    None,
    Ready(Box<dyn FnOnce() -> Option<JoinHandle<()>> + Send>),
    Runs(JoinHandle<()>),
}

impl std::fmt::Debug for ClockThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClockThread")
    }
}

impl Side {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            clock,
            dead_letters: Subscribers::default(),
            payloads: Payloads::default(),
            late: AtomicU64::new(0),
            thread: Mutex::default(),
        }
    }
    /// The same for actors that a GPU has.
    pub(crate) fn on_gpu(clock: Clock) -> Self {
        let state = State {
            on_gpu: true,
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            ..Self::new(clock)
        }
    }
    /// Says how the thread is started that fires timers.
    pub(crate) fn fires_with(
        &self,
        start: impl FnOnce() -> Option<JoinHandle<()>> + Send + 'static,
    ) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        *thread = ClockThread::Ready(Box::new(start));
    }
    fn start_clock(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let ClockThread::Ready(_) = *thread
            && let ClockThread::Ready(start) = std::mem::take(&mut *thread)
            && let Some(started) = start()
        {
            *thread = ClockThread::Runs(started);
        }
    }
    /// No panic leaves the state wrong.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next thing to be done. Without one the courier ends.
    pub(crate) fn next_op(&self) -> Option<(ActorId, Op)> {
        let mut state = self.state();
        let op = state.ops.pop_front();
        state.ops_taken += u64::from(op.is_some());
        if broken(Mutant::CourierUnseen) && op.is_none() {
            drop(state);
            state = self.state();
        }
        state.courier &= op.is_some();
        op
    }
    /// Whether there is something to be done, and no courier does it: the caller queues one.
    pub(crate) fn wants_courier(&self) -> bool {
        let mut state = self.state();
        let wants = !state.ops.is_empty() && !state.courier;
        state.courier |= wants;
        wants
    }
    /// Whether there is something to be done.
    pub(crate) fn has_ops(&self) -> bool {
        !self.state().ops.is_empty()
    }
    /// How much has been taken to be done, and how much is to be done with that.
    pub(crate) fn ops_so_far(&self) -> (u64, u64) {
        let state = self.state();
        (state.ops_taken, state.ops_taken + state.ops.len() as u64)
    }
    /// Asks for something to be done. The caller lets a courier run.
    pub(crate) fn request(&self, actor: ActorId, op: Op) {
        self.state().ops.push_back((actor, op));
    }
    /// Gives an actor news. The caller lets a courier run.
    pub(crate) fn tell(&self, actor: ActorId, message: Message) {
        let mut state = self.state();
        if !state.closed {
            state.tell(actor, message);
        }
    }
    /// Gives an actor news whose turn runs, and which sets the note itself.
    pub(crate) fn tell_own(&self, actor: ActorId, message: Message) {
        let mut state = self.state();
        let news = state.listed(News::Message(message));
        state.record(actor).news.push_back(news);
    }
    /// Gives an actor of the host its closure.
    pub(crate) fn set_part(&self, actor: ActorId, closure: Box<Closure>) {
        let mut state = self.state();
        if !state.closed {
            state.record(actor).part = Some(Part::new(closure));
        }
    }
    /// The closure of an actor of the host.
    pub(crate) fn part(&self, actor: ActorId) -> Option<Part> {
        self.state().records.get(&actor)?.part.clone()
    }
    /// Lets a courier run that another thread submits, so that the caller does not wait for the engine.
    pub(crate) fn kick(&self) {
        if !self.has_ops() {
            return;
        }
        self.start_clock();
        self.state().kicked = !broken(Mutant::KickUnseen);
        self.changed.notify_all();
    }
    /// An actor to which news were to be announced does not live.
    pub(crate) fn forget(&self, actor: ActorId) {
        let mut after = After::default();
        let mut state = self.state();
        let Some(record) = state.records.get_mut(&actor) else {
            return;
        };
        let news = record.all_news();
        let timers = std::mem::take(&mut record.timers);
        let kept = std::mem::take(&mut record.kept);
        // Its end may not be reported yet, and others may wait for that.
        if record.is_empty() {
            state.records.remove(&actor);
        }
        timers.iter().for_each(|t| state.timers.remove(*t));
        state.lose(actor, &kept, DEAD_ENDED);
        state.bring_back(news, &mut after);
        drop(state);
        after.run();
    }

    /// Takes the oldest news of an actor, whose turn runs. `none_left` is called before the last one is returned.
    pub(crate) fn take_news(&self, actor: ActorId, none_left: impl FnOnce()) -> Taken {
        let mut state = self.state();
        let (news, last) = match state.records.get_mut(&actor) {
            Some(record) => (record.news.pop_front(), record.news.is_empty()),
            None => (None, true),
        };
        if last {
            none_left();
        }
        let Some(Listed { news, key }) = news else {
            return Taken::Nothing;
        };
        let message = match news {
            News::Reset => return Taken::Reset,
            News::Message(message) => Some(message),
            News::Value(value) => Some(state.handled(&value)),
            News::Timer(number) => state.timers.take(number),
        };
        message.map_or(Taken::Nothing, |message| Taken::Message(message, key))
    }

    /// The system ends.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        let closed = State {
            closed: true,
            ..State::default()
        };
        let mut all = std::mem::replace(&mut *state, closed);
        drop(state);
        channels::abandon(std::mem::take(&mut all.channels));
        // Closures and payloads may do something when they are dropped.
        drop(all);
        self.payloads.clear();
        self.changed.notify_all();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let ClockThread::Runs(running) = std::mem::take(&mut *thread) {
            drop(thread);
            // A panic of the thread was printed.
            let _ = running.join();
        }
    }
}

/// The sides of the systems of one program. A system is known by a number.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    all: RwLock<HashMap<u64, Arc<Side>>>,
    next: AtomicU64,
}

impl Sides {
    pub(crate) fn add(&self, side: &Arc<Side>) -> u64 {
        let number = 1 + self.next.fetch_add(1, Ordering::Relaxed);
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(number, side.clone());
        number
    }
    /// None once the system has been dropped.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Side>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&number).cloned()
    }
    pub(crate) fn remove(&self, number: u64) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let side = all.remove(&number);
        drop(all);
        if let Some(side) = side {
            side.close();
        }
    }
}
