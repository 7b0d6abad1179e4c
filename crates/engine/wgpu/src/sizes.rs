//! The sizes of an engine's buffers, and where each table is in the state.

use everwarp_contract::heap::{
    HEAP_CHECKED, HEAP_CLASSES, HEAP_ERRORS, HEAP_OWNED, HEAP_PAGE_SHIFT, HEAP_PAGE_TAGS,
    HEAP_PAGE_WORDS,
};
use everwarp_contract::task::{FN_LIMIT, INSTANCES, PARAM_BYTES};
use everwarp_contract::wgpu::{
    DevRound, DevWgpuGroup, DevWgpuHeader, DevWgpuHeap, DevWgpuOwner, DevWgpuQueue,
    DevWgpuWorkgroup, WGPU_CHUNK, WGPU_QUEUES, WGPU_THREADS, WGPU_WORKGROUPS,
};
use everwarp_contract::{DevHeapError, DevTask, DevType, DevWorker};
use everwarp_engine::{EngineError, HeapConfig, HeapMode, Pools};

/// Slots of submissions on the device.
pub(crate) const INBOX: u32 = 1 << 18;
/// The most free group ids that a workgroup keeps.
const STACK: u32 = 4096;
/// Groups that a workgroup defers in a dispatch.
const DEFERRED: u32 = 4096;
/// The fewest chunks of a workgroup: a call of the largest size has room, whatever queues its tasks go to.
const LEAST_CHUNKS: u32 = 24;
/// The fewest group ids for each workgroup.
const LEAST_GROUPS: u32 = 64;

/// Pages for each class and party of workgroups, at least.
const PARTY_PAGES: u32 = 4;

/// The sizes of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) pools: Pools,
    pub(crate) workgroups: u32,
    /// The numbers that are the same in every dispatch.
    pub(crate) round: DevRound,
    /// Words of the state.
    pub(crate) state_words: u32,
    /// Words of the state before the heap's tables.
    first_words: u32,
}

fn words<T>() -> u32 {
    (size_of::<T>() / 4) as u32
}

impl Sizes {
    /// How many workgroups these pools are enough for.
    pub(crate) fn most_workgroups(pools: &Pools) -> u32 {
        (pools.tasks / (LEAST_CHUNKS * WGPU_CHUNK))
            .min(pools.groups / LEAST_GROUPS)
            .min(WGPU_WORKGROUPS)
    }
    /// The sizes for `workgroups` workgroups, in buffers of up to `limit` bytes.
    pub(crate) fn new(mut pools: Pools, workgroups: u32, limit: u64) -> Result<Self, EngineError> {
        pools.check()?;
        pools.heap = pools.heap.rounded()?;
        if workgroups == 0 || workgroups > WGPU_WORKGROUPS {
            return Err(EngineError::Size {
                min: 1,
                asked: workgroups,
                max: WGPU_WORKGROUPS,
            });
        }
        let least = workgroups * LEAST_CHUNKS * WGPU_CHUNK;
        if pools.tasks < least {
            return Err(EngineError::Pool {
                what: "pools.tasks",
                rule: "at least 768 for each workgroup",
                value: pools.tasks.into(),
            });
        }
        if pools.groups < LEAST_GROUPS * workgroups {
            return Err(EngineError::Pool {
                what: "pools.groups",
                rule: "at least 64 for each workgroup",
                value: pools.groups.into(),
            });
        }
        // What an adapter can bind bounds the pools; `pools()` and `doctor` tell their sizes.
        let share = |bytes: usize| u32::try_from(limit / 4 / bytes as u64).unwrap_or(u32::MAX);
        pools.tasks = pools.tasks.min(share(size_of::<DevTask>()));
        pools.groups = pools.groups.min(share(size_of::<DevTask>()));
        let chunks = pools.tasks / workgroups / WGPU_CHUNK;
        if chunks < LEAST_CHUNKS {
            return Err(EngineError::OutOfMemory {
                kind: "device",
                bytes: u64::from(least) * size_of::<DevTask>() as u64,
                detail: format!("the adapter binds {limit} bytes"),
            });
        }
        pools.tasks = chunks * WGPU_CHUNK * workgroups;
        let entries = chunks.next_power_of_two();
        let stack = (pools.groups / workgroups).min(STACK);
        let group_words = pools.groups.div_ceil(32);
        pools.groups = group_words * 32;
        let mut end = words::<DevWgpuHeader>();
        let mut place = |count: u32| {
            let at = end;
            end += count;
            at
        };
        let mut round = DevRound {
            workgroups,
            inbox_mask: INBOX - 1,
            queues: WGPU_QUEUES,
            completions: pools.tokens,
            chunks,
            table_mask: entries - 1,
            stack,
            deferred: DEFERRED,
            group_words,
            first_group: pools.tokens,
            at_totals: place(2 * workgroups),
            at_rooms: place(2 * workgroups),
            at_queues: place(2 * workgroups * WGPU_QUEUES * words::<DevWgpuQueue>()),
            at_workgroups: place(workgroups * words::<DevWgpuWorkgroup>()),
            at_workers: place(workgroups * words::<DevWorker>()),
            at_tables: place(workgroups * WGPU_QUEUES * entries),
            at_chunks: place(workgroups * chunks),
            at_groups: place(workgroups * stack),
            at_deferred: place(2 * workgroups * DEFERRED),
            at_bits: place(2 * group_words),
            at_thens: pools.tasks,
            ..DevRound::ZERO
        };
        let first_words = end;
        let state_words = place_heap(&mut round, &pools.heap, first_words, limit)?;
        Ok(Self {
            pools,
            workgroups,
            round,
            state_words,
            first_words,
        })
    }
    /// The first words of the free pages, from the page numbered `first` on; whole words.
    pub(crate) fn at_free(&self, first: u32) -> u64 {
        (self.round.at_free + first / 32).into()
    }
    /// Workgroups of the dispatch that settles the heap; 0 without one.
    pub(crate) fn settlers(&self) -> u32 {
        self.round.heap_words * 32 / WGPU_THREADS
    }

