//! How many places a module gets, and how many bytes each takes.

use everwarp_compiler::{Initial, PAGE};
use everwarp_process::StartError;

use crate::config::{PLACES_MOST, PlaceConfig};
use crate::error::not_instantiated;
use crate::layout::process::{DevProcess, DevSpawn, OUTPUT_BYTES, START_PROCESSES};
use crate::link::DEPTH_LEAST;
use crate::module::CompiledModule;

/// The bytes that a linear memory may grow by, if the configuration does not say how much.
const GROWTH: u64 = 64 << 20;
/// The same in modules with places for processes that other processes spawn: each place has its memory from the start.
const GROWTH_OF_FAMILIES: u64 = 4 << 20;
/// The most bytes in which the frames of a suspended process are saved. A process that is suspended with more frames
/// ends with an exhausted stack, unless its module's calls nest deeper than the stack: then as many calls nest on the stack
/// as fit in the area.
const SAVE_MOST: u64 = 64 << 10;
/// The most bytes of memory for frames that the device's stack does not hold, if the configuration does not say how many:
/// the stack of a native program.
const DEEP_MOST: u64 = 8 << 20;
/// The most that a configuration may say.
const DEEP_LIMIT: u64 = 1 << 30;
/// These bytes are at most the memory of a process divided by this.
const DEEP_SHARE: u64 = 8;

/// How many places a module has, and how large each is.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceSizes {
    /// Places for processes that the host spawns.
    pub(super) count: u32,
    /// Places for processes that other processes spawn.
    pub(super) children: u32,
    /// Threads of each process besides its first.
    pub(super) threads: u32,
    /// The bytes that a linear memory may grow to.
    pub(super) memory_limit: u64,
    pub(super) memory_stride: u64,
    pub(super) record_stride: u64,
    /// The offset of collected output in a record.
    pub(super) output_at: u32,
    /// How deep calls may nest on the device's stack.
    pub(super) depth: u32,
}

impl PlaceSizes {
    /// The sizes that the configuration allows, and the initial bytes of an instance.
    pub(super) fn of(
        module: &CompiledModule,
        config: &PlaceConfig,
        depth: u32,
    ) -> Result<(Self, Initial), StartError> {
        // Only the host spawns processes with threads.
        let children = match module.threads {
            Some(_) => 0,
            None => config.children,
        };
        let frames = FrameAreas::of(module, config, children, depth);
        let depth = frames.depth;
        let memory = memory_bytes(module, config, children, frames)?;
        let initial = module.instantiate(memory, depth);
        let mut initial = initial.map_err(|e| StartError::Load {
            module: module.name.clone(),
            source: not_instantiated(&e),
        })?;
        (initial.save_bytes, initial.deep_bytes) = (frames.save, frames.deep);
        let output_at = size_of::<DevProcess>() + initial.block_bytes().next_multiple_of(16);
        // A shared memory is no instance's own, so the initial bytes do not say how large it is.
        let memory_limit = match module.threads {
            Some(_) => memory,
            None => initial.memory_limit,
        };
        let sizes = Self {
            count: 0,
            children: 0,
            threads: config.threads_of(module),
            memory_limit,
            memory_stride: memory_limit.max(16),
            record_stride: (output_at + OUTPUT_BYTES as usize).next_multiple_of(128) as u64,
            output_at: output_at as u32,
            depth,
        };
        Ok((sizes.counted(module, config, children)?, initial))
    }

    /// The same sizes with as many places as the budget allows. Where not all fit, places for children and other places
    /// are reduced alike.
    fn counted(
        self,
        module: &CompiledModule,
        config: &PlaceConfig,
        children: u32,
    ) -> Result<Self, StartError> {
        let record = self.record_stride + size_of::<DevSpawn>() as u64;
        let needs = self.memory_stride + record * u64::from(1 + self.threads);
        let most = (PLACES_MOST / self.threads.max(1)).max(1);
        let wanted = u64::from(config.places) + u64::from(children);
        let wanted = match self.threads {
            0 => wanted,
            _ => wanted.min(most.into()),
        };
        let total = wanted.min(config.memory_budget / needs);
        let children = (u64::from(children) * total / wanted.max(1)) as u32;
        let count = total as u32 - children;
        if count == 0 {
            return Err(StartError::Budget {
                module: module.name.clone(),
                needs,
                budget: config.memory_budget,
            });
        }
        Ok(Self {
            count,
            children,
            ..self
        })
    }

