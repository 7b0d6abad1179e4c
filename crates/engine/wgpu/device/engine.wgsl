// One dispatch of a workgroup: it shares tasks, fires groups that were deferred, then runs turns (turn.wgsl). It leaves when
// it has no tasks, when its turns are spent, or when others need some.
//
// All of that is one loop of steps, whose end is the same for each: groups are counted and fired. The first invocation plans
// each step. Drivers copy a function wherever it is called, so long ones are called from one place.

// What follows is the first invocation's own.
var<private> phase: u32;
var<private> leaving: bool;
var<private> cursor: u32;
var<private> limit: u32;
var<private> executed: u32;
// Turns so far; a task of the whole workgroup counts as one.
var<private> turns_run: u32;
var<private> batches: u32;
var<private> received: u32;
var<private> last_function: u32;
// Queues that hold only tasks for which there is no room, and the last one refused: its function, tasks, groups.
var<private> blocked: u32;
var<private> refused: vec4<u32>;
// Queues that hold only tasks of the next dispatch.
var<private> early: u32;
// No task of a queue can run: spare chunks are freed first; after that, the stage makes room for another queue.
var<private> cramped: bool;
var<private> tidied: bool;
var<private> polls: u32;
var<private> others: u32;
var<private> ending: u32;
var<private> stop: u32;
// The turns after which a stressed workgroup leaves.
var<private> stress_turns: u32;

var<workgroup> fired: atomic<u32>;
// Tasks that invocations ran after the first one of a turn.
var<workgroup> chained: atomic<u32>;

// The steps, in their order.
const STEP_DEFERRED = 1u;  // fires groups that were deferred in the dispatch before
const STEP_SHARE = 2u;
const STEP_TAKE = 3u;
const STEP_ACCEPT = 4u;
const STEP_HARVEST = 5u;
const STEP_TURN = 6u;
const STEP_MOVE = 7u;      // tasks move between the stage and the queues
const STEP_LEAVE = 8u;
const STEP_MASK = 15u;
// How a turn is to run: after a vote for its function; from the oldest tasks of a queue; each by the whole workgroup; with
// invocations that may go on with what they spawn.
const TURN_VOTES = 16u;
const TURN_OLDEST = 32u;
const TURN_WHOLE = 64u;
const TURN_CHAINS = 128u;

