// The workgroup's own queues, in storage, and the stage, in workgroup memory. What a turn leaves behind is put on the stage.
// If all of it belongs to one queue that is taken from its newest task, the next turn takes its tasks from there: the stage
// is the newest end of that queue. Otherwise, or when the stage is full, its tasks move to the queues.
// Positions run freely and wrap; top and freed are multiples of WGPU_CHUNK.

var<workgroup> stage: array<vec4<u32>, WGPU_STAGE>;
// Tasks that this step adds to the stage, and those that the step before has added.
var<workgroup> stage_added: array<atomic<u32>, 2>;
// The queue of the stage's tasks, and whether there are tasks of others.
var<workgroup> stage_queue: u32;
var<workgroup> stage_mixed: atomic<u32>;
// Tasks on the stage before this step adds any; and which of the counters this step uses.
var<private> stage_base: u32;
var<private> side: u32;

var<workgroup> q_head: array<u32, WGPU_QUEUES>;
var<workgroup> q_count: array<u32, WGPU_QUEUES>;
var<workgroup> q_top: array<u32, WGPU_QUEUES>;
var<workgroup> q_freed: array<u32, WGPU_QUEUES>;
// Tasks that move to each queue; and those that have their place.
var<workgroup> q_add: array<atomic<u32>, WGPU_QUEUES>;
var<workgroup> q_put: array<atomic<u32>, WGPU_QUEUES>;
// Queues whose oldest tasks go to other workgroups in this dispatch: their chunks stay until the next one.
var<workgroup> q_held: u32;
var<workgroup> chunk_count: u32;

fn function_info(head: u32) -> u32 { return params[WGPU_FUNCTIONS + (head & (FN_LIMIT - 1u))]; }
fn queue_of(head: u32) -> u32 {
  let order = select(0u, 1u, (function_info(head) & FUNCTION_BREADTH) != 0u);
  return ((head >> TASK_PRIORITY_SHIFT) & (PRIORITIES - 1u)) * 2u + order;
}
fn table_at(workgroup: u32, queue: u32, position: u32) -> u32 {
  let entries = round.table_mask + 1u;
  return round.at_tables + (workgroup * WGPU_QUEUES + queue) * entries + ((position / WGPU_CHUNK) & round.table_mask);
}
// Where the task of a position is.
fn task_at(workgroup: u32, queue: u32, position: u32) -> u32 {
  let chunk = word(table_at(workgroup, queue, position));
  return (workgroup * round.chunks + chunk) * WGPU_CHUNK + position % WGPU_CHUNK;
}
fn chunk_stack() -> u32 { return round.at_chunks + ew_workgroup * round.chunks; }
fn id_stack() -> u32 { return round.at_groups + ew_workgroup * round.stack; }
fn round_up(position: u32) -> u32 { return (position + (WGPU_CHUNK - 1u)) & ~(WGPU_CHUNK - 1u); }

fn put(task: vec4<u32>) {
  let at = stage_base + atomicAdd(&stage_added[side], 1u);
  if at >= WGPU_STAGE { raise(FAULT_INTERNAL, task.x & (FN_LIMIT - 1u), vec2(1u, at)); return; }
  stage[at] = task;
  if queue_of(task.x) != stage_queue { atomicStore(&stage_mixed, 1u); }
}

// The workgroup: moves the first `n` tasks of the stage to their queues. There must be room.
fn push(n: u32) {
  for (var i = ew_thread; i < n; i += EW_THREADS) { atomicAdd(&q_add[queue_of(stage[i].x)], 1u); }
  workgroupBarrier();
  var used = 0u;
  for (var queue = 0u; queue < round.queues; queue += 1u) {
    let add = atomicLoad(&q_add[queue]);
    if add == 0u { continue; }
    let more = round_up(q_head[queue] + q_count[queue] + add) - q_top[queue];
    let chunks = select(0u, more / WGPU_CHUNK, i32(more) > 0);
    for (var i = ew_thread; i < chunks; i += EW_THREADS) {
      let free = word(chunk_stack() + chunk_count - 1u - used - i);
      set_word(table_at(ew_workgroup, queue, q_top[queue] + i * WGPU_CHUNK), free);
    }
    used += chunks;
  }
  storageBarrier();
  workgroupBarrier();
  // One part after the other, so that the order of the stage is kept: small pools are only enough for depth first.
  for (var i = 0u; i < n; i += EW_THREADS) {
    let at = i + ew_thread;
    if at < n {
      let task = stage[at];
      let queue = queue_of(task.x);
      let position = q_head[queue] + q_count[queue] + atomicAdd(&q_put[queue], 1u);
      tasks[task_at(ew_workgroup, queue, position)] = task;
    }
    workgroupBarrier();
  }
  workgroupBarrier();
  if ew_thread == 0u {
    for (var queue = 0u; queue < round.queues; queue += 1u) {
      let add = atomicLoad(&q_add[queue]);
      if add == 0u { continue; }
      q_count[queue] += add;
      let top = round_up(q_head[queue] + q_count[queue]);
      if i32(top - q_top[queue]) > 0 { q_top[queue] = top; }
      atomicStore(&q_add[queue], 0u);
      atomicStore(&q_put[queue], 0u);
    }
    if used > chunk_count { raise(FAULT_INTERNAL, 0u, vec2(3u, used)); }
    chunk_count -= min(used, chunk_count);
  }
  workgroupBarrier();
}

