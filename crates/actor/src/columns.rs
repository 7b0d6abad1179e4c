//! Messages and asks of the host as columns: an array of actors, and for each field a word for each or one for all. The
//! records that tasks read are written straight from the columns.

use std::collections::HashSet;
use std::mem::offset_of;
use std::ops::Range;
use std::time::{Duration, Instant};

use everwarp_contract::DevMessage;
use everwarp_contract::actor::{MESSAGE_FAILED, MESSAGE_HOST, TELL_DELIVERED, TELL_FULL};
use everwarp_runtime::{EngineKind, Error};

use crate::asked::lock;
use crate::error::ActorError;
use crate::id::ActorId;
use crate::message::{DeadReason, MAX_ASK_WORDS, MAX_WORDS, Message};
use crate::near::{HandedOver, Messages, Values, are_in_order};
use crate::program::Builtin;
use crate::system::{ActorSystem, RECORD, TELLS_OF_TASK, Tell, from_words};

/// A field of many messages.
#[derive(Clone, Copy, Debug)]
pub enum Column<'w> {
    /// One word for all messages.
    All(u64),
    /// A word for each message.
    Each(&'w [u64]),
}

impl Column<'_> {
    fn word(&self, number: usize) -> u64 {
        match self {
            Self::All(word) => *word,
            Self::Each(words) => words[number],
        }
    }
}

/// Messages that are written at a time on the CPU engine: their records stay in its caches.
pub(crate) const PART: usize = 1 << 14;

/// A message of some columns.
#[derive(Clone, Copy)]
struct Rows<'c> {
    to: &'c [ActorId],
    tag: u8,
    columns: &'c [Column<'c>],
}

impl<'c> Rows<'c> {
    /// # Panics
    /// A column does not fit, or there are more than `most`.
    fn new(to: &'c [ActorId], tag: u8, columns: &'c [Column<'c>], most: usize) -> Self {
        let count = columns.len();
        assert!(
            count <= most,
            "a message has up to {most} words here, not {count}"
        );
        for column in columns {
            if let Column::Each(words) = column {
                assert_eq!(words.len(), to.len(), "a column has a word for each actor");
            }
        }
        Self { to, tag, columns }
    }
    fn content(&self, number: usize) -> ([u64; MAX_WORDS], usize) {
        let mut words = [0; MAX_WORDS];
        for (word, column) in words.iter_mut().zip(self.columns) {
            *word = column.word(number);
        }
        (words, self.columns.len())
    }
    fn tell(&self, number: usize) -> Tell {
        let (words, count) = self.content(number);
        Tell::new(self.to[number], self.tag, &words[..count])
    }
    /// The record that a task reads.
    fn record(&self, number: usize) -> [u64; RECORD] {
        const WORDS: usize = offset_of!(DevMessage, words) / 8;
        const TO: usize = offset_of!(DevMessage, to) / 8;
        const {
            assert!(
                cfg!(target_endian = "little"),
                "the head is the upper half of the first word"
            );
            assert!(offset_of!(DevMessage, head) == 4);
        }
        let head = Message::head_of(self.tag, self.columns.len(), MAX_WORDS);
        let mut record = [0; RECORD];
        record[0] = u64::from(head) << 32;
        for (word, column) in record[WORDS..].iter_mut().zip(self.columns) {
            *word = column.word(number);
        }
        record[TO] = self.to[number].bits();
        record
    }
}

impl Messages for Rows<'_> {
    fn count(&self) -> usize {
        self.to.len()
    }
    #[inline]
    fn to(&self, number: usize) -> ActorId {
        self.to[number]
    }
    fn heads(&self, _: Range<usize>) -> Values<impl Fn(usize) -> u64> {
        let head = Message::head_of(self.tag, self.columns.len(), MAX_WORDS);
        Values::<fn(usize) -> u64>::All(head.into())
    }
    fn words(&self, word: usize, _: Range<usize>) -> Values<impl Fn(usize) -> u64> {
        match self.columns.get(word) {
            None => Values::All(0),
            Some(Column::All(all)) => Values::All(*all),
            Some(Column::Each(words)) => Values::Each(move |number: usize| words[number]),
        }
    }
}

