//! The limits of a module's places, and how the options of the process API become those of the host-call servers.

use std::sync::Arc;

use everwarp_contract::hostcall::HOSTCALL_SLOTS_MOST;
use everwarp_process::threads::THREADS_MOST;
use everwarp_process::{LoadConfig, StartError};
use everwarp_runtime::Device;

use crate::error::not_started;
use crate::module::CompiledModule;

/// Modules that the image of an engine, or a host, can have. A host's module is an instance of the program, and an engine has
/// room for 256 instances.
pub(crate) const MODULES_MOST: usize = 255;
/// The most places that a module with threads has: each takes a slot for host calls and a record.
pub(crate) const PLACES_MOST: u32 = 1 << 14;
/// Bytes of stack for each thread of the device, where the configuration does not say. The driver reserves the stack for
/// every thread that the device can hold: an H200 has 270,336, so that 32 KiB are 8.9 GB.
pub(crate) const STACK_BYTES: u32 = 32 << 10;

/// The limits of one module's places: a [`LoadConfig`] whose memory budget is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceConfig {
    /// Places for processes that the host spawns.
    pub(crate) places: u32,
    /// Places for processes that other processes spawn.
    pub(crate) children: u32,
    /// Threads of each process besides its first.
    pub(crate) threads: u32,
    /// The limit of linear memory and tables of each process.
    pub(crate) memory: Option<u64>,
    /// The bytes of memory in which the frames of each process are kept that the device's stack does not hold.
    pub(crate) stack: Option<u32>,
    /// Bytes of device memory for all places of the module.
    pub(crate) memory_budget: u64,
}

impl PlaceConfig {
    /// The places that a configuration asks for, with this budget if it sets none. `stack` is the host's
    /// [`stack_bytes`](everwarp_process::HostConfig::stack_bytes).
    pub(crate) fn of(config: &LoadConfig, stack: Option<u32>, memory_budget: u64) -> Self {
        Self {
            places: config.places,
            children: config.children,
            threads: config.threads,
            memory: config.memory,
            stack,
            memory_budget: config.memory_budget.unwrap_or(memory_budget),
        }
    }

    /// How many threads each process of a module may have besides its first.
    pub(crate) fn threads_of(&self, module: &CompiledModule) -> u32 {
        match &module.threads {
            Some(threads) if threads.spawns => self.threads.min(THREADS_MOST),
            _ => 0,
        }
    }

    /// How many places the modules that a host starts with have at most, including those for children and threads.
    pub(crate) fn places_of(&self, modules: &[Arc<CompiledModule>]) -> u64 {
        let children = match modules.iter().any(|module| module.uses_gpu()) {
            true => self.children,
            false => 0,
        };
        modules.iter().map(|m| self.places_with(m, children)).sum()
    }

    /// How many places a module has at most. `children` of them are for processes that other processes spawn.
    pub(crate) fn places_with(&self, module: &CompiledModule, children: u32) -> u64 {
        let threads = self.threads_of(module);
        let processes = self.places.min((PLACES_MOST / threads.max(1)).max(1));
        match (threads, &module.threads) {
            (0, None) => u64::from(self.places) + u64::from(children),
            // Only the host spawns processes with threads.
            (0, Some(_)) => u64::from(self.places),
            _ => u64::from(processes) * u64::from(1 + threads),
        }
    }

    /// The slots of the host-call ring with these modules: one for each place, including the spare ones.
    pub(crate) fn slots(&self, modules: &[Arc<CompiledModule>], spare_places: u32) -> u32 {
        let places = self.places_of(modules) + u64::from(spare_places);
        places
            .next_power_of_two()
            .clamp(32, HOSTCALL_SLOTS_MOST.into()) as u32
    }
}

/// What decides whether places fit a module of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceKey {
    /// How many places were asked for.
    places: u32,
    /// The limit of each process's memory, if the host sets one.
    memory: Option<u64>,
    stack: Option<u32>,
    threads: u32,
    depth: u32,
}

impl PlaceKey {
    pub(crate) fn new(config: &PlaceConfig, depth: u32) -> Self {
        Self {
            places: config.places,
            memory: config.memory,
            stack: config.stack,
            threads: config.threads,
            depth,
        }
    }
}

