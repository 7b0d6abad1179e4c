//! The code that is linked to an engine for modules, and the sizes of the engine's pools.

use std::sync::Arc;

use everwarp_compiler::StackNeed;
use everwarp_process::StartError;
use everwarp_runtime::{HeapConfig, LinkedPart, Pools};

use crate::config::{PlaceConfig, STACK_BYTES};
use crate::module::CompiledModule;

/// The least depth of calls that ordinary programs need.
pub(crate) const DEPTH_LEAST: u32 = 24;
/// The depth that programs want: QuickJS nests 80 calls for a script of some lines, SQLite and Lua nest 29.
const DEPTH_WANTED: u32 = 90;
/// The depth on the device's stack where deeper calls go on in memory: frames are moved seldom.
const DEPTH_WANTED_DEEP: u32 = 48;
/// The largest stack that a thread of a device can have.
const STACK_LIMIT: u32 = 512 << 10;
/// Frames on a thread's stack that do not belong to compiled functions: the engine's own, and an import's.
const OTHER_FRAMES: u32 = 12;
/// A start holds a token until the processes that it started have exited or parked, so there are as many tokens as lanes.
const POOLS: Pools = Pools {
    submission_slots: 1 << 14,
    tokens: 1 << 17,
    arena_tasks: 1 << 12,
    tasks: 2 << 20,
    groups: 2 << 20,
    heap: HeapConfig::of(0),
};

/// The sizes of the engine's pools. A task that a process submits takes a chunk of 32 tasks for itself. There may be three
/// such tasks for each place: one continues its process, one wakes its neighbours, and one starts it.
pub(crate) fn pools(
    config: &PlaceConfig,
    spare_places: u32,
    modules: &[Arc<CompiledModule>],
) -> Pools {
    // A module that is loaded later may need them.
    let places = u64::from(spare_places)
        + match modules.iter().any(|module| module.needs_family()) {
            true => config.places_of(modules),
            false => 0,
        };
    with_places(places)
}

/// The part of the image that a module contributes.
pub(crate) fn part(loaded: &CompiledModule) -> LinkedPart {
    LinkedPart {
        name: loaded.name.as_str().into(),
        ptx: loaded.compiled.ptx.as_str().into(),
    }
}

/// The pools of an engine that hosts share: any of its places may be a place for processes that others wake.
pub(crate) fn shared_pools(places: u32) -> Pools {
    with_places(places.into())
}

fn with_places(places: u64) -> Pools {
    let tasks = u64::from(POOLS.tasks) + 3 * 32 * places;
    Pools {
        tasks: u32::try_from(tasks).unwrap_or(u32::MAX),
        ..POOLS
    }
}

/// What the calls of a host's modules take of a thread's stack.
pub(crate) struct StackUse {
    /// Each module's own functions.
    modules: Vec<StackNeed>,
    /// Bytes of all functions that belong to no module.
    others: u64,
}

impl StackUse {
    /// `outside` is the largest frame of a function that belongs to no module.
    pub(crate) fn new(modules: Vec<StackNeed>, outside: u32) -> Self {
        let others = u64::from(outside.max(16)) * u64::from(OTHER_FRAMES);
        Self { modules, others }
    }

    /// How deep calls may nest on a stack: see the stack's rule of `everwarp-compiler`.
    pub(crate) fn depth(&self, stack: u32) -> Result<u32, StartError> {
        let left = u64::from(stack).checked_sub(self.others);
        let depth = |module: &StackNeed| left.and_then(|left| module.depth(left)).unwrap_or(0);
        let depth = self.modules.iter().map(depth).min().unwrap_or(DEPTH_LEAST);
        if depth < DEPTH_LEAST {
            return Err(StartError::Stack {
                stack,
                depth,
                least: DEPTH_LEAST,
                needed: self.bytes(DEPTH_LEAST),
            });
        }
        Ok(depth)
    }

    /// Bytes of stack on which calls nest this deep.
    pub(crate) fn bytes(&self, depth: u32) -> u64 {
        let modules = self.modules.iter().map(|module| module.bytes(depth));
        self.with_others(modules.max())
    }

    fn with_others(&self, modules: Option<u64>) -> u64 {
        let bytes = self.others + modules.unwrap_or(0);
        bytes.next_multiple_of(1024)
    }