    /// The beginning of the state before the first dispatch: every chunk is free, and so is every group's id. The rest is 0.
    pub(crate) fn first_state(&self) -> Vec<u32> {
        let (round, mut state) = (&self.round, vec![0; self.first_words as usize]);
        let mut set = |at: u32, value: u32| state[at as usize] = value;
        for workgroup in 0..self.workgroups {
            let own = round.at_workgroups + workgroup * words::<DevWgpuWorkgroup>();
            let chunks = std::mem::offset_of!(DevWgpuWorkgroup, chunks) / 4;
            set(own + chunks as u32, round.chunks);
            for chunk in 0..round.chunks {
                set(round.at_chunks + workgroup * round.chunks + chunk, chunk);
            }
            // The first dispatch has number 1 and reads what number 0 would have written.
            let room = (round.chunks - WGPU_QUEUES) * WGPU_CHUNK;
            set(round.at_rooms + workgroup, room);
        }
        for word in 0..round.group_words {
            set(round.at_bits + word, u32::MAX);
        }
        state
    }

    /// Groups: one for each token, then those that tasks open.
    fn groups(&self) -> u64 {
        u64::from(self.pools.groups) + u64::from(self.pools.tokens)
    }
    /// Tasks, and the continuations of groups.
    pub(crate) fn task_bytes(&self) -> u64 {
        (u64::from(self.pools.tasks) + self.groups()) * size_of::<DevTask>() as u64
    }
    pub(crate) fn group_bytes(&self) -> u64 {
        self.groups() * size_of::<DevWgpuGroup>() as u64
    }
    pub(crate) fn state_bytes(&self) -> u64 {
        u64::from(self.state_words) * 4
    }
    pub(crate) fn params_bytes() -> u64 {
        u64::from(INSTANCES * PARAM_BYTES + FN_LIMIT * 4)
    }
    pub(crate) fn inbox_bytes() -> u64 {
        u64::from(INBOX) * size_of::<DevTask>() as u64
    }
    /// A region of completions for each of two submissions.
    pub(crate) fn completion_bytes(&self) -> u64 {
        2 * u64::from(self.pools.tokens) * 16
    }
}

