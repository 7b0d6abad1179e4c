//! The trace of an engine: rings in device memory that its warps write, read when it has ended.

use everwarp_contract::device::{
    BLOCK_WARPS, DevEngine, DevTrace, TRACE_TASKS_BITS, TRACE_TOOK_BITS,
};
use everwarp_contract::{DevPtr, DevType};
use everwarp_engine::{EngineError, Image};
use everwarp_telemetry::clock;
use everwarp_telemetry::trace::{Event, NameId, Tracer, tracer};

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
        let names = self.names(image);
        let began = entries[0].what;
        for (warp, ring) in entries.chunks_exact(row).enumerate() {
            let written = ring[0].begin;
            if written == 0 {
                continue;
            }
            let slices = last(&ring[1..], written);
            let events: Vec<_> = slices
                .map(|slice| event(slice, &names, began, self.answered))
                .collect();
            let (block, of) = (warp as u32 / BLOCK_WARPS, warp as u32 % BLOCK_WARPS);
            let lost = written - events.len() as u64;
            self.tracer
                .add(&format!("block {block} warp {of}"), &events, lost);
        }
    }

    /// What functions are called, by their numbers.
    fn names(&self, image: &Image) -> Vec<NameId> {
        let own = self.tracer.name("task", "a task of the engine");
        let mut names = vec![own];
        for (id, _, _) in image.functions() {
            names.resize(id.0 as usize, own);
            names.push(self.tracer.name("task", &image.name(id)));
        }
        names
    }
}

/// The slices that a ring still has, the oldest first.
fn last(ring: &[DevTrace], written: u64) -> impl Iterator<Item = &DevTrace> {
    let size = ring.len() as u64;
    (written.saturating_sub(size)..written).map(move |number| &ring[(number % size) as usize])
}

/// A slice on the clock of the trace, whose `answered` is `began` on that of the device.
fn event(slice: &DevTrace, names: &[NameId], began: u64, answered: u64) -> Event {
    let took = slice.what & ((1 << TRACE_TOOK_BITS) - 1);
    let tasks = slice.what >> TRACE_TOOK_BITS & ((1 << TRACE_TASKS_BITS) - 1);
    let function = (slice.what >> (TRACE_TOOK_BITS + TRACE_TASKS_BITS)) as usize;
    let begin = (slice.begin + answered).saturating_sub(began).max(1);
    let name = names.get(function).copied().unwrap_or(names[0]);
    Event::slice(name, begin, begin + took, tasks as u32, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(begin: u64, took: u64, tasks: u64, function: u64) -> DevTrace {
        let what =
            function << (TRACE_TOOK_BITS + TRACE_TASKS_BITS) | tasks << TRACE_TOOK_BITS | took;
        DevTrace { begin, what }
    }

    #[test]
    fn slices_come_in_their_order_and_on_the_clock_of_the_trace() {
        let ring = [4u64, 5, 2, 3].map(|number| slice(1000 + 10 * number, number, 7, 1));
        let begins = |written| -> Vec<u64> { last(&ring, written).map(|s| s.begin).collect() };
        assert_eq!(begins(6), [1020, 1030, 1040, 1050]);
        assert_eq!(begins(2), [1040, 1050]);
        let tracer = everwarp_telemetry::trace::start(1 << 20).expect("the only trace");
        let names = ["first", "second"].map(|name| tracer.name("task", name));
        let events: Vec<_> = last(&ring, 6)
            .map(|s| event(s, &names, 1000, 500))
            .collect();
        assert_eq!(events[0], Event::slice(names[1], 520, 522, 7, 0));
        // A number that no function has is not trusted.
        let strange = event(&slice(900, 1, 1, 1023), &names, 1000, 50);
        assert_eq!(strange, Event::slice(names[0], 1, 2, 1, 0));
    }
}