/// The ranges of sorted receivers that one task each delivers: no actor is in two of them.
fn ranges(to: &[ActorId]) -> impl Iterator<Item = (u32, u32)> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let rest = to.get(first..).filter(|rest| !rest.is_empty())?;
        let mut count = TELLS_OF_TASK.min(rest.len());
        let last = rest[count - 1];
        count += rest[count..].iter().take_while(|to| **to == last).count();
        let range = (first as u32, count as u32);
        first += count;
        Some(range)
    })
}

impl ActorSystem {
    /// How long the host waits for room in a mailbox, and for a reply, unless it says otherwise.
    pub fn patience(&self) -> Duration {
        self.config.patience
    }
    /// Sends a message to each actor, as [`tell_all`](Self::tell_all) does. It is fastest with each actor once, or
    /// with actors in the order of their ids.
    ///
    /// # Errors
    /// As [`tell_all`](Self::tell_all).
    ///
    /// # Panics
    /// There are more than [`MAX_WORDS`] columns, or one has not a word for each actor.
    pub fn tell_columns(
        &self,
        to: &[ActorId],
        tag: u8,
        columns: &[Column<'_>],
    ) -> Result<(), ActorError> {
        Self::may_wait("ActorSystem::tell")?;
        let rows = Rows::new(to, tag, columns, MAX_WORDS);
        if let Some(memory) = self.tells.near() {
            let mut port = self.port();
            let HandedOver { full, problem, .. } = self.hand_over_near(&mut port, memory, &rows)?;
            drop(port);
            let full = full.iter().map(|number| rows.tell(*number as usize));
            return self.tell_full(full.collect(), problem);
        }
        let mut port = self.port();
        let receivers = to.iter().copied();
        if self.engine.kind() != EngineKind::Cpu || !are_in_order(&mut port.stamps, receivers) {
            drop(port);
            let tells: Vec<_> = (0..to.len()).map(|number| rows.tell(number)).collect();
            return self.tell_all(&tells);
        }
        let mut gone = None;
        let mut left = Vec::new();
        let mut done = 0;
        let mut records = Vec::new();
        // Once a mailbox is full, all others take the way on which they wait in their order.
        while done < to.len() && left.is_empty() {
            let most = (self.config.host_messages as usize).min(PART);
            let part = &to[done..to.len().min(done + most)];
            records.clear();
            records.extend((done..done + part.len()).flat_map(|number| rows.record(number)));
            self.tells.write_at(0, &records)?;
            if self.run_ranges(Builtin::Tell, 0, ranges(part))? != 0 {
                self.tells.read_at(0, &mut records)?;
                for (number, record) in (done..).zip(records.chunks_exact(RECORD)) {
                    match from_words::<DevMessage>(record).next {
                        TELL_DELIVERED => {}
                        TELL_FULL => left.push(rows.tell(number)),
                        _ => gone = gone.or(Some(ActorError::Gone { actor: to[number] })),
                    }
                }
            }
            done += part.len();
        }
        drop(port);
        if !left.is_empty() {
            left.extend((done..to.len()).map(|number| rows.tell(number)));
            self.tell_all(&left)?;
        }
        gone.map_or(Ok(()), Err)
    }

    /// Asks each actor and waits for all replies up to a time, which they have in common as far as they are under way
    /// together: half of [`ActorConfig::asks`](crate::ActorConfig) are at a time. Replies are in the order of the actors.
    ///
    /// # Errors
    /// The number of the first ask without a reply, with its error, which is as of [`ask`](Self::ask). Others may have been
    /// handled all the same.
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`] columns, or one has not a word for each actor.
    pub fn ask_columns(
        &self,
        to: &[ActorId],
        tag: u8,
        columns: &[Column<'_>],
        within: Duration,
    ) -> Result<Vec<Message>, (usize, ActorError)> {
        Self::may_wait("ActorSystem::ask").map_err(|error| (0, error))?;
        let rows = Rows::new(to, tag, columns, MAX_ASK_WORDS);
        let most = (self.config.asks / 2).max(1) as usize;
        let mut replies = Vec::with_capacity(to.len());
        while replies.len() < to.len() {
            let first = replies.len();
            let rest = &to[first..to.len().min(first + most)];
            // Two asks to one actor arrive in their order, so they are not under way together.
            let count = match rest.is_sorted_by(|one, next| one < next) {
                true => rest.len(),
                false => {
                    let mut known = HashSet::new();
                    rest.iter().take_while(|to| known.insert(**to)).count()
                }
            };
            let numbers = first..first + count;
            match self.engine.kind() {
                EngineKind::Cpu => self.ask_together(rows, numbers, within, &mut replies)?,
                _ => self.ask_side_by_side(rows, numbers, within, &mut replies)?,
            }
        }
        Ok(replies)
    }

    /// Asks some actors of a GPU, all of them before the first reply is waited for, and adds their replies.
    fn ask_side_by_side(
        &self,
        rows: Rows<'_>,
        numbers: std::ops::Range<usize>,
        within: Duration,
        replies: &mut Vec<Message>,
    ) -> Result<(), (usize, ActorError)> {
        let begin = Instant::now();
        let ask = |number: usize| {
            let (words, count) = rows.content(number);
            self.ask_later(rows.to[number], rows.tag, &words[..count])
        };
        let asked: Vec<_> = numbers.clone().map(ask).collect();
        for (number, asked) in numbers.zip(asked) {
            let left = || within.saturating_sub(begin.elapsed());
            let mut reply = asked.and_then(|mut asked| asked.wait(left(), |e| self.explain(e)));
            // Others make room in a mailbox, and asks whose reply has come complete soon.
            while let Err(ActorError::Full { .. } | ActorError::TooManyAsks { .. }) = reply {
                if left().is_zero() {
                    break;
                }
                std::thread::sleep(Duration::from_micros(20));
                let (words, count) = rows.content(number);
                reply = self.ask_within(rows.to[number], rows.tag, &words[..count], left());
            }
            let reply = reply.map_err(|error| match error {
                ActorError::Timeout { .. } => ActorError::Timeout { after: within },
                other => other,
            });
            replies.push(reply.map_err(|error| (number, error))?);
        }
        Ok(())
    }

    /// Asks some actors at once, and adds their replies.
    fn ask_together(
        &self,
        rows: Rows<'_>,
        numbers: std::ops::Range<usize>,
        within: Duration,
        replies: &mut Vec<Message>,
    ) -> Result<(), (usize, ActorError)> {
        let begin = Instant::now();
        let mut pause = Duration::from_micros(20);
        let first = replies.len();
        let none = Message::new(ActorId::NONE, 0, &[], 0);
        replies.resize(first + numbers.len(), none);
        let mut left: Vec<usize> = numbers.collect();
        let mut error: Option<(usize, ActorError)> = None;
        while !left.is_empty() {
            let time = within.saturating_sub(begin.elapsed());
            let ended = |number: usize, reply| match reply {
                Ok(message) => replies[number] = message,
                Err(problem) if error.as_ref().is_none_or(|(known, _)| number < *known) => {
                    error = Some((number, problem));
                }
                Err(_) => {}
            };
            let asked = self.ask_some(rows, &left, within, time, ended);
            let full = asked.map_err(|error| (left[0], error))?;
            if full.is_empty() {
                break;
            }
            if begin.elapsed() >= within {
                let actor = rows.to[full[0]];
                return Err((full[0], ActorError::Full { actor }));
            }
            left = full;
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(2));
        }
        error.map_or(Ok(()), Err)
    }

    /// Asks some actors once. Returns those that could not be asked yet.
    fn ask_some(
        &self,
        rows: Rows<'_>,
        numbers: &[usize],
        within: Duration,
        time: Duration,
        mut ended: impl FnMut(usize, Result<Message, ActorError>),
    ) -> Result<Vec<usize>, ActorError> {
        let mut port = self.port();
        let mut taken = lock(&self.records).take_up_to(numbers.len());
        // Neighbours, as far as there are some: the replies are next to each other then.
        taken.sort_unstable();
        let (now, later) = numbers.split_at(taken.len());
        let mut full = later.to_vec();
        if now.is_empty() {
            return Ok(full);
        }
        let function = self.function(Builtin::Ask);
        let write = |(&record, &number): (&u32, &usize)| {
            let at = record as usize * RECORD;
            self.replies.write_at(at, &rows.record(number))
        };
        let tasks: Vec<_> = (taken.iter())
            .map(|record| self.instance.task(function).arg((*record).into()).build())
            .collect();
        let written = taken.iter().zip(now).try_for_each(write);
        let mut pending = match written.and_then(|()| self.engine.submit_batch(&tasks)) {
            Ok(pending) => pending,
            Err(error) => {
                lock(&self.records).give(&taken);
                return Err(error.into());
            }
        };
        port.asked += taken.len() as u64;
        drop(port);
        match pending.wait_timeout(time) {
            Ok(_) => {}
            Err(Error::Timeout { .. }) => {
                lock(&self.records).leave(taken, pending);
                return Err(ActorError::Timeout { after: within });
            }
            // Asks that an ended engine has left are never used again, and neither are their records.
            Err(error) => return Err(self.explain(error)),
        }
        for (&record, &number) in taken.iter().zip(now) {
            let mut words = [0; RECORD];
            self.replies.read_at(record as usize * RECORD, &mut words)?;
            let DevMessage {
                next, head, words, ..
            } = from_words(&words);
            let actor = rows.to[number];
            match next {
                TELL_DELIVERED if head & MESSAGE_FAILED == 0 => {
                    // The ask was the host's; its reply is the actor's.
                    let (head, from) = (head & !MESSAGE_HOST, actor.bits());
                    ended(number, Ok(Message { head, from, words }));
                }
                TELL_DELIVERED => {
                    let reason = DeadReason::of(head & 0xff);
                    ended(number, Err(ActorError::NoReply { reason }));
                }
                TELL_FULL => full.push(number),
                _ => ended(number, Err(ActorError::Gone { actor })),
            }
        }
        lock(&self.records).give(&taken);
        Ok(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_those_of_single_messages() {
        let to: Vec<_> = (1..4).map(ActorId::from_bits).collect();
        let (own, other) = ([7, 8, 9], [u64::MAX, 0, 5]);
        let columns = [
            Column::Each(&own),
            Column::All(3),
            Column::Each(&other),
            Column::All(1),
            Column::All(2),
        ];
        for count in 0..=MAX_WORDS {
            let rows = Rows::new(&to, 200, &columns[..count], MAX_WORDS);
            for number in 0..to.len() {
                assert_eq!(rows.record(number), rows.tell(number).words());
            }
        }
    }

    #[test]
    fn no_actor_is_in_two_ranges() {
        let to = |bits: &[u64]| -> Vec<_> { bits.iter().map(|b| ActorId::from_bits(*b)).collect() };
        let mut many: Vec<u64> = (0..100).collect();
        many[20..70].fill(20);
        let many = to(&many);
        let found: Vec<_> = ranges(&many).collect();
        assert_eq!(
            found[0],
            (0, 70),
            "32 messages, and all others to the same actor"
        );
        assert_eq!(found.iter().map(|(_, count)| count).sum::<u32>(), 100);
        for (first, count) in found {
            let next = (first + count) as usize;
            assert!(next == 100 || many[next] != many[next - 1]);
        }
        assert_eq!(ranges(&[]).count(), 0);
    }
}
