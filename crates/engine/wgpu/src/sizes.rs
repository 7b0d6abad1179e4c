//! The sizes of an engine's buffers, and where each table is in the state.

use everwarp_contract::task::{FN_LIMIT, INSTANCES, PARAM_BYTES};
use everwarp_contract::wgpu::{
    DevRound, DevWgpuGroup, DevWgpuHeader, DevWgpuQueue, DevWgpuWorkgroup, WGPU_CHUNK, WGPU_QUEUES,
    WGPU_WORKGROUPS,
};
use everwarp_contract::{DevTask, DevType, DevWorker};
use everwarp_engine::{EngineError, Pools};

/// Slots of submissions on the device.
pub(crate) const INBOX: u32 = 1 << 16;
/// The most free group ids that a workgroup keeps.
const STACK: u32 = 4096;
/// Groups that a workgroup defers in a dispatch.
const DEFERRED: u32 = 4096;
/// The fewest chunks of a workgroup: a call of the largest size has room, whatever queues its tasks go to.
const LEAST_CHUNKS: u32 = 24;
/// The fewest group ids for each workgroup.
const LEAST_GROUPS: u32 = 64;

/// The sizes of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) pools: Pools,
    pub(crate) workgroups: u32,
    /// The numbers that are the same in every dispatch.
    pub(crate) round: DevRound,
    /// Words of the state.
    pub(crate) state_words: u32,
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
        let round = DevRound {
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
        Ok(Self {
            pools,
            workgroups,
            round,
            state_words: end,
        })
    }

    /// The state before the first dispatch: every chunk is free, and so is every group's id.
    pub(crate) fn first_state(&self) -> Vec<u32> {
        let (round, mut state) = (&self.round, vec![0; self.state_words as usize]);
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
