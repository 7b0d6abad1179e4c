//! The heap of an engine's tasks: its tables, its pages in mapped memory, and what the host reads of them.

use std::sync::Mutex;

use everwarp_contract::heap::{
    HEAP_CHECKED, HEAP_CLASSES, HEAP_ERRORS, HEAP_FREE, HEAP_OWNED, HEAP_PAGE_SHIFT,
    HEAP_PAGE_TAGS, HEAP_PAGE_WORDS, HEAP_RUN, HEAP_SLOTS, HEAP_STATE_BITS, class_bytes,
};
use everwarp_contract::{
    DevHeap, DevHeapCounters, DevHeapError, DevHeapOwner, DevHeapPage, DevPtr, HeapOwner, Layout,
};
use everwarp_engine::sync::lock;
use everwarp_engine::{
    EngineError, HEAP_STEP, HeapConfig, HeapControl, HeapError, HeapMode, HeapOwnerStats, HeapStats,
};

use crate::copy::Copier;
use crate::driver::{Context, alloc_zeroed, call};
use crate::tables::Cursor;
use crate::vmm::Range;

/// Far below zero: a page without a class. The device's `HEAP_NOBODYS`.
const NOBODYS: i32 = -(1 << 30);
const PAGE_SHIFT: u32 = HEAP_PAGE_SHIFT;
/// Bytes of tags for as many pages as a heap grows by.
const TAG_STEP: u64 = (HEAP_STEP >> PAGE_SHIFT) * HEAP_PAGE_TAGS as u64 * 2;

/// The memory that grows.
#[derive(Debug)]
struct Mapped {
    blocks: Range,
    tags: Option<Range>,
    pages: u32,
}

/// The heap of an engine.
#[derive(Debug)]
pub(crate) struct TaskHeap {
    context: Context,
    copier: Copier,
    config: HeapConfig,
    /// Where the tables are, which begin with `heap`.
    at: u64,
    table_bytes: u64,
    heap: DevHeap,
    mapped: Mutex<Mapped>,
}

impl TaskHeap {
    /// Makes a heap; none when the configuration asks for none. Nothing may be resident.
    pub(crate) fn new(
        context: Context,
        config: HeapConfig,
        multiprocessors: u32,
    ) -> Result<Option<Self>, EngineError> {
        let config = config.rounded()?;
        if config.bytes == 0 {
            return Ok(None);
        }
        let (owned, checked) = (
            config.mode != HeapMode::Plain,
            config.mode == HeapMode::Checked,
        );
        let pages = config.limit >> PAGE_SHIFT;
        let words = pages.div_ceil(32);
        let mut cursor = Cursor::default();
        cursor.take::<DevHeap>(1);
        let mut heap = DevHeap {
            base: DevPtr::NULL,
            pages: DevPtr::new(cursor.take::<DevHeapPage>(pages)),
            used: DevPtr::new(cursor.take::<u32>(pages * u64::from(HEAP_PAGE_WORDS))),
            free: DevPtr::new(cursor.take::<u32>(words)),
            listed: DevPtr::new(cursor.take::<u32>(words * u64::from(HEAP_CLASSES))),
            active: DevPtr::new(cursor.take::<u32>(u64::from(multiprocessors * HEAP_SLOTS))),
            counters: DevPtr::new(cursor.take::<DevHeapCounters>(1)),
            tags: DevPtr::NULL,
            owners: DevPtr::new(cursor.take::<DevHeapOwner>(u64::from(config.owners))),
            errors: DevPtr::new(cursor.take::<DevHeapError>(u64::from(HEAP_ERRORS))),
            page_limit: pages as u32,
            multiprocessors,
            mode: (u32::from(owned) * HEAP_OWNED) | (u32::from(checked) * HEAP_CHECKED),
            owner_limit: if owned { config.owners } else { 0 },
        };
        let table_bytes = cursor.end();
        let at = alloc_zeroed(table_bytes)?;
        macro_rules! relocate {
            ($($field:ident),*) => { $(heap.$field = DevPtr::new(heap.$field.address() + at);)* };
        }
        relocate!(pages, used, free, listed, active, counters, owners, errors);
        let blocks = Range::reserve(config.limit)?;
        heap.base = DevPtr::new(blocks.base);
        let tags = owned
            .then(|| Range::reserve((config.limit / HEAP_STEP) * TAG_STEP))
            .transpose()?;
        if let Some(tags) = &tags {
            heap.tags = DevPtr::new(tags.base);
        }
        let made = Self {
            context,
            copier: Copier::new(context)?,
            config,
            at,
            table_bytes,
            heap,
            mapped: Mutex::new(Mapped {
                blocks,
                tags,
                pages: 0,
            }),
        };
        // SAFETY: the tables begin with the struct.
        unsafe { made.copier.write(at, heap.bytes()) }?;
        made.grow(config.bytes)?;
        Ok(Some(made))
    }

    /// Where the device finds it.
    pub(crate) fn address(&self) -> u64 {
        self.at
    }

    /// Device memory that it takes.
    pub(crate) fn device_bytes(&self) -> u64 {
        let mapped = lock(&self.mapped);
        self.table_bytes + mapped.blocks.mapped + mapped.tags.as_ref().map_or(0, |t| t.mapped)
    }

    /// Pinned host memory that it takes.
    pub(crate) fn host_bytes(&self) -> u64 {
        self.copier.host_bytes()
    }

    /// Reads `count` values of a table.
    fn read<T: Layout>(&self, at: DevPtr<T>, count: usize) -> Result<Vec<T>, EngineError> {
        let mut bytes = vec![0u8; count * size_of::<T>()];
        // SAFETY: the tables are live and that long.
        unsafe { self.copier.read(at.address(), &mut bytes)? };
        Ok(bytes
            .chunks_exact(size_of::<T>())
            .map(T::from_bytes)
            .collect())
    }