    /// Bytes of device memory of all places.
    pub(super) fn bytes(&self, interleaved: bool) -> u64 {
        let memories = match interleaved {
            true => self.total_of_groups(),
            false => self.memories(),
        };
        let record = self.record_stride + size_of::<DevSpawn>() as u64;
        u64::from(memories) * self.memory_stride + u64::from(self.total()) * record
    }

    /// How many places have a memory.
    pub(super) fn memories(&self) -> u32 {
        self.count + self.children
    }

    /// How many places there are, including those for threads.
    pub(super) fn total(&self) -> u32 {
        self.memories() + self.count * self.threads
    }

    /// How many places there would be if the last group were full.
    pub(super) fn total_of_groups(&self) -> u32 {
        self.total().next_multiple_of(START_PROCESSES)
    }
}

/// The memory for the frames of one process, or thread.
#[derive(Clone, Copy)]
struct FrameAreas {
    /// How deep calls may nest on the device's stack.
    depth: u32,
    /// Bytes for frames while it is suspended.
    save: u64,
    /// Bytes for frames that the device's stack does not hold.
    deep: u64,
}

impl FrameAreas {
    /// `depth` is how many calls the device's stack holds.
    fn of(module: &CompiledModule, config: &PlaceConfig, children: u32, depth: u32) -> Self {
        let (compiled, deep) = (&module.compiled, deep_bytes(module, config, children));
        let (depth, save) = match compiled.layout.deep {
            Some(_) => {
                let fits = compiled.depth_in(SAVE_MOST, depth);
                let depth = fits.max(depth.min(DEPTH_LEAST));
                (depth, compiled.save_bytes(depth))
            }
            None => (depth, compiled.save_bytes(depth).min(SAVE_MOST)),
        };
        let save = save.next_multiple_of(16);
        Self { depth, save, deep }
    }
}

/// The part of the budget for each place that has a memory.
fn share(config: &PlaceConfig, children: u32) -> u64 {
    let wanted = u64::from(config.places) + u64::from(children);
    config.memory_budget / wanted.max(1)
}

/// The bytes of memory for the frames of each process, or thread, that the device's stack does not hold.
fn deep_bytes(module: &CompiledModule, config: &PlaceConfig, children: u32) -> u64 {
    if module.compiled.layout.deep.is_none() {
        return 0;
    }
    let bytes = match config.stack {
        Some(stack) => u64::from(stack).min(DEEP_LIMIT),
        None => {
            let memory = config.memory.unwrap_or_else(|| share(config, children));
            let threads = u64::from(1 + config.threads_of(module));
            (memory / DEEP_SHARE / threads).min(DEEP_MOST)
        }
    };
    bytes.next_multiple_of(16)
}