/// The budget of each of `modules` modules on a device with this much free memory: seven tenths of it, in equal parts.
/// The rest is for the engine's own memory, arguments and messages.
pub(crate) fn memory_budget(free_bytes: u64, modules: usize) -> u64 {
    free_bytes / 10 * 7 / (modules.max(1) as u64)
}

/// The largest stack that the threads of a device may have together without being asked for: an eighth of its memory.
const STACKS_SHARE: u64 = 8;
/// The most threads of a multiprocessor.
const THREADS: u64 = 2048;

/// The largest stack of a thread that a host gets which asks for none.
pub(crate) fn stack_most(device: &Device) -> Result<u32, StartError> {
    let Some(gpu) = device.cuda() else {
        return Ok(STACK_BYTES);
    };
    let (_, total) = gpu.memory().map_err(|e| not_started(e.into()))?;
    Ok(stack_share(total, gpu.multiprocessors()))
}

fn stack_share(memory: u64, multiprocessors: u32) -> u32 {
    let threads = u64::from(multiprocessors.max(1)) * THREADS;
    let share = memory / STACKS_SHARE / threads / 1024 * 1024;
    u32::try_from(share).unwrap_or(u32::MAX).max(STACK_BYTES)
}

/// The bytes of device memory that are free.
pub(crate) fn free_bytes(device: &Device) -> Result<u64, StartError> {
    let Some(gpu) = device.cuda() else {
        let message = format!("the CUDA engine needs a GPU, and {} is none", device.name());
        return Err(StartError::Engine(message.into()));
    };
    let (free, _) = gpu.memory().map_err(|e| not_started(e.into()))?;
    Ok(free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::tests::load;

    const CONFIG: PlaceConfig = PlaceConfig {
        places: 1000,
        children: 24,
        threads: 9,
        memory: None,
        stack: None,
        memory_budget: 0,
    };

    fn module(imports: &str) -> Arc<CompiledModule> {
        let text = format!(
            r#"(module {imports} (func (export "wasi_thread_start") (param i32 i32)) (func (export "_start")))"#
        );
        Arc::new(load(&text).expect("it compiles"))
    }

    #[test]
    fn children_have_places_if_any_module_can_spawn() {
        let plain = module("");
        assert_eq!(CONFIG.places_of(&[module("")]), 1000);
        let family = module(r#"(import "everwarp:gpu" "lane" (func (result i32)))"#);
        assert_eq!(CONFIG.places_of(&[plain, family]), 2048);
    }

    #[test]
    fn each_place_and_spare_place_has_a_slot() {
        assert_eq!(CONFIG.slots(&[module("")], 0), 1024);
        assert_eq!(CONFIG.slots(&[module("")], 25), 2048);
        assert_eq!(CONFIG.slots(&[], 0), 32);
    }

    #[test]
    fn threads_have_places_and_their_processes_no_children() {
        let memory = r#"(import "env" "memory" (memory 1 1 shared))"#;
        let spawn = r#"(import "wasi" "thread-spawn" (func (param i32) (result i32)))"#;
        let threads = module(&format!("{memory}{spawn}"));
        assert_eq!(CONFIG.threads_of(&threads), 9);
        assert_eq!(CONFIG.places_with(&threads, 24), 10_000);
        let shared = module(memory);
        assert_eq!(CONFIG.places_with(&shared, 24), 1000);
    }

    #[test]
    fn stacks_may_take_an_eighth_of_the_memory() {
        // An H200, and a GPU with little memory for its threads.
        assert_eq!(stack_share(150_000_000_000, 132), 67 << 10);
        assert_eq!(stack_share(24_000_000_000, 128), STACK_BYTES);
    }

    #[test]
    fn the_budget_is_divided_among_modules_unless_it_is_set() {
        assert_eq!(memory_budget(1000, 7), 100);
        assert_eq!(memory_budget(1000, 0), 700);
        let mut config = LoadConfig::default();
        assert_eq!(PlaceConfig::of(&config, None, 5).memory_budget, 5);
        config.memory_budget = Some(6);
        assert_eq!(PlaceConfig::of(&config, None, 5).memory_budget, 6);
    }
}
