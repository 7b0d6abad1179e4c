// A turn: up to EW_THREADS tasks of one function, each run by an invocation, or by the whole workgroup one after the other.
//
// What a turn costs, when its tasks come from the stage: five barriers (one of them is for storage), the loads that the
// functions make, and for tasks that end one atomic on their group. `docs/decisions` has the figures.

// Bits of the newest tasks of the stage, the newest first. For this step and the one before: the tasks of the newest one's
// function, and those of its rival. Then those that can run, and those of the function that was voted for.
var<workgroup> masks: array<atomic<u32>, WGPU_MASKS>;
const WGPU_MASKS = 24u;
const MASK_VOTES = 16u;
const MASK_VOTED = 20u;
// Two functions that were seen near the new end of the stage. The one that is not the newest task's is its rival. If a turn
// can run more tasks of the rival, it does: tasks that join then wait until there are enough of them.
var<workgroup> rival_one: u32;
var<workgroup> rival_two: u32;
var<workgroup> choice: vec4<u32>;
var<workgroup> batch_delta: atomic<i32>;
var<workgroup> batch_size: u32;
var<workgroup> wide_id: u32;
// Not 0: tasks of the next dispatch wait here.
var<workgroup> early_waits: atomic<u32>;
// The tasks of this turn.
var<workgroup> turn_tasks: array<vec4<u32>, WGPU_THREADS>;

// This invocation's tasks of the stage, a newer and an older one, and whether it has them.
var<private> my_task: vec4<u32>;
var<private> my_has: bool;
var<private> my_older: vec4<u32>;
var<private> my_has_older: bool;
// The function that may run instead of the newest task's.
var<private> rival: u32;
// How many more tasks there was room for when this turn began.
var<private> my_space: u32;
// The newest task of the stage.
var<private> newest: vec4<u32>;
// Ids at hand and on the stack before this step.
var<private> my_ids: u32;
var<private> my_stack: u32;
// What the invocation has to count at the end of a step: a change of a group; whether a group fires because it was deferred;
// and an id that it returns.
var<private> my_group: u32;
var<private> my_delta: i32;
var<private> my_late: bool;
var<private> my_free: u32;

// A mask's bits, how many of them come before a place, and whether it has one there.
fn bits_of(mask: u32) -> vec4<u32> {
  return vec4(atomicLoad(&masks[mask]), atomicLoad(&masks[mask + 1u]), atomicLoad(&masks[mask + 2u]), atomicLoad(&masks[mask + 3u]));
}
fn total(bits: vec4<u32>) -> u32 {
  let counts = countOneBits(bits);
  return counts.x + counts.y + counts.z + counts.w;
}
fn rank(bits: vec4<u32>, place: u32) -> u32 {
  let counts = countOneBits(bits);
  let word = place / 32u;
  let before = select(0u, counts.x, word > 0u) + select(0u, counts.y, word > 1u) + select(0u, counts.z, word > 2u);
  return before + countOneBits(bits[word] & ((1u << (place % 32u)) - 1u));
}
fn is_set(bits: vec4<u32>, place: u32) -> bool { return ((bits[place / 32u] >> (place % 32u)) & 1u) != 0u; }
fn mark(mask: u32, place: u32) { atomicOr(&masks[mask + place / 32u], 1u << (place % 32u)); }
fn function_of(task: vec4<u32>) -> u32 { return task.x & (FN_LIMIT - 1u); }

