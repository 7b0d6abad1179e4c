// The buffers. Within a dispatch, only single atomic words mean anything to another workgroup: tasks, group records and
// data that one workgroup writes, another one reads in a later dispatch.

@group(0) @binding(0) var<uniform> round: DevRound;
// Everything that programs reach: `DevPtr` is an offset in bytes.
@group(0) @binding(1) var<storage, read_write> memory: array<atomic<u32>>;
// Parameter blocks of the instances, then the table of functions.
@group(0) @binding(2) var<storage, read> params: array<u32>;
// Queued tasks: a part for each workgroup.
@group(0) @binding(3) var<storage, read_write> tasks: array<vec4<u32>>;
// Records of groups.
@group(0) @binding(4) var<storage, read_write> groups: array<atomic<u32>>;
// The engine's state; it begins with DevWgpuHeader.
@group(0) @binding(5) var<storage, read_write> state: array<atomic<u32>>;
// Submissions.
@group(0) @binding(6) var<storage, read> inbox: array<vec4<u32>>;
// Completions, a region for each of two submissions.
@group(0) @binding(7) var<storage, read_write> completed: array<vec4<u32>>;

fn word(at: u32) -> u32 { return atomicLoad(&state[at]); }
fn set_word(at: u32, value: u32) { atomicStore(&state[at], value); }
