// Block mode: the eight warps of a block meet at a barrier and run block-shaped tasks together.
//
// The block's first warp decides. It raises `block_call`; the others come when their batch is done.
// Between two barriers either only the first warp works (finish one task, prepare the next) or all do.
// Blocks leave the kernel from block mode too, so that no warp ever waits for one that has left.
// Block 0 has no block mode: its first warp is the ingress warp.
#pragma once
#include "everwarp/warp/batch.cuh"

namespace ew {

constexpr u32 GO_ON = 0;     // back to warp mode
constexpr u32 GO_RUN = 1;    // run block_task
constexpr u32 GO_LEAVE = 2;  // leave the kernel

EW_FN void block_barrier() { asm volatile("barrier.sync 1, 256;" ::: "memory"); }

EW_FN void block_lock(Worker& w) {
  if (w.lane == 0) while (atomicCAS_block(&w.s.block_lock, 0, 1) != 0) {}
  __syncwarp();
  __threadfence_block();
}
EW_FN void block_unlock(Worker& w) {
  __threadfence_block();
  __syncwarp();
  if (w.lane == 0) atomicExch_block(&w.s.block_lock, 0);
  __syncwarp();
}

// The warp: moves block-shaped tasks to where a block finds them.
EW_CALL void route_strays() {
  Worker w = Worker::here();
  LocalQueue& q = w.local();
  LocalQueue& target = w.block_local();
  block_lock(w);
  bool all = true;
  while (true) {
    // Any block-shaped task: its priority and function select the next take.
    const u32 head = q.head, n = q.tail - head;
    u32 found = 0, task = 0;
    for (u32 base = 0; base < n && found == 0; base += WARP) {
      u32 i = base + w.lane;
      task = q.tasks[(head + i) % LOCAL_TASKS].head;
      found = __ballot_sync(ALL, i < n && is_block(fn_of(task)));
    }
    if (found == 0) break;
    task = __shfl_sync(ALL, task, __ffs(found) - 1);
    u32 got;
    if (blockIdx.x == 0) {
      u32 id = NONE;
      if (w.lane == 0) id = chunk_alloc_here(w);
      id = __shfl_sync(ALL, id, 0);
      if (id == NONE) { all = false; break; }
      DevTask t = take_here(w, q, false, priority_of(task), fn_of(task), WARP, got);
      if (w.lane < got) store_task(&w.e.chunks[id * CHUNK_TASKS + w.lane], t, relaxed, gpu);
      __syncwarp();
      give_here(w, true, priority_of(task), chunk_ref(id, got));
    } else {
      u32 room = local_room(target);
      if (room == 0) {
        if (!spill_here(w, target, Class::of_blocks(w.e))) { all = false; break; }
        continue;
      }
      DevTask t = take_here(w, q, false, priority_of(task), fn_of(task), min(room, WARP), got);
      push_all(w, target, t, got);
    }
    __syncwarp();
  }
  if (all && w.lane == 0) q.strays = 0;
  block_unlock(w);
}

// The first warp: hands block-shaped tasks to blocks that have none.
EW_FN void share_blocks(Worker& w) {
  LocalQueue& q = w.block_local();
  u32 n = local_count(q), id = NONE, got;
  if (n < 2) return;
  id = chunk_alloc();
  if (id == NONE) return;
  u32 priority = worst_priority(q);
  DevTask task = take(w, q, w.fifo(), priority, ANY_FN, min(n / 2, WARP), got);
  if (w.lane < got) store_task(&w.e.chunks[id * CHUNK_TASKS + w.lane], task, relaxed, gpu);
  __syncwarp();
  if (got == 0) chunk_free(id);
  else give(true, priority, chunk_ref(id, got));
}

// The first warp: brings block-shaped tasks into the block's queue; false when there are none.
EW_FN bool refill_block(Worker& w) {
  Class c = Class::of_blocks(w.e);
  u32 ref = NONE;
  if (w.lane == 0 && w.block_idle()) {
    u64 chunk = load(&w.inbox().block_chunk, acquire, gpu);
    if (chunk != 0) {
      store(&w.inbox().block_chunk, 0, relaxed, gpu);
      ref = (u32)(chunk - 1);
    }
  }
  ref = __shfl_sync(ALL, ref, 0);
  if (ref != NONE) w.set(FLAG_BLOCK_IDLE, false);
  if (ref != NONE) {
    unload_call(true, ref);
    return true;
  }
#pragma unroll 1
  for (u32 priority = 0; priority < PRIORITIES; priority++) {
    if (!__any_sync(ALL, load(&c.count[priority], relaxed, gpu) != 0)) continue;
    if (refill_at(true, priority)) return true;
  }
  return false;
}

// The first warp: finishes the tasks that ran, one a lane.
EW_FN void finish_block(Worker& w) {
  Shared& s = w.s;
  const u32 i = w.lane % BLOCK_BATCH;
  const bool mine = w.lane < s.block_count;
  const DevTask task = s.block_task[i];
  const u32 limit = meta(fn_of(s.block_task[0].head)).max_spawn();
  const u32 spawned = s.block_delta[i] + s.block_children[i];
  if (mine && spawned > limit) raise_fault(w.e, FAULT_SPAWN_LIMIT, fn_of(task.head), spawned);
  bool forked = s.block_then[i].head != NONE;
  groups_free(s.block_fork[i], mine && s.block_fork[i] != NONE && !forked);
  Outcome o{mine, task, s.block_delta[i], forked ? s.block_fork[i] : NONE, s.block_children[i], s.block_then[i], s.block_value[i], false};
  // Continuations go to the warp's queue; block-shaped ones are then routed to the block's.
  finish(o);
  if (w.local().strays) route_strays();
  if (w.lane == 0) {
    w.stats().executed += s.block_count;
    w.stats().batches++;
  }
  __syncwarp();
}

// The first warp: decides what happens between the next two barriers.
EW_FN u32 prepare_block(Worker& w, u32 ran) {
  Shared& s = w.s;
  LocalQueue& q = w.block_local();
  bool empty = local_count(q) == 0;
  if (ran % 4 == 0 || empty) {
    if (s.leaving || __any_sync(ALL, ends(s, load(&w.e.grid->stop, relaxed, gpu)))) return GO_LEAVE;
    if (empty && !refill_block(w)) return GO_ON;
    if (__any_sync(ALL, load(&w.e.grid->idle_blocks, relaxed, gpu) != 0)) share_blocks(w);
  }
  // After a while, warps with work of their own get a turn.
  u32 others = w.lane < BLOCK_WARPS ? local_count(s.queues[w.lane]) : 0;
  if (ran >= 64 && __any_sync(ALL, others != 0)) return GO_ON;
  u32 priority = best_priority(q), fn = NONE;
  while (priority < PRIORITIES) {
    fn = peek(w, q, !w.fifo(), priority);
    if (fn != NONE) break;
    __syncwarp();
    if (w.lane == 0) q.priorities &= ~(1u << priority);
    __syncwarp();
    priority = best_priority(q);
  }
  if (fn == NONE) return GO_ON;
  const FnMeta m = meta(fn);
  const u32 n = local_count(q);
  // Several at once, but not all that there is while it is little: others may want some.
  u32 want = n <= BLOCK_BATCH ? (n + 1) / 2 : BLOCK_BATCH;
  if (m.max_spawn() != 0) {
    while (local_room(q) < want * m.max_spawn() && local_count(q) > CHUNK_TASKS) {
      if (!spill(true)) break;
    }
    want = min(want, local_room(q) / m.max_spawn());
    want = min(want, __reduce_min_sync(ALL, (LOCAL_TASKS - 4 - min(others, LOCAL_TASKS - 4)) / m.max_spawn()));
  }
  if (m.forks() && want > 0 && !groups_at_hand(w, want)) want = min(want, s.group_count[w.warp]);
  if (want == 0) {
    if (w.lane == 0) w.stats().starved++;
    set_state(w, WORKER_STARVED, fn);
    return GO_ON;
  }
  u32 got;
  DevTask task = take(w, q, !w.fifo(), priority, fn, want, got);
  if (w.fifo() != m.fifo()) w.set(FLAG_FIFO, m.fifo());
  if (got == 0) return GO_ON;
  if (w.lane < got) {
    u32 fork = NONE;
    if (m.forks()) fork = group_alloc(s, w.warp);
    s.block_task[w.lane] = task;
    s.block_then[w.lane] = DevTask{NONE, 0, 0};
    s.block_fork[w.lane] = fork;
    s.block_delta[w.lane] = 0;
    s.block_children[w.lane] = 0;
    s.block_value[w.lane] = 0;
  }
  if (w.lane == 0) s.block_count = got;
  show(w, fn);
  return GO_RUN;
}

// All warps of a block but block 0. True when the block leaves the kernel.
EW_FN bool block_mode() {
  Worker w = Worker::here();
  Shared& s = w.s;
  block_barrier();
  for (u32 ran = 0;; ran++) {
    if (w.warp == 0) {
      if (ran > 0) finish_block(w);
      u32 go = prepare_block(w, ran);
      if (w.lane == 0) {
        s.block_go = go;
        if (go != GO_RUN) s.block_call = 0;
      }
    }
    block_barrier();
    u32 go = s.block_go;
    if (go != GO_RUN) return go == GO_LEAVE;
    const u32 count = s.block_count;
    for (u32 i = 0; i < count; i++) {
      const DevTask task = s.block_task[i];
      Block t(Lane{task, 0, 0, 0, NONE, 0, 0, 0, 0, 0, DevTask{0, 0, 0}}, threadIdx.x, i);
      if (w.warp == 0) {
        trace_begin(w, fn_of(task.head));
        measure_begin(w, fn_of(task.head), 1);
      }
      dispatch_block(fn_of(task.head), t);
      __syncwarp();
      if (w.warp == 0) {
        measure_end(w, fn_of(task.head));
        trace_ran(w, 1, NONE);
      }
      u32 delta = __reduce_add_sync(ALL, t.delta);
      u32 children = __reduce_add_sync(ALL, t.children);
      if (w.lane == 0) {
        if (delta) atomicAdd_block(&s.block_delta[i], delta);
        if (children) atomicAdd_block(&s.block_children[i], children);
      }
      if (t.value) atomicAdd_block(&s.block_value[i], t.value);
    }
    block_barrier();
  }
}

}  // namespace ew
