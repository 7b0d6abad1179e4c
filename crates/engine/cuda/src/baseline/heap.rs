//! Heaps under test: the device heap, and CUDA's own allocator for comparison.

use everwarp_contract::heap::{
    HEAP_CHECKED, HEAP_CLASSES, HEAP_ERRORS, HEAP_FREE, HEAP_OWNED, HEAP_PAGE_SHIFT,
    HEAP_PAGE_TAGS, HEAP_PAGE_WORDS, HEAP_SLOTS, HEAP_STATE_BITS,
};
use everwarp_contract::{DevHeap, DevHeapCounters, DevHeapError, DevHeapOwner, DevPtr};
use everwarp_engine::EngineError;

use super::Baseline;
use super::launch::{Shape, args, blocks};
use super::memory::Memory;

/// Which heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapWay {
    /// The device heap of everwarp.
    Ours,
    /// The same with owners: each 1,024 threads share one.
    Owned,
    /// The same with guards as well.
    Checked,
    /// CUDA's device `malloc` and `free`.
    Cuda,
}

/// Sizes of blocks in bytes, evenly distributed between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The smallest.
    pub low: u32,
    /// The largest.
    pub high: u32,
}

impl Sizes {
    /// All of one size.
    pub const fn of(bytes: u32) -> Self {
        Self {
            low: bytes,
            high: bytes,
        }
    }
    /// The size that the kernels ask for in a slot.
    pub fn at(self, slot: u32, seed: u32) -> u32 {
        if self.low == self.high {
            return self.low;
        }
        let mut v = slot.wrapping_mul(2_654_435_761).wrapping_add(seed);
        v = (v ^ v >> 16).wrapping_mul(0x7feb_352d);
        v = (v ^ v >> 15).wrapping_mul(0x846c_a68b);
        self.low + (v ^ v >> 16) % (self.high - self.low + 1)
    }
}

/// The state of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapState {
    /// Requests that found no room.
    pub refused: u64,
    /// Frees of addresses that were not allocated.
    pub wrong_frees: u64,
    /// Empty pages without a class.
    pub free_pages: u32,
    /// Blocks in use, runs of pages not counted.
    pub blocks: u64,
    /// All pages.
    pub pages: u32,
}

struct Tables {
    base: Memory<u32>,
    pages: Memory<u32>,
    used: Memory<u32>,
    free: Memory<u32>,
    listed: Memory<u32>,
    active: Memory<u32>,
    counters: Memory<u64>,
    tags: Memory<u32>,
    owners: Memory<u64>,
    errors: Memory<u64>,
}

/// Owners of a trial with owners, from 1 on.
const TRIAL_OWNERS: u32 = 1024;
/// Words of 8 bytes of a [`DevHeapOwner`].
const OWNER_WORDS: usize = size_of::<DevHeapOwner>() / 8;

/// A heap with slots for its blocks. Nothing else may run on the device.
pub struct HeapTrial<'b> {
    on: &'b Baseline,
    way: HeapWay,
    heap: DevHeap,
    tables: Tables,
    slots: Memory<u64>,
    sums: Memory<u64>,
}

const BLOCK: u32 = 256;

