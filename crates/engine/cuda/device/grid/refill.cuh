// Where a warp with nothing to do finds work, and how it waits.
#pragma once
#include "everwarp/block/mode.cuh"

namespace ew {

// The warp, its queue empty: takes over a saved queue of an earlier, larger epoch.
EW_CALL bool adopt() {
  Worker w = Worker::here();
  DevGrid* g = w.e.grid;
  u32 queue = NONE;
  if (w.lane == 0 && load(&g->orphan_next, relaxed, gpu) < load(&g->orphan_end, relaxed, gpu)) {
    queue = fetch_add(&g->orphan_next, 1, relaxed, gpu);
    if (queue >= load(&g->orphan_end, relaxed, gpu)) queue = NONE;
  }
  queue = __shfl_sync(ALL, queue, 0);
  if (queue == NONE) return false;
  u32 n = 0;
  if (w.lane == 0) n = exchange(&w.e.saved_count[queue], 0, acq_rel, gpu);
  n = __shfl_sync(ALL, n, 0);
  for (u32 base = 0; base < n; base += WARP) {
    DevTask task{};
    if (base + w.lane < n) task = load_task(&w.e.saved[queue * LOCAL_TASKS + base + w.lane], relaxed, gpu);
    push_all(w, w.local(), task, min(n - base, WARP));
  }
  if (w.lane == 0) w.local().strays = 1;
  u32 member = queue % BLOCK_QUEUES;
  if (member < BLOCK_WARPS) {
    DevInbox& inbox = w.e.inboxes[queue / BLOCK_QUEUES * BLOCK_WARPS + member];
    block_lock(w);
    if (w.lane == 0) {
      u64 chunk = exchange(&inbox.chunk, 0, acq_rel, gpu);
      u64 block_chunk = exchange(&inbox.block_chunk, 0, acq_rel, gpu);
      // The chunk's priority is that of its tasks.
      if ((u32)chunk == INBOX_TASK) {
        push(w.local(), load_task(&inbox.task, relaxed, gpu));
      } else if (chunk != 0) {
        u32 ref = (u32)(chunk - 1);
        publish(w, Class::warps(w.e), priority_of(w.e.chunks[chunk_id(ref) * CHUNK_TASKS].head), ref);
      }
      if (block_chunk != 0) {
        u32 ref = (u32)(block_chunk - 1);
        publish(w, Class::of_blocks(w.e), priority_of(w.e.chunks[chunk_id(ref) * CHUNK_TASKS].head), ref);
      }
    }
    block_unlock(w);
  }
  __syncwarp();
  return true;
}

// The warp: queues the single task in its inbox, which stays empty until its idle bit is set again.
EW_CALL void receive() {
  Worker w = Worker::here();
  push_all(w, w.local(), load_task(&w.inbox().task, relaxed, gpu), 1);
  if (w.lane == 0) w.stats().received++;
  __syncwarp();
}

// The warp: takes the message that lane 0 has just seen in its inbox.
EW_FN void take_mail(Worker& w, u64 chunk) {
  if (w.lane == 0) {
    // Pairs with the release of the warp that filled it.
    fence(acq_rel, gpu);
    store(&w.inbox().chunk, 0, relaxed, gpu);
  }
  w.set(FLAG_IDLE, false);
  if ((u32)chunk == INBOX_TASK) receive();
  else unload_call(false, (u32)(chunk - 1));
}

// The warp: looks into its inbox.
EW_FN void check_inbox(Worker& w) {
  if (local_room(w.local()) < CHUNK_TASKS) return;
  u64 chunk = 0;
  if (w.lane == 0) chunk = load(&w.inbox().chunk, relaxed, gpu);
  chunk = __shfl_sync(ALL, chunk, 0);
  if (chunk != 0) take_mail(w, chunk);
}

// The warp, its queue empty.
EW_FN bool refill(Worker& w) {
  for (u32 priority = 0; priority < PRIORITIES; priority++) {
    if (!__any_sync(ALL, load(&w.e.grid->chunks_at[priority], relaxed, gpu) != 0)) continue;
    if (refill_at(false, priority)) return true;
  }
  return false;
}

// One lane: whether there is a reason not to wait.
EW_FN bool anything(Worker& w, bool leads) {
  u64 a, b;
  load_pair((const u64*)&w.e.grid->stop, a, b, relaxed, gpu);
  return (u32)b != 0 || (leads && (b >> 32) != 0) || ends(w.s, (u32)a);
}

constexpr u32 WAIT_OVER = 0;    // there is a reason to look again
constexpr u32 WAIT_CALLED = 1;  // the block meets

// The warp, its queue empty: announces that it is idle and waits until there is a reason to look again.
// Tasks that a warp of its own block hands over become a batch at once if they can.
EW_FN u32 wait(Worker& w, Batch& b) {
  const bool leads = w.warp == 0 && blockIdx.x != 0;
  set_state(w, WORKER_IDLE, 0);
  if (!w.idle() || (leads && !w.block_idle())) {
    if (w.lane == 0) {
      if (!w.idle()) go_idle(w.e.idle_warp_bits, &w.e.grid->idle_warps, w.global);
      if (leads && !w.block_idle()) go_idle(w.e.idle_block_bits, &w.e.grid->idle_blocks, blockIdx.x);
      // Orders the bit before the look at public chunks: see the top of grid/idle.cuh.
      fence(sc, gpu);
    }
    // Where group ids are short, an idle warp does not keep ids that other warps need.
    bool scarce = __any_sync(ALL, load(&w.e.grid->group_refusals, relaxed, gpu) != 0);
    while (scarce && w.s.group_count[w.warp] >= SLAB_GROUPS) groups_return_call();
    w.set(FLAG_IDLE, true);
    if (leads) w.set(FLAG_BLOCK_IDLE, true);
    if (__any_sync(ALL, w.lane == 0 && anything(w, leads))) return WAIT_OVER;
  }
  // A word in shared memory is looked at far more often than the inbox: the warps of its own block hand
  // over through it. Most often in the ingress warp's block; least often where the stop comes to the inbox.
  const u32 looks = blockIdx.x == 0 ? 256 : leads ? 2 : 8;
  u32 ready = READY_BUSY;
  u64 chunk = 0;
  bool later = false, called = false;
  if (w.lane == 0) {
    const DevInbox& inbox = w.inbox();
    // Release: this warp's accesses to its staging area come before the writes of the next hand-over.
    exchange(&w.s.ready[w.warp], READY_WAITING, acq_rel, cta);
    for (u32 polls = 1;; polls++) {
      // On its way while shared memory is looked at.
      u64 stop, block_chunk = 0;
      load_pair(&inbox.chunk, chunk, stop, relaxed, gpu);
      if (leads) block_chunk = load(&inbox.block_chunk, relaxed, gpu);
      bool call = false;
      for (u32 i = 0; i < looks && !call; i++) {
        ready = load(&w.s.ready[w.warp], relaxed, cta);
        called = load(&w.s.block_call, relaxed, cta) != 0;
        call = ready >= READY_FULL || called;
      }
      if (call || chunk != 0) break;
      if (leads && (u32)stop == w.s.epoch) {
        // The stop comes to the first warp of a block alone, which tells the others.
        called = true;
        w.s.leaving = 1;
        store(&w.s.block_call, 1, release, cta);
        break;
      }
      // Its own block's warps may queue block-shaped tasks, and other blocks may send some.
      if (leads && (local_count(w.block_local()) != 0 || block_chunk != 0)) break;
      later = polls % 64 == 0;
      if (later && (anything(w, leads) || load(&w.e.grid->orphan_next, relaxed, gpu) < load(&w.e.grid->orphan_end, relaxed, gpu))) break;
      if (polls > 256 && !leads) __nanosleep(40);
    }
    while (ready < READY_FULL) {
      ready = compare_exchange(&w.s.ready[w.warp], READY_WAITING, READY_BUSY, acq_rel, cta);
      if (ready == READY_WAITING) break;
    }
    // Pairs with the release of `hand`. The scope is the device's because the ingress warp's tasks
    // come from the host: this multiprocessor's cache may be older.
    if (ready >= READY_FULL) load_shared(&w.s.ready[w.warp], acquire, gpu);
  }
  ready = __shfl_sync(ALL, ready, 0);
  if (ready >= READY_FULL) {
    const u32 n = ready - READY_FULL;
    b.task = w.s.staging[w.warp][w.lane];
    b.fn = __shfl_sync(ALL, fn_of(b.task.head), 0);
    b.m = meta(b.fn);
    const bool there = w.lane < n;
    const bool alike = __all_sync(ALL, !there || fn_of(b.task.head) == b.fn);  // and of one priority, as the sender sees to
    if (w.lane == 0) store(&w.s.ready[w.warp], READY_BUSY, relaxed, cta);
    if (alike && b.m.shape() == SHAPE_LANE && n * b.m.max_spawn() <= local_room(w.local()) && (!b.m.forks() || groups_at_hand(w, n))) {
      b.got = n;
      return WAIT_OVER;
    }
    if (there && is_block(fn_of(b.task.head))) w.local().strays = 1;
    push_all(w, w.local(), b.task, n);
    return WAIT_OVER;
  }
  if (__any_sync(ALL, called)) return WAIT_CALLED;
  chunk = __shfl_sync(ALL, chunk, 0);
  if (chunk != 0) take_mail(w, chunk);
  if (__any_sync(ALL, later)) adopt();
  return WAIT_OVER;
}

}  // namespace ew
