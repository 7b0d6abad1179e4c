//! A device in Rust: it writes payloads and entries as a GPU does. Each slot has an area of its own.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::hint::spin_loop;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use everwarp_contract::hostcall::{self as call, EntryFields, HOSTCALL_INLINE_BYTES, number};
use everwarp_contract::ring::Slots;
use everwarp_contract::{DevHostCall, DevHostCallEntry};
use everwarp_hostcalls::{DATA_BYTES, Reply, Ring, RingMemory};

/// Zeroed memory that does not move.
struct Block(NonNull<u8>, Layout);

impl Block {
    fn new(bytes: usize, align: usize) -> Self {
        let layout = Layout::from_size_align(bytes, align).expect("a size that there is");
        // SAFETY: no test asks for zero bytes.
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

/// The memory of a ring, and what the device keeps in its own memory.
pub(crate) struct Device {
    slots: Block,
    areas: Block,
    entries: Block,
    slot_count: u32,
    queue: Slots,
    tail: AtomicU32,
    free: Mutex<Vec<u32>>,
    sequence: Vec<AtomicU32>,
}

// SAFETY: the blocks are accessed by atomics only.
unsafe impl Sync for Device {}
// SAFETY: as above; they belong to no thread.
unsafe impl Send for Device {}

/// A request that has been sent.
pub(crate) struct Sent {
    pub(crate) slot: u32,
    pub(crate) sequence: u32,
    /// Where its data is: 0 for the slot, otherwise the number of an area plus 1.
    area: u32,
}

/// A request of a process.
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
            slots: Block::new(slots as usize * size_of::<DevHostCall>(), 256),
            areas: Block::new(slots as usize * DATA_BYTES, 128),
            entries: Block::new(entries as usize * size_of::<DevHostCallEntry>(), 128),
            slot_count: slots,
            queue: Slots::new(entries),
            tail: AtomicU32::new(0),
            free: Mutex::new((0..slots).collect()),
            sequence: (0..slots).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The host's end of the ring.
    pub(crate) fn ring(&self) -> Ring {
        let memory = RingMemory {
            slots: self.slots.0.cast(),
            areas: self.areas.0,
            entries: self.entries.0.cast(),
            slot_count: self.slot_count,
            area_count: self.slot_count,
            entry_count: self.queue.capacity(),
        };
        // SAFETY: the blocks have these sizes and were zeroed; every test drops its server before its device;
        // this device accesses them by atomics only.
        let ring = unsafe { Ring::new(memory) };
        ring.expect("the counts and alignments of a ring")
    }

    fn word(&self, block: &Block, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= block.1.size() && offset.is_multiple_of(8));
        // SAFETY: within the block, aligned, and accessed by atomics only.
        unsafe { AtomicU64::from_ptr(block.0.as_ptr().add(offset).cast()) }
    }

    /// Word `index` of a request's data.
    fn data(&self, slot: u32, area: u32, index: usize) -> &AtomicU64 {
        match area {
            0 => self.word(
                &self.slots,
                slot as usize * size_of::<DevHostCall>() + 64 + index * 8,
            ),
            area => self.word(&self.areas, (area as usize - 1) * DATA_BYTES + index * 8),
        }
    }

    /// Stores an entry after all others, whatever it says; piece by piece, the first piece last.
    pub(crate) fn submit(&self, fields: &EntryFields) {
        let index = self.tail.fetch_add(1, Relaxed);
        let words = fields.encode(self.queue.lap(index));
        let at = self.queue.slot(index) * size_of::<DevHostCallEntry>();
        for piece in (0..4).rev() {
            let word = |k: usize| self.word(&self.entries, at + 16 * piece + 8 * k);
            word(0).store(words[2 * piece], Relaxed);
            word(1).store(words[2 * piece + 1], Release);
        }
    }

    /// Writes a payload, or as much of it as fits.
    fn fill(&self, slot: u32, area: u32, payload: &[u8]) {
        let room = if area == 0 {
            HOSTCALL_INLINE_BYTES as usize
        } else {
            DATA_BYTES
        };
        for (index, bytes) in payload[..payload.len().min(room)].chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.data(slot, area, index)
                .store(u64::from_le_bytes(word), Relaxed);
        }
    }

    /// Takes a slot as soon as one is free.
    fn take(&self) -> (u32, u32) {
        let slot = loop {
            match self.free.lock().expect("no test panics there").pop() {
                Some(slot) => break slot,
                None => thread::yield_now(),
            }
        };
        let sequence = self.sequence[slot as usize].fetch_add(1, Relaxed);
        (slot, sequence.wrapping_add(1))
    }

    /// Takes a slot as soon as one is free, and sends a request with it.
    pub(crate) fn send(&self, ask: &Ask<'_>) -> Sent {
        let (slot, sequence) = self.take();
        let area = if needs_area(ask) { slot + 1 } else { 0 };
        self.fill(slot, area, ask.payload);
        let sent = Sent {
            slot,
            sequence,
            area,
        };
        self.submit(&request(ask, &sent));
        sent
    }

    /// Sends a request that claims to have its data in some area.
    pub(crate) fn send_in(&self, ask: &Ask<'_>, area: u32) -> Sent {
        let (slot, sequence) = self.take();
        let sent = Sent {
            slot,
            sequence,
            area,
        };
        self.submit(&request(ask, &sent));
        sent
    }

    /// The first word of a slot's answer: status, error number and bytes of reply.
    fn head(&self, slot: u32) -> u64 {
        self.word(&self.slots, slot as usize * size_of::<DevHostCall>())
            .load(Acquire)
    }

    pub(crate) fn is_answered(&self, sent: &Sent) -> bool {
        self.head(sent.slot) as u32 == sent.sequence
    }

    /// Waits for an answer, reads it and gives the slot back.
    pub(crate) fn receive(&self, sent: Sent) -> Reply {
        let start = Instant::now();
        while !self.is_answered(&sent) {
            assert!(start.elapsed() < Duration::from_secs(60), "no answer");
            spin_loop();
            thread::yield_now();
        }
        let head = self.head(sent.slot);
        let mut data = Vec::new();
        let bytes = (head >> 48) as usize;
        assert!(bytes <= DATA_BYTES);
        for index in 0..bytes.div_ceil(8) {
            let word = self.data(sent.slot, sent.area, index);
            data.extend_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        data.truncate(bytes);
        let slot = sent.slot as usize * size_of::<DevHostCall>();
        let reply = Reply {
            errno: (head >> 32) as u32 & 0xffff,
            values: std::array::from_fn(|index| {
                self.word(&self.slots, slot + 8 + index * 8).load(Relaxed)
            }),
            data,
        };
        self.free
            .lock()
            .expect("no test panics there")
            .push(sent.slot);
        reply
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn ask(&self, ask: &Ask<'_>) -> Reply {
        self.receive(self.send(ask))
    }
}

fn request(ask: &Ask<'_>, sent: &Sent) -> EntryFields {
    EntryFields {
        process: ask.process,
        generation: ask.generation,
        slot: sent.slot,
        call: ask.call,
        data_bytes: ask.data_bytes,
        area: sent.area,
        args: ask.args,
    }
}

/// Whether the payload or the reply may be larger than a slot has room for.
fn needs_area(ask: &Ask<'_>) -> bool {
    let reads = matches!(
        ask.call & !(call::HOSTCALL_WAKE | call::HOSTCALL_PATIENT),
        number::FD_READ
            | number::SOCK_RECV
            | number::FD_PREAD
            | number::FD_READDIR
            | number::PATH_READLINK
    );
    reads || ask.payload.len() > HOSTCALL_INLINE_BYTES as usize
}
