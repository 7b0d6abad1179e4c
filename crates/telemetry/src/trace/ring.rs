//! The ring of one thread.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;

use super::names::NameId;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// Something that took time. `link` is the flow that ends at its begin, or 0.
    Slice = 1,
    /// A flow begins: `link` is its number.
    Send = 2,
    /// A message was sent in the cell `link`.
    SendCell = 3,
    /// A slice in which messages were handled, within that of a turn. One of them came in the cell `link`, unless that is 0.
    HandleCell = 4,
    /// A message that came in the cell `link` was handled in the slice of handlers before it.
    TakeCell = 5,
}

/// What is missing of a worker's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// How many older ones there were.
    pub count: u64,
    /// No message of an actor that was sent or taken is among them, unless it was so by then.
    pub until: u64,
}

/// One event of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is.
    pub kind: EventKind,
    /// What it is called.
    pub name: NameId,
    /// A number that is shown with it.
    pub argument: u32,
    /// When it began, on [`crate::clock`].
    pub begin: u64,
    /// When it ended; the same for an event without duration.
    pub end: u64,
    /// The number of a flow or a cell.
    pub link: u64,
}

impl Event {
    /// A slice, at whose begin the flow `link` ends unless that is 0.
    pub fn slice(name: NameId, begin: u64, end: u64, argument: u32, link: u64) -> Self {
        Self {
            kind: EventKind::Slice,
            name,
            argument,
            begin,
            end,
            link,
        }
    }
    /// A slice in which a message was handled that came in the cell `link`, or several ones, if that is 0.
    pub fn handler(name: NameId, begin: u64, end: u64, argument: u32, link: u64) -> Self {
        Self {
            kind: EventKind::HandleCell,
            ..Self::slice(name, begin, end, argument, link)
        }
    }
    /// The begin of a flow, or a message that was taken from a cell.
    pub fn send(kind: EventKind, at: u64, link: u64) -> Self {
        Self {
            kind,
            name: NameId(0),
            argument: 0,
            begin: at,
            end: at,
            link,
        }
    }

    /// What lies within what, where times are equal: handlers within turns, and messages within both.
    pub(super) fn depth(&self) -> u32 {
        match self.kind {
            EventKind::Slice => 0,
            EventKind::HandleCell => 1,
            EventKind::Send | EventKind::SendCell | EventKind::TakeCell => 2,
        }
    }

    fn words(self) -> [u64; 4] {
        let what = (self.kind as u64) << 60 | u64::from(self.name.0 & 0x0fff_ffff) << 32;
        [
            self.begin,
            self.end,
            what | u64::from(self.argument),
            self.link,
        ]
    }
    fn of_words([begin, end, what, link]: [u64; 4]) -> Option<Self> {
        let kind = match what >> 60 {
            1 => EventKind::Slice,
            2 => EventKind::Send,
            3 => EventKind::SendCell,
            4 => EventKind::HandleCell,
            5 => EventKind::TakeCell,
            _ => return None,
        };
        let name = NameId((what >> 32) as u32 & 0x0fff_ffff);
        Some(Self {
            kind,
            name,
            argument: what as u32,
            begin,
            end,
            link,
        })
    }
}

/// The events of one thread, which is the only writer. Any thread may read it.
#[derive(Debug)]
pub struct Ring {
    pub(super) thread: String,
    pub(super) number: u32,
    slots: Box<[[AtomicU64; 4]]>,
    /// Events written so far.
    written: CachePadded<AtomicU64>,
    /// What was missing when the ring was made of events in the order of [`Tracer::add`](super::Tracer::add); none in one that its thread
    /// writes.
    ordered: Option<Losses>,
}

/// What a ring has.
#[derive(Debug)]
pub(super) struct RingContent {
    /// Each slice before what lies within it.
    pub(super) events: Vec<Event>,
    /// Older events that were overwritten.
    pub(super) losses: Losses,
}

impl Ring {
    pub(super) fn new(thread: &str, number: u32, capacity: usize) -> Self {
        Self {
            thread: thread.to_owned(),
            number,
            slots: (0..capacity).map(|_| Default::default()).collect(),
            written: CachePadded::default(),
            ordered: None,
        }
    }

    /// The ring of a worker that has ended: its last events, in the order of [`Tracer::add`](super::Tracer::add).
    pub(super) fn of(worker: &str, number: u32, events: &[Event], losses: Losses) -> Self {
        let mut ring = Self::new(worker, number, events.len().max(1));
        events.iter().for_each(|&event| ring.push(event));
        ring.ordered = Some(losses);
        ring
    }