impl<'b> HeapTrial<'b> {
    /// A heap of `bytes` (whole pages of 128 KiB; CUDA's has the size that [`Baseline::heaps`] gave it) and
    /// `slots` slots.
    ///
    /// # Errors
    /// The device refuses.
    pub fn new(
        on: &'b Baseline,
        way: HeapWay,
        bytes: u64,
        slots: u32,
    ) -> Result<Self, EngineError> {
        let pages = match way {
            HeapWay::Cuda => 0,
            _ => (bytes >> HEAP_PAGE_SHIFT) as u32,
        };
        let mode = match way {
            HeapWay::Ours | HeapWay::Cuda => 0,
            HeapWay::Owned => HEAP_OWNED,
            HeapWay::Checked => HEAP_OWNED | HEAP_CHECKED,
        };
        let tagged = if mode == 0 { 0 } else { pages as usize };
        let words = pages.div_ceil(32) as usize;
        let tables = Tables {
            base: Memory::new(on, (pages as usize) << (HEAP_PAGE_SHIFT - 2))?,
            pages: Memory::new(on, pages as usize * 4)?,
            used: Memory::new(on, pages as usize * HEAP_PAGE_WORDS as usize)?,
            free: Memory::new(on, words)?,
            listed: Memory::new(on, words * HEAP_CLASSES as usize)?,
            active: Memory::new(on, (on.multiprocessors * HEAP_SLOTS) as usize)?,
            counters: Memory::new(on, size_of::<DevHeapCounters>() / 8)?,
            tags: Memory::new(on, tagged * HEAP_PAGE_TAGS as usize / 2)?,
            owners: Memory::new(on, (TRIAL_OWNERS as usize + 1) * OWNER_WORDS)?,
            errors: Memory::new(on, HEAP_ERRORS as usize * size_of::<DevHeapError>() / 8)?,
        };
        let heap = DevHeap {
            base: DevPtr::new(tables.base.at),
            pages: DevPtr::new(tables.pages.at),
            used: DevPtr::new(tables.used.at),
            free: DevPtr::new(tables.free.at),
            listed: DevPtr::new(tables.listed.at),
            active: DevPtr::new(tables.active.at),
            counters: DevPtr::new(tables.counters.at),
            tags: DevPtr::new(tables.tags.at),
            owners: DevPtr::new(tables.owners.at),
            errors: DevPtr::new(tables.errors.at),
            page_limit: pages,
            multiprocessors: on.multiprocessors,
            mode,
            owner_limit: TRIAL_OWNERS + 1,
        };
        let made = Self {
            on,
            way,
            heap,
            tables,
            slots: Memory::new(on, slots as usize)?,
            sums: Memory::new(on, 2)?,
        };
        if pages > 0 {
            let mut heap = made.heap;
            // SAFETY: the kernel's parameters; the tables are live and zero.
            unsafe { made.launch(c"heap_start", pages, &mut args![heap]) }?;
        }
        Ok(made)
    }

    /// # Safety
    /// - As for [`Baseline::launch`].
    unsafe fn launch(
        &self,
        kernel: &std::ffi::CStr,
        threads: u32,
        params: &mut [*mut std::ffi::c_void],
    ) -> Result<(), EngineError> {
        let shape = Shape {
            kernel: self.on.kernel(kernel)?,
            grid: blocks(threads, BLOCK),
            block: BLOCK,
        };
        // SAFETY: the caller vouches for the parameters.
        unsafe { self.on.launch(shape, params) }?;
        self.on.stream.synchronize()
    }

    /// Fills `threads * each` slots from `first` on, each thread one after the other.
    ///
    /// # Errors
    /// The device refuses.
    pub fn fill(
        &self,
        first: u32,
        threads: u32,
        each: u32,
        sizes: Sizes,
        seed: u32,
    ) -> Result<(), EngineError> {
        let (mut heap, mut slots) = (self.heap, self.slots.at + u64::from(first) * 8);
        let (mut threads, mut each, mut seed) = (threads, each, seed);
        let Sizes { mut low, mut high } = sizes;
        let mut owners = TRIAL_OWNERS;
        // SAFETY: the kernels' parameters; the slots are there.
        unsafe {
            match self.way {
                HeapWay::Owned | HeapWay::Checked => self.launch(
                    c"heap_fill_owned",
                    threads,
                    &mut args![heap, slots, threads, each, low, high, seed, owners],
                ),
                HeapWay::Ours => self.launch(
                    c"heap_fill",
                    threads,
                    &mut args![heap, slots, threads, each, low, high, seed],
                ),
                HeapWay::Cuda => self.launch(
                    c"malloc_fill",
                    threads,
                    &mut args![slots, threads, each, low, high, seed],
                ),
            }
        }
    }

    /// Frees the blocks in slots; the slots keep the addresses.
    ///
    /// # Errors
    /// The device refuses.
    pub fn empty(&self, first: u32, threads: u32, each: u32) -> Result<(), EngineError> {
        let (mut heap, mut slots) = (self.heap, self.slots.at + u64::from(first) * 8);
        let (mut threads, mut each, mut owners) = (threads, each, TRIAL_OWNERS);
        // SAFETY: the kernels' parameters; the slots are there.
        unsafe {
            match self.way {
                HeapWay::Owned | HeapWay::Checked => self.launch(
                    c"heap_empty_owned",
                    threads,
                    &mut args![heap, slots, threads, each, owners],
                ),
                HeapWay::Ours => self.launch(
                    c"heap_empty",
                    threads,
                    &mut args![heap, slots, threads, each],
                ),
                HeapWay::Cuda => {
                    self.launch(c"malloc_empty", threads, &mut args![slots, threads, each])
                }
            }
        }
    }