// Looks at the stage while the first invocation plans: in most turns the newest task's function runs.
fn look(count: u32) {
  if ew_thread >= MASK_VOTES && ew_thread < WGPU_MASKS { atomicStore(&masks[ew_thread], 0u); }
  my_ids = ids_at_hand();
  my_stack = stack_count;
  my_has = ew_thread < count;
  my_has_older = ew_thread + EW_THREADS < count;
  if count == 0u { return; }
  newest = stage[count - 1u];
  let function = function_of(newest);
  rival = select(rival_one, rival_two, function == rival_one);
  if my_has {
    my_task = stage[count - 1u - ew_thread];
    if function_of(my_task) == function { mark(8u * side, ew_thread); }
    if function_of(my_task) == rival { mark(8u * side + 4u, ew_thread); }
  }
  if my_has_older {
    my_older = stage[count - 1u - EW_THREADS - ew_thread];
    if function_of(my_older) == function { mark(8u * side, EW_THREADS + ew_thread); }
    if function_of(my_older) == rival { mark(8u * side + 4u, EW_THREADS + ew_thread); }
  }
}
// Makes the next step's masks and counters ready.
fn clear_side() {
  let next = 1u - side;
  if ew_thread < 8u { atomicStore(&masks[8u * next + ew_thread], 0u); }
  if ew_thread == 0u { atomicStore(&stage_added[next], 0u); }
}

fn can_run(info: u32, space: u32, free: u32) -> bool {
  // A task that spawns nothing leaves at most a continuation in its own place, for which chunks are kept.
  let spawns = info & FUNCTION_SPAWNS;
  return ((info & FUNCTION_FORKS) == 0u || free > 0u) && (spawns == 0u || space > spawns);
}
// How many tasks like this one may run at a time. The less room there is, the fewer: a single one always finds room for its
// descendants, one after the other, if a sixteenth of the room is enough for their depth.
fn most_of(task: vec4<u32>, info: u32, space: u32, free: u32) -> u32 {
  let need = (info & FUNCTION_SPAWNS) + 1u;
  var most = min(EW_THREADS, WGPU_STAGE / need);
  if need > 1u { most = min(most, max(space / (16u * need), 1u)); }
  if (info & FUNCTION_FORKS) != 0u { most = min(most, max(free / 32u, 1u)); }
  // A whole workgroup runs several tasks in a turn only if they leave nothing behind but their end.
  let single = need > 1u || (info & FUNCTION_FORKS) != 0u || (task.y & HOST_DIRECT) != 0u;
  return select(most, 1u, (info & FUNCTION_WIDE) != 0u && single);
}

// How many of them fit on a stage with `count` tasks, with all that they spawn.
fn fitting(most: u32, info: u32, count: u32, oldest: bool) -> u32 {
  let spawns = info & FUNCTION_SPAWNS;
  if spawns == 0u || oldest { return most; }
  return max(min(most, (WGPU_STAGE - count) / spawns), 1u);
}

