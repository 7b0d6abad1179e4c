// The running task, and what it may do. Functions of programs call the `ew_` functions and no others.
//
// A lane-shaped function is called by one invocation for each task, and must not use barriers. A warp- or block-shaped
// function is called by all EW_THREADS invocations of the workgroup for one task, in uniform control flow: it may use
// barriers if it takes its argument from ew_uniform_arg(). All of them call ew_fork; any of them may spawn.
// Pointers are indices of words in the window.

const EW_THREADS = WGPU_THREADS;
const EW_TAG_MASK = 0xffu << TASK_TAG_SHIFT;
const EW_KEEP_MASK = ((INSTANCES - 1u) << TASK_INSTANCE_SHIFT) | ((PRIORITIES - 1u) << TASK_PRIORITY_SHIFT);

// This invocation's place in the workgroup.
var<private> ew_thread: u32;
var<private> ew_workgroup: u32;
var<private> t_task: vec4<u32>;
var<private> t_wide: bool;
var<private> t_info: u32;
var<private> t_id: u32;
var<private> t_forked: bool;
var<private> t_then: vec4<u32>;
var<private> t_spawned: u32;
var<private> t_children: u32;
var<private> t_value: vec2<u32>;
// Whether this invocation runs the first task that it spawns, instead of leaving it behind; and that task.
var<private> t_keeps: bool;
var<private> t_kept: bool;
var<private> t_next: vec4<u32>;
// Whether no other task runs in this turn.
var<private> t_alone: bool;
// The task that the whole workgroup runs.
var<workgroup> wide_task: vec4<u32>;
var<workgroup> wide_value: array<atomic<u32>, 2>;
var<workgroup> wide_spawned: atomic<u32>;
var<workgroup> wide_children: atomic<u32>;
// For programs; its content does not outlive a call.
var<workgroup> ew_scratch: array<u32, WGPU_SCRATCH>;
var<workgroup> ew_shared: vec4<u32>;

// Whether the workgroup runs no other task in this turn, so that a longer one delays none.
fn ew_alone() -> bool { return t_alone; }
fn ew_lo() -> u32 { return t_task.z; }
fn ew_hi() -> u32 { return t_task.w; }
fn ew_tag() -> u32 { return (t_task.x >> TASK_TAG_SHIFT) & 0xffu; }
// The argument and the tag of a workgroup's task, as values that the compiler knows to be the same for all invocations.
fn ew_uniform_arg() -> vec3<u32> {
  let task = workgroupUniformLoad(&wide_task);
  return vec3(task.z, task.w, (task.x >> TASK_TAG_SHIFT) & 0xffu);
}

// A word of the instance's parameters, and a pointer in them.
fn ew_param(word: u32) -> u32 {
  return params[((t_task.x >> TASK_INSTANCE_SHIFT) & (INSTANCES - 1u)) * (PARAM_BYTES / 4u) + word];
}
// The owner of what the task's instance allocates.
fn ew_owner() -> u32 { return ((t_task.x >> TASK_INSTANCE_SHIFT) & (INSTANCES - 1u)) + 1u; }
fn ew_pointer(word: u32) -> u32 { return ew_param(word) >> 2u; }