// The workgroup: moves the `n` oldest tasks of the stage to the queues, and the `more` newest tasks of a queue to the old
// end of the stage; `rest` tasks stay on it. One of `n` and `more` is 0. Frees what is free.
fn move_tasks(n: u32, more: u32, rest: u32, queue: u32) {
  if n > 0u {
    push(n);
    for (var i = 0u; i < rest; i += EW_THREADS) {
      let at = i + ew_thread;
      var task = vec4(0u, 0u, 0u, 0u);
      if at < rest { task = stage[n + at]; }
      workgroupBarrier();
      if at < rest { stage[at] = task; }
      workgroupBarrier();
    }
  }
  if more > 0u {
    var task = vec4(0u, 0u, 0u, 0u);
    if ew_thread < rest { task = stage[ew_thread]; }
    workgroupBarrier();
    if ew_thread < rest { stage[more + ew_thread] = task; }
    let first = q_head[queue] + q_count[queue] - more;
    for (var i = ew_thread; i < more; i += EW_THREADS) { stage[i] = tasks[task_at(ew_workgroup, queue, first + i)]; }
    workgroupBarrier();
    if ew_thread == 0u { q_count[queue] -= more; }
  }
  // Surplus ids go to the stack.
  let have = ids_at_hand();
  let surplus = min(select(0u, have - WGPU_THREADS, have > 2u * WGPU_THREADS), round.stack - min(stack_count, round.stack));
  for (var i = ew_thread; i < surplus; i += EW_THREADS) { set_word(id_stack() + stack_count + i, ids[have - 1u - i]); }
  workgroupBarrier();
  if ew_thread == 0u {
    stack_count += surplus;
    atomicStore(&ids_count, have - surplus);
  }
  free_spare();
}

// The chunks of a queue that hold no task: at its old end, then beyond the one after its new end.
fn spare_chunks(queue: u32) -> vec2<u32> {
  let head = q_head[queue] & ~(WGPU_CHUNK - 1u);
  let old = select(0u, (head - q_freed[queue]) / WGPU_CHUNK, (q_held & (1u << queue)) == 0u);
  let more = q_top[queue] - (round_up(q_head[queue] + q_count[queue]) + WGPU_CHUNK);
  return vec2(old, select(0u, more / WGPU_CHUNK, i32(more) > 0));
}
// The workgroup: frees the spare chunks of all queues.
fn free_spare() {
  var base = chunk_count;
  for (var queue = 0u; queue < round.queues; queue += 1u) {
    let spare = spare_chunks(queue);
    for (var i = ew_thread; i < spare.x + spare.y; i += EW_THREADS) {
      let position = select(q_top[queue] - (i - spare.x + 1u) * WGPU_CHUNK, q_freed[queue] + i * WGPU_CHUNK, i < spare.x);
      set_word(chunk_stack() + base + i, word(table_at(ew_workgroup, queue, position)));
    }
    base += spare.x + spare.y;
  }
  storageBarrier();
  workgroupBarrier();
  if ew_thread < round.queues {
    let spare = spare_chunks(ew_thread);
    q_freed[ew_thread] += spare.x * WGPU_CHUNK;
    q_top[ew_thread] -= spare.y * WGPU_CHUNK;
  }
  if ew_thread == 0u { chunk_count = base; }
  workgroupBarrier();
}

// How many more tasks there is room for in the queues, when those on the stage have moved there.
fn room(staged: u32) -> u32 {
  let free = select(0u, (chunk_count - WGPU_QUEUES) * WGPU_CHUNK, chunk_count > WGPU_QUEUES);
  return select(0u, free - staged, free > staged);
}
