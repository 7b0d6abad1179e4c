// The workgroup's own queues. Positions run freely and wrap; top and freed are multiples of WGPU_CHUNK.

var<workgroup> q_head: array<u32, WGPU_QUEUES>;
var<workgroup> q_count: array<u32, WGPU_QUEUES>;
var<workgroup> q_top: array<u32, WGPU_QUEUES>;
var<workgroup> q_freed: array<u32, WGPU_QUEUES>;
var<workgroup> q_add: array<atomic<u32>, WGPU_QUEUES>;
// Queues whose oldest tasks go to other workgroups in this dispatch: their chunks stay until the next one.
var<workgroup> q_held: u32;
var<workgroup> chunk_count: u32;
// Queue and place of each task on the stage.
var<workgroup> stage_place: array<u32, WGPU_STAGE>;

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
fn round_up(position: u32) -> u32 { return (position + (WGPU_CHUNK - 1u)) & ~(WGPU_CHUNK - 1u); }

// The workgroup: moves all tasks from the stage to the queues. There must be room.
fn push_stage() {
  let n = min(atomicLoad(&stage_count), WGPU_STAGE);
  for (var i = ew_thread; i < n; i += EW_THREADS) {
    let queue = queue_of(stage[i].x);
    stage_place[i] = (queue << 16u) | atomicAdd(&q_add[queue], 1u);
  }
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
  for (var i = ew_thread; i < n; i += EW_THREADS) {
    let queue = stage_place[i] >> 16u;
    let position = q_head[queue] + q_count[queue] + (stage_place[i] & 0xffffu);
    tasks[task_at(ew_workgroup, queue, position)] = stage[i];
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
    }
    if used > chunk_count { raise(FAULT_INTERNAL, 0u, vec2(3u, used)); }
    chunk_count -= min(used, chunk_count);
    atomicStore(&stage_count, 0u);
  }
  storageBarrier();
  workgroupBarrier();
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

// How many tasks there is room for, whatever queues they go to.
fn room() -> u32 {
  return select(0u, (chunk_count - WGPU_QUEUES) * WGPU_CHUNK, chunk_count > WGPU_QUEUES);
}
