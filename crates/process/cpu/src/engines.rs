//! The wasmtime engines that all modules share: they compile code and give instances their memory.

use std::sync::OnceLock;

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::permits::THREADS_MOST;

/// Instances that a pool holds. Each takes 4 GiB of addresses; x86-64 has 128 TiB.
const POOL: u32 = THREADS_MOST as u32;

/// Elements for which a table in the pool has room.
const POOL_TABLE: u64 = 20_000;

/// Bytes of an instance's memory and of its tables that are cleared by writing zeros. The system takes further pages
/// back, and each of those costs the next instance a page fault.
const KEPT: usize = 256 << 10;

/// Two engines, because a pool makes instances cheap and cannot hold every module.
///
/// With fresh mappings for each instance, a short process spent nine tenths of its time in the kernel, under a lock
/// that all threads share. The pool maps once and clears memory between two instances.
pub(crate) struct EnginePair {
    /// For modules whose tables have a small maximum, if the machine has enough addresses to give.
    pooled: Option<Engine>,
    /// For all other modules: a growing table must not meet a limit that the module does not have.
    mapped: Engine,
}

/// A table's declared maximum, which decides whether the pool has room for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableBound {
    pub(crate) maximum: Option<u64>,
}

/// Whether compiled code counts fuel. Counting costs 15 to 30 % of the run time, so code without a fuel limit does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metering {
    /// Code counts fuel and looks at the epoch.
    Fuel,
    /// Code looks at the epoch and counts nothing.
    EpochOnly,
}

impl Metering {
    /// What a process with this fuel limit needs.
    pub(crate) fn of(fuel: Option<u64>) -> Self {
        match fuel {
            Some(_) => Self::Fuel,
            None => Self::EpochOnly,
        }
    }
}

fn config(metering: Metering) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(metering == Metering::Fuel)
        .epoch_interruption(true)
        .shared_memory(true);
    config
}

fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(POOL)
        .total_memories(POOL)
        .total_tables(POOL)
        .total_stacks(POOL)
        .max_memory_size(1 << 32)
        .table_elements(POOL_TABLE as usize)
        .linear_memory_keep_resident(KEPT)
        .table_keep_resident(KEPT)
        .pagemap_scan(Enabled::Auto);
    pool
}

type MadePair = OnceLock<Result<EnginePair, String>>;

static COUNTING: MadePair = OnceLock::new();
static UNCOUNTED: MadePair = OnceLock::new();

impl EnginePair {
    fn make(metering: Metering) -> Result<Self, String> {
        let mapped = Engine::new(&config(metering)).map_err(|e| format!("{e:#}"))?;
        let strategy = InstanceAllocationStrategy::Pooling(pool());
        // A limit on addresses, such as `ulimit -v`, refuses the pool. Then every instance gets fresh mappings.
        let pooled = Engine::new(config(metering).allocation_strategy(strategy)).ok();
        Ok(Self { pooled, mapped })
    }

    /// The engines that count fuel or do not, made at their first use.
    ///
    /// # Errors
    /// wasmtime cannot generate code for this machine.
    pub(crate) fn get(metering: Metering) -> Result<&'static Self, String> {
        let made = match metering {
            Metering::Fuel => &COUNTING,
            Metering::EpochOnly => &UNCOUNTED,
        };
        let made = made.get_or_init(|| Self::make(metering));
        made.as_ref().map_err(Clone::clone)
    }

    /// The engines that a module with these tables may use, the best one first. A later one is for a module that the
    /// pool has no room for after all.
    ///
    /// Modules whose processes wait for each other do not use the pool: waiting processes could fill it.
    pub(crate) fn suitable(
        &self,
        tables: &[TableBound],
        waits: bool,
    ) -> impl Iterator<Item = &Engine> {
        let small = |table: &TableBound| table.maximum.is_some_and(|m| m <= POOL_TABLE);
        let fits = tables.len() <= 1 && tables.iter().all(small);
        let pooled = self.pooled.as_ref().filter(|_| fits && !waits);
        pooled.into_iter().chain([&self.mapped])
    }

    /// The engine that any module may use.
    pub(crate) fn mapped(&self) -> &Engine {
        &self.mapped
    }
}

/// Makes all running code look whether it was killed.
pub(crate) fn increment_epoch() {
    let made = [&COUNTING, &UNCOUNTED].map(|pair| pair.get().and_then(|pair| pair.as_ref().ok()));
    for pair in made.into_iter().flatten() {
        pair.mapped.increment_epoch();
        if let Some(pooled) = &pair.pooled {
            pooled.increment_epoch();
        }
    }
}
