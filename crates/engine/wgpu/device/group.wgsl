// Groups: counting the tasks of a group, and firing its continuation.
//
// `pending` counts unfinished tasks. Its highest bit says that tasks of the group have been in more than one workgroup:
// who takes a task from another workgroup sets it before running the task. So the invocation that counts the last task
// sees the bit in the same word, and knows if all that the group's tasks wrote was written by its own workgroup. If so,
// the group fires at once; else in the next dispatch, where all of it is visible.

// Deferred groups of this dispatch.
var<workgroup> deferred_count: atomic<u32>;
// Free ids at hand, and how many there are; up to WGPU_IDS count.
var<workgroup> ids: array<u32, WGPU_IDS>;
var<workgroup> ids_count: atomic<u32>;
// Free ids on the workgroup's stack.
var<workgroup> stack_count: u32;

fn ids_at_hand() -> u32 { return min(atomicLoad(&ids_count), WGPU_IDS); }

// Tables that one dispatch writes and the next one reads exist twice: which of them this dispatch writes, and which it reads.
// A quiet dispatch changes the one that it reads, for its few workgroups, and the others need not run.
fn parity() -> u32 { return round.phase & 1u; }
fn parity_before() -> u32 { return round.phase >> 1u; }

fn complete(token: u32, value: vec2<u32>) {
  let at = atomicAdd(&state[DevWgpuHeader_completions + (round.submission & 3u)], 1u);
  completed[(round.submission & 1u) * round.completions + min(at, round.completions - 1u)] =
    vec4(token, 0u, value.x, value.y);
}

// Gives an id back: to the workgroup or, if it has many, to all, who may take it in the next dispatch.
fn free_id(id: u32) {
  if id < round.first_group { return; }  // the host's
  let at = atomicAdd(&ids_count, 1u);
  if at < WGPU_IDS { ids[at] = id; } else { free_id_to_all(id); }
}
fn free_id_to_all(id: u32) {
  let i = id - round.first_group;
  // Never those that are taken in this dispatch.
  atomicOr(&state[round.at_bits + (1u - parity_before()) * round.group_words + i / 32u], 1u << (i % 32u));
}

fn defer_group(id: u32) {
  let at = atomicAdd(&deferred_count, 1u);
  if at < round.deferred {
    set_word(round.at_deferred + (parity() * round.workgroups + ew_workgroup) * round.deferred + at, id);
  } else {
    raise(FAULT_INTERNAL, 0u, vec2(2u, at));
  }
}

// Marks a group whose task comes from another workgroup.
fn mark_shared(group: u32) {
  if (group & HOST_DIRECT) == 0u { atomicOr(&groups[group * words_of_DevWgpuGroup + DevWgpuGroup_pending], GROUP_SHARED); }
}

// Counts ended tasks of a group. Returns whether the group fires at once.
fn ended(group: u32, count: u32) -> bool {
  let before = atomicSub(&groups[group * words_of_DevWgpuGroup + DevWgpuGroup_pending], count);
  if (before & ~GROUP_SHARED) != count { return false; }
  if (before & GROUP_SHARED) != 0u {
    defer_group(group);
    return false;
  }
  return true;
}

// Fires a group: its continuation is put on the stage or completes a token. `late`: the group was deferred, so tasks of
// the continuation's group have been in other workgroups.
fn fire(first: u32, late: bool) {
  var group = first;
  loop {
    let at = group * words_of_DevWgpuGroup + DevWgpuGroup_value;
    let value = vec2(atomicLoad(&groups[at]), atomicLoad(&groups[at + 1u]));
    let then = tasks[round.at_thens + group];
    free_id(group);
    atomicAdd(&fired, 1u);
    let function = then.x & (FN_LIMIT - 1u);
    if function == FN_COMPLETE { complete(then.y, value); return; }
    if late { mark_shared(then.y); }
    if function == FN_NONE {
      if (then.y & HOST_DIRECT) != 0u { complete(then.y & ~HOST_DIRECT, vec2(0u, 0u)); return; }
      if !ended(then.y, 1u) { return; }
      group = then.y;
      continue;
    }
    let collects = (then.x & TASK_ARG_FROM_GROUP) != 0u;
    put(vec4(then.x & ~TASK_ARG_FROM_GROUP, then.y, select(then.zw, value, collects)));
    return;
  }
}

// Writes the record of a group that a call has opened. No task of it can be seen by others yet.
fn open_group(id: u32, count: u32, then: vec4<u32>) {
  let at = id * words_of_DevWgpuGroup;
  atomicStore(&groups[at + DevWgpuGroup_pending], count);
  atomicStore(&groups[at + DevWgpuGroup_value], 0u);
  atomicStore(&groups[at + DevWgpuGroup_value + 1u], 0u);
  tasks[round.at_thens + id] = then;
}
