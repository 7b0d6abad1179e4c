// One dispatch of a workgroup: it shares tasks, fires groups that were deferred, then runs turns. In a turn it runs up to
// EW_THREADS tasks of one function. It leaves when it has no tasks, when its turns are spent, or when others need some.
//
// All of that is one loop of steps, whose end is the same for each: groups are counted and fired, and tasks go from the
// stage to the queues. Drivers copy a function wherever it is called, so long ones are called from one place.

var<workgroup> executed: u32;
// Turns so far; a task of the whole workgroup counts as one.
var<workgroup> turns_run: u32;
var<workgroup> batches: u32;
var<workgroup> received: u32;
var<workgroup> fired: atomic<u32>;
var<workgroup> last_function: u32;
// Queues that hold only tasks for which there is no room.
var<workgroup> blocked: u32;
var<workgroup> refused: vec4<u32>;  // function, tasks, groups
var<workgroup> choice: vec4<u32>;
var<workgroup> masks: array<atomic<u32>, 4>;
var<workgroup> batch_group: u32;
var<workgroup> batch_delta: atomic<i32>;
var<workgroup> wide_id: u32;
// The tasks that the whole workgroup runs in this turn, one after the other.
var<workgroup> wide_tasks: array<vec4<u32>, WGPU_THREADS>;
var<workgroup> phase: u32;
var<workgroup> cursor: u32;
var<workgroup> limit: u32;
var<workgroup> random: u32;

// The steps, in their order.
const STEP_BEGIN = 0u;     // frees what others took in the dispatch before
const STEP_DEFERRED = 1u;  // fires groups that were deferred in the dispatch before
const STEP_SHARE = 2u;
const STEP_TAKE = 3u;
const STEP_ACCEPT = 4u;
const STEP_HARVEST = 5u;
const STEP_TURN = 6u;
const STEP_LEAVE = 7u;

// What the invocation has to count at the end of a step: a change of a group; and a group that fires because it was
// deferred.
var<private> my_group: u32;
var<private> my_delta: i32;
var<private> my_late: bool;

// How many of the invocations before this one have their bit in the masks; and the first invocation with a bit.
fn rank(mask: u32) -> u32 {
  let low = atomicLoad(&masks[mask]);
  let high = atomicLoad(&masks[mask + 1u]);
  if ew_thread < 32u { return countOneBits(low & ((1u << ew_thread) - 1u)); }
  return countOneBits(low) + countOneBits(high & ((1u << (ew_thread - 32u)) - 1u));
}
fn set_bits(mask: u32) -> u32 {
  return countOneBits(atomicLoad(&masks[mask])) + countOneBits(atomicLoad(&masks[mask + 1u]));
}
fn mark(mask: u32) { atomicOr(&masks[mask + ew_thread / 32u], 1u << (ew_thread % 32u)); }

fn load_state() {
  if ew_thread < WGPU_QUEUES {
    let at = queue_word(1u - parity(), ew_workgroup, ew_thread);
    q_head[ew_thread] = word(at + DevWgpuQueue_head);
    q_count[ew_thread] = word(at + DevWgpuQueue_count);
    let own = round.at_workgroups + ew_workgroup * words_of_DevWgpuWorkgroup;
    q_top[ew_thread] = word(own + DevWgpuWorkgroup_top + ew_thread);
    q_freed[ew_thread] = word(own + DevWgpuWorkgroup_freed + ew_thread);
  }
  if ew_thread == 0u {
    let own = round.at_workgroups + ew_workgroup * words_of_DevWgpuWorkgroup;
    chunk_count = word(own + DevWgpuWorkgroup_chunks);
    id_count = word(own + DevWgpuWorkgroup_groups);
    random = (round.number * 0x9e3779b9u) ^ (ew_workgroup * 0x85ebca6bu);
    if ew_workgroup == 0u {
      let next = (round.number + 1u) & 3u;
      set_word(DevWgpuHeader_waiting + next, 0u);
      set_word(DevWgpuHeader_idle + next, 0u);
      set_word(DevWgpuHeader_ending + next, 0u);
      set_word(DevWgpuHeader_starved + next, 0u);
      set_word(DevWgpuHeader_spent + next, 0u);
      set_word(DevWgpuHeader_completions + ((round.submission + 1u) & 3u), 0u);
    }
  }
  workgroupBarrier();
}

