//! Timers and the deadlines of asks.

use std::collections::{BTreeSet, HashMap};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everwarp_contract::actor::{
    DEAD_TIMEOUT, MESSAGE_FAILED, MESSAGE_REPLY, MESSAGE_TIMER, MESSAGE_VALUE,
};

use crate::id::ActorId;
use crate::message::{MAX_ASK_WORDS, Message};

use super::{News, Side};

crate::number::number! {
    /// A timer of a system. Numbers are not used again.
    TimerId,
    /// No timer: the system ends.
    NONE
}

/// The time of a system, in nanoseconds.
#[derive(Debug)]
pub(crate) enum Clock {
    /// Since this moment.
    Real(Instant),
    /// What a simulation says.
    Virtual(AtomicU64),
}

impl Clock {
    pub(crate) fn now(&self) -> u64 {
        match self {
            Self::Real(begin) => nanos(begin.elapsed()),
            Self::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

#[derive(Debug)]
enum Timer {
    /// A message, once or with this period.
    Tell {
        to: ActorId,
        message: Message,
        every: Option<u64>,
        /// It is among the actor's news.
        waits: bool,
    },
    /// The deadline of an ask: the asker, and its number for the ask.
    Deadline { asker: ActorId, number: u64 },
}

/// All that waits for a time.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Times and numbers.
    queue: BTreeSet<(u64, u64)>,
    all: HashMap<u64, (u64, Timer)>,
    last: u64,
}

impl Timers {
    fn add(&mut self, due: u64, timer: Timer) -> u64 {
        self.last += 1;
        self.queue.insert((due, self.last));
        self.all.insert(self.last, (due, timer));
        self.last
    }
    pub(super) fn remove(&mut self, number: u64) {
        if let Some((due, _)) = self.all.remove(&number) {
            self.queue.remove(&(due, number));
        }
    }
    /// The message of a timer that is about to be handled; none if it was cancelled.
    pub(super) fn take(&mut self, number: u64) -> Option<Message> {
        let (_, timer) = self.all.get_mut(&number)?;
        let Timer::Tell {
            message,
            every,
            waits,
            ..
        } = timer
        else {
            return None;
        };
        let mut message = *message;
        message.words[MAX_ASK_WORDS] = number;
        *waits = false;
        if every.is_none() {
            self.remove(number);
        }
        Some(message)
    }
}

impl Timers {
    /// The message of a timer that is about to be sent to a GPU, and whether it is periodic: then the timer waits for
    /// [`Side::ticked`].
    fn send(&mut self, number: u64) -> Option<(Message, bool)> {
        let (_, timer) = self.all.get(&number)?;
        let Timer::Tell { message, every, .. } = timer else {
            return None;
        };
        let (mut message, periodic) = (*message, every.is_some());
        message.words[MAX_ASK_WORDS] = number;
        if !periodic {
            self.remove(number);
        }
        Some((message, periodic))
    }
}

impl Side {
    /// The oldest news of an actor on a GPU, which are sent there, and whether they are a periodic timer's.
    pub(crate) fn send_news(&self, actor: ActorId) -> Option<(Message, bool)> {
        let mut state = self.state();
        let record = state.records.get_mut(&actor)?;
        match record.news.pop_front()?.news {
            News::Message(message) => Some((message, false)),
            News::Timer(number) => state.timers.send(number),
            News::Value(value) => {
                let mut message = value.message();
                message.head |= MESSAGE_VALUE;
                record.sent.push_back(News::Value(value));
                Some((message, false))
            }
            News::Reset => Some((Message::OF_RESET, false)),
        }
    }
    /// An actor on a GPU handles the oldest value that it was sent.
    pub(crate) fn value_handled(&self, actor: ActorId) {
        let mut state = self.state();
        let record = state.records.get_mut(&actor);
        if let Some(News::Value(value)) = record.and_then(|record| record.sent.pop_front()) {
            state.handled(&value);
        }
    }
    /// A GPU handles the message of a periodic timer.
    pub(crate) fn ticked(&self, timer: TimerId) {
        if let Some((_, Timer::Tell { waits, .. })) = self.state().timers.all.get_mut(&timer.0) {
            *waits = false;
        }
    }
    fn add(&self, due: u64, timer: Timer) -> u64 {
        self.start_clock();
        let mut state = self.state();
        if state.closed {
            return 0;
        }
        let number = state.timers.add(due, timer);
        if state.timers.queue.first() == Some(&(due, number)) {
            self.changed.notify_all();
        }
        number
    }
    /// Sends a message to an actor after a time, or every time that it has passed. `know` returns whether the actor lives.
    pub(crate) fn timer(
        &self,
        to: ActorId,
        after: Duration,
        repeats: bool,
        mut message: Message,
        know: impl FnOnce(ActorId) -> bool,
    ) -> TimerId {
        message.head |= MESSAGE_TIMER;
        let after = nanos(after);
        let due = self.clock.now().saturating_add(after);
        let timer = Timer::Tell {
            to,
            message,
            every: repeats.then_some(after.max(1)),
            waits: false,
        };
        let number = self.add(due, timer);
        let mut state = self.state();
        if number == 0 || !know(to) {
            state.timers.remove(number);
            return TimerId::NONE;
        }
        // Those that have fired are not kept.
        let record = state.record(to);
        record.timers.push(number);
        if record.timers.len().is_power_of_two() && record.timers.len() > 8 {
            let mut kept = std::mem::take(&mut record.timers);
            kept.retain(|number| state.timers.all.contains_key(number));
            state.record(to).timers = kept;
        }
        TimerId(number)
    }
    /// Ends a timer. Returns whether a message was still to come; it does not come any more.
    pub(crate) fn cancel(&self, timer: TimerId) -> bool {
        self.cancel_if(timer, |_| true)
    }
    /// As [`cancel`](Self::cancel), if `may` holds for the actor that the timer sends to.
    pub(crate) fn cancel_if(&self, timer: TimerId, may: impl FnOnce(ActorId) -> bool) -> bool {
        let mut state = self.state();
        let found = match state.timers.all.get(&timer.0) {
            Some((_, Timer::Tell { to, .. })) => may(*to),
            _ => false,
        };
        if found {
            state.timers.remove(timer.0);
        }
        found
    }
    /// How many timers still send to an actor.
    pub(crate) fn timers_of(&self, actor: ActorId) -> usize {
        let state = self.state();
        let record = state.records.get(&actor);
        record.map_or(0, |record| {
            let live = |number: &&u64| state.timers.all.contains_key(number);
            record.timers.iter().filter(live).count()
        })
    }
    /// The deadline of an ask. Returns the number that goes with it.
    pub(crate) fn deadline(&self, asker: ActorId, number: u64, within: Duration) -> u64 {
        let due = self.clock.now().saturating_add(nanos(within));
        self.add(due, Timer::Deadline { asker, number })
    }
    /// The end of an ask with a deadline has come. Returns the asker's number for it; none if it comes too late.
    pub(crate) fn answer(&self, number: u64) -> Option<u64> {
        let mut state = self.state();
        let asker = match state.timers.all.get(&number) {
            Some((_, Timer::Deadline { number, .. })) => Some(*number),
            _ => None,
        };
        match asker {
            Some(_) => state.timers.remove(number),
            None => drop(self.late.fetch_add(1, Ordering::Relaxed)),
        }
        asker
    }

    /// An ask was undone before it was sent.
    pub(crate) fn forget_deadline(&self, number: u64) {
        self.state().timers.remove(number);
    }

    /// When the next timer is due.
    pub(crate) fn next_due(&self) -> Option<u64> {
        Some(self.state().timers.queue.first()?.0)
    }
    /// Fires what is due. Returns whether a courier is wanted.
    pub(crate) fn fire(&self) -> bool {
        let now = self.clock.now();
        let mut state = self.state();
        while let Some(&(due, number)) = state.timers.queue.first().filter(|t| t.0 <= now) {
            state.timers.queue.pop_first();
            let timers = &mut state.timers;
            let Some((at, timer)) = timers.all.get_mut(&number) else {
                continue;
            };
            let (to, news) = match timer {
                Timer::Deadline { asker, number: own } => {
                    let head = MESSAGE_REPLY | MESSAGE_FAILED | DEAD_TIMEOUT;
                    let mut message = Message {
                        head,
                        from: 0,
                        words: Default::default(),
                    };
                    message.words[MAX_ASK_WORDS] = *own;
                    let asker = *asker;
                    timers.all.remove(&number);
                    (asker, Some(News::Message(message)))
                }
                Timer::Tell {
                    to, every, waits, ..
                } => {
                    // A tick that finds the last one unhandled does not come a second time.
                    let news = (!*waits).then_some(News::Timer(number));
                    *waits = true;
                    if let Some(every) = every {
                        *at = due.saturating_add(*every);
                        timers.queue.insert((*at, number));
                    }
                    (*to, news)
                }
            };
            if let Some(news) = news {
                state.push(to, news);
            }
        }
        !state.ops.is_empty()
    }
    /// Waits until a timer is due. Returns false when the system ends.
    pub(crate) fn wait_until_due(&self) -> bool {
        let mut state = self.state();
        loop {
            if state.closed {
                return false;
            }
            if std::mem::take(&mut state.kicked) {
                return true;
            }
            let now = self.clock.now();
            let wait = match state.timers.queue.first() {
                Some(&(due, _)) if due <= now => return true,
                Some(&(due, _)) => Duration::from_nanos(due - now),
                None => Duration::from_secs(3600),
            };
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
