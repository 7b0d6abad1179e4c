//! The wasmtime engines that all modules share: they compile code and give instances their memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig,
    RegallocAlgorithm,
};

use crate::lock::lock;
use crate::permits;

/// Elements for which a table in the pool has room.
const POOL_TABLE: u64 = 20_000;

/// Bytes of an instance's memory and of its tables that are cleared by writing zeros. The system takes further pages
/// back, and each of those costs the next instance a page fault.
const KEPT: usize = 256 << 10;

/// Bytes of the same stack for the host's own functions, which run on it as well: what wasmtime leaves them by default.
const HOST_STACK: usize = 3 << 19;

/// Two engines, because a pool makes instances cheap, takes 10 ms to make, and cannot hold every module.
///
/// With fresh mappings for each instance, a short process spent nine tenths of its time in the kernel, under a lock
/// that all threads share. The pool maps once and clears memory between two instances.
pub(crate) struct EnginePair {
    /// For modules with many processes whose tables have a small maximum. It is made at its first use, if the machine has
    /// enough addresses to give.
    pooled: OnceLock<Option<Engine>>,
    /// For all other modules: a growing table must not meet a limit that the module does not have.
    mapped: Engine,
    metering: Metering,
    stack: Stack,
}

/// A table's declared maximum, which decides whether the pool has room for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableBound {
    pub(crate) maximum: Option<u64>,
}

/// Whether compiled code counts fuel. Counting costs 15 to 30 % of the run time, so code without a fuel limit does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// The stack on which a process's calls nest, as a power of two, so that there are few engines. Memory is taken as it is
/// touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stack(u32);

impl Stack {
    /// What a native program has on Linux: 8 MiB.
    const DEFAULT: Self = Self(23);
    /// Less would not hold the frames of ordinary functions: 64 KiB.
    const LEAST: u32 = 16;

    /// The stack for this number of bytes, rounded up.
    pub(crate) fn of(bytes: Option<u32>) -> Self {
        bytes.map_or(Self::DEFAULT, |bytes| {
            let power = u64::from(bytes).next_power_of_two().trailing_zeros();
            Self(power.max(Self::LEAST))
        })
    }

    /// Whether it is the stack of processes for which no size was asked.
    pub(crate) fn is_default(self) -> bool {
        self == Self::DEFAULT
    }

    pub(crate) fn bytes(self) -> usize {
        1 << self.0
    }
}

fn config(metering: Metering, stack: Stack) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(metering == Metering::Fuel)
        .epoch_interruption(true)
        .max_wasm_stack(stack.bytes())
        .async_stack_size(stack.bytes() + HOST_STACK)
        .shared_memory(true);
    config
}

