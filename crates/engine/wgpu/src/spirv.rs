//! SPIR-V whose barriers order memory for the workgroup only.
//!
//! WGSL's `storageBarrier` orders the accesses of one workgroup, and the engine needs no more. naga translates it to a
//! barrier of the whole device's scope, for which a GPU of NVIDIA waits until all stores have reached the second-level
//! cache. On Vulkan the engine therefore translates an image itself, and narrows the scope.

use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// Words of a module's header.
const HEADER: usize = 5;
const OP_CONSTANT: u32 = 43;
const OP_CONTROL_BARRIER: u32 = 224;
const SCOPE_DEVICE: u32 = 1;

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
        flags: spv::WriterFlags::empty(),
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        bounds_check_policies: naga::proc::BoundsCheckPolicies::default(),
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..spv::Options::default()
    };
    let mut words = spv::write_vec(&module, &info, &options, None).ok()?;
    narrow(&mut words);
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

/// Changes barriers of the device's scope to the scope of those that wait, the workgroup. Returns how many there were.
fn narrow(words: &mut [u32]) -> usize {
    let mut device = Vec::new();
    let mut barriers = Vec::new();
    let mut at = HEADER;
    while at < words.len() {
        let (length, opcode) = ((words[at] >> 16) as usize, words[at] & 0xffff);
        if length == 0 {
            break;
        }
        match opcode {
            OP_CONSTANT if length == 4 && words[at + 3] == SCOPE_DEVICE => {
                device.push(words[at + 2]);
            }
            OP_CONTROL_BARRIER => barriers.push(at),
            _ => {}
        }
        at += length;
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
    fn workgroup_memory_is_counted() {
        let wgsl = "var<workgroup> a: array<u32, 100>;
var<workgroup> b: vec3<f32>;
@compute @workgroup_size(1) fn main() { a[0] = u32(b.x); }";
        let translated = translate(wgsl).expect("it is valid");
        assert_eq!(translated.workgroup_bytes, 400 + 16);
    }
}