fn save_state() {
  workgroupBarrier();
  if ew_thread < WGPU_QUEUES {
    let at = queue_word(parity(), ew_workgroup, ew_thread);
    set_word(at + DevWgpuQueue_head, q_head[ew_thread]);
    set_word(at + DevWgpuQueue_count, q_count[ew_thread]);
    let own = round.at_workgroups + ew_workgroup * words_of_DevWgpuWorkgroup;
    set_word(own + DevWgpuWorkgroup_top + ew_thread, q_top[ew_thread]);
    set_word(own + DevWgpuWorkgroup_freed + ew_thread, q_freed[ew_thread]);
  }
  if ew_thread == 0u {
    let own = round.at_workgroups + ew_workgroup * words_of_DevWgpuWorkgroup;
    set_word(own + DevWgpuWorkgroup_chunks, chunk_count);
    set_word(own + DevWgpuWorkgroup_groups, id_count);
    let deferred = atomicLoad(&deferred_count);
    set_word(own + DevWgpuWorkgroup_deferred, deferred);
    var waiting = 0u;
    for (var queue = 0u; queue < round.queues; queue += 1u) { waiting += q_count[queue]; }
    set_word(round.at_totals + parity() * round.workgroups + ew_workgroup, waiting);
    let space = room();
    set_word(round.at_rooms + parity() * round.workgroups + ew_workgroup, select(0u, space - deferred, space > deferred));
    if waiting + deferred > 0u { atomicAdd(&state[DevWgpuHeader_waiting + (round.number & 3u)], waiting + deferred); }
    if executed > 0u {
      atomicAdd(&state[DevWgpuHeader_executed], executed);
      set_word(DevWgpuHeader_function, last_function);
    }
    if refused.y + refused.z > 0u {
      atomicAdd(&state[DevWgpuHeader_starved + (round.number & 3u)], 1u);
      set_word(DevWgpuHeader_starved_function, refused.x);
      atomicAdd(&state[DevWgpuHeader_task_refusals], refused.y);
      atomicAdd(&state[DevWgpuHeader_group_refusals], refused.z);
    }
    let worker = round.at_workers + ew_workgroup * words_of_DevWorker;
    bump(worker + DevWorker_executed, executed);
    bump(worker + DevWorker_batches, batches);
    bump(worker + DevWorker_received, received);
    bump(worker + DevWorker_starved, refused.y + refused.z);
    bump(worker + DevWorker_fired, atomicLoad(&fired));
    set_word(worker + DevWorker_state, select(WORKER_IDLE, WORKER_STARVED, refused.y + refused.z > 0u));
    if executed > 0u { set_word(worker + DevWorker_function, last_function); }
    if refused.y + refused.z > 0u { set_word(worker + DevWorker_function, refused.x); }
    set_word(worker + DevWorker_queued, waiting);
  }
}
// Adds to a 64-bit counter that only this workgroup writes.
fn bump(at: u32, by: u32) {
  if by == 0u { return; }
  let low = word(at) + by;
  set_word(at, low);
  if low < by { set_word(at + 1u, word(at + 1u) + 1u); }
}

// The workgroup: takes free ids that others have returned, from the part of the bits that is its turn in this dispatch.
fn harvest(workgroup: u32) {
  let words = (round.group_words + round.workgroups - 1u) / round.workgroups;
  let slice = (workgroup + round.number) % round.workgroups;
  let first = slice * words;
  let end = min(first + words, round.group_words);
  for (var at = first; at < end; ) {
    if ew_thread == 0u { choice = vec4(id_count, 0u, 0u, 0u); }
    let have = workgroupUniformLoad(&choice).x;
    // Each word may hold 32 ids.
    let lanes = min(EW_THREADS, (round.stack - min(have, round.stack)) / 32u);
    if lanes == 0u { break; }
    if ew_thread < lanes && at + ew_thread < end {
      let bits = round.at_bits + (1u - parity()) * round.group_words + at + ew_thread;
      if word(bits) != 0u {
        var left = atomicExchange(&state[bits], 0u);
        let n = countOneBits(left);
        var to = round.at_groups + ew_workgroup * round.stack + have + atomicAdd(&returned, n);
        while left != 0u {
          set_word(to, round.first_group + (at + ew_thread) * 32u + firstTrailingBit(left));
          left &= left - 1u;
          to += 1u;
        }
      }
    }
    workgroupBarrier();
    if ew_thread == 0u {
      id_count += atomicLoad(&returned);
      atomicStore(&returned, 0u);
    }
    at += lanes;
  }
  storageBarrier();
  workgroupBarrier();
}

