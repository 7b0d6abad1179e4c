//! Messages of the host to actors on a GPU. They are written as columns, straight into memory of the host that tasks reach
//! over the bus, in one half of it while the tasks of the other one run. The device has the same in `actor/tell.cuh`.

use std::collections::HashSet;
use std::ops::Range;
use std::ptr::NonNull;

use everwarp_contract::actor::{MESSAGE_WORDS, TELL_DELIVERED, TELL_FULL, TELL_ROWS};
use everwarp_contract::{DevTells, DevType};
use everwarp_runtime::Pending;

use crate::error::ActorError;
use crate::id::ActorId;
use crate::message::MAX_WORDS;
use crate::program::Builtin;
use crate::system::{ActorSystem, Port, RECORD, to_words};

/// Messages of the host, by their numbers.
pub(crate) trait Messages {
    /// How many there are.
    fn count(&self) -> usize;
    /// The receiver of one.
    fn to(&self, number: usize) -> ActorId;
    /// The heads of some of them.
    fn heads(&self, some: Range<usize>) -> Values<impl Fn(usize) -> u64>;
    /// One of their words, which means nothing beyond the count in a head.
    fn words(&self, word: usize, some: Range<usize>) -> Values<impl Fn(usize) -> u64>;
}

/// A part of messages.
pub(crate) enum Values<F> {
    /// The same of all.
    All(u64),
    /// By their numbers.
    Each(F),
}

impl<F: Fn(usize) -> u64> Values<F> {
    /// Those of some messages.
    pub(crate) fn of(some: Range<usize>, value: F) -> Self {
        let mut some = some.map(&value);
        match some.next() {
            Some(first) if some.all(|other| other == first) => Self::All(first),
            _ => Self::Each(value),
        }
    }
}

/// Records that the memory for messages has room for, so that each of its halves has a header and room for half of this
/// many messages: ids, heads and words have up to seven columns, and statuses half of one. A warp of the device reads up to
/// 31 words behind the last id, for which six rows are enough.
pub(crate) fn records(host_messages: u32) -> usize {
    let rows = (host_messages as usize).div_ceil(2).next_multiple_of(2);
    2 * (1 + rows.max(6))
}
/// How many words a half has, when the memory has this many.
fn half(words: usize) -> usize {
    words / 2
}
/// The most messages in a half.
fn most_rows(words: usize) -> usize {
    half(words) / RECORD - 1
}

/// The part of the messages that one batch delivers: their numbers in the order of their rows.
#[derive(Default)]
struct Part {
    /// The half in which they are: its first word.
    half: usize,
    /// The first word of their statuses.
    statuses: usize,
    /// They are among these.
    among: Range<usize>,
    numbers: Numbers,
}

#[derive(Default)]
enum Numbers {
    #[default]
    None,
    /// As they come: first and end.
    All(usize, usize),
    /// In another order, or without some.
    Some(Vec<u32>),
}

impl Numbers {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::All(first, end) => end - first,
            Self::Some(numbers) => numbers.len(),
        }
    }
    fn at(&self, place: usize) -> usize {
        match self {
            Self::None => unreachable!("there is none"),
            Self::All(first, _) => first + place,
            Self::Some(numbers) => numbers[place] as usize,
        }
    }
}

/// Finds out whether messages to one actor are next to each other, where ids are in no order.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    slots: u32,
    /// By slot, once they are needed: the last messages that had one to it.
    of_slot: Vec<u32>,
    last: u32,
}

impl Stamps {
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            slots,
            ..Self::default()
        }
    }
    fn are_in_runs(&mut self, mut receivers: impl Iterator<Item = ActorId>) -> bool {
        self.of_slot.resize(self.slots as usize, 0);
        self.last = self.last.wrapping_add(1);
        if self.last == 0 {
            self.of_slot.fill(0);
            self.last = 1;
        }
        let mut before = ActorId::NONE;
        receivers.all(|to| {
            let after = std::mem::replace(&mut before, to);
            match self.of_slot.get_mut(to.slot() as usize) {
                Some(stamp) => after == to || std::mem::replace(stamp, self.last) != self.last,
                // An id of another system has no slot here, and its message reaches no actor.
                None => true,
            }
        })
    }
}

/// What became of messages.
#[derive(Default)]
pub(crate) struct HandedOver {
    /// The numbers of those that do not fit.
    pub(crate) full: Vec<u32>,
    /// The first problem.
    pub(crate) problem: Option<ActorError>,
    /// Actors whose mailbox is full: their later messages stay behind the earlier ones.
    behind: HashSet<ActorId>,
}