// Workgroup memory is what the workgroup before has left there.
fn load_state() {
  if ew_thread < 8u {
    atomicStore(&q_add[ew_thread], 0u);
    atomicStore(&q_put[ew_thread], 0u);
  }
  if ew_thread < WGPU_MASKS { atomicStore(&masks[ew_thread], 0u); }
  if ew_thread < 2u { atomicStore(&stage_added[ew_thread], 0u); }
  if ew_thread < WGPU_QUEUES {
    let at = queue_word(parity_before(), ew_workgroup, ew_thread);
    q_head[ew_thread] = word(at + DevWgpuQueue_head);
    q_count[ew_thread] = word(at + DevWgpuQueue_count);
    let own = round.at_workgroups + ew_workgroup * words_of_DevWgpuWorkgroup;
    q_top[ew_thread] = word(own + DevWgpuWorkgroup_top + ew_thread);
    q_freed[ew_thread] = word(own + DevWgpuWorkgroup_freed + ew_thread);
  }
  if ew_thread == 0u {
    stage_queue = 0u;
    rival_one = 0u;
    rival_two = 0u;
    atomicStore(&stage_mixed, 0u);
    q_held = 0u;
    atomicStore(&deferred_count, 0u);
    atomicStore(&ids_count, 0u);
    atomicStore(&harvested, 0u);
    atomicStore(&fired, 0u);
    atomicStore(&chained, 0u);
    atomicStore(&batch_delta, 0);
    atomicStore(&early_waits, 0u);
    let own = round.at_workgroups + ew_workgroup * words_of_DevWgpuWorkgroup;
    chunk_count = word(own + DevWgpuWorkgroup_chunks);
    stack_count = word(own + DevWgpuWorkgroup_groups);
    stress_turns = turns_of_stress();
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
}

// One invocation: the workgroup's submission of a quiet dispatch, which has one workgroup for each. There is room for one task
// in any case.
fn take_quietly() {
  // From the host's numbers: the first workgroup changes the word that the others would read.
  let head = round.inbox_tail - round.quiet;
  first_submission = head;
  ranges = vec4(0u, 0u, ew_workgroup, ew_workgroup + 1u);
  if ew_workgroup == 0u { set_word(DevWgpuHeader_inbox_head + parity(), head + round.quiet); }
}

fn save_state() {
  // The ids at hand go to the stack; those of a workgroup that runs nothing are for the others.
  workgroupBarrier();
  let have = ids_at_hand();
  let keeps = select(0u, round.stack, ew_workgroup < round.size);
  for (var i = ew_thread; i < have; i += EW_THREADS) {
    if stack_count + i < keeps { set_word(id_stack() + stack_count + i, ids[i]); } else { free_id_to_all(ids[i]); }
  }
  if keeps == 0u {
    for (var i = ew_thread; i < stack_count; i += EW_THREADS) { free_id_to_all(word(id_stack() + i)); }
  }
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
    set_word(own + DevWgpuWorkgroup_groups, min(stack_count + have, keeps));
    let deferred = atomicLoad(&deferred_count);
    set_word(own + DevWgpuWorkgroup_deferred, deferred);
    var waiting = 0u;
    for (var queue = 0u; queue < round.queues; queue += 1u) { waiting += q_count[queue]; }
    set_word(round.at_totals + parity() * round.workgroups + ew_workgroup, waiting);
    set_word(round.at_rooms + parity() * round.workgroups + ew_workgroup, room(deferred));
    if waiting + deferred > 0u { atomicAdd(&state[DevWgpuHeader_waiting + (round.number & 3u)], waiting + deferred); }
    executed += atomicLoad(&chained);
    if executed > 0u {
      atomicAdd(&state[DevWgpuHeader_executed], executed);
      set_word(DevWgpuHeader_function, last_function);
    }
    let starved = refused.y + refused.z;
    if starved > 0u {
      atomicAdd(&state[DevWgpuHeader_starved + (round.number & 3u)], 1u);
      set_word(DevWgpuHeader_starved_function, refused.x);
      atomicAdd(&state[DevWgpuHeader_task_refusals], refused.y);
      atomicAdd(&state[DevWgpuHeader_group_refusals], refused.z);
    }
    let worker = round.at_workers + ew_workgroup * words_of_DevWorker;
    bump(worker + DevWorker_executed, executed);
    bump(worker + DevWorker_batches, batches);
    bump(worker + DevWorker_received, received);
    bump(worker + DevWorker_starved, starved);
    bump(worker + DevWorker_fired, atomicLoad(&fired));
    // A workgroup that left before it tried a task has learned nothing new about those that wait.
    if starved > 0u {
      set_word(worker + DevWorker_state, WORKER_STARVED);
    } else if executed > 0u || waiting == 0u {
      set_word(worker + DevWorker_state, WORKER_IDLE);
    }
    if executed > 0u { set_word(worker + DevWorker_function, last_function); }
    if starved > 0u { set_word(worker + DevWorker_function, refused.x); }
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
    if ew_thread == 0u { choice = vec4(stack_count, 0u, 0u, 0u); }
    let have = workgroupUniformLoad(&choice).x;
    // Each word may hold 32 ids.
    let lanes = min(EW_THREADS, (round.stack - min(have, round.stack)) / 32u);
    if lanes == 0u { break; }
    if ew_thread < lanes && at + ew_thread < end {
      let bits = round.at_bits + parity_before() * round.group_words + at + ew_thread;
      if word(bits) != 0u {
        var left = atomicExchange(&state[bits], 0u);
        var to = id_stack() + have + atomicAdd(&harvested, countOneBits(left));
        while left != 0u {
          set_word(to, round.first_group + (at + ew_thread) * 32u + firstTrailingBit(left));
          left &= left - 1u;
          to += 1u;
        }
      }
    }
    workgroupBarrier();
    if ew_thread == 0u {
      stack_count += atomicLoad(&harvested);
      atomicStore(&harvested, 0u);
    }
    at += lanes;
  }
  storageBarrier();
  workgroupBarrier();
}
var<workgroup> harvested: atomic<u32>;

