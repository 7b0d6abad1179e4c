//! The trace of an engine: rings in device memory that its warps write, read when it has ended.

use everwarp_contract::device::{
    BLOCK_WARPS, DevEngine, DevTrace, TRACE_HANDLED, TRACE_KIND_SHIFT, TRACE_SENT, TRACE_TAKEN,
    TRACE_TASKS_BITS, TRACE_TOOK_BITS,
};
use everwarp_contract::task::FN_LIMIT;
use everwarp_contract::{DevPtr, DevType};
use everwarp_engine::{EngineError, Image};
use everwarp_telemetry::clock;
use everwarp_telemetry::trace::{Event, EventKind, HANDLER, Losses, NameId, TASK, Tracer, tracer};

use crate::driver::{alloc_zeroed, call};

/// The rings of an engine's warps.
#[derive(Debug)]
pub(crate) struct Traces {
    tracer: &'static Tracer,
    address: u64,
    warps: usize,
    slots: usize,
    /// When the first epoch answered, on the clock of the trace.
    answered: u64,
}

impl Traces {
    /// Rings for this many blocks, if the image is traced, whose place goes into the tables. A context must be current, and nothing
    /// be resident.
    pub(crate) fn new(
        image: &Image,
        max_blocks: u32,
        tables: &mut DevEngine,
    ) -> Result<Option<Self>, EngineError> {
        let Some(tracer) = tracer().filter(|_| image.traced) else {
            return Ok(None);
        };
        let warps = (max_blocks * BLOCK_WARPS) as usize;
        let slots = tracer.device_events() as usize / warps;
        if slots == 0 {
            // What the warps run is not in the trace, which says so.
            tracer.lose();
            return Ok(None);
        }
        let bytes = (warps * (slots + 1) * size_of::<DevTrace>()) as u64;
        let address = alloc_zeroed(bytes)?;
        tables.traces = DevPtr::new(address);
        tables.trace_slots = u32::try_from(slots).unwrap_or(u32::MAX);
        Ok(Some(Self {
            tracer,
            address,
            warps,
            slots,
            answered: 0,
        }))
    }

    /// The first epoch has answered just now.
    pub(crate) fn answered(&mut self) {
        self.answered = clock::now();
    }

    /// Puts what the warps have written into the trace, with the names of this image's functions, and frees the rings.
    ///
    /// # Safety
    /// - Nothing is resident, and nothing will be.
    pub(crate) unsafe fn finish(&self, image: &Image) {
        let row = self.slots + 1;
        let mut bytes = vec![0u8; self.warps * row * size_of::<DevTrace>()];
        // SAFETY: the memory was allocated with this size; a failure leaves a leak, or a trace without these slices.
        let read = unsafe {
            let read = call!(cuMemcpyDtoH_v2(
                bytes.as_mut_ptr().cast(),
                self.address,
                bytes.len()
            ));
            let _ = call!(cuMemFree_v2(self.address));
            read
        };
        if read.is_err() {
            return self.tracer.lose();
        }
        let entries = bytes.chunks_exact(size_of::<DevTrace>());
        let entries: Vec<_> = entries.map(DevTrace::from_bytes).collect();
        let reader = Reader {
            names: self.names(image),
            began: entries[0].what,
            answered: self.answered,
        };
        for (warp, ring) in entries.chunks_exact(row).enumerate() {
            let written = ring[0].begin;
            if written == 0 {
                continue;
            }
            let kept: Vec<_> = last(&ring[1..], written).collect();
            let count = written - kept.len() as u64;
            let until = reader.until(&kept);
            let (block, of) = (warp as u32 / BLOCK_WARPS, warp as u32 % BLOCK_WARPS);
            self.tracer.add(
                &format!("block {block} warp {of}"),
                &reader.events(&kept),
                Losses { count, until },
            );
        }
    }

    /// What functions are called, by their numbers.
    fn names(&self, image: &Image) -> Vec<Names> {
        let own = Names {
            task: self.tracer.name(TASK, "a task of the engine"),
            handler: self.tracer.name(HANDLER, "a handler"),
        };
        let mut names = vec![own];
        for (id, program, function) in image.functions() {
            names.resize(id.0 as usize, own);
            let kind = program.kind_of(function);
            names.push(Names {
                task: self.tracer.name(TASK, &image.name(id)),
                handler: kind.map_or(own.handler, |kind| self.tracer.name(HANDLER, kind)),
            });
        }
        names
    }
}