fn ew_load(at: u32) -> u32 { return atomicLoad(&memory[at]); }
// A word that no task writes while any task reads it. On Vulkan it may come from a multiprocessor's own cache.
fn ew_load_constant(at: u32) -> u32 { return atomicLoad(&memory[at]); }
fn ew_store(at: u32, value: u32) { atomicStore(&memory[at], value); }
fn ew_add(at: u32, value: u32) -> u32 { return atomicAdd(&memory[at], value); }
fn ew_min(at: u32, value: u32) -> u32 { return atomicMin(&memory[at], value); }
fn ew_or(at: u32, value: u32) -> u32 { return atomicOr(&memory[at], value); }
// A byte, by its address in bytes. No other invocation may write its word meanwhile.
fn ew_load_byte(at: u32) -> u32 { return (atomicLoad(&memory[at / 4u]) >> (at % 4u * 8u)) & 0xffu; }
fn ew_store_byte(at: u32, value: u32) {
  let shift = at % 4u * 8u;
  atomicStore(&memory[at / 4u], (atomicLoad(&memory[at / 4u]) & ~(0xffu << shift)) | (value << shift));
}
// Adds to a 64-bit number. The two halves change one after the other, and another invocation may read between them.
fn ew_add64(at: u32, value: vec2<u32>) {
  let before = atomicAdd(&memory[at], value.x);
  let high = value.y + select(0u, 1u, before + value.x < before);
  if high != 0u { atomicAdd(&memory[at + 1u], high); }
}
// The 64-bit product of two words.
fn ew_mul(a: u32, b: u32) -> vec2<u32> {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let one = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let two = (a & 0xffffu) * (b >> 16u) + (one & 0xffffu);
  return vec2((two << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (one >> 16u) + (two >> 16u));
}

// A call of a driver's compiler is a copy of the code, so functions of some length are called from one place: a fault is
// noted here, and the end of the step raises it.
var<private> noted: vec4<u32>;

fn raise(code: u32, function: u32, detail: vec2<u32>) {
  if noted.x == 0u { noted = vec4(code, function, detail); }
}
fn raise_noted() {
  if noted.x == 0u { return; }
  if atomicAdd(&state[DevWgpuHeader_faults], 1u) == 0u {
    atomicStore(&state[DevWgpuHeader_fault_code], noted.x);
    atomicStore(&state[DevWgpuHeader_fault_function], noted.y);
    atomicStore(&state[DevWgpuHeader_fault_detail], noted.z);
    atomicStore(&state[DevWgpuHeader_fault_detail + 1u], noted.w);
  }
  atomicStore(&state[DevWgpuHeader_stop], 1u);
}
fn t_raise(code: u32, detail: u32) { raise(code, t_task.x & (FN_LIMIT - 1u), vec2(detail, 0u)); }
// Ends the engine with a fault of the program.
fn ew_fault(lo: u32, hi: u32) { raise(FAULT_PROGRAM, t_task.x & (FN_LIMIT - 1u), vec2(lo, hi)); }

fn t_head(function: u32, tag: u32) -> u32 {
  return (t_task.x & EW_KEEP_MASK) | ((tag << TASK_TAG_SHIFT) & EW_TAG_MASK) | function;
}
fn t_put(task: vec4<u32>) {
  let count = t_spawned + t_children;
  if count > (t_info & FUNCTION_SPAWNS) { t_raise(FAULT_SPAWN_LIMIT, count); } else { put(task); }
}

// Spawns a task into the running task's own group.
fn ew_spawn(function: u32, tag: u32, lo: u32, hi: u32) {
  t_spawned += 1u;
  let task = vec4(t_head(function, tag), t_task.y, lo, hi);
  if t_keeps && !t_kept {
    t_kept = true;
    t_next = task;
  } else {
    t_put(task);
  }
}
// Opens a group; when its tasks have ended, the function runs in the place of this task. At most once in a call.
fn ew_fork(function: u32, tag: u32, lo: u32, hi: u32) { t_fork(t_head(function, tag), lo, hi); }
// As ew_fork; the continuation's argument is the value that the group's tasks report.
fn ew_fork_collect(function: u32, tag: u32) { t_fork(t_head(function, tag) | TASK_ARG_FROM_GROUP, 0u, 0u); }
fn t_fork(head: u32, lo: u32, hi: u32) {
  if t_forked || (t_info & FUNCTION_FORKS) == 0u { t_raise(FAULT_FORK, t_task.x); return; }
  t_forked = true;
  t_then = vec4(head, t_task.y, lo, hi);
}
// Spawns a task into the group that this call has opened.
fn ew_spawn_child(function: u32, tag: u32, lo: u32, hi: u32) {
  if !t_forked { t_raise(FAULT_FORK, t_task.x); return; }
  t_children += 1u;
  t_put(vec4(t_head(function, tag), t_id, lo, hi));
}
// Reports a 32-bit value into half `slot` of the value of the task's group.
fn ew_report_slot(slot: u32, value: u32) {
  if (t_task.y & HOST_DIRECT) == 0u {
    atomicStore(&groups[t_task.y * words_of_DevWgpuGroup + DevWgpuGroup_value + (slot & 1u)], value);
  } else if t_wide {
    atomicStore(&wide_value[slot & 1u], value);
  } else {
    t_value[slot & 1u] = value;
  }
}
// Adds to the 64-bit value of the task's group.
fn ew_report_add(lo: u32, hi: u32) {
  if (t_task.y & HOST_DIRECT) != 0u {
    if t_wide {
      let before = atomicAdd(&wide_value[0], lo);
      atomicAdd(&wide_value[1], hi + select(0u, 1u, before + lo < before));
    } else {
      let sum = t_value.x + lo;
      t_value = vec2(sum, t_value.y + hi + select(0u, 1u, sum < lo));
    }
    return;
  }
  let at = t_task.y * words_of_DevWgpuGroup + DevWgpuGroup_value;
  let before = atomicAdd(&groups[at], lo);
  atomicAdd(&groups[at + 1u], hi + select(0u, 1u, before + lo < before));
}