fn deferred_list(phase: u32) -> u32 {
  return round.at_deferred + (phase * round.workgroups + ew_workgroup) * round.deferred;
}

// One invocation: a step that moves the `n` oldest of `count` staged tasks, or `more` tasks to the stage.
fn plan_move(count: u32, n: u32, more: u32) -> vec4<u32> {
  if n == count {
    atomicStore(&stage_mixed, 0u);
  }
  return vec4(STEP_MOVE | (stage_queue << 8u), n, more, count - n);
}

// One invocation: the next step, when `count` tasks are on the stage.
fn next_step(count: u32) -> vec4<u32> {
  if leaving { return plan_leave(count); }
  if phase == STEP_TURN { return plan_turn(count); }
  if phase == 0u && round.quiet > 0u {
    phase = STEP_TAKE;
    take_quietly();
  }
  if phase == 0u {
    phase = STEP_DEFERRED;
    return plan_move(0u, 0u, 0u);
  }
  if count + EW_THREADS > WGPU_STAGE { return plan_move(count, count, 0u); }
  if phase == STEP_DEFERRED {
    if cursor == 0u {
      received = word(round.at_workgroups + ew_workgroup * words_of_DevWgpuWorkgroup + DevWgpuWorkgroup_deferred);
      limit = min(received, room(count));
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
  if ranges.x < ranges.y {
    ranges.x += EW_THREADS;
    return vec4(STEP_TAKE, ranges.x - EW_THREADS, ranges.y, 0u);
  }
  if ranges.z < ranges.w {
    ranges.z += EW_THREADS;
    return vec4(STEP_ACCEPT, ranges.z - EW_THREADS, ranges.w, 0u);
  }
  phase = STEP_TURN;
  if stack_count * 2u < round.stack { return vec4(STEP_HARVEST, 0u, 0u, 0u); }
  return plan_turn(count);
}

fn plan_leave(count: u32) -> vec4<u32> {
  if count > 0u { return plan_move(count, count, 0u); }
  return vec4(STEP_LEAVE, 0u, 0u, 0u);
}

@compute @workgroup_size(WGPU_THREADS)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  ew_thread = thread;
  ew_workgroup = workgroup.x;
  load_state();
  loop {
    // What the last step has put on the stage is there.
    workgroupBarrier();
    let count = min(stage_base + atomicLoad(&stage_added[side]), WGPU_STAGE);
    side = 1u - side;
    stage_base = count;
    noted = vec4(0u, 0u, 0u, 0u);
    my_delta = 0;
    my_late = false;
    my_free = 0u;
    look(count);
    if ew_thread == 0u { plan = next_step(count); }
    let step = workgroupUniformLoad(&plan);
    clear_side();
    let kind = step.x & STEP_MASK;
    if kind == STEP_LEAVE { break; }
    let at = step.y + ew_thread;
    var one = vec4(0u, 0u, 0u, 0u);
    var puts = false;
    switch kind {
      case STEP_TURN: { turn(step); }
      case STEP_MOVE: {
        move_tasks(step.y, step.z, step.w, step.x >> 8u);
        stage_base = step.w + step.z;
      }
      case STEP_DEFERRED: {
        if at < step.z {
          my_group = word(deferred_list(parity_before()) + at);
          my_late = true;
        }
      }
      case STEP_SHARE: {
        // Deferred groups for which there is no room yet.
        for (var i = at; i < step.z; i += EW_THREADS) { defer_group(word(deferred_list(parity_before()) + i)); }
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
          one = vec4(round.lone_head, round.lone_group, round.lone_lo, round.lone_hi);
          if round.lone == 0u { one = inbox[(first_submission + at) & round.inbox_mask]; }
          one = accept(one);
          puts = true;
        }
      }
      case STEP_HARVEST: { harvest(workgroup.x); }
      default: {}
    }
    if puts { put(one); }
    settle();
    raise_noted();
  }
  save_state();
}