impl ActorSystem {
    /// Hands messages over, in this memory.
    pub(crate) fn hand_over_near(
        &self,
        port: &mut Port,
        memory: NonNull<u64>,
        messages: &impl Messages,
    ) -> Result<HandedOver, ActorError> {
        let mut over = HandedOver::default();
        // Never more than the pool of cells bears while actors have not handled the last ones.
        let most = (self.config.messages / 4).max(2) as usize;
        let each = most_rows(self.tells.len()).min(most);
        let mut under_way: Option<(Part, Pending)> = None;
        for (turn, first) in (0..messages.count()).step_by(each).enumerate() {
            let end = messages.count().min(first + each);
            let mut part = Part {
                half: turn % 2 * half(self.tells.len()),
                statuses: 0,
                among: first..end,
                numbers: order(&mut port.stamps, messages, first, end),
            };
            self.write_columns(memory, messages, &mut part);
            if let Some((before, pending)) = under_way.take() {
                self.finish(memory, messages, &before, pending, &mut over)?;
            }
            if !over.behind.is_empty() {
                let numbers = (0..part.numbers.len()).map(|place| part.numbers.at(place) as u32);
                let (stay, go): (Vec<u32>, Vec<u32>) = numbers
                    .partition(|number| over.behind.contains(&messages.to(*number as usize)));
                if !stay.is_empty() {
                    over.full.extend(stay);
                    part.numbers = Numbers::Some(go);
                    self.write_columns(memory, messages, &mut part);
                }
            }
            if part.numbers.len() == 0 {
                continue;
            }
            let pending = self.submit_rows(&part)?;
            under_way = Some((part, pending));
        }
        if let Some((before, pending)) = under_way.take() {
            self.finish(memory, messages, &before, pending, &mut over)?;
        }
        over.full.sort_unstable();
        Ok(over)
    }

    fn write_columns(&self, memory: NonNull<u64>, messages: &impl Messages, part: &mut Part) {
        const { assert!(TELL_DELIVERED == 0 && size_of::<DevTells>() == 8 * RECORD) };
        let rows = part.numbers.len();
        let stride = rows.next_multiple_of(2);
        let mut header = DevTells {
            rows: rows as u32,
            stride: stride as u32,
            ..DevTells::ZERO
        };
        let mut columns = Columns {
            memory,
            at: part.half + RECORD,
            end: part.half + half(self.tells.len()),
            stride,
            numbers: &part.numbers,
        };
        columns.write(|number| messages.to(number).bits());
        for word in 0..MAX_WORDS {
            match messages.words(word, part.among.clone()) {
                Values::All(all) => header.words[word] = all,
                Values::Each(each) => {
                    header.columns |= 1 << word;
                    columns.write(each);
                }
            }
        }
        match messages.heads(part.among.clone()) {
            Values::All(all) => header.head = all as u32,
            Values::Each(each) => {
                header.columns |= 1 << MESSAGE_WORDS;
                columns.write(each);
            }
        }
        part.statuses = columns.at;
        let statuses = columns.take(stride / 2);
        let header = to_words(&header);
        // SAFETY: both are in this half; see `Columns::write`.
        unsafe {
            statuses.write_bytes(0, stride / 2);
            memory
                .add(part.half)
                .copy_from(NonNull::from(&header[0]), header.len());
        }
    }

    /// Submits the tasks that deliver a part.
    fn submit_rows(&self, part: &Part) -> Result<Pending, ActorError> {
        let function = self.function(Builtin::Tells);
        let header = (part.half / RECORD) as u32;
        let rows = (0..part.numbers.len() as u32).step_by(TELL_ROWS as usize);
        let task = |row| self.instance.task(function).args(header, row).build();
        let tasks: Vec<_> = rows.map(task).collect();
        Ok(self.engine.submit_batch(&tasks)?)
    }

    /// Waits until a part is delivered, and adds what was not.
    fn finish(
        &self,
        memory: NonNull<u64>,
        messages: &impl Messages,
        part: &Part,
        pending: Pending,
        over: &mut HandedOver,
    ) -> Result<(), ActorError> {
        if self.wait(pending)? == 0 {
            return Ok(());
        }
        for place in 0..part.numbers.len() {
            // SAFETY: the place is in the buffer, and the tasks that wrote there have completed.
            let status = unsafe {
                let statuses = memory.add(part.statuses).cast::<u32>();
                statuses.add(place).read_volatile()
            };
            let number = part.numbers.at(place);
            let actor = messages.to(number);
            match status {
                TELL_DELIVERED => {}
                TELL_FULL => {
                    over.problem.get_or_insert(ActorError::Full { actor });
                    over.behind.insert(actor);
                    over.full.push(number as u32);
                }
                _ => over.problem = Some(ActorError::Gone { actor }),
            }
        }
        Ok(())
    }
}