// One invocation: ids that came back in this turn are on the stack now.
fn note_returned() {
  id_count = min(id_count + atomicLoad(&returned), round.stack);
  atomicStore(&returned, 0u);
}

fn deferred_list(phase: u32) -> u32 {
  return round.at_deferred + (phase * round.workgroups + ew_workgroup) * round.deferred;
}

// One invocation: the queue of the next turn, its length and place, or STEP_LEAVE.
fn choose() -> vec4<u32> {
  let place = round.number & 3u;
  let others = word(DevWgpuHeader_idle + place);
  let ending = word(DevWgpuHeader_ending + place);
  let stop = word(DevWgpuHeader_stop);
  var waiting = 0u;
  var best = WGPU_QUEUES;
  for (var queue = 0u; queue < round.queues; queue += 1u) {
    waiting += q_count[queue];
    if q_count[queue] > 0u && best == WGPU_QUEUES && (blocked & (1u << queue)) == 0u { best = queue; }
  }
  let runs = ew_workgroup < round.size;
  var leave = stop != 0u || !runs || turns_run >= round.turns || best == WGPU_QUEUES
    || atomicLoad(&deferred_count) + 2u * EW_THREADS > round.deferred;
  if turns_run >= round.least_turns {
    leave = leave || ending != 0u;
    if !leave && others > 0u && waiting > 16u {
      set_word(DevWgpuHeader_ending + place, 1u);
      leave = true;
    }
  }
  if (round.flags & ROUND_STRESS) != 0u {
    random = random * 1664525u + 1013904223u;
    leave = leave || (random >> 29u) < 2u;
  }
  if leave {
    if waiting == 0u && runs { atomicAdd(&state[DevWgpuHeader_idle + place], 1u); }
    if waiting > 0u && turns_run >= round.turns { set_word(DevWgpuHeader_spent + place, 1u); }
    phase = STEP_LEAVE;
    return vec4(0u, 0u, 0u, 0u);
  }
  return vec4(best, min(q_count[best], EW_THREADS), q_head[best], q_count[best]);
}

// One invocation, when a task has ended: counts it, and puts what follows on the stage. Returns what it changes in the
// count of its group.
fn end_task() -> i32 {
  if t_spawned + t_children > (t_info & FUNCTION_SPAWNS) { t_raise(FAULT_SPAWN_LIMIT, t_spawned + t_children); return 0; }
  if t_forked {
    if t_children > 0u {
      open_group(t_id, t_children, vec2(0u, 0u), t_then);
    } else {
      free_id(t_id);
      put(vec4(t_then.x & ~TASK_ARG_FROM_GROUP, t_then.y, t_then.z, t_then.w));
    }
  } else if (t_info & FUNCTION_FORKS) != 0u {
    free_id(t_id);
  }
  if (t_task.y & HOST_DIRECT) != 0u {
    if t_spawned > 0u { t_raise(FAULT_NOT_COUNTED, t_task.x); return 0; }
    if !t_forked { complete(t_task.y & ~HOST_DIRECT, t_value); }
    return 0;
  }
  return i32(t_spawned) - select(1, 0, t_forked);
}
// The end of a step, before the stage is pushed: counts, and fires.
fn settle() {
  var fires = my_late;
  if my_delta > 0 {
    atomicAdd(&groups[my_group * words_of_DevGroup + DevGroup_pending], u32(my_delta));
  } else if my_delta < 0 {
    fires = ended(my_group, u32(-my_delta));
  }
  if fires { fire(my_group, my_late); }
}