fn pool() -> PoolingAllocationConfig {
    let instances = permits::pool() as u32;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(instances)
        .total_memories(instances)
        .total_tables(instances)
        .total_stacks(instances)
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
/// Engines with stacks of other sizes. They are never dropped, and there are few.
static OTHERS: Mutex<BTreeMap<(Metering, Stack), &'static EnginePair>> =
    Mutex::new(BTreeMap::new());

impl EnginePair {
    fn make(metering: Metering, stack: Stack) -> Result<Self, String> {
        Ok(Self {
            pooled: OnceLock::new(),
            mapped: Self::without_pool(metering, stack)?,
            metering,
            stack,
        })
    }

    /// An engine whose instances have fresh mappings.
    ///
    /// # Errors
    /// wasmtime cannot generate code for this machine.
    pub(crate) fn without_pool(metering: Metering, stack: Stack) -> Result<Engine, String> {
        Engine::new(&config(metering, stack)).map_err(|e| format!("{e:#}"))
    }

    /// An engine for a module that runs once: its code is made quickly and is not fast.
    ///
    /// # Errors
    /// wasmtime cannot generate code for this machine.
    pub(crate) fn for_one_run() -> Result<Engine, String> {
        let mut config = config(Metering::EpochOnly, Stack::DEFAULT);
        config
            .cranelift_opt_level(OptLevel::None)
            .cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass);
        Engine::new(&config).map_err(|e| format!("{e:#}"))
    }

    /// The engines that count fuel or do not, made at their first use.
    ///
    /// # Errors
    /// wasmtime cannot generate code for this machine.
    pub(crate) fn get(metering: Metering, stack: Stack) -> Result<&'static Self, String> {
        if !stack.is_default() {
            return Self::other(metering, stack);
        }
        let made = match metering {
            Metering::Fuel => &COUNTING,
            Metering::EpochOnly => &UNCOUNTED,
        };
        let made = made.get_or_init(|| Self::make(metering, stack));
        made.as_ref().map_err(Clone::clone)
    }

    fn other(metering: Metering, stack: Stack) -> Result<&'static Self, String> {
        let mut others = lock(&OTHERS);
        if let Some(pair) = others.get(&(metering, stack)) {
            return Ok(pair);
        }
        let pair: &'static Self = Box::leak(Box::new(Self::make(metering, stack)?));
        others.insert((metering, stack), pair);
        Ok(pair)
    }

    /// The engine with a pool, if a module with these tables may use it.
    ///
    /// Modules whose processes wait for each other do not use the pool: waiting processes could fill it. Neither do stacks
    /// of other sizes, because each size would have a pool.
    pub(crate) fn pooled(&self, tables: &[TableBound], waits: bool) -> Option<&Engine> {
        let small = |table: &TableBound| table.maximum.is_some_and(|m| m <= POOL_TABLE);
        let fits = tables.len() <= 1 && tables.iter().all(small);
        if !fits || waits || !self.stack.is_default() {
            return None;
        }
        let made = self.pooled.get_or_init(|| {
            let strategy = InstanceAllocationStrategy::Pooling(pool());
            let mut config = config(self.metering, self.stack);
            // A limit on addresses, such as `ulimit -v`, refuses the pool. Then every instance gets fresh mappings.
            Engine::new(config.allocation_strategy(strategy)).ok()
        });
        made.as_ref()
    }

    /// The engine that any module may use, and that compiles for both.
    pub(crate) fn mapped(&self) -> &Engine {
        &self.mapped
    }
}

/// Makes all running code look whether it was killed.
pub(crate) fn increment_epoch() {
    let made = [&COUNTING, &UNCOUNTED].map(|pair| pair.get().and_then(|pair| pair.as_ref().ok()));
    let others = lock(&OTHERS).values().copied().collect::<Vec<_>>();
    for pair in made.into_iter().flatten().chain(others) {
        pair.mapped.increment_epoch();
        if let Some(Some(pooled)) = pair.pooled.get() {
            pooled.increment_epoch();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_rounded_up_to_a_power_of_two() {
        let bytes = |bytes| Stack::of(Some(bytes)).bytes();
        assert_eq!(bytes(0), 64 << 10);
        assert_eq!(bytes(64 << 10), 64 << 10);
        assert_eq!(bytes((1 << 20) + 1), 2 << 20);
        assert_eq!(bytes(u32::MAX), 1 << 32);
        assert_eq!(Stack::of(None).bytes(), 8 << 20);
        assert!(Stack::of(Some(8 << 20)).is_default());
    }

    #[test]
    fn code_for_one_engine_of_a_pair_is_code_for_the_other() {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let pair = EnginePair::get(Metering::Fuel, Stack::of(None)).expect("it is made");
        let hash = |engine: &Engine| {
            let mut hasher = DefaultHasher::new();
            engine.precompile_compatibility_hash().hash(&mut hasher);
            hasher.finish()
        };
        let pooled = pair.pooled(&[], false);
        let pooled = pooled.expect("addresses are not limited here");
        assert_eq!(hash(pooled), hash(pair.mapped()));
    }

    #[test]
    fn engines_of_one_stack_are_made_once() {
        let get = |bytes| EnginePair::get(Metering::EpochOnly, Stack::of(Some(bytes)));
        let [a, b] = [1 << 20, 1_000_000].map(|bytes| get(bytes).expect("it is made"));
        assert!(std::ptr::eq(a, b) && a.pooled(&[], false).is_none());
    }
}
