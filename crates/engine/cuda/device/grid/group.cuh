// Groups: counters of unfinished tasks with a continuation, and the pool of their ids.
#pragma once
#include "everwarp/warp/local.cuh"

namespace ew {

// The warp: brings a slab of ids from the pool; false when the pool is empty.
EW_CALL bool groups_fetch() {
  Worker w = Worker::here();
  u32 have = w.s.group_count[w.warp];
  DevGrid* g = w.e.grid;
  u32 first = NONE, slab = NONE;
  if (w.lane == 0) {
#pragma unroll 1
    for (u32 i = 0; slab == NONE && first == NONE && i < SHARDS; i++) {
      slab = stack_pop(shard(w.e, SHARDS_FULL, blockIdx.x + i), w.e.slab_next);
      if (i == 0 && slab == NONE && load(&g->fresh_groups, relaxed, gpu) < w.e.group_limit) {
        first = fetch_add(&g->fresh_groups, SLAB_GROUPS, relaxed, gpu);
        if (first + SLAB_GROUPS > w.e.group_limit) first = NONE;
      }
    }
    if (slab == NONE && first == NONE) add(&g->group_refusals, 1, relaxed, gpu);
  }
  slab = __shfl_sync(ALL, slab, 0);
  first = __shfl_sync(ALL, first, 0);
  if (slab == NONE && first == NONE) return false;
  u32 id = first + w.lane;
  if (slab != NONE) {
    id = load(&w.e.slabs[slab * SLAB_GROUPS + w.lane], relaxed, gpu);
    __syncwarp();
    if (w.lane == 0) shard_push(w.e, SHARDS_EMPTY, w.e.slab_next, slab);
  }
  w.s.group_ids[w.warp][have + w.lane] = id;
  __syncwarp();
  if (w.lane == 0) w.s.group_count[w.warp] = have + SLAB_GROUPS;
  __syncwarp();
  return true;
}

// The warp: makes sure that at least `want` (at most 32) ids are at hand; false when the pool is empty.
EW_FN bool groups_at_hand(Worker& w, u32 want) { return w.s.group_count[w.warp] >= want || groups_fetch(); }

// Any set of active lanes: takes one id each; they were made sure of before the batch.
EW_FN u32 group_alloc(Shared& s, u32 warp) {
  u32 active = __activemask();
  u32 leader = __ffs(active) - 1;
  u32 me;
  asm("mov.u32 %0, %%laneid;" : "=r"(me));
  u32 top = 0;
  if (me == leader) top = atomicSub_block(&s.group_count[warp], __popc(active));
  top = __shfl_sync(active, top, leader);
  return s.group_ids[warp][top - 1 - __popc(active & ((1u << me) - 1))];
}

// The warp: gives a slab of the ids at hand back to the pool; it has that many.
EW_FN void groups_return(Worker& w) {
  u32 left = w.s.group_count[w.warp] - SLAB_GROUPS, slab = NONE;
  if (w.lane == 0) {
    slab = shard_pop(w.e, SHARDS_EMPTY, w.e.slab_next, &w.e.grid->fresh_slabs, w.e.slab_limit);
  }
  slab = __shfl_sync(ALL, slab, 0);
  // There is always one: slabs are as many as groups / 32, and one more for each warp.
  if (slab == NONE) {
    if (w.lane == 0) raise_fault(w.e, FAULT_INTERNAL, 0, 1);
  } else {
    store(&w.e.slabs[slab * SLAB_GROUPS + w.lane], w.s.group_ids[w.warp][left + w.lane], relaxed, gpu);
    __syncwarp();
    if (w.lane == 0) shard_push(w.e, SHARDS_FULL, w.e.slab_next, slab);
  }
  __syncwarp();
  if (w.lane == 0) w.s.group_count[w.warp] = left;
  __syncwarp();
}

// The same as a call.
EW_CALL void groups_return_call() {
  Worker w = Worker::here();
  groups_return(w);
}

// The warp: gives back the ids of the lanes that have one (at most 32).
EW_FN void groups_free_here(Worker& w, u32 id, bool mine) {
  u32 freeing = __ballot_sync(ALL, mine);
  if (freeing == 0) return;
  u32 have = w.s.group_count[w.warp];
  __syncwarp();
  if (mine) w.s.group_ids[w.warp][have + __popc(freeing & w.lt())] = id;
  have += __popc(freeing);
  __syncwarp();
  if (w.lane == 0) w.s.group_count[w.warp] = have;
  __syncwarp();
  if (have > GROUP_CACHE - WARP) groups_return(w);
}

// The same as a call.
EW_CALL void groups_free(u32 id, bool mine) {
  Worker w = Worker::here();
  groups_free_here(w, id, mine);
}

// One lane: fills a group's record. Children are not visible to anybody else yet.
EW_FN void group_open(const DevEngine& e, u32 id, u32 pending, const DevTask& then) {
  DevGroup& g = e.groups[id];
  store_task((DevTask*)&g, DevTask{pending, 0, 0}, relaxed, gpu);
  store_task(&g.then, then, relaxed, gpu);
}

}  // namespace ew