// One invocation: the next turn, a step that has to come before it, or the end.
fn plan_turn(count: u32) -> vec4<u32> {
  if (polls & 3u) == 0u {
    let place = round.number & 3u;
    others = word(DevWgpuHeader_idle + place) + select(0u, round.size - round.quiet, round.quiet > 0u);
    ending = word(DevWgpuHeader_ending + place);
    stop = word(DevWgpuHeader_stop);
  }
  polls += 1u;
  var waiting = count;
  var best = WGPU_QUEUES;
  for (var queue = 0u; queue < round.queues; queue += 1u) {
    let n = q_count[queue];
    waiting += n;
    if n > 0u && best == WGPU_QUEUES && ((blocked | early) & (1u << queue)) == 0u { best = queue; }
  }
  if leaves(count, waiting, best) {
    leaving = true;
    return plan_leave(count);
  }
  if cramped {
    cramped = false;
    if tidied {
      blocked |= 1u << stage_queue;
      return plan_move(count, count, 0u);
    }
    tidied = true;
    return plan_move(count, 0u, 0u);
  }
  if count == 0u {
    stage_queue = best;
    atomicStore(&stage_mixed, 0u);
    let n = q_count[best];
    if best % 2u == 0u { return plan_move(0u, 0u, min(n, 2u * EW_THREADS)); }
    return turn_of(TURN_VOTES | TURN_OLDEST, best, 0u, min(n, EW_THREADS));
  }
  // A few tasks that came from elsewhere may be of one queue.
  if atomicLoad(&stage_mixed) != 0u && count <= 8u {
    let queue = queue_of(stage[0].x);
    var same = true;
    for (var i = 1u; i < count; i += 1u) { same = same && queue_of(stage[i].x) == queue; }
    if same {
      stage_queue = queue;
      atomicStore(&stage_mixed, 0u);
    }
  }
  if atomicLoad(&stage_mixed) != 0u || stage_queue % 2u != 0u || best < stage_queue { return plan_move(count, count, 0u); }
  if count < EW_THREADS && best == stage_queue { return plan_move(count, 0u, min(q_count[best], 2u * EW_THREADS)); }
  let task = stage[count - 1u];
  let info = function_info(task.x);
  let space = room(count);
  let free = ids_at_hand() + stack_count;
  if ids_at_hand() > 2u * EW_THREADS && stack_count < round.stack { return plan_move(count, 0u, 0u); }
  if (info & FUNCTION_PRESENT) == 0u || !can_run(info, space, free) {
    return turn_of(TURN_VOTES, stage_queue, 0u, count);
  }
  var most = most_of(task, info, space, free);
  // Tasks that stay on the stage, and what this turn puts there, have to fit. A full stage gives its oldest tasks away.
  let spawns = info & FUNCTION_SPAWNS;
  if spawns > 0u {
    let fits = (WGPU_STAGE - count) / spawns;
    if fits < min(most, EW_THREADS) && count > 2u * EW_THREADS { return plan_move(count, count - 2u * EW_THREADS, 0u); }
    most = min(most, fits);
  }
  let whole = (info & FUNCTION_WIDE) != 0u;
  if whole && most > 1u { return turn_of(TURN_VOTES, stage_queue, 0u, count); }
  // Invocations go on with what they spawn if no other task waits here.
  let chains = !whole && count <= EW_THREADS && waiting == count;
  let how = select(0u, TURN_WHOLE, whole) | select(0u, TURN_CHAINS, chains);
  var turn = turn_of(how, stage_queue, most, count);
  turn.z = function_of(task);
  turn.w = info;
  return turn;
}
// The step of a turn over `count` tasks: how, the queue, the most tasks; then the function, if there is no vote, and what the
// table says of it.
fn turn_of(how: u32, queue: u32, most: u32, count: u32) -> vec4<u32> {
  return vec4(STEP_TURN | how, queue | (most << 8u) | (count << 16u), 0u, 0u);
}

// The turns after which this workgroup leaves the dispatch: under stress, 0 to 3 for a random half of all.
fn turns_of_stress() -> u32 {
  if (round.flags & ROUND_STRESS) == 0u { return 0xffffffffu; }
  var random = (round.number * 0x9e3779b9u) ^ (ew_workgroup * 0x85ebca6bu) ^ ((round.flags >> ROUND_SEED_SHIFT) * 0xc2b2ae35u);
  random = (random ^ (random >> 16u)) * 0x7feb352du;
  random = (random ^ (random >> 15u)) * 0x846ca68bu;
  random ^= random >> 16u;
  return select(0xffffffffu, random & 3u, (random & 4u) != 0u);
}

// Why a dispatch ends early: others have no tasks; or turns of actors wait for the next one, and chains of near turns end.
const ENDING_SHARES = 1u;
const ENDING_TURNS = 2u;

// One invocation: whether the workgroup leaves the dispatch now.
fn leaves(count: u32, waiting: u32, best: u32) -> bool {
  let place = round.number & 3u;
  let runs = ew_workgroup < round.size;
  var leave = stop != 0u || !runs || turns_run >= round.turns || (count == 0u && best == WGPU_QUEUES)
    || atomicLoad(&deferred_count) + 2u * EW_THREADS > round.deferred;
  if !leave && turns_run >= round.patience {
    leave = (ending & ENDING_SHARES) != 0u;
    // Tasks of whole workgroups run one after the other. The newest one says which kind waits.
    var info = t_info;
    if count > 0u { info = function_info(stage[count - 1u].x); }
    let worth = select(round.worth, min(round.worth, 16u), (info & FUNCTION_WIDE) != 0u);
    if !leave && waiting > worth && others * turns_run >= round.patience * round.size {
      atomicOr(&state[DevWgpuHeader_ending + place], ENDING_SHARES);
      leave = true;
    }
  }
  leave = leave || turns_run >= stress_turns;
  if leave {
    if waiting == 0u && runs { atomicAdd(&state[DevWgpuHeader_idle + place], 1u); }
    if early != 0u { atomicOr(&state[DevWgpuHeader_ending + place], ENDING_TURNS); }
    if waiting > 0u && turns_run >= round.turns { set_word(DevWgpuHeader_spent + place, 1u); }
  }
  return leave;
}