/// The columns of a part, one after the other.
struct Columns<'p> {
    memory: NonNull<u64>,
    at: usize,
    end: usize,
    stride: usize,
    numbers: &'p Numbers,
}

impl Columns<'_> {
    /// The place of the next words.
    fn take(&mut self, words: usize) -> NonNull<u64> {
        let at = self.at;
        self.at += words;
        assert!(self.at <= self.end, "a half has room for all columns");
        // SAFETY: the half is in the buffer.
        unsafe { self.memory.add(at) }
    }
    fn write(&mut self, value: impl Fn(usize) -> u64) {
        let to = self.take(self.stride);
        // SAFETY: the place is in the column, only this thread writes there while it has the port, and no task that reads it
        // is under way.
        let write = |place: usize, word: u64| unsafe { to.add(place).write(word) };
        match self.numbers {
            Numbers::None => {}
            Numbers::All(first, end) => {
                (*first..*end)
                    .enumerate()
                    .for_each(|(place, number)| write(place, value(number)));
            }
            Numbers::Some(numbers) => {
                let numbers = numbers.iter().enumerate();
                numbers.for_each(|(place, number)| write(place, value(*number as usize)));
            }
        }
    }
}

/// Whether messages to one actor are next to each other, as far as one finds out soon.
pub(crate) fn are_in_order(
    stamps: &mut Stamps,
    receivers: impl Iterator<Item = ActorId> + Clone,
) -> bool {
    receivers.clone().is_sorted() || stamps.are_in_runs(receivers)
}

/// The order in which messages are delivered: those to one actor are next to each other, in their order.
fn order(stamps: &mut Stamps, messages: &impl Messages, first: usize, end: usize) -> Numbers {
    let receivers = (first..end).map(|number| messages.to(number));
    if are_in_order(stamps, receivers.clone()) {
        return Numbers::All(first, end);
    }
    let mut order: Vec<_> = receivers.zip(first as u32..).collect();
    order.sort_unstable();
    Numbers::Some(order.into_iter().map(|(_, number)| number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct To(Vec<u64>);

    impl Messages for To {
        fn count(&self) -> usize {
            self.0.len()
        }
        fn to(&self, number: usize) -> ActorId {
            ActorId::from_bits(self.0[number])
        }
        fn heads(&self, _: Range<usize>) -> Values<impl Fn(usize) -> u64> {
            Values::<fn(usize) -> u64>::All(0)
        }
        fn words(&self, _: usize, _: Range<usize>) -> Values<impl Fn(usize) -> u64> {
            Values::Each(|number| number as u64)
        }
    }

    fn ordered(to: &[u64], first: usize) -> Vec<usize> {
        let mut stamps = Stamps::new(100);
        // What was there before does not matter.
        let all = To(to.to_vec());
        order(&mut stamps, &all, 0, to.len());
        let numbers = order(&mut stamps, &all, first, to.len());
        (0..numbers.len()).map(|place| numbers.at(place)).collect()
    }

    #[test]
    fn messages_to_one_actor_come_next_to_each_other_in_their_order() {
        assert_eq!(ordered(&[1, 2, 2, 3], 0), [0, 1, 2, 3]);
        assert_eq!(ordered(&[3, 1, 2], 0), [0, 1, 2]);
        assert_eq!(ordered(&[3, 1, 3, 2, 1], 0), [1, 4, 3, 0, 2]);
        assert_eq!(ordered(&[3, 1, 3, 2, 1], 2), [2, 3, 4]);
        // Ids of another system.
        assert_eq!(ordered(&[500, 1, 500], 0), [0, 1, 2]);
    }

    #[test]
    fn stamps_are_used_again() {
        let mut stamps = Stamps::new(4);
        stamps.last = u32::MAX - 1;
        let mut in_runs =
            |to: &[u64]| stamps.are_in_runs(to.iter().map(|bits| ActorId::from_bits(*bits)));
        for _ in 0..3 {
            assert!(in_runs(&[3, 1, 1, 2]));
            assert!(!in_runs(&[3, 1, 3]));
        }
    }
}