    /// The ring's number; no other ring has it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Appends an event, over the oldest one if the ring is full. Only the thread that owns the ring may call this.
    #[inline]
    pub fn push(&self, event: Event) {
        let at = self.written.load(Ordering::Relaxed);
        let slot = &self.slots[(at % self.slots.len() as u64) as usize];
        // A reader that sees a word of this event also sees, after its own fence, that the slot's old event is gone.
        self.written.store(at + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (slot, word) in slot.iter().zip(event.words()) {
            slot.store(word, Ordering::Release);
        }
    }

    /// Reads the ring from its oldest event. Events that are overwritten meanwhile count as lost, and the last one may be
    /// missing if the owner is about to write it.
    pub(super) fn read(&self) -> RingContent {
        let capacity = self.slots.len() as u64;
        let end = self.written.load(Ordering::Acquire);
        let first = end.saturating_sub(capacity);
        let read = |at: u64| {
            let slot = &self.slots[(at % capacity) as usize];
            std::array::from_fn(|i| slot[i].load(Ordering::Acquire))
        };
        let words: Vec<[u64; 4]> = (first..end).map(read).collect();
        fence(Ordering::Acquire);
        let after = self.written.load(Ordering::Relaxed);
        // The slot of `after - 1` may hold half an event if the owner still writes.
        let gone = after.saturating_sub(capacity).max(first) - first;
        let events = words.into_iter().skip(gone as usize);
        let mut events: Vec<_> = events.filter_map(Event::of_words).collect();
        let losses = self.ordered.unwrap_or_else(|| Losses {
            count: first + gone,
            // They were recorded before this one, which is recorded when it ends.
            until: events.first().map_or(u64::MAX, |oldest| oldest.end),
        });
        if self.ordered.is_none() {
            // A slice that contains others is recorded after them.
            let within = |e: &Event| (e.begin, std::cmp::Reverse(e.end), e.depth());
            events.sort_by_key(within);
        }
        RingContent { events, losses }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n: u64) -> Event {
        Event::slice(NameId(7), n, n + 1, n as u32, n * 3)
    }

    #[test]
    fn a_full_ring_keeps_the_newest_events_and_counts_the_others() {
        let ring = Ring::new("worker", 1, 4);
        assert_eq!(ring.read().events, []);
        (1..=3).for_each(|n| ring.push(event(n)));
        let RingContent { events, losses } = ring.read();
        assert_eq!((events.len(), losses.count), (3, 0));
        (4..=10).for_each(|n| ring.push(event(n)));
        let RingContent { events, losses } = ring.read();
        assert_eq!(events, [event(7), event(8), event(9), event(10)]);
        // The last one that is missing was recorded before event 7 ended.
        assert_eq!(losses, Losses { count: 6, until: 8 });
    }

    #[test]
    fn a_slice_comes_before_what_lies_within_it() {
        let ring = Ring::new("worker", 1, 8);
        let turn = |begin, end| Event::slice(NameId(1), begin, end, 0, 0);
        let handler = |begin, end| Event::handler(NameId(2), begin, end, 0, 0);
        // Each is recorded when it ends, and a clock may not tell how long it took.
        let recorded = [handler(1, 2), handler(3, 5), turn(1, 5)];
        let at_once = [handler(7, 7), turn(7, 7)];
        let all = recorded.into_iter().chain(at_once);
        all.for_each(|event| ring.push(event));
        let nested = [turn(1, 5), handler(1, 2), handler(3, 5)];
        let nested = nested.into_iter().chain([turn(7, 7), handler(7, 7)]);
        assert_eq!(ring.read().events, nested.collect::<Vec<_>>());
    }

    #[test]
    fn a_ring_of_a_worker_that_has_ended_has_its_events_in_their_order() {
        for count in [0, 1, 7] {
            let events = [event(1), event(3), event(2)];
            let losses = Losses { count, until: 1 };
            let content = Ring::of("warp", 2, &events, losses).read();
            assert_eq!((&content.events[..], content.losses), (&events[..], losses));
        }
    }

    #[test]
    fn events_that_are_read_while_others_are_written_are_whole() {
        let ring = Ring::new("worker", 1, 64);
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut n = 1;
                while !stop.load(Ordering::Relaxed) {
                    ring.push(event(n));
                    n += 1;
                }
            });
            for _ in 0..2000 {
                // The newest event may be half written.
                let RingContent { events, .. } = ring.read();
                let whole = events.len().saturating_sub(1);
                assert!(events[..whole].iter().all(|e| *e == event(e.begin)));
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
