// The way in: the first warp of block 0 polls the host's submission ring and nothing else does.
#pragma once
#include "everwarp/grid/refill.cuh"

namespace ew {

// The warp: delivers the lanes' tasks that are `mine` (all of one priority) to warps of its block or
// anywhere. False if there was no chunk: nothing was delivered.
EW_FN bool deliver(Worker& w, const DevTask& task, bool mine, bool blocks) {
  u32 mask = __ballot_sync(ALL, mine);
  u32 n = __popc(mask), rank = __popc(mask & w.lt());
  if (n == 0) return true;
  if (!blocks) {
    u32 who = claim_neighbour(w);
    if (who != NONE) {
      if (mine) w.s.staging[who][rank] = task;
      __syncwarp();
      if (w.lane == 0) store(&w.s.ready[who], READY_FULL + n, release, cta);
      return true;
    }
  }
  u32 id = chunk_alloc();
  if (id == NONE) return false;
  if (mine) store_task(&w.e.chunks[id * CHUNK_TASKS + rank], task, relaxed, gpu);
  u32 priority = __shfl_sync(ALL, priority_of(task.head), __ffs(mask) - 1);
  __syncwarp();
  if (blocks) block_lock(w);
  give(blocks, priority, chunk_ref(id, n));
  if (blocks) block_unlock(w);
  return true;
}

// The warp: the shortest way for one plain task in lane 0: to a waiting warp of this block.
EW_FN bool hand_over(Worker& w, DevTask task) {
  u32 ready = w.lane < BLOCK_WARPS ? load(&w.s.ready[w.lane], relaxed, cta) : READY_BUSY;
  u32 candidates = __ballot_sync(ALL, ready == READY_WAITING);
  u32 fn = fn_of(task.head);
  bool plain = (task.head & (TASK_BATCH | TASK_COUNTED)) == 0 && fn >= FN_FIRST && fn < FN_COUNT && !is_block(fn);
  bool done = false;
  if (w.lane == 0 && plain && candidates != 0) {
    u32 who = __ffs(candidates) - 1;
    if (compare_exchange(&w.s.ready[who], READY_WAITING, READY_CLAIMED, acq_rel, cta) == READY_WAITING) {
      w.s.staging[who][0] = DevTask{task.head & (TASK_BATCH - 1), task.group | HOST_DIRECT, task.arg};
      store(&w.s.ready[who], READY_FULL + 1, release, cta);
      done = true;
    }
  }
  return __any_sync(ALL, done);
}

// The warp: stops the grid, by the first warp of each block.
EW_FN void stop_all(Worker& w) {
  // The warps of its block look at shared memory, the first warp of each other block at its inbox when it is
  // idle, and all look at the grid's word when they are not. A fault's word is the largest and stays.
  if (w.lane == 0) store(&w.s.block_call, 1, relaxed, cta);
  if (w.lane == 0) fetch_max(&w.e.grid->stop, w.s.epoch, relaxed, gpu);
  for (u32 i = w.lane; i < gridDim.x; i += WARP) store(&w.e.inboxes[i * BLOCK_WARPS].stop, w.s.epoch, relaxed, gpu);
  __syncwarp();
}

// The warp, until the engine stops.
EW_FN void ingress() {
  Worker w = Worker::here();
  DevGrid* g = w.e.grid;
  DevWords* words = w.e.words;
  u32 taken = load(&g->taken, relaxed, gpu);
  set_state(w, WORKER_INGRESS, 0);
  u32 width = 8, polls = 0;
  while (true) {
    // One round trip over PCIe: lanes 0..width-1 look at slots, lane 31 at the request. (Two looks in
    // flight are no better: a warp's loads return in order, and each wait is for both.)
    const u32 index = taken + w.lane;
    const bool slot = w.lane < width, last = w.lane == WARP - 1;
    const DevTask* at = last ? (const DevTask*)words : &w.e.submissions[index & (w.e.submission_slots - 1)];
    DevTask task{0, 0, 0};
    if (slot || last) task = load_task(at, relaxed, sys);
    const bool valid = slot && ((task.head & TASK_LAP) != 0) == ((index & w.e.submission_slots) == 0);
    const u32 ready = __ballot_sync(ALL, valid);
    if (__any_sync(ALL, last && task.head == REQUEST_PARK && task.group == w.s.epoch)) break;
    if (++polls % 64 == 0) {
      if (__any_sync(ALL, load(&g->stop, relaxed, gpu) == STOP_FAULT)) break;
      // Tasks that an earlier epoch could not deliver: other warps take them from public places.
      if (local_count(w.local()) != 0) spill(false);
    }
    u32 n = __ffs(~ready) - 1;
    if (n == 0) {
      width = 8;
      continue;
    }
    // The host's writes before the slots happen before what follows: tasks of a batch are in host memory; the host
    // wrote everything else by copies, through the L2 of this device.
    // A warp of this block that takes a single task does the latter itself.
    if (n == 1 && width == 8 && hand_over(w, task)) {
      taken++;
      if (w.lane == 0) store(&words->taken, taken, relaxed, sys);
      continue;
    }
    if (__any_sync(ALL, valid && (task.head & TASK_BATCH) != 0)) fence(acq_rel, sys);
    else fence(acq_rel, gpu);
    __syncwarp();
    width = n == width ? WARP - 1 : 8;
    bool mine = w.lane < n;
    bool batch = mine && (task.head & TASK_BATCH) != 0;
    u32 fn = fn_of(task.head);
    bool known = batch ? (task.arg >> 32) != 0 && (task.arg >> 32) <= w.e.arena_tasks
                       : fn >= FN_FIRST && fn < FN_COUNT;
    if (mine && !known) raise_fault(w.e, FAULT_BAD_SUBMISSION, fn, task.head);
    if (__any_sync(ALL, mine && !known)) continue;
    bool counted = batch || (task.head & TASK_COUNTED) != 0;
    // Without enough group ids only the first entries are taken; the rest waits in the ring.
    u32 wants = __popc(__ballot_sync(ALL, mine && counted));
    if (wants > 0) {
      groups_at_hand(w, wants);
      u32 have = w.s.group_count[w.warp];
      u32 before = __popc(__ballot_sync(ALL, mine && counted) & w.lt());
      u32 cut = __ballot_sync(ALL, mine && counted && before >= have);
      if (cut != 0) n = __ffs(cut) - 1;
      mine = w.lane < n;
      if (n == 0) continue;
    }
    DevTask run = task;
    u32 id = NONE;
    run.head &= TASK_BATCH - 1;
    run.group = task.group | HOST_DIRECT;
    if (mine && counted) {
      id = group_alloc(w.s, w.warp);
      group_open(w.e, id, batch ? (u32)(task.arg >> 32) : 1, DevTask{FN_COMPLETE, task.group, 0});
      run.group = id;
      if (batch) run.head = FN_FETCH | (task.head & (PRIORITIES - 1) << TASK_PRIORITY_SHIFT);
    }
    __syncwarp();
    bool blocks = mine && !batch && is_block(fn);
    u32 left = __ballot_sync(ALL, mine);
    while (left != 0) {
      u32 first = __ffs(left) - 1;
      u32 priority = __shfl_sync(ALL, priority_of(run.head), first);
      u32 kind = __shfl_sync(ALL, (u32)blocks | (u32)batch << 1, first);
      bool same = mine && priority_of(run.head) == priority && ((u32)blocks | (u32)batch << 1) == kind;
      if (kind & 2) same = w.lane == first;  // a batch each to a warp of its own
      u32 chosen = __ballot_sync(ALL, same && (left >> w.lane & 1));
      bool delivered = deliver(w, run, chosen >> w.lane & 1, kind & 1);
      if (!delivered) {
        // An exhausted pool: try again until a chunk comes free or the engine stops.
        u64 again = load((const u64*)&words->request, relaxed, sys);
        bool stop = __any_sync(ALL, again == ((u64)w.s.epoch << 32 | REQUEST_PARK) || load(&g->stop, relaxed, gpu) == STOP_FAULT);
        if (!stop) {
          __nanosleep(1000);
          continue;
        }
        // Keeps undelivered tasks in its own queue, which the park saves.
        while (chosen != 0) {
          u32 who = __ffs(chosen) - 1;
          DevTask t{__shfl_sync(ALL, run.head, who), __shfl_sync(ALL, run.group, who), __shfl_sync(ALL, run.arg, who)};
          push_all(w, w.local(), t, 1);
          left &= ~(1u << who);
          chosen &= chosen - 1;
        }
        continue;
      }
      left &= ~chosen;
    }
    taken += n;
    if (w.lane == 0) store(&words->taken, taken, relaxed, sys);
  }
  stop_all(w);
  if (w.lane == 0) {
    store(&g->taken, taken, relaxed, gpu);
    if (load(&g->stop, acquire, gpu) == STOP_FAULT) {
      words->fault.function = g->fault.function;
      words->fault.detail = g->fault.detail;
      store(&words->fault.code, g->fault.code, release, sys);
    }
  }
}

}  // namespace ew