    /// Frees the blocks of an owner, by a sweep of the whole heap.
    ///
    /// # Errors
    /// The device refuses.
    pub fn release(&self, owner: u32) -> Result<(), EngineError> {
        let (mut heap, mut owner) = (self.heap, owner);
        let threads = self.on.multiprocessors * 2048;
        // SAFETY: the kernel's parameters.
        unsafe { self.launch(c"heap_release_owner", threads, &mut args![heap, owner]) }
    }

    /// The bytes that owners from 1 on hold, as the heap rounds them.
    ///
    /// # Errors
    /// The device refuses.
    pub fn held(&self) -> Result<Vec<u64>, EngineError> {
        let owners = self.tables.owners.read()?;
        // The first word of each.
        Ok(owners
            .chunks_exact(OWNER_WORDS)
            .skip(1)
            .map(|o| o[0])
            .collect())
    }

    /// Allocates and frees `rounds` times in each thread, and writes to each block. Ours only.
    ///
    /// # Errors
    /// The device refuses.
    pub fn churn(
        &self,
        threads: u32,
        rounds: u32,
        sizes: Sizes,
        seed: u32,
    ) -> Result<(), EngineError> {
        let (mut heap, mut threads, mut rounds, mut seed) = (self.heap, threads, rounds, seed);
        let Sizes { mut low, mut high } = sizes;
        // SAFETY: the kernel's parameters.
        unsafe {
            self.launch(
                c"heap_churn",
                threads,
                &mut args![heap, threads, rounds, low, high, seed],
            )
        }
    }

    /// Writes the number of its slot into every word of every block and reads all of them back. Returns how many words
    /// differ, which overlapping blocks cause, and how many slots have a block.
    ///
    /// # Errors
    /// The device refuses.
    pub fn check(
        &self,
        first: u32,
        count: u32,
        sizes: Sizes,
        seed: u32,
    ) -> Result<(u64, u64), EngineError> {
        self.sums.fill(0)?;
        let (mut slots, mut count, mut seed) = (self.slots.at + u64::from(first) * 8, count, seed);
        let Sizes { mut low, mut high } = sizes;
        let (mut none, mut wrong, mut there) = (0u64, self.sums.at, self.sums.at + 8);
        // SAFETY: the kernel's parameters; a warp for each slot.
        unsafe {
            self.launch(
                c"heap_mark",
                count * 32,
                &mut args![slots, count, low, high, seed, none, none],
            )?;
            self.launch(
                c"heap_mark",
                count * 32,
                &mut args![slots, count, low, high, seed, wrong, there],
            )?;
        }
        let sums = self.sums.read()?;
        Ok((sums[0], sums[1]))
    }

    /// Replaces the addresses in all slots.
    ///
    /// # Errors
    /// The device refuses.
    ///
    /// # Panics
    /// There are more addresses than slots.
    pub fn write_slots(&self, addresses: &[u64]) -> Result<(), EngineError> {
        self.slots.write(addresses)
    }
    /// The addresses in all slots.
    ///
    /// # Errors
    /// The device refuses.
    pub fn read_slots(&self) -> Result<Vec<u64>, EngineError> {
        self.slots.read()
    }

    /// Gives empty pages back; a heap without blocks is then as it was.
    ///
    /// # Errors
    /// The device refuses.
    pub fn trim(&self) -> Result<(), EngineError> {
        let mut heap = self.heap;
        // SAFETY: the kernel's parameter; one block of threads.
        unsafe { self.launch(c"heap_trim", BLOCK, &mut args![heap]) }
    }

    /// The state that the heap's tables describe.
    ///
    /// # Errors
    /// The device refuses.
    pub fn state(&self) -> Result<HeapState, EngineError> {
        let counters = self.tables.counters.read()?;
        let bits = |words: Vec<u32>| words.iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
        let marked = bits(self.tables.free.read()?) as u32;
        let pages = self.tables.pages.read()?;
        // Fields of `DevHeapPage`: the state is the third word.
        let free = pages
            .chunks_exact(4)
            .filter(|p| p[2] & ((1 << HEAP_STATE_BITS) - 1) == HEAP_FREE)
            .count() as u32;
        Ok(HeapState {
            refused: counters[0],
            wrong_frees: counters[1],
            free_pages: marked.min(free),
            blocks: bits(self.tables.used.read()?),
            pages: self.heap.page_limit,
        })
    }
}