/// Pages of a size that is a whole number of them.
pub(crate) fn pages(bytes: u64) -> u32 {
    (bytes >> HEAP_PAGE_SHIFT) as u32
}

/// Places the heap's tables in the state from word `begin` on. Returns where they end.
fn place_heap(
    round: &mut DevRound,
    heap: &HeapConfig,
    begin: u32,
    limit: u64,
) -> Result<u32, EngineError> {
    if heap.bytes == 0 {
        return Ok(begin);
    }
    let refused = |detail: String| EngineError::OutOfMemory {
        kind: "device",
        bytes: heap.limit,
        detail,
    };
    if heap.limit >= limit {
        return Err(refused(format!(
            "a heap that may grow to that size, in a window of {limit} bytes"
        )));
    }
    let owned = heap.mode != HeapMode::Plain;
    let all = pages(heap.limit);
    // A record begins at a multiple of its size.
    let mut end = u64::from(begin).next_multiple_of(16);
    let mut place = |count: u64| {
        let at = end;
        end += count.next_multiple_of(16);
        at as u32
    };
    let of = |count: u32, words: u32| u64::from(count) * u64::from(words);
    let owners = if owned { heap.owners } else { 0 };
    round.heap_pages = pages(heap.bytes);
    round.heap_mode = match heap.mode {
        HeapMode::Plain => 0,
        HeapMode::Owned => HEAP_OWNED,
        HeapMode::Checked => HEAP_OWNED | HEAP_CHECKED,
    };
    round.heap_owners = owners;
    round.heap_parties = (all / (HEAP_CLASSES * PARTY_PAGES)).clamp(1, round.workgroups);
    round.heap_words = all / 32;
    round.at_heap = place(words::<DevWgpuHeap>().into());
    round.at_pages = place(all.into());
    round.at_free = place(round.heap_words.into());
    round.at_roomy = place(of(round.heap_words, HEAP_CLASSES));
    round.at_dirty = place(round.heap_words.into());
    round.at_used = place(of(all, HEAP_PAGE_WORDS));
    round.at_freed = place(of(all, HEAP_PAGE_WORDS));
    round.at_active = place(of(round.heap_parties, HEAP_CLASSES));
    round.at_tags = place(if owned {
        of(all, HEAP_PAGE_TAGS / 2)
    } else {
        0
    });
    round.at_owners = place(of(owners, words::<DevWgpuOwner>()));
    round.at_errors = place(of(HEAP_ERRORS, words::<DevHeapError>()));
    if end * 4 > limit {
        return Err(refused(format!(
            "its tables take {} bytes, and the adapter binds {limit}",
            end * 4
        )));
    }
    Ok(end as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_has_tables_for_its_limit() {
        let heap = HeapConfig::of(1 << 24)
            .up_to(1 << 26)
            .mode(HeapMode::Checked);
        let pools = Pools {
            heap,
            ..Pools::default()
        };
        let sizes = Sizes::new(pools, 8, 1 << 27).expect("there is room");
        let round = sizes.round;
        assert_eq!((round.heap_pages, round.heap_words), (128, 16));
        assert_eq!(sizes.settlers(), 8);
        // Five parties with a slot for each of 22 classes, in whole lines.
        assert_eq!(round.heap_parties, 5);
        assert_eq!(round.at_tags - round.at_active, 112);
        assert_eq!(round.at_owners - round.at_tags, 512 * 4096);
        assert!(sizes.state_words >= round.at_errors + 64 * 8);
        assert!(sizes.first_state().len() <= round.at_heap as usize);
        let none = Sizes::new(Pools::default(), 8, 1 << 27).expect("there is room");
        assert_eq!((none.settlers(), none.round.heap_pages), (0, 0));
        let error = Sizes::new(pools, 8, 1 << 26).map(|_| ());
        let error = error.expect_err("too small").to_string();
        assert!(error.contains("window"), "{error}");
        // The tables begin where the buffer ends.
        let (limit, mut round) = (1 << 27, sizes.round);
        let error = place_heap(&mut round, &sizes.pools.heap, limit / 4, limit.into());
        let error = error.expect_err("too small").to_string();
        assert!(error.contains("its tables take"), "{error}");
    }
}
