//! The engines that all programs share: what compiles code and gives instances their memory.

use std::sync::OnceLock;

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// How many instances the pool holds, and so how many threads all hosts together may have. Each takes 4 GiB of
/// addresses, of which x86-64 has 128 TiB.
pub(crate) const POOL: u32 = 1024;

/// Elements that a table in the pool has room for.
const POOL_TABLE: u64 = 20_000;

/// Bytes of an instance's memory and of its tables that are cleared by writing zeros. Beyond, the system takes the
/// pages back, which costs the next instance a fault for each.
const KEPT: usize = 256 << 10;

/// Two engines, because a pool makes instances cheap and cannot hold every module.
///
/// With fresh mappings for each instance, nine tenths of the time of a short process went into the kernel, under a
/// lock that all threads share. The pool maps once and clears memory between two instances.
pub(crate) struct Engines {
    /// For modules whose tables have a small maximum, if the machine has so many addresses to give.
    pooled: Option<Engine>,
    /// For all others: a growing table must not meet a limit that the module does not have.
    mapped: Engine,
}

/// A table, as far as the pool is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) maximum: Option<u64>,
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
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

impl Engines {
    fn make() -> Result<Self, String> {
        let mapped = Engine::new(&config()).map_err(|e| format!("{e:#}"))?;
        let strategy = InstanceAllocationStrategy::Pooling(pool());
        // A limit on addresses, such as `ulimit -v`, refuses the pool, and then everything is mapped afresh.
        let pooled = Engine::new(config().allocation_strategy(strategy)).ok();
        Ok(Self { pooled, mapped })
    }

    /// The engines, made at first use. An error is a machine that wasmtime cannot generate code for.
    pub(crate) fn get() -> Result<&'static Self, String> {
        static ENGINES: OnceLock<Result<Engines, String>> = OnceLock::new();
        ENGINES
            .get_or_init(Self::make)
            .as_ref()
            .map_err(Clone::clone)
    }

    /// The engines that a module with these tables may use, the best one first. A later one is for a module that
    /// the pool has no room for after all.
    ///
    /// Programs whose processes wait for each other do not use the pool: it could be full of those that wait.
    pub(crate) fn of(&self, tables: &[Table], waits: bool) -> impl Iterator<Item = &Engine> {
        let small = |t: &Table| t.maximum.is_some_and(|m| m <= POOL_TABLE);
        let fits = tables.len() <= 1 && tables.iter().all(small);
        let pooled = self.pooled.as_ref().filter(|_| fits && !waits);
        pooled.into_iter().chain([&self.mapped])
    }

    /// The one that any module may use.
    pub(crate) fn mapped(&self) -> &Engine {
        &self.mapped
    }

    /// Lets running code look whether it has been killed.
    pub(crate) fn increment_epoch(&self) {
        self.mapped.increment_epoch();
        if let Some(pooled) = &self.pooled {
            pooled.increment_epoch();
        }
    }
}
