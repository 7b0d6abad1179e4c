//! The code that is linked to an engine for modules, and the sizes of the engine's pools.

use std::sync::Arc;

use everwarp_process::StartError;
use everwarp_runtime::{HeapConfig, LinkedPart, Pools};

use crate::config::PlaceConfig;
use crate::module::CompiledModule;

/// The least depth of calls that ordinary programs need.
const DEPTH_LEAST: u32 = 24;
/// The depth that programs with a standard library need.
const DEPTH_WANTED: u32 = 40;
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

/// The frames of a process's functions on a thread's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackUse {
    /// Bytes of the largest frame.
    pub(crate) frame: u32,
    /// The frames that each level of the calls' depth takes.
    pub(crate) frames_for_each_call: u32,
}

/// How deep calls may nest on a stack: see the stack's rule of `everwarp-compiler`.
pub(crate) fn depth(stack: u32, calls: StackUse) -> Result<u32, StartError> {
    let frame = calls.frame;
    let frames = stack / frame.max(16);
    let depth = frames.saturating_sub(OTHER_FRAMES) / calls.frames_for_each_call;
    if depth < DEPTH_LEAST {
        return Err(StartError::Stack {
            stack,
            frame,
            depth,
            least: DEPTH_LEAST,
        });
    }
    Ok(depth)
}

/// Bytes of stack with which calls nest as deep as most programs want, if the largest frame has this size. `None` if the
/// stack would be too large for any device.
pub(crate) fn stack_wanted(calls: StackUse) -> Option<u32> {
    let frames = OTHER_FRAMES + calls.frames_for_each_call * DEPTH_WANTED;
    let bytes = calls.frame.checked_mul(frames)?;
    bytes.checked_next_multiple_of(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_leaves_room_for_other_frames() {
        let calls = |frame| StackUse {
            frame,
            frames_for_each_call: 2,
        };
        let depth_of = |stack, frame| depth(stack, calls(frame)).expect("it is enough");
        assert_eq!(depth_of(32 << 10, 128), 122);
        assert!((2 * depth_of(65_536, 400) + 3) * 400 <= 65_536);
        let error = depth(1024, calls(200)).expect_err("too little");
        let wanted = stack_wanted(calls(200)).expect("a device can have it");
        assert_eq!(depth_of(wanted, 200), DEPTH_WANTED);
        let deeper = StackUse {
            frames_for_each_call: 3,
            ..calls(128)
        };
        assert_eq!(depth(32 << 10, deeper).expect("it is enough"), 81);
        let error = error.to_string();
        assert!(error.contains("1024") && error.contains("200"), "{error}");
    }
}