// The workgroup: runs tasks of a queue.
fn turn(queue: u32, n: u32, head: u32, count: u32) {
  let newest = queue % 2u == 0u;
  let has = ew_thread < n;
  var task = vec4(0u, 0u, 0u, 0u);
  var info = 0u;
  if has {
    task = tasks[task_at(ew_workgroup, queue, select(head + ew_thread, head + count - 1u - ew_thread, newest))];
    info = function_info(task.x);
    if (info & FUNCTION_PRESENT) == 0u { raise(FAULT_UNKNOWN_FUNCTION, task.x & (FN_LIMIT - 1u), vec2(task.x, 0u)); }
    let forks = (info & FUNCTION_FORKS) != 0u;
    // A task that spawns nothing leaves at most a continuation in its own place, for which chunks are kept.
    let spawns = info & FUNCTION_SPAWNS;
    if (!forks || id_count > 0u) && (spawns == 0u || room() > spawns) { mark(0u); }
  }
  if ew_thread == 0u { choice = vec4(0u, task.x & (FN_LIMIT - 1u), 0u, info); }
  workgroupBarrier();
  // The first task that can run names the function of this turn.
  let low = atomicLoad(&masks[0]);
  let high = atomicLoad(&masks[1]);
  if (low | high) != 0u && ew_thread == select(32u + firstTrailingBit(high), firstTrailingBit(low), low != 0u) {
    let need = (info & FUNCTION_SPAWNS) + 1u;
    var most = min(EW_THREADS, WGPU_STAGE / need);
    // The less room there is, the fewer tasks run at a time: a single one always finds room for its descendants, one
    // after the other, if a sixteenth of the room is enough for their depth.
    if need > 1u { most = min(most, max(room() / (16u * need), 1u)); }
    if (info & FUNCTION_FORKS) != 0u { most = min(most, max(id_count / 8u, 1u)); }
    // A whole workgroup runs several tasks in a turn only if they leave nothing behind but their end.
    let single = need > 1u || (info & FUNCTION_FORKS) != 0u || (task.y & HOST_DIRECT) != 0u;
    if (info & FUNCTION_WIDE) != 0u && single { most = 1u; }
    choice = vec4(1u | select(0u, 2u, most > 1u), task.x & (FN_LIMIT - 1u), most, info);
  }
  let chosen = workgroupUniformLoad(&choice);
  if chosen.x == 0u {
    if ew_thread == 0u {
      blocked |= 1u << queue;
      let no_id = (chosen.w & FUNCTION_FORKS) != 0u && id_count == 0u;
      refused = vec4(chosen.y, refused.y + select(1u, 0u, no_id), refused.z + select(0u, 1u, no_id), 0u);
    }
    return;
  }
  let function = chosen.y;
  let whole = (chosen.w & FUNCTION_WIDE) != 0u;
  let series = whole && (chosen.x & 2u) != 0u;
  let matches = has && (task.x & (FN_LIMIT - 1u)) == function && !(series && (task.y & HOST_DIRECT) != 0u);
  if matches { mark(2u); }
  workgroupBarrier();
  let place = rank(2u);
  let taken = matches && place < chosen.z;
  let run = min(set_bits(2u), chosen.z);
  if has && !taken && run < n {
    // What stays keeps its order and moves together.
    let i = ew_thread - min(place, run);
    tasks[task_at(ew_workgroup, queue, select(head + run + i, head + count - run - 1u - i, newest))] = task;
  }
  var id = 0u;
  if taken && (chosen.w & FUNCTION_FORKS) != 0u {
    id = word(round.at_groups + ew_workgroup * round.stack + id_count - 1u - place);
  }
  let leads = taken && place == 0u;
  if leads {
    batch_size = run;
    batch_group = task.y;
    wide_id = id;
  }
  if whole && taken { wide_tasks[place] = task; }
  if ew_thread == 0u {
    for (var k = 0u; k < 2u; k += 1u) { atomicStore(&wide_value[k], 0u); }
    atomicStore(&wide_spawned, 0u);
    atomicStore(&wide_children, 0u);
  }
  workgroupBarrier();
  if ew_thread == 0u {
    q_count[queue] -= run;
    if !newest { q_head[queue] += run; }
    if (chosen.w & FUNCTION_FORKS) != 0u { id_count -= run; }
    for (var i = 0u; i < 4u; i += 1u) { atomicStore(&masks[i], 0u); }
    executed += run;
    batches += 1u;
    turns_run += select(1u, run, whole);
    last_function = function;
    blocked = 0u;
    refused = vec4(0u, 0u, 0u, 0u);
  }
  t_task = task;
  t_info = chosen.w;
  t_id = select(id, wide_id, whole);
  t_wide = whole;
  t_forked = false;
  t_spawned = 0u;
  t_children = 0u;
  t_value = vec2(0u, 0u);
  if whole {
    let count = workgroupUniformLoad(&batch_size);
    for (var i = 0u; i < count; i += 1u) {
      t_task = wide_tasks[i];
      if ew_thread == 0u { wide_task = t_task; }
      call_wide(function);
      workgroupBarrier();
    }
    if t_spawned > 0u { atomicAdd(&wide_spawned, t_spawned); }
    if t_children > 0u { atomicAdd(&wide_children, t_children); }
  } else if taken {
    call_lane(function);
  }
  storageBarrier();
  workgroupBarrier();
  if whole {
    t_spawned = atomicLoad(&wide_spawned);
    t_children = atomicLoad(&wide_children);
    t_value = vec2(atomicLoad(&wide_value[0]), atomicLoad(&wide_value[1]));
  }
  // The leader counts for all tasks of its group.
  let ends = select(taken, ew_thread < run, whole);
  if ends {
    if whole { t_task = wide_tasks[ew_thread]; }
    my_group = t_task.y;
    my_delta = end_task();
    if my_group == batch_group {
      atomicAdd(&batch_delta, my_delta);
      my_delta = 0;
    }
  }
  workgroupBarrier();
  if select(leads, ew_thread == 0u, whole) { my_delta = atomicExchange(&batch_delta, 0); }
}