// One invocation, when a task has ended: counts it, and puts what follows on the stage. Returns what it changes in the
// count of its group. An id that it does not need is returned at the end of the step.
fn end_task() -> i32 {
  if t_spawned + t_children > (t_info & FUNCTION_SPAWNS) { t_raise(FAULT_SPAWN_LIMIT, t_spawned + t_children); return 0; }
  if t_forked {
    if t_children > 0u {
      open_group(t_id, t_children, t_then);
    } else {
      my_free = t_id;
      put(vec4(t_then.x & ~TASK_ARG_FROM_GROUP, t_then.y, t_then.z, t_then.w));
    }
  } else if (t_info & FUNCTION_FORKS) != 0u {
    my_free = t_id;
  }
  if (t_task.y & HOST_DIRECT) != 0u {
    if t_spawned > 0u { t_raise(FAULT_NOT_COUNTED, t_task.x); return 0; }
    if !t_forked { complete(t_task.y & ~HOST_DIRECT, t_value); }
    return 0;
  }
  return i32(t_spawned) - select(1, 0, t_forked);
}
// The end of a step: counts, fires, and returns ids.
fn settle() {
  if my_free != 0u { free_id(my_free); }
  var fires = my_late;
  if my_delta > 0 {
    atomicAdd(&groups[my_group * words_of_DevWgpuGroup + DevWgpuGroup_pending], u32(my_delta));
  } else if my_delta < 0 {
    fires = ended(my_group, u32(-my_delta));
  }
  if fires { fire(my_group, my_late); }
}

fn reset_call() {
  t_forked = false;
  t_spawned = 0u;
  t_children = 0u;
  t_value = vec2(0u, 0u);
  t_kept = false;
}

// Whether the next task is a turn of an actor that may run in the place of this one: no other invocation runs, it is all that this
// one leaves behind, so that there is as much room as before, and no turn waits for the next dispatch, here or elsewhere.
fn turn_follows(info: u32) -> bool {
  return t_alone && (t_info & info & FUNCTION_LATER) != 0u && t_spawned + t_children == 1u && (info & FUNCTION_SPAWNS) < my_space
    && atomicLoad(&early_waits) == 0u && (word(DevWgpuHeader_ending + (round.number & 3u)) & ENDING_TURNS) == 0u;
}
// Turns of actors that one invocation runs in a row.
const TURN_CHAIN = 4u * WGPU_CHAIN;
// One invocation: runs its task and, if it may, those that follow. Returns what all of them change in the count of the group.
fn run_lane(chains: bool) -> i32 {
  let most = select(WGPU_CHAIN, TURN_CHAIN, (t_info & FUNCTION_LATER) != 0u);
  var left = select(0u, most, chains && (t_task.y & HOST_DIRECT) == 0u);
  var delta = 0;
  loop {
    t_keeps = left > 0u;
    call_lane(function_of(t_task));
    if !t_kept { break; }
    var next = t_next;
    let info = function_info(next.x);
    // An id that is not needed is returned at the end of a call, and there is room for what one task leaves behind.
    let simple = (t_info & FUNCTION_FORKS) == 0u && (info & (FUNCTION_PRESENT | FUNCTION_WIDE | FUNCTION_FORKS)) == FUNCTION_PRESENT
      && ((info & FUNCTION_SPAWNS) <= 1u || turn_follows(info));
    if !simple || t_forked || noted.x != 0u || t_spawned + t_children > (t_info & FUNCTION_SPAWNS) {
      if (info & FUNCTION_LATER) != 0u { next.w = turn_later(); }
      t_put(next);
      break;
    }
    delta += i32(t_spawned) - 1;
    left -= 1u;
    t_task = next;
    t_info = info;
    reset_call();
  }
  if chains && left < most && (t_task.y & HOST_DIRECT) == 0u { atomicAdd(&chained, most - left); }
  return delta + end_task();
}

