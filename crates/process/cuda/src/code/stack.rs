//! The stack that calls of modules use.

use std::sync::Arc;

use everwarp_runtime::Frames;

use crate::code::LoadedCode;
use crate::config::STACK_BYTES;
use crate::link::StackUse;
use crate::module::CompiledModule;
use crate::partial::Partial;
use crate::program;

/// The most that a function's frame takes which stands for another one and passes calls on. Each call may go through one.
pub(crate) const BRIDGE_FRAME: u32 = 256;

/// What a function's frame, and that of a bridge to it, are thought to take at least as long as the engine does not have the function.
pub(super) const FRAME_THOUGHT: u32 = 512;

/// The stack of each thread of the device for calls that use this, with at most `most` bytes unless they must have more. A stack that
/// the configuration has `asked` for is the device's only if a module keeps all frames there; otherwise it is in memory.
pub(crate) fn stack_wanted(calls: &StackUse, asked: Option<u32>, most: u32) -> u32 {
    let asked = asked.filter(|_| calls.is_limit());
    asked.unwrap_or_else(|| calls.stack(most).unwrap_or(STACK_BYTES))
}

/// The stack that calls of these modules use.
pub(crate) fn stack_use(frames: &Frames, codes: &[Arc<LoadedCode>]) -> StackUse {
    let need = |code: &Arc<LoadedCode>| {
        // No call of these is ever made.
        let roots = code.partial.as_ref().map(Partial::roots);
        let is_called = |name: &str| roots.as_ref().is_none_or(|roots| !name.starts_with(roots));
        let CompiledModule {
            compiled, prefix, ..
        } = &*code.module;
        let Some(partial) = &code.partial else {
            return compiled.stack_need(frames.iter());
        };
        let largest = frames.largest_of(|name| name.starts_with(prefix) && is_called(name));
        let bridge = |name: &str| u32::from(name.starts_with(prefix)) * BRIDGE_FRAME;
        let missing = partial.missing().into_iter();
        let missing: Vec<_> = missing.map(|f| format!("{prefix}f{f}")).collect();
        let thought = missing
            .iter()
            .map(|name| (&**name, largest.max(FRAME_THOUGHT)));
        let all = frames.iter().filter(|(name, _)| is_called(name));
        let all = all.map(|(name, bytes)| (name, bytes + bridge(name)));
        compiled.stack_need(all.chain(thought))
    };
    let outside = frames.largest_of(|name| !program::is_of_module(name));
    StackUse::new(codes.iter().map(need).collect(), outside)
}