    /// Appends pages, which tasks see at once.
    fn append(&self, mapped: &mut Mapped, steps: u64) -> Result<(), EngineError> {
        self.context.enter()?;
        if let Some(tags) = &mut mapped.tags {
            // An earlier attempt that got no pages has mapped these tags already.
            let wanted =
                (u64::from(mapped.pages) * u64::from(HEAP_PAGE_TAGS) * 2) + steps * TAG_STEP;
            if wanted > tags.mapped {
                let bytes = wanted - tags.mapped;
                let at = tags.grow(&self.context, bytes)?;
                // SAFETY: just mapped. No block is in use yet.
                unsafe { self.copier.fill(at, bytes, 0) }?;
            }
        }
        mapped.blocks.grow(&self.context, steps * HEAP_STEP)?;
        let (first, count) = (mapped.pages, ((steps * HEAP_STEP) >> PAGE_SHIFT) as u32);
        let page = DevHeapPage {
            available: NOBODYS,
            run: 0,
            state: HEAP_FREE,
            class_: 0,
        };
        let pages: Vec<u8> = (0..count).flat_map(|_| page.bytes().to_vec()).collect();
        let bits = vec![0xffu8; count as usize / 8];
        let pages_at =
            self.heap.pages.address() + u64::from(first) * size_of::<DevHeapPage>() as u64;
        let bits_at = self.heap.free.address() + u64::from(first / 8);
        let count_at =
            self.heap.counters.address() + std::mem::offset_of!(DevHeapCounters, pages) as u64;
        // In this order, each done before the next one starts; `heap/page.cuh` has the rules.
        // SAFETY: the tables have room for the limit; the device does not write these entries and words yet, and the
        // host alone writes the number of pages.
        unsafe {
            self.copier.write(pages_at, &pages)?;
            self.copier.write(bits_at, &bits)?;
            self.copier
                .write(count_at, &(first + count).to_ne_bytes())?;
        }
        mapped.pages += count;
        Ok(())
    }

    /// # Safety
    /// - Nothing is resident.
    pub(crate) unsafe fn release(&self) {
        let mut mapped = lock(&self.mapped);
        // SAFETY: the caller vouches that nothing uses this memory; a failure leaves a leak.
        unsafe {
            mapped.blocks.release();
            if let Some(tags) = &mut mapped.tags {
                tags.release();
            }
            let _ = call!(cuMemFree_v2(self.at));
            self.copier.release();
        }
    }
}

/// Bytes of the blocks in use of a page.
fn held(page: &DevHeapPage) -> u64 {
    match page.state & ((1 << HEAP_STATE_BITS) - 1) {
        HEAP_FREE => 0,
        HEAP_RUN => u64::from(page.run) << PAGE_SHIFT,
        _ => {
            let bytes = class_bytes(page.class_);
            let blocks = (1 << PAGE_SHIFT) / bytes;
            // A reservation that fails takes more than there is for a moment.
            let available = i64::from(page.available).clamp(0, blocks as i64) as u64;
            (blocks - available) * bytes
        }
    }
}

impl HeapControl for TaskHeap {
    fn config(&self) -> HeapConfig {
        self.config
    }
    fn stats(&self) -> Result<HeapStats, EngineError> {
        let pages = lock(&self.mapped).pages;
        let counters = self.read(self.heap.counters, 1)?[0];
        let table = self.read(self.heap.pages, pages as usize)?;
        Ok(HeapStats {
            bytes: u64::from(pages) << PAGE_SHIFT,
            limit: self.config.limit,
            in_use: table.iter().map(held).sum(),
            refused: counters.refused,
            wrong_frees: counters.wrong_frees,
            errors: counters.errors,
        })
    }
    fn owner(&self, owner: HeapOwner) -> Result<HeapOwnerStats, EngineError> {
        let at = self.heap.owners.address() + u64::from(owner.0) * size_of::<DevHeapOwner>() as u64;
        let account = self.read(DevPtr::<DevHeapOwner>::new(at), 1)?[0];
        Ok(HeapOwnerStats {
            in_use: account.in_use,
            quota: (account.quota != 0).then_some(account.quota),
            refused: account.refused,
        })
    }
    fn set_quota(&self, owner: HeapOwner, quota: Option<u64>) -> Result<(), EngineError> {
        let at = self.heap.owners.address()
            + u64::from(owner.0) * size_of::<DevHeapOwner>() as u64
            + std::mem::offset_of!(DevHeapOwner, quota) as u64;
        // SAFETY: the word is in the table, and only the host writes it.
        unsafe { self.copier.write(at, &quota.unwrap_or(0).to_ne_bytes()) }
    }
    fn errors(&self) -> Result<Vec<HeapError>, EngineError> {
        let records = self.read(self.heap.errors, HEAP_ERRORS as usize)?;
        Ok(records.iter().filter_map(HeapError::from_device).collect())
    }
    fn grow(&self, bytes: u64) -> Result<u64, EngineError> {
        let mut mapped = lock(&self.mapped);
        let (size, limit) = (u64::from(mapped.pages) << PAGE_SHIFT, self.config.limit);
        let steps = bytes.div_ceil(HEAP_STEP);
        if steps > (limit - size) / HEAP_STEP {
            return Err(EngineError::HeapLimit { size, limit, bytes });
        }
        if steps > 0 {
            self.append(&mut mapped, steps)?;
        }
        Ok(u64::from(mapped.pages) << PAGE_SHIFT)
    }
}
