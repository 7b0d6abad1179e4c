//! A device in Rust: it writes slots and entries as a GPU does.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::hint::spin_loop;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use everwarp_contract::DevHostCall;
use everwarp_contract::hostcall::entry;
use everwarp_contract::ring::Slots;
use everwarp_wasi::{DATA_BYTES, Reply, Ring};

/// Zeroed memory that stays where it is.
struct Block(NonNull<u8>, Layout);

impl Block {
    fn new(bytes: usize, align: usize) -> Self {
        let layout = Layout::from_size_align(bytes, align).expect("a size that there is");
        // SAFETY: no test asks for nothing.
        let memory = unsafe { alloc_zeroed(layout) };
        Self(
            NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout)),
            layout,
        )
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.0.as_ptr(), self.1) }
    }
}

/// The memory of a ring and what the device keeps in its own.
pub(crate) struct Device {
    headers: Block,
    data: Block,
    entries: Block,
    slots: u32,
    queue: Slots,
    tail: AtomicU32,
    free: Mutex<Vec<u32>>,
    sequence: Vec<AtomicU32>,
}

// SAFETY: the blocks are accessed by atomics only.
unsafe impl Sync for Device {}
// SAFETY: as above; they belong to no thread.
unsafe impl Send for Device {}

/// A request that is out.
pub(crate) struct Sent {
    pub(crate) slot: u32,
    pub(crate) sequence: u32,
}

/// What a process asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) process: u32,
    pub(crate) generation: u32,
    pub(crate) call: u32,
    pub(crate) data_bytes: u32,
    pub(crate) args: [u64; 6],
    pub(crate) payload: &'a [u8],
}

impl Device {
    pub(crate) fn new(slots: u32, entries: u32) -> Self {
        Self {
            headers: Block::new(slots as usize * size_of::<DevHostCall>(), 128),
            data: Block::new(slots as usize * DATA_BYTES, 128),
            entries: Block::new(entries as usize * 8, 128),
            slots,
            queue: Slots::new(entries),
            tail: AtomicU32::new(0),
            free: Mutex::new((0..slots).collect()),
            sequence: (0..slots).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The host's end.
    pub(crate) fn ring(&self) -> Ring {
        let (slots, entries) = (self.slots, self.queue.capacity());
        // SAFETY: the blocks have these sizes and were zeroed; every test drops its server before its device;
        // this device accesses them by atomics only.
        let ring = unsafe {
            Ring::new(
                self.headers.0.cast(),
                self.data.0,
                self.entries.0.cast(),
                slots,
                entries,
            )
        };
        ring.expect("the counts and alignments of a ring")
    }

    fn word(&self, block: &Block, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= block.1.size() && offset.is_multiple_of(8));
        // SAFETY: within the block, aligned, and accessed by atomics only.
        unsafe { AtomicU64::from_ptr(block.0.as_ptr().add(offset).cast()) }
    }

    fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= self.headers.1.size() && offset.is_multiple_of(4));
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.headers.0.as_ptr().add(offset).cast()) }
    }

    /// Stores an entry behind all others, whatever it says.
    pub(crate) fn submit(&self, slot: u32, sequence: u32) {
        let index = self.tail.fetch_add(1, Relaxed);
        let word = entry(slot, self.queue.lap(index), sequence);
        self.word(&self.entries, self.queue.slot(index) * 8)
            .store(word, Release);
    }

    /// Writes a request into a slot, whether that is free or not.
    pub(crate) fn fill(&self, slot: u32, ask: &Ask<'_>) {
        let header = slot as usize * size_of::<DevHostCall>();
        for (offset, value) in [
            (0, ask.process),
            (4, ask.generation),
            (8, ask.call),
            (12, ask.data_bytes),
        ] {
            self.half(header + offset).store(value, Relaxed);
        }
        for (index, value) in ask.args.iter().enumerate() {
            self.word(&self.headers, header + 16 + index * 8)
                .store(*value, Relaxed);
        }
        for (index, bytes) in ask.payload.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let offset = slot as usize * DATA_BYTES + index * 8;
            self.word(&self.data, offset)
                .store(u64::from_le_bytes(word), Relaxed);
        }
    }

    /// Takes a slot as soon as there is one, and sends a request with it.
    pub(crate) fn send(&self, ask: &Ask<'_>) -> Sent {
        let slot = loop {
            match self.free.lock().expect("no test panics there").pop() {
                Some(slot) => break slot,
                None => thread::yield_now(),
            }
        };
        let sequence = self.sequence[slot as usize]
            .fetch_add(1, Relaxed)
            .wrapping_add(1);
        self.fill(slot, ask);
        self.submit(slot, sequence);
        Sent { slot, sequence }
    }

    pub(crate) fn is_answered(&self, sent: &Sent) -> bool {
        self.half(sent.slot as usize * size_of::<DevHostCall>() + 64)
            .load(Acquire)
            == sent.sequence
    }

    /// Waits for an answer, reads it and gives the slot back.
    pub(crate) fn receive(&self, sent: Sent) -> Reply {
        let begun = Instant::now();
        while !self.is_answered(&sent) {
            assert!(begun.elapsed() < Duration::from_secs(60), "no answer");
            spin_loop();
            thread::yield_now();
        }
        let header = sent.slot as usize * size_of::<DevHostCall>();
        let mut data = Vec::new();
        let bytes = self.half(header + 72).load(Relaxed) as usize;
        assert!(bytes <= DATA_BYTES);
        for index in 0..bytes.div_ceil(8) {
            let word = self.word(&self.data, sent.slot as usize * DATA_BYTES + index * 8);
            data.extend_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        data.truncate(bytes);
        let reply = Reply {
            errno: self.half(header + 68).load(Relaxed),
            values: std::array::from_fn(|index| {
                self.word(&self.headers, header + 80 + index * 8)
                    .load(Relaxed)
            }),
            data,
        };
        self.free
            .lock()
            .expect("no test panics there")
            .push(sent.slot);
        reply
    }

    /// Asks and waits.
    pub(crate) fn ask(&self, ask: &Ask<'_>) -> Reply {
        self.receive(self.send(ask))
    }
}
