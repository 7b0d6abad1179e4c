//! Messages of the host to actors on a GPU. They are written straight into memory of the host that tasks reach over the
//! bus, in one half while the tasks of the other one run.

use std::collections::HashSet;
use std::mem::offset_of;
use std::ptr::NonNull;

use everwarp_contract::DevMessage;
use everwarp_contract::actor::{TELL_DELIVERED, TELL_FULL};
use everwarp_runtime::Pending;

use crate::error::ActorError;
use crate::id::ActorId;
use crate::message::MAX_WORDS;
use crate::program::Builtin;
use crate::system::{ActorSystem, Port, RECORD};

/// Messages of the host, by their numbers.
pub(crate) trait Messages {
    /// How many there are.
    fn count(&self) -> usize;
    /// The receiver of one.
    fn to(&self, number: usize) -> ActorId;
    /// Its head and its words. Words after the count in the head mean nothing.
    fn content(&self, number: usize) -> (u32, [u64; MAX_WORDS]);
}

/// The part of the messages that one batch delivers: their numbers in the order of their records.
#[derive(Default)]
struct Part {
    /// The half in which they are.
    half: usize,
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

/// Finds out whether an actor has several of some messages that are in no order.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    /// By slot: the last messages that had one to it.
    of_slot: Vec<u32>,
    last: u32,
}

impl Stamps {
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            of_slot: vec![0; slots as usize],
            last: 0,
        }
    }
    fn are_distinct(&mut self, mut receivers: impl Iterator<Item = ActorId>) -> bool {
        self.last = self.last.wrapping_add(1);
        if self.last == 0 {
            self.of_slot.fill(0);
            self.last = 1;
        }
        // An id of another system has no slot here, and its message reaches no actor.
        receivers.all(|to| match self.of_slot.get_mut(to.slot() as usize) {
            Some(stamp) => std::mem::replace(stamp, self.last) != self.last,
            None => true,
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

/// Actors that one task delivers to, where there are many.
const MOST_OF_TASK: usize = 8;
/// With fewer messages than this for each of them, a task delivers to fewer actors: more lanes take part.
const SPREAD: usize = 1 << 14;

impl ActorSystem {
    /// Hands messages over, whose records begin at `records`.
    pub(crate) fn hand_over_near(
        &self,
        port: &mut Port,
        records: NonNull<u64>,
        messages: &impl Messages,
    ) -> Result<HandedOver, ActorError> {
        let mut over = HandedOver::default();
        let room = self.tells.len() / RECORD;
        // Halves, if there are enough of them to have one under way while the other one is written.
        let (halves, each) = match messages.count() <= room {
            true => (1, room),
            false => (2, (room / 2).max(1)),
        };
        let mut under_way: Option<(Part, Pending)> = None;
        for (turn, first) in (0..messages.count()).step_by(each).enumerate() {
            let end = messages.count().min(first + each);
            let mut part = Part {
                half: turn % halves * each,
                numbers: order(&mut port.stamps, messages, first, end),
            };
            self.write_records(records, messages, &part);
            if let Some((before, pending)) = under_way.take() {
                self.finish(records, messages, &before, pending, &mut over)?;
            }
            if !over.behind.is_empty() {
                let numbers = (0..part.numbers.len()).map(|place| part.numbers.at(place) as u32);
                let (stay, go): (Vec<u32>, Vec<u32>) = numbers
                    .partition(|number| over.behind.contains(&messages.to(*number as usize)));
                if !stay.is_empty() {
                    over.full.extend(stay);
                    part.numbers = Numbers::Some(go);
                    self.write_records(records, messages, &part);
                }
            }
            if part.numbers.len() == 0 {
                continue;
            }
            let pending = self.submit_records(messages, &part)?;
            under_way = Some((part, pending));
        }
        if let Some((before, pending)) = under_way.take() {
            self.finish(records, messages, &before, pending, &mut over)?;
        }
        over.full.sort_unstable();
        Ok(over)
    }

    fn write_records(&self, records: NonNull<u64>, messages: &impl Messages, part: &Part) {
        const WORDS: usize = offset_of!(DevMessage, words) / 8;
        const FROM: usize = offset_of!(DevMessage, from) / 8;
        const TO: usize = offset_of!(DevMessage, to) / 8;
        const {
            // The head is the upper half of the first word, and the state the lower one.
            assert!(cfg!(target_endian = "little"));
            assert!(offset_of!(DevMessage, next) == 0 && offset_of!(DevMessage, head) == 4);
            assert!(TELL_DELIVERED == 0);
        }
        let count = part.numbers.len();
        assert!((part.half + count) * RECORD <= self.tells.len());
        let write = |place: usize, number: usize| {
            let (head, words) = messages.content(number);
            let mut record = [0; RECORD];
            record[0] = u64::from(head) << 32;
            record[FROM] = 0;
            record[WORDS..WORDS + MAX_WORDS].copy_from_slice(&words);
            record[TO] = messages.to(number).bits();
            // SAFETY: the place is in the buffer, which only this thread writes while it has the port, and no task
            // that reads it is under way.
            unsafe {
                records
                    .add((part.half + place) * RECORD)
                    .cast()
                    .write(record)
            };
        };
        match &part.numbers {
            Numbers::None => {}
            Numbers::All(first, end) => {
                (*first..*end)
                    .enumerate()
                    .for_each(|(place, number)| write(place, number));
            }
            Numbers::Some(numbers) => {
                let numbers = numbers.iter().enumerate();
                numbers.for_each(|(place, number)| write(place, *number as usize));
            }
        }
    }

    /// Submits the tasks that deliver a part.
    fn submit_records(&self, messages: &impl Messages, part: &Part) -> Result<Pending, ActorError> {
        let function = self.function(Builtin::Tell);
        let count = part.numbers.len();
        let each = (count / SPREAD).clamp(1, MOST_OF_TASK);
        let mut tasks = Vec::with_capacity(count / each + 1);
        let mut first = 0;
        while first < count {
            // No actor is in two of them.
            let mut end = count.min(first + each);
            let last = messages.to(part.numbers.at(end - 1));
            while end < count && messages.to(part.numbers.at(end)) == last {
                end += 1;
            }
            let (at, many) = ((part.half + first) as u32, (end - first) as u32);
            tasks.push(self.instance.task(function).args(at, many).build());
            first = end;
        }
        Ok(self.engine.submit_batch(&tasks)?)
    }

    /// Waits until a part is delivered, and adds what was not.
    fn finish(
        &self,
        records: NonNull<u64>,
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
            let state = unsafe { records.add((part.half + place) * RECORD).read_volatile() } as u32;
            let number = part.numbers.at(place);
            let actor = messages.to(number);
            match state {
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

/// The order in which messages are delivered: those to one actor are next to each other, in their order.
fn order(stamps: &mut Stamps, messages: &impl Messages, first: usize, end: usize) -> Numbers {
    let receivers = || (first..end).map(|number| messages.to(number));
    if receivers().is_sorted() || stamps.are_distinct(receivers()) {
        return Numbers::All(first, end);
    }
    let mut order: Vec<_> = receivers().zip(first as u32..).collect();
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
        fn content(&self, number: usize) -> (u32, [u64; MAX_WORDS]) {
            (0, [number as u64; MAX_WORDS])
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
        let mut distinct =
            |to: &[u64]| stamps.are_distinct(to.iter().map(|bits| ActorId::from_bits(*bits)));
        for _ in 0..3 {
            assert!(distinct(&[3, 1, 2]));
            assert!(!distinct(&[3, 1, 3]));
        }
    }
}
