// Chunks: 32 tasks in device memory, the unit in which tasks leave a warp. A chunk reference is the
// chunk's id with the number of its tasks, less one, above CHUNK_ID_BITS.
#pragma once
#include "everwarp/grid/stack.cuh"

namespace ew {

EW_FN u32 chunk_id(u32 ref) { return ref & ((1u << CHUNK_ID_BITS) - 1); }
EW_FN u32 chunk_tasks(u32 ref) { return (ref >> CHUNK_ID_BITS) + 1; }
EW_FN u32 chunk_ref(u32 id, u32 tasks) { return id | (tasks - 1) << CHUNK_ID_BITS; }

// One lane. NONE when the pool is exhausted; the refusal is counted.
EW_FN u32 chunk_alloc_here(Worker& w) {
  u32 n = w.s.chunk_count[w.warp];
  if (n > 0) {
    w.s.chunk_count[w.warp] = n - 1;
    return w.s.chunk_ids[w.warp][n - 1];
  }
  DevGrid* g = w.e.grid;
  u32 id = shard_pop(w.e, SHARDS_CHUNKS, w.e.chunk_next, &g->fresh_chunks, w.e.chunk_limit);
  if (id == NONE) add(&g->chunk_refusals, 1, relaxed, gpu);
  return id;
}

// The warp: the same as a call; the id in all lanes.
EW_CALL u32 chunk_alloc() {
  Worker w = Worker::here();
  u32 id = NONE;
  if (w.lane == 0) id = chunk_alloc_here(w);
  return __shfl_sync(ALL, id, 0);
}

// One lane.
EW_FN void chunk_free_here(Worker& w, u32 id) {
  u32 n = w.s.chunk_count[w.warp];
  if (n < CHUNK_CACHE) {
    w.s.chunk_ids[w.warp][n] = id;
    w.s.chunk_count[w.warp] = n + 1;
  } else {
    shard_push(w.e, SHARDS_CHUNKS, w.e.chunk_next, id);
  }
}

// The warp: the same as a call.
EW_CALL void chunk_free(u32 id) {
  Worker w = Worker::here();
  if (w.lane == 0) chunk_free_here(w, id);
  __syncwarp();
}

}  // namespace ew
