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
    /// A message was handled that came in the cell `link`.
    HandleCell = 4,
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
    /// The begin of a flow.
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
}

/// What a ring has.
#[derive(Debug)]
pub(super) struct RingContent {
    pub(super) events: Vec<Event>,
    /// Older events that were overwritten.
    pub(super) lost: u64,
}

impl Ring {
    pub(super) fn new(thread: &str, number: u32, capacity: usize) -> Self {
        Self {
            thread: thread.to_owned(),
            number,
            slots: (0..capacity).map(|_| Default::default()).collect(),
            written: CachePadded::default(),
        }
    }

    /// The ring of a thread that has ended: its last events, and how many there were before them.
    pub(super) fn of(thread: &str, number: u32, events: &[Event], lost: u64) -> Self {
        let ring = Self::new(thread, number, events.len().max(1));
        ring.written.store(lost, Ordering::Relaxed);
        events.iter().for_each(|&event| ring.push(event));
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
        RingContent {
            events: events.filter_map(Event::of_words).collect(),
            lost: first + gone,
        }
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
        assert_eq!((ring.read().events.len(), ring.read().lost), (3, 0));
        (4..=10).for_each(|n| ring.push(event(n)));
        let RingContent { events, lost } = ring.read();
        assert_eq!(events, [event(7), event(8), event(9), event(10)]);
        assert_eq!(lost, 6);
    }

    #[test]
    fn a_ring_of_a_thread_that_has_ended_has_its_last_events() {
        for lost in [0, 1, 7] {
            let events = [event(1), event(2), event(3)];
            let content = Ring::of("warp", 2, &events, lost).read();
            assert_eq!((&content.events[..], content.lost), (&events[..], lost));
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