/// What the slices of a function are called, and those of the handlers whose turns it runs.
#[derive(Clone, Copy, Debug)]
struct Names {
    task: NameId,
    handler: NameId,
}

/// The entries that a ring still has, the oldest first.
fn last(ring: &[DevTrace], written: u64) -> impl Iterator<Item = &DevTrace> {
    let size = ring.len() as u64;
    (written.saturating_sub(size)..written).map(move |number| &ring[(number % size) as usize])
}

/// What an entry is: `TRACE_...`.
fn kind(entry: &DevTrace) -> u32 {
    (entry.what >> TRACE_KIND_SHIFT) as u32
}

/// Reads the rings of an engine.
#[derive(Debug)]
struct Reader {
    names: Vec<Names>,
    /// When the engine started, on the device's clock.
    began: u64,
    /// The same on the clock of the trace.
    answered: u64,
}

impl Reader {
    /// A time of the device's clock on that of the trace.
    fn time(&self, device: u64) -> u64 {
        (device + self.answered).saturating_sub(self.began).max(1)
    }

    /// The events of a warp, each slice before what lies within it. Its entries come the other way round: an entry is written when its
    /// slice ends.
    fn events(&self, entries: &[&DevTrace]) -> Vec<Event> {
        let mut events = Vec::with_capacity(entries.len());
        // What lies within the slice of tasks that comes next: slices of handlers, each with the cells of its messages, and messages
        // that were sent.
        let mut within: Vec<Vec<Event>> = Vec::new();
        let (mut taken, mut handled_until) = (Vec::new(), 0);
        for entry in entries {
            match kind(entry) {
                TRACE_TAKEN => taken.push(entry.begin),
                TRACE_SENT => {
                    let cell = entry.what & ((1 << TRACE_KIND_SHIFT) - 1);
                    let at = self.time(entry.begin);
                    within.push(vec![Event::send(EventKind::SendCell, at, cell)]);
                }
                TRACE_HANDLED => {
                    let mut handler = self.slice(entry);
                    let took = |cell| Event::send(EventKind::TakeCell, handler.begin, cell);
                    let cells: Vec<_> = taken.drain(..).map(took).collect();
                    // Lanes that run turns apart from each other end each other's slices.
                    handler.begin = handler.begin.max(handled_until);
                    handler.end = handler.end.max(handler.begin);
                    handled_until = handler.end;
                    within.push([vec![handler], cells].concat());
                }
                _ => {
                    events.push(self.slice(entry));
                    add_in_order(&mut events, &mut within);
                }
            }
        }
        // The engine has ended with a fault before the slice of these did.
        add_in_order(&mut events, &mut within);
        events
    }

    fn slice(&self, entry: &DevTrace) -> Event {
        let took = entry.what & ((1 << TRACE_TOOK_BITS) - 1);
        let count = entry.what >> TRACE_TOOK_BITS & ((1 << TRACE_TASKS_BITS) - 1);
        let function = entry.what >> (TRACE_TOOK_BITS + TRACE_TASKS_BITS) & u64::from(FN_LIMIT - 1);
        let names = self.names.get(function as usize).unwrap_or(&self.names[0]);
        let begin = self.time(entry.begin);
        match kind(entry) {
            TRACE_HANDLED => Event::handler(names.handler, begin, begin + took, count as u32, 0),
            _ => Event::slice(names.task, begin, begin + took, count as u32, 0),
        }
    }

    /// No message was sent or taken later than this in entries before these ones: the first slice among these has ended then, and was
    /// written after them.
    fn until(&self, entries: &[&DevTrace]) -> u64 {
        let mut slices = entries.iter().filter(|entry| kind(entry) < TRACE_SENT);
        slices
            .next()
            .map_or(u64::MAX, |entry| self.slice(entry).end)
    }
}

/// Moves what lies within a slice behind it, in the order of time.
fn add_in_order(events: &mut Vec<Event>, within: &mut Vec<Vec<Event>>) {
    // At the same time, the handler comes before what it sends.
    within.sort_by_key(|group| (group[0].begin, group[0].kind != EventKind::HandleCell));
    events.extend(within.drain(..).flatten());
}

#[cfg(test)]
mod tests {
    use everwarp_contract::device::TRACE_RAN;

    use super::*;

