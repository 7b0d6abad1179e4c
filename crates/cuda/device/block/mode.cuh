// Block mode: the eight warps of a block meet at a barrier and run block-shaped tasks together.
//
// The block's first warp decides. It raises `block_call`; the others come when their batch is done.
// Between two barriers either only the first warp works (finish one task, prepare the next) or all do.
// Blocks leave the kernel from block mode too, so that nobody ever waits for a warp that has left.
// Block 0 has no block mode: its first warp is the ingress warp.
#pragma once
#include "everwarp/grid/idle.cuh"

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

EW_FN void route_strays(const DevEngine& e, Shared& s) {
  Worker w = Worker::here(e, s);
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
      found = __ballot_sync(ALL, i < n && meta(fn_of(task)).shape == SHAPE_BLOCK);
    }
    if (found == 0) break;
    task = __shfl_sync(ALL, task, __ffs(found) - 1);
    u32 got;
    if (blockIdx.x == 0) {
      u32 id = NONE;
      if (w.lane == 0) id = chunk_alloc(w);
      id = __shfl_sync(ALL, id, 0);
      if (id == NONE) { all = false; break; }
      DevTask t = take(w, q, false, priority_of(task), fn_of(task), WARP, got);
      if (w.lane < got) store_task(&w.e.chunks[id * CHUNK_TASKS + w.lane], t, relaxed, gpu);
      __syncwarp();
      if (w.lane == 0) give_block(w, priority_of(task), chunk_ref(id, got));
    } else {
      u32 room = LOCAL_TASKS - local_count(target);
      if (room == 0) {
        if (!spill(w, target, Class::of_blocks(w.e))) { all = false; break; }
        continue;
      }
      DevTask t = take(w, q, false, priority_of(task), fn_of(task), min(room, WARP), got);
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
  u32 n = local_count(q);
  if (n < 2) return;
  u32 waiting = (u32)load(&w.e.grid->idle_blocks, relaxed, gpu);
  if (__shfl_sync(ALL, waiting, 0) == 0) return;
  u32 id = NONE, got;
  if (w.lane == 0) id = chunk_alloc(w);
  id = __shfl_sync(ALL, id, 0);
  if (id == NONE) return;
  u32 priority = worst_priority(q);
  DevTask task = take(w, q, w.fifo(), priority, ANY_FN, min(n / 2, WARP), got);
  if (w.lane < got) store_task(&w.e.chunks[id * CHUNK_TASKS + w.lane], task, relaxed, gpu);
  __syncwarp();
  if (w.lane == 0) {
    if (got == 0) chunk_free(w, id);
    else give_block(w, priority, chunk_ref(id, got));
  }
  __syncwarp();
}

// The first warp: brings block-shaped tasks into the block's queue; false when there are none.
EW_FN bool refill_block(Worker& w, const Signals& signals) {
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
  for (u32 priority = 0; ref == NONE && signals.block_chunks != 0 && priority < PRIORITIES; priority++) {
    if (w.lane == 0) ref = take_newest(w, c, priority);
    ref = __shfl_sync(ALL, ref, 0);
    if (ref == NONE) ref = find_public(w, c, priority);
  }
  if (ref == NONE) return false;
  unload(w, w.block_local(), ref);
  return true;
}

// The first warp: finishes the task that ran.
EW_FN void finish_block(Worker& w) {
  Shared& s = w.s;
  const DevTask task = s.block_task;
  const FnMeta m = meta(fn_of(task.head));
  bool forked = s.block_then.head != NONE;
  u32 spawned = s.block_delta + s.block_children;
  if (spawned > m.max_spawn && w.lane == 0) raise_fault(w.e, FAULT_SPAWN_LIMIT, fn_of(task.head), spawned);
  groups_free(w, s.block_fork, w.lane == 0 && s.block_fork != NONE && !forked);
  Outcome o{w.lane == 0, task, s.block_delta, forked ? s.block_fork : NONE, s.block_children, s.block_then, s.block_value};
  // Continuations go to the block's queue when block-shaped; finish() puts them into the warp's.
  finish(w, w.local(), o);
  if (w.local().strays) route_strays(w.e, w.s);
  if (w.lane == 0) {
    w.stats().executed++;
    w.stats().batches++;
  }
  __syncwarp();
}

// The first warp: decides what happens between the next two barriers.
EW_FN u32 prepare_block(Worker& w, u32 ran) {
  Shared& s = w.s;
  LocalQueue& q = w.block_local();
  bool empty = local_count(q) == 0;
  if (ran % 8 == 0 || empty) {
    Signals signals = Signals::read(w.e);
    if (signals.ends(w.e)) return GO_LEAVE;
    if (empty && !refill_block(w, signals)) return GO_ON;
    share_blocks(w);
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
  while (LOCAL_TASKS - local_count(q) < m.max_spawn && local_count(q) > 1) {
    if (!spill(w, q, Class::of_blocks(w.e))) break;
  }
  bool fits = LOCAL_TASKS - local_count(q) >= m.max_spawn && LOCAL_TASKS - others > m.max_spawn;
  if (!__all_sync(ALL, fits || w.lane >= BLOCK_WARPS) || (m.forks && !groups_at_hand(w, 1))) {
    if (w.lane == 0) w.stats().starved++;
    set_state(w, WORKER_STARVED, fn);
    return GO_ON;
  }
  u32 got;
  DevTask task = take(w, q, !w.fifo(), priority, fn, 1, got);
  w.set(FLAG_FIFO, m.fifo);
  if (got == 0) return GO_ON;
  u32 fork = NONE;
  if (m.forks && w.lane == 0) fork = group_alloc(s, w.warp);
  if (w.lane == 0) {
    s.block_task = task;
    s.block_then = DevTask{NONE, 0, 0};
    s.block_fork = fork;
    s.block_delta = 0;
    s.block_children = 0;
    s.block_value = 0;
  }
  set_state(w, WORKER_RUNNING, fn);
  return GO_RUN;
}

// All warps of a block but block 0. True when the block leaves the kernel.
EW_FN bool block_mode(const DevEngine& e, Shared& s) {
  Worker w = Worker::here(e, s);
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
    const DevTask task = s.block_task;
    Block t(Lane{w.e, s, task, w.warp, 0, NONE, 0, 0, 0, 0}, threadIdx.x);
    dispatch_block(fn_of(task.head), t);
    __syncwarp();
    u32 delta = __reduce_add_sync(ALL, t.delta);
    u32 children = __reduce_add_sync(ALL, t.children);
    if (w.lane == 0) {
      if (delta) atomicAdd_block(&s.block_delta, delta);
      if (children) atomicAdd_block(&s.block_children, children);
    }
    if (t.value) atomicAdd_block(&s.block_value, t.value);
    block_barrier();
  }
}

}  // namespace ew