// The workgroup: a turn as planned.
fn turn(step: vec4<u32>) {
  let queue = step.y & 255u;
  let count = step.y >> 16u;
  let oldest = (step.x & TURN_OLDEST) != 0u;
  let votes = (step.x & TURN_VOTES) != 0u;
  var how = step.x;
  var has = my_has;
  var task = my_task;
  let has_older = my_has_older && !oldest;
  var bits = bits_of(8u * side);
  var function = step.z;
  var info = step.w;
  var most = (step.y >> 8u) & 255u;
  let head = q_head[queue];
  let space = room(select(count, 0u, oldest));
  my_space = space;
  let free = my_ids + my_stack;
  if votes {
    if oldest {
      has = ew_thread < min(count, EW_THREADS);
      if has { task = tasks[task_at(ew_workgroup, queue, head + ew_thread)]; }
    }
    info = function_info(task.x);
    if has {
      if (info & FUNCTION_PRESENT) == 0u { raise(FAULT_UNKNOWN_FUNCTION, function_of(task), vec2(task.x, 0u)); }
      if is_early(task, info) { atomicStore(&early_waits, 1u); } else if can_run(info, space, free) { mark(MASK_VOTES, ew_thread); }
    }
    // The oldest task is early only if all of them are, or no one of them can run.
    let waits = oldest && is_early(task, info);
    if ew_thread == 0u { choice = vec4(0u, function_of(task), select(0u, 1u, waits), info); }
    workgroupBarrier();
    // The first task that can run names the function.
    let low = atomicLoad(&masks[MASK_VOTES]);
    let high = atomicLoad(&masks[MASK_VOTES + 1u]);
    if (low | high) != 0u && ew_thread == select(32u + firstTrailingBit(high), firstTrailingBit(low), low != 0u) {
      choice = vec4(1u, function_of(task), fitting(most_of(task, info, space, free), info, count, oldest), info);
    }
    let chosen = workgroupUniformLoad(&choice);
    if chosen.x == 0u {
      if ew_thread == 0u && chosen.z != 0u {
        early |= 1u << queue;
      } else if ew_thread == 0u {
        cramped = true;
        let no_id = (chosen.w & FUNCTION_FORKS) != 0u && free == 0u;
        if tidied { refused = vec4(chosen.y, refused.y + select(1u, 0u, no_id), refused.z + select(0u, 1u, no_id), 0u); }
      }
      return;
    }
    function = chosen.y;
    info = chosen.w;
    most = chosen.z;
    how = select(0u, TURN_WHOLE, (info & FUNCTION_WIDE) != 0u);
    let excludes = how == TURN_WHOLE && most > 1u;
    if has && function_of(task) == function && !is_early(task, info)
      && !(excludes && (task.y & HOST_DIRECT) != 0u) { mark(MASK_VOTED, ew_thread); }
    if has_older && function_of(my_older) == function && !(excludes && (my_older.y & HOST_DIRECT) != 0u) {
      mark(MASK_VOTED, EW_THREADS + ew_thread);
    }
    workgroupBarrier();
    bits = bits_of(MASK_VOTED);
  }
  let whole = (how & TURN_WHOLE) != 0u;
  if !votes && !whole {
    let rival_bits = bits_of(8u * side + 4u);
    let rival_info = function_info(rival);
    if (rival_info & (FUNCTION_PRESENT | FUNCTION_WIDE)) == FUNCTION_PRESENT && can_run(rival_info, space, free) {
      let rival_most = fitting(most_of(newest, rival_info, space, free), rival_info, count, false);
      if min(total(rival_bits), rival_most) > min(total(bits), most) {
        bits = rival_bits;
        info = rival_info;
        most = rival_most;
      }
    }
    // A third function takes the place of one that is not there.
    let neither = ~(bits_of(8u * side) | rival_bits);
    if has && is_set(neither, ew_thread) && rank(neither, ew_thread) == 0u { rival_two = function_of(task); }
    if ew_thread == 0u && function != rival_one && function != rival_two { rival_one = function; }
  }
  let run = min(total(bits), most);
  let place = rank(bits, ew_thread);
  if has && place < run {
    // What stays keeps its order and moves together. What comes after the last one that is taken stays where it is.
    if is_set(bits, ew_thread) {
      turn_tasks[place] = task;
    } else if oldest {
      tasks[task_at(ew_workgroup, queue, head + run + (ew_thread - place))] = task;
    } else {
      stage[count - run - 1u - (ew_thread - place)] = task;
    }
  }
  let older_place = rank(bits, EW_THREADS + ew_thread);
  if has_older && older_place < run {
    if is_set(bits, EW_THREADS + ew_thread) {
      turn_tasks[older_place] = my_older;
    } else {
      stage[count - run - 1u - (EW_THREADS + ew_thread - older_place)] = my_older;
    }
  }
  if !oldest { stage_base = count - run; }
  let forks = (info & FUNCTION_FORKS) != 0u;
  let runs = ew_thread < run;
  var id = 0u;
  if runs && forks {
    if ew_thread < my_ids { id = ids[my_ids - 1u - ew_thread]; } else { id = word(id_stack() + my_stack - 1u - (ew_thread - my_ids)); }
  }
  if whole {
    if ew_thread < 2u { atomicStore(&wide_value[ew_thread], 0u); }
    if ew_thread == 0u {
      batch_size = run;
      wide_id = id;
      atomicStore(&wide_spawned, 0u);
      atomicStore(&wide_children, 0u);
    }
  }
  workgroupBarrier();
  if ew_thread == 0u {
    if oldest {
      q_head[queue] += run;
      q_count[queue] -= run;
    }
    if forks {
      let near = min(run, my_ids);
      atomicStore(&ids_count, my_ids - near);
      stack_count = my_stack - (run - near);
    }
    executed += run;
    batches += 1u;
    turns_run += select(1u, run, whole);
    last_function = function_of(turn_tasks[0]);
    blocked = 0u;
    cramped = false;
    tidied = false;
    refused = vec4(0u, 0u, 0u, 0u);
  }
  let group = turn_tasks[0].y;
  t_task = turn_tasks[ew_thread];
  t_info = info;
  t_wide = whole;
  t_alone = run == 1u;
  t_keeps = false;
  reset_call();
  if whole {
    let batch = workgroupUniformLoad(&batch_size);
    t_id = wide_id;
    for (var i = 0u; i < batch; i += 1u) {
      t_task = turn_tasks[i];
      if ew_thread == 0u { wide_task = t_task; }
      call_wide(function);
      workgroupBarrier();
    }
    if t_spawned > 0u { atomicAdd(&wide_spawned, t_spawned); }
    if t_children > 0u { atomicAdd(&wide_children, t_children); }
    storageBarrier();
    workgroupBarrier();
    t_spawned = atomicLoad(&wide_spawned);
    t_children = atomicLoad(&wide_children);
    t_value = vec2(atomicLoad(&wide_value[0]), atomicLoad(&wide_value[1]));
    t_task = turn_tasks[ew_thread];
  }
  t_id = select(id, wide_id, whole);
  if runs {
    let chains = (how & TURN_CHAINS) != 0u || (t_alone && (info & FUNCTION_LATER) != 0u);
    if !whole { my_delta = run_lane(chains); } else { my_delta = end_task(); }
    my_group = t_task.y;
    if my_group == group {
      // The first one counts for all tasks of its group.
      atomicAdd(&batch_delta, my_delta);
      my_delta = 0;
    }
  }
  storageBarrier();
  workgroupBarrier();
  if ew_thread == 0u {
    my_group = group;
    my_delta += atomicExchange(&batch_delta, 0);
  }
}