    fn entry(kind: u32, begin: u64, what: u64) -> DevTrace {
        let what = u64::from(kind) << TRACE_KIND_SHIFT | what;
        DevTrace { begin, what }
    }
    fn slice(kind: u32, begin: u64, took: u64, count: u64, function: u64) -> DevTrace {
        let counted = function << TRACE_TASKS_BITS | count;
        entry(kind, begin, counted << TRACE_TOOK_BITS | took)
    }
    fn ran(begin: u64, took: u64, tasks: u64, function: u64) -> DevTrace {
        slice(TRACE_RAN, begin, took, tasks, function)
    }

    fn reader() -> (Reader, [NameId; 3]) {
        let tracer = match everwarp_telemetry::trace::start(1 << 20) {
            Ok(tracer) => tracer,
            Err(_) => everwarp_telemetry::trace::tracer().expect("another test has started it"),
        };
        let names = ["first", "counter_turn", "counter"].map(|name| tracer.name(TASK, name));
        let [first, turn, counter] = names;
        let of = |task, handler| Names { task, handler };
        let reader = Reader {
            names: vec![of(first, NameId::default()), of(turn, counter)],
            began: 1000,
            answered: 500,
        };
        (reader, names)
    }

    #[test]
    fn slices_come_in_their_order_and_on_the_clock_of_the_trace() {
        let ring = [4u64, 5, 2, 3].map(|number| ran(1000 + 10 * number, number, 7, 1));
        let begins = |written| -> Vec<u64> { last(&ring, written).map(|s| s.begin).collect() };
        assert_eq!(begins(6), [1020, 1030, 1040, 1050]);
        assert_eq!(begins(2), [1040, 1050]);
        let (reader, [first, turn, _]) = reader();
        let events = reader.events(&last(&ring, 6).collect::<Vec<_>>());
        assert_eq!(events[0], Event::slice(turn, 520, 522, 7, 0));
        assert_eq!(events.len(), 4);
        // A number that no function has is not trusted, and no event begins before the trace.
        let strange = reader.events(&[&ran(400, 1, 1, 1023)]);
        assert_eq!(strange, [Event::slice(first, 1, 2, 1, 0)]);
    }

    #[test]
    fn handlers_lie_within_their_turn_and_take_the_messages_before_them() {
        let (reader, [_, turn, counter]) = reader();
        let taken = |cell| entry(TRACE_TAKEN, cell, 0);
        let sent = |time, cell| entry(TRACE_SENT, time, cell);
        let handled = |begin, took, count| slice(TRACE_HANDLED, begin, took, count, 1);
        let entries = [
            sent(1001, 90),
            taken(30),
            taken(20),
            // Lanes write what they have sent when it is delivered, so not in its order.
            sent(1008, 20),
            sent(1006, 30),
            handled(1005, 5, 2),
            taken(10),
            handled(1010, 0, 1),
            ran(1000, 10, 2, 1),
            ran(1010, 3, 1, 1),
        ];
        let handler = |begin, end, count| Event::handler(counter, begin, end, count, 0);
        let message = |kind, time, cell| Event::send(kind, time, cell);
        let (take, send) = (EventKind::TakeCell, EventKind::SendCell);
        let events = reader.events(&entries.iter().collect::<Vec<_>>());
        assert_eq!(
            events,
            [
                Event::slice(turn, 500, 510, 2, 0),
                message(send, 501, 90),
                handler(505, 510, 2),
                message(take, 505, 30),
                message(take, 505, 20),
                message(send, 506, 30),
                message(send, 508, 20),
                handler(510, 510, 1),
                message(take, 510, 10),
                Event::slice(turn, 510, 513, 1, 0),
            ]
        );
        // Messages before the first slice that is left were written before it ended.
        assert_eq!(reader.until(&entries.iter().collect::<Vec<_>>()), 510);
        assert_eq!(reader.until(&[&entries[0]]), u64::MAX);
    }

    #[test]
    fn handlers_of_lanes_that_run_apart_do_not_overlap() {
        let (reader, _) = reader();
        let handled = |begin, took| slice(TRACE_HANDLED, begin, took, 1, 1);
        // The engine ended before the slice of their turn did.
        let entries = [handled(1005, 10), handled(1012, 1), handled(1020, 1)];
        let events = reader.events(&entries.iter().collect::<Vec<_>>());
        let times: Vec<_> = events.iter().map(|e| (e.begin, e.end)).collect();
        assert_eq!(times, [(505, 515), (515, 515), (520, 521)]);
    }
}