/// The bytes that each linear memory may grow to.
fn memory_bytes(
    module: &CompiledModule,
    config: &PlaceConfig,
    children: u32,
    frames: FrameAreas,
) -> Result<u64, StartError> {
    let (needs, most) = (module.memory_bytes(), module.memory_most());
    // As on the CPU engine, a limit covers the tables too.
    let tables = module.table_bytes();
    let memory = match config.memory {
        Some(limit) => limit.saturating_sub(tables),
        None => {
            let share = share(config, children);
            let threads = u64::from(1 + config.threads_of(module));
            let growth = match children {
                0 => GROWTH,
                _ => GROWTH_OF_FAMILIES,
            };
            let frames = threads * (frames.save.max(SAVE_MOST) + frames.deep);
            needs + growth.min(share.saturating_sub(needs + frames))
        }
    };
    let memory = memory.min(most) / PAGE * PAGE;
    if memory < needs || config.memory.is_some_and(|limit| limit < needs + tables) {
        return Err(StartError::Memory {
            module: module.name.clone(),
            needs: needs + tables,
            limit: config.memory.unwrap_or(memory),
        });
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use crate::module::tests::load;

    use super::*;

    fn sizes(text: &str, config: &PlaceConfig) -> Result<PlaceSizes, StartError> {
        let module = load(text).expect("it compiles");
        PlaceSizes::of(&module, config, 50).map(|(sizes, _)| sizes)
    }

    const CONFIG: PlaceConfig = PlaceConfig {
        places: 100,
        children: 0,
        threads: 0,
        memory: None,
        stack: None,
        memory_budget: 1 << 30,
    };
    const TEXT: &str = r#"(module (memory 1) (table 64 funcref) (func (export "_start")))"#;

    #[test]
    fn memory_grows_as_far_as_the_budget_and_the_limit_allow() {
        let free = sizes(TEXT, &CONFIG).expect("it fits");
        assert_eq!(free.count, 100);
        assert!(free.memory_stride > 5 << 20 && free.memory_stride * 100 < 1 << 30);
        let limited = PlaceConfig {
            memory: Some((2 << 16) + 512),
            ..CONFIG
        };
        let limited = sizes(TEXT, &limited).expect("it fits");
        assert_eq!(limited.memory_limit, 2 << 16);
        assert_eq!((limited.total(), limited.total_of_groups()), (100, 128));
    }

    #[test]
    fn frames_that_the_stack_does_not_hold_have_memory() {
        let text = r#"(module (memory 1) (func $f (export "_start") (call $f)))"#;
        let module = load(text).expect("it compiles");
        let bytes = |config: &PlaceConfig| {
            let (sizes, initial) = PlaceSizes::of(&module, config, 50).expect("it fits");
            assert!(sizes.record_stride > initial.deep_bytes && sizes.count == 100);
            assert!(sizes.bytes(false) <= config.memory_budget);
            initial.deep_bytes
        };
        let free = bytes(&CONFIG);
        assert!((1 << 20..2 << 20).contains(&free), "{free}");
        let limited = PlaceConfig {
            memory: Some(2 << 20),
            ..CONFIG
        };
        assert_eq!(bytes(&limited), 256 << 10);
        let asked = PlaceConfig {
            stack: Some(3 << 20),
            ..limited
        };
        assert_eq!(bytes(&asked), 3 << 20);
        let large = PlaceConfig {
            memory_budget: 100 << 30,
            ..CONFIG
        };
        assert_eq!(bytes(&large), DEEP_MOST);
        // Nothing calls itself.
        let plain = load(TEXT).expect("it compiles");
        let (_, initial) = PlaceSizes::of(&plain, &CONFIG, 50).expect("it fits");
        assert_eq!(initial.deep_bytes, 0);
    }

    #[test]
    fn calls_on_the_stack_fit_in_the_save_area() {
        let locals = "i64 ".repeat(400);
        let text = format!(
            r#"(module (func $f (export "_start") (local {locals}) (call $f) {}))"#,
            (0..400)
                .map(|l| format!("(drop (local.get {l}))"))
                .collect::<String>()
        );
        let module = load(&text).expect("it compiles");
        for (stack, depth) in [(10, 10), (20, 20), (90, DEPTH_LEAST)] {
            let (sizes, initial) = PlaceSizes::of(&module, &CONFIG, stack).expect("it fits");
            assert_eq!(sizes.depth, depth);
            assert!(initial.save_bytes >= module.compiled.save_bytes(depth));
        }
    }

    #[test]
    fn a_limit_below_memory_and_tables_is_refused() {
        let limited = PlaceConfig {
            memory: Some((1 << 16) + 511),
            ..CONFIG
        };
        match sizes(TEXT, &limited) {
            Err(StartError::Memory { needs, limit, .. }) => {
                assert_eq!((needs, limit), ((1 << 16) + 512, (1 << 16) + 511));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_small_budget_reduces_places_and_children_alike() {
        let config = PlaceConfig {
            places: 1000,
            children: 500,
            memory: Some((1 << 16) + 512),
            memory_budget: 10 << 20,
            ..CONFIG
        };
        let sizes = sizes(TEXT, &config).expect("some fit");
        assert!(sizes.memories() < 200);
        assert!(sizes.children * 2 <= sizes.count && sizes.children * 2 + 4 > sizes.count);
    }

    #[test]
    fn a_budget_without_room_for_one_process_is_refused() {
        let config = PlaceConfig {
            memory_budget: 1 << 16,
            ..CONFIG
        };
        assert!(matches!(
            sizes(TEXT, &config),
            Err(StartError::Budget { .. })
        ));
    }

    #[test]
    fn threads_have_places_of_their_own_and_limit_the_processes() {
        let text = r#"(module (import "env" "memory" (memory 1 1 shared))
          (import "wasi" "thread-spawn" (func (param i32) (result i32)))
          (func (export "wasi_thread_start") (param i32 i32)) (func (export "_start")))"#;
        let config = PlaceConfig {
            places: 1000,
            children: 77,
            threads: 64,
            ..CONFIG
        };
        let sizes = sizes(text, &config).expect("some fit");
        assert_eq!((sizes.threads, sizes.children), (64, 0));
        assert_eq!(sizes.count, PLACES_MOST / 64);
        assert_eq!(sizes.total(), sizes.count * 65);
    }
}