// One invocation: the next step, and its range.
fn next_step() -> vec4<u32> {
  if phase == STEP_BEGIN {
    phase = STEP_DEFERRED;
    return vec4(STEP_BEGIN, 0u, 0u, 0u);
  }
  if phase == STEP_DEFERRED {
    if cursor == 0u {
      received = word(round.at_workgroups + ew_workgroup * words_of_DevWgpuWorkgroup + DevWgpuWorkgroup_deferred);
      limit = min(received, room());
    }
    if cursor < limit {
      cursor += EW_THREADS;
      return vec4(STEP_DEFERRED, cursor - EW_THREADS, limit, 0u);
    }
    phase = STEP_TAKE;
    cursor = limit;
    limit = received;
    received = 0u;
    return vec4(STEP_SHARE, cursor, limit, 0u);
  }
  if phase == STEP_TAKE {
    if ranges.x < ranges.y {
      ranges.x += EW_THREADS;
      return vec4(STEP_TAKE, ranges.x - EW_THREADS, ranges.y, 0u);
    }
    if ranges.z < ranges.w {
      ranges.z += EW_THREADS;
      return vec4(STEP_ACCEPT, ranges.z - EW_THREADS, ranges.w, 0u);
    }
    phase = STEP_TURN;
    if id_count * 2u < round.stack { return vec4(STEP_HARVEST, 0u, 0u, 0u); }
  }
  let next = choose();
  if phase == STEP_LEAVE { return vec4(STEP_LEAVE, 0u, 0u, 0u); }
  return vec4(STEP_TURN, next.x, 0u, 0u);
}

@compute @workgroup_size(WGPU_THREADS)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  ew_thread = thread;
  ew_workgroup = workgroup.x;
  load_state();
  loop {
    if ew_thread == 0u { plan = next_step(); }
    let step = workgroupUniformLoad(&plan);
    if step.x == STEP_LEAVE { break; }
    let at = step.y + ew_thread;
    my_delta = 0;
    my_late = false;
    noted = vec4(0u, 0u, 0u, 0u);
    var one = vec4(0u, 0u, 0u, 0u);
    var puts = false;
    switch step.x {
      case STEP_DEFERRED: {
        if at < step.z {
          my_group = word(deferred_list(1u - parity()) + at);
          my_late = true;
        }
      }
      case STEP_SHARE: {
        // Deferred groups for which there is no room yet.
        for (var i = at; i < step.z; i += EW_THREADS) { defer_group(word(deferred_list(1u - parity()) + i)); }
        share();
      }
      case STEP_TAKE: {
        if at < step.z {
          one = take(at);
          puts = true;
        }
      }
      case STEP_ACCEPT: {
        if at < step.z {
          one = accept(inbox[(first_submission + at) & round.inbox_mask]);
          puts = true;
        }
      }
      case STEP_HARVEST: { harvest(workgroup.x); }
      case STEP_TURN: {
        let queue = step.y;
        turn(queue, min(q_count[queue], EW_THREADS), q_head[queue], q_count[queue]);
      }
      default: {}
    }
    if puts { put(one); }
    settle();
    raise_noted();
    workgroupBarrier();
    if ew_thread == 0u { note_returned(); }
    free_spare();
    push_stage();
  }
  if ew_workgroup >= round.size {
    // The ids of a workgroup that runs nothing are for the others.
    for (var i = ew_thread; i < id_count; i += EW_THREADS) {
      free_id_to_all(word(round.at_groups + ew_workgroup * round.stack + i));
    }
    workgroupBarrier();
    if ew_thread == 0u { id_count = 0u; }
  }
  save_state();
}
