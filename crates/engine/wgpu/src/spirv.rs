//! SPIR-V whose barriers order memory for the workgroup only, and whose loads of constant words are plain.
//!
//! WGSL's `storageBarrier` orders the accesses of one workgroup, and the engine needs no more. naga translates it to a
//! barrier of the whole device's scope, for which a GPU of NVIDIA waits until all stores have reached the second-level
//! cache. On Vulkan the engine therefore translates an image itself, and narrows the scope.
//!
//! All words of the window are atomic, because a buffer can be bound in one way only, and an atomic load comes from the
//! second-level cache. `ew_load_constant` is for words that no task writes meanwhile: here it becomes a plain load, which may
//! come from the multiprocessor's own cache. The end of a dispatch empties that one.

use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// Words of a module's header.
const HEADER: usize = 5;
const OP_NOP: u32 = 0;
const OP_NAME: u32 = 5;
const OP_MEMBER_NAME: u32 = 6;
const OP_CONSTANT: u32 = 43;
const OP_FUNCTION: u32 = 54;
const OP_FUNCTION_END: u32 = 56;
const OP_LOAD: u32 = 61;
const OP_CONTROL_BARRIER: u32 = 224;
const OP_ATOMIC_LOAD: u32 = 227;
const SCOPE_DEVICE: u32 = 1;
/// The function whose loads are plain.
const PLAIN: &str = "ew_load_constant";

/// A translated image.
pub(crate) struct Translated {
    pub(crate) words: Vec<u32>,
    /// Bytes of its variables in workgroup memory.
    pub(crate) workgroup_bytes: u64,
}

/// Translates WGSL, without checks of bounds and loops; `None` if it is not valid, which wgpu's own translation explains.
pub(crate) fn translate(wgsl: &str) -> Option<Translated> {
    let module = naga::front::wgsl::parse_str(wgsl).ok()?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
    let info = validator.validate(&module).ok()?;
    let workgroup_bytes = workgroup_memory(&module)?;
    let options = spv::Options {
        lang_version: (1, 3),
        // Names say which function is which; they are taken out again.
        flags: spv::WriterFlags::DEBUG,
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        bounds_check_policies: naga::proc::BoundsCheckPolicies::default(),
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..spv::Options::default()
    };
    let mut words = spv::write_vec(&module, &info, &options, None).ok()?;
    narrow(&mut words);
    loosen(&mut words, PLAIN);
    let words = without_names(&words);
    Some(Translated {
        words,
        workgroup_bytes,
    })
}

/// Bytes of a module's variables in workgroup memory.
fn workgroup_memory(module: &naga::Module) -> Option<u64> {
    let mut layouts = naga::proc::Layouter::default();
    layouts.update(module.to_ctx()).ok()?;
    let variables = module.global_variables.iter();
    let shared = variables.filter(|(_, v)| v.space == naga::AddressSpace::WorkGroup);
    Some(
        shared
            .map(|(_, v)| u64::from(layouts[v.ty].size).next_multiple_of(16))
            .sum(),
    )
}

/// The instructions of a module: where each begins, its opcode and its words.
fn instructions(words: &[u32]) -> impl Iterator<Item = (usize, u32, &[u32])> {
    let mut at = HEADER;
    std::iter::from_fn(move || {
        let (begin, first) = (at, *words.get(at)?);
        // A length of 0 would be an endless loop; a translator writes none.
        at += ((first >> 16) as usize).max(1);
        Some((begin, first & 0xffff, words.get(begin..at)?))
    })
}

/// A text in an instruction: its bytes in words, the lowest first, with a 0 at the end.
fn is_text(words: &[u32], text: &str) -> bool {
    let bytes = words.iter().flat_map(|w| w.to_le_bytes());
    bytes.take_while(|&b| b != 0).eq(text.bytes())
}

/// Changes the atomic loads in the function of that name to plain ones. Returns how many there were.
fn loosen(words: &mut [u32], function: &str) -> usize {
    let mut named = None;
    let mut inside = false;
    let mut loads = Vec::new();
    for (at, opcode, all) in instructions(words) {
        match (opcode, all) {
            (OP_NAME, [_, id, text @ ..]) if is_text(text, function) => named = Some(*id),
            (OP_FUNCTION, [_, _, id, ..]) => inside = named == Some(*id),
            (OP_FUNCTION_END, _) => inside = false,
            (OP_ATOMIC_LOAD, all) if inside && all.len() == 6 => loads.push(at),
            _ => {}
        }
    }
    for &at in &loads {
        // The type, the result and the pointer stay; scope and meaning go.
        words[at] = 4 << 16 | OP_LOAD;
        words[at + 4..at + 6].fill(1 << 16 | OP_NOP);
    }
    loads.len()
}

fn without_names(words: &[u32]) -> Vec<u32> {
    let mut kept = words[..HEADER].to_vec();
    for (_, opcode, all) in instructions(words) {
        if !matches!(opcode, OP_NAME | OP_MEMBER_NAME) {
            kept.extend_from_slice(all);
        }
    }
    kept
}

/// Changes barriers of the device's scope to the scope of those that wait, the workgroup. Returns how many there were.
fn narrow(words: &mut [u32]) -> usize {
    let mut device = Vec::new();
    let mut barriers = Vec::new();
    for (at, opcode, all) in instructions(words) {
        match (opcode, all) {
            (OP_CONSTANT, [_, _, id, SCOPE_DEVICE]) => device.push(*id),
            (OP_CONTROL_BARRIER, _) => barriers.push(at),
            _ => {}
        }
    }
    barriers.retain(|&at| device.contains(&words[at + 2]));
    for &at in &barriers {
        words[at + 2] = words[at + 1];
    }
    barriers.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_of_the_device_become_barriers_of_the_workgroup() {
        let wgsl = "@group(0) @binding(0) var<storage, read_write> a: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
  a[i] = 1u;
  storageBarrier();
  workgroupBarrier();
  a[i + 1u] = a[63u - i];
}";
        let mut words = translate(wgsl).expect("it is valid").words;
        assert_eq!(narrow(&mut words), 0, "they are narrow already");
        let barriers = words.iter().filter(|w| **w & 0xffff == 224).count();
        assert!(barriers >= 2, "{barriers}");
        assert!(translate("fn main( {").is_none());
    }

    #[test]
    fn only_loads_of_constant_words_are_plain() {
        let wgsl = "@group(0) @binding(0) var<storage, read_write> a: array<atomic<u32>>;
fn ew_load(at: u32) -> u32 { return atomicLoad(&a[at]); }
fn ew_load_constant(at: u32) -> u32 { return atomicLoad(&a[at]); }
@compute @workgroup_size(64) fn main() { atomicStore(&a[0], ew_load(1u) + ew_load_constant(2u)); }";
        let words = translate(wgsl).expect("it is valid").words;
        let count = |wanted| instructions(&words).filter(|i| i.1 == wanted).count();
        assert_eq!((count(OP_ATOMIC_LOAD), count(OP_NOP)), (1, 2));
        assert_eq!(count(OP_NAME) + count(OP_MEMBER_NAME), 0);
    }

    #[test]
    fn workgroup_memory_is_counted() {
        let wgsl = "var<workgroup> a: array<u32, 100>;
var<workgroup> b: vec3<f32>;
@compute @workgroup_size(1) fn main() { a[0] = u32(b.x); }";
        let translated = translate(wgsl).expect("it is valid");
        assert_eq!(translated.workgroup_bytes, 400 + 16);
    }
}
