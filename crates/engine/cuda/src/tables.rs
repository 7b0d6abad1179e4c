//! The engine's fixed memory: rings in pinned host memory, queues and pools in device memory.

use everwarp_contract::device::{
    BLOCK_QUEUES, BLOCK_WARPS, CHUNK_ID_BITS, CHUNK_TASKS, DevDeque, DevEngine, DevGrid, DevInbox,
    LOCAL_TASKS, SAVED_HANDS, SHARD_STRIDE, SHARDS, SLAB_GROUPS,
};
use everwarp_contract::task::{INSTANCES, PARAM_BYTES, PRIORITIES};
use everwarp_contract::{DevCompletion, DevGroup, DevPtr, DevTask, DevWords, DevWorker};
use everwarp_engine::{EngineError, EngineRings, Footprint, Pools};

use crate::driver::{Pinned, alloc_zeroed, call};

/// Where everything is.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) engine: DevEngine,
    pub(crate) rings: EngineRings,
    pinned: Pinned,
    device: u64,
    device_bytes: u64,
}

/// Lays tables out one after the other, each on a line of its own.
#[derive(Default)]
pub(crate) struct Cursor(u64);
impl Cursor {
    /// Bytes of all tables so far.
    pub(crate) fn end(&self) -> u64 {
        self.0
    }
    /// The offset of a table of `count` values.
    pub(crate) fn take<T>(&mut self, count: u64) -> u64 {
        let at = self.0.next_multiple_of(256);
        self.0 = at + count * size_of::<T>() as u64;
        at
    }
}

impl Tables {
    pub(crate) fn new(pools: Pools, max_blocks: u32) -> Result<Self, EngineError> {
        let (blocks, warps) = (u64::from(max_blocks), u64::from(max_blocks * BLOCK_WARPS));
        let queues = blocks * u64::from(BLOCK_QUEUES);
        let chunks = u64::from(pools.tasks.div_ceil(CHUNK_TASKS));
        let groups = u64::from(pools.groups.next_multiple_of(SLAB_GROUPS));
        if chunks >= 1 << CHUNK_ID_BITS {
            let value = u64::from(pools.tasks);
            return Err(EngineError::Pool {
                what: "pools.tasks",
                rule: "less than 2^31",
                value,
            });
        }
        let slabs = groups / u64::from(SLAB_GROUPS) + warps;
        let words = warps.div_ceil(32);
        let priorities = u64::from(PRIORITIES);

        let mut host = Cursor(0);
        let (h_words, h_submissions, h_completions, h_arena) = (
            host.take::<DevWords>(1),
            host.take::<DevTask>(pools.submission_slots.into()),
            host.take::<DevCompletion>(pools.tokens.into()),
            host.take::<DevTask>(pools.arena_tasks.into()),
        );
        let pinned = Pinned::new(host.0 as usize)?;

        let mut at = Cursor(0);
        let mut engine = DevEngine {
            words: DevPtr::new(pinned.device + h_words),
            submissions: DevPtr::new(pinned.device + h_submissions),
            completions: DevPtr::new(pinned.device + h_completions),
            arena: DevPtr::new(pinned.device + h_arena),
            host_calls: crate::hostcalls::NONE,
            grid: DevPtr::new(at.take::<DevGrid>(1)),
            groups: DevPtr::new(at.take::<DevGroup>(groups)),
            slabs: DevPtr::new(at.take::<u32>(slabs * u64::from(SLAB_GROUPS))),
            slab_next: DevPtr::new(at.take::<u32>(slabs)),
            chunks: DevPtr::new(at.take::<DevTask>(chunks * u64::from(CHUNK_TASKS))),
            chunk_next: DevPtr::new(at.take::<u32>(chunks)),
            chunk_count: DevPtr::new(at.take::<u32>(chunks)),
            deques: DevPtr::new(at.take::<DevDeque>(queues * priorities)),
            warp_bits: DevPtr::new(at.take::<u32>(words * priorities)),
            block_bits: DevPtr::new(at.take::<u32>(words * priorities)),
            inboxes: DevPtr::new(at.take::<DevInbox>(warps)),
            idle_warp_bits: DevPtr::new(at.take::<u32>(words)),
            idle_block_bits: DevPtr::new(at.take::<u32>(words)),
            shards: DevPtr::new(at.take::<u64>(u64::from(3 * SHARDS * SHARD_STRIDE))),
            saved: DevPtr::new(at.take::<DevTask>(queues * u64::from(LOCAL_TASKS))),
            saved_count: DevPtr::new(at.take::<u32>(queues)),
            workers: DevPtr::new(at.take::<DevWorker>(warps)),
            params: DevPtr::new(at.take::<u8>(u64::from(INSTANCES * PARAM_BYTES))),
            saved_hands: DevPtr::new(at.take::<u32>(warps * u64::from(SAVED_HANDS))),
            heap: DevPtr::NULL,
            submission_slots: pools.submission_slots,
            completion_slots: pools.tokens,
            arena_tasks: pools.arena_tasks,
            chunk_limit: chunks as u32,
            group_limit: groups as u32,
            slab_limit: slabs as u32,
            max_blocks,
            bit_words: words as u32,
            traces: DevPtr::NULL,
            trace_slots: 0,
            measure_functions: 0,
            measures: DevPtr::NULL,
            samples: DevPtr::NULL,
        };
        let bytes = at.0;
        let device = alloc_zeroed(bytes).inspect_err(|_| {
            // SAFETY: nothing else has the address of the pinned memory yet.
            unsafe { pinned.free() };
        })?;
        macro_rules! relocate {
            ($($field:ident),*) => { $(engine.$field = DevPtr::new(engine.$field.address() + device);)* };
        }
        relocate!(
            grid,
            groups,
            slabs,
            slab_next,
            chunks,
            chunk_next,
            chunk_count,
            deques,
            warp_bits,
            block_bits,
            inboxes,
            idle_warp_bits,
            idle_block_bits,
            shards,
            saved,
            saved_count,
            workers,
            params,
            saved_hands
        );
        // SAFETY: all four offsets are inside the pinned allocation.
        let rings = unsafe {
            EngineRings {
                words: pinned.host.add(h_words as usize).cast(),
                submissions: pinned.host.add(h_submissions as usize).cast(),
                completions: pinned.host.add(h_completions as usize).cast(),
                arena: pinned.host.add(h_arena as usize).cast(),
            }
        };
        Ok(Self {
            engine,
            rings,
            pinned,
            device,
            device_bytes: bytes,
        })
    }

    pub(crate) fn footprint(&self) -> Footprint {
        Footprint {
            device_bytes: self.device_bytes,
            host_bytes: self.pinned.bytes as u64,
        }
    }

    /// # Safety
    /// - Nothing is resident.
    pub(crate) unsafe fn release(&self) {
        // SAFETY: allocated by `new`, and not in use any more; a failure leaves a leak.
        unsafe {
            let _ = call!(cuMemFree_v2(self.device));
            self.pinned.free();
        }
    }
}