    /// Whether calls of a module can fill any stack, and end there.
    pub(crate) fn is_limit(&self) -> bool {
        self.modules.iter().any(|module| !module.is_bounded())
    }

    /// The stack for a host that asks for none: calls nest as deep as programs want, unless that takes more than `most`,
    /// and as deep as they must. `None` if no device has such a stack.
    pub(crate) fn stack(&self, most: u32) -> Option<u32> {
        let wanted = self.modules.iter().map(|module| match module.is_deep() {
            true => module.bytes(DEPTH_WANTED_DEEP),
            false => module.bytes(DEPTH_WANTED),
        });
        let wanted = self.with_others(wanted.max()).min(most.into());
        let stack = wanted.max(self.bytes(DEPTH_LEAST));
        let stack = u32::try_from(stack).ok()?;
        (stack <= STACK_LIMIT).then_some(stack.max(STACK_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::tests::load;

    /// A module whose entry calls a function that calls itself, with these frames. A tail call keeps them on the stack.
    fn recursive(entry: u32, itself: u32) -> StackNeed {
        need("(func (return_call 3)) (func)", entry, itself)
    }

    /// The same with other functions.
    fn need(others: &str, entry: u32, itself: u32) -> StackNeed {
        let own = r#"(func (export "_start") (call $f)) (func $f (call $f))"#;
        let module = load(&format!("(module {own} {others})")).expect("it compiles");
        let names = ["f0", "f1", "enter"].map(|name| format!("{}{name}", module.prefix));
        let names = names.iter().map(String::as_str);
        module.compiled.stack_need(names.zip([entry, itself, 40]))
    }

    #[test]
    fn the_depth_leaves_room_for_other_frames() {
        let calls = StackUse::new(vec![recursive(128, 128)], 200);
        let depth = calls.depth(32 << 10).expect("it is enough");
        let others = 12 * 200 + 2 * 40;
        assert_eq!(depth, ((32 << 10) - others) / 128 - 1);
        let error = calls.depth(1024).expect_err("too little").to_string();
        assert!(error.contains("1024") && error.contains("6144"), "{error}");
        let least = calls.depth(6144).expect("the error names what is enough");
        assert!(least >= DEPTH_LEAST);
    }

    #[test]
    fn the_module_with_the_largest_frames_decides() {
        let calls = StackUse::new(vec![recursive(64, 64), recursive(64, 640)], 100);
        let alone = StackUse::new(vec![recursive(64, 640)], 100);
        let nests = |calls: &StackUse| calls.depth(64 << 10).expect("it is enough");
        assert_eq!(nests(&calls), nests(&alone));
    }

    #[test]
    fn a_large_frame_that_is_on_the_stack_once_needs_no_larger_stack() {
        // The largest function of bzip2 has 2040 bytes.
        let calls = StackUse::new(vec![recursive(2040, 104)], 184);
        assert_eq!(calls.stack(64 << 10), Some(STACK_BYTES));
        assert!(calls.depth(STACK_BYTES).expect("it is enough") > DEPTH_WANTED);
    }

    #[test]
    fn the_stack_follows_from_the_frames_within_bounds() {
        let calls = StackUse::new(vec![recursive(64, 500)], 184);
        let stack = calls.stack(1 << 20).expect("a device can have it");
        assert!(calls.depth(stack).expect("it is enough") >= DEPTH_WANTED);
        assert!((45_000..50_000).contains(&stack), "{stack}");
        assert_eq!(calls.stack(40 << 10), Some(40 << 10));
        // What programs must have is more than the bound.
        let must = calls.stack(0).expect("a device can have it");
        assert_eq!(must, STACK_BYTES);
        let large = StackUse::new(vec![recursive(64, 4000)], 184);
        let stack = large.stack(64 << 10).expect("a device can have it");
        assert_eq!(large.depth(stack).ok(), Some(DEPTH_LEAST));
        let deep = StackUse::new(vec![need("", 64, 500)], 184);
        assert!(!deep.is_limit() && calls.is_limit());
        assert_eq!(deep.stack(1 << 20), Some(STACK_BYTES));
        let huge = StackUse::new(vec![recursive(64, 1 << 20)], 184);
        assert_eq!(huge.stack(64 << 10), None);
    }
}
