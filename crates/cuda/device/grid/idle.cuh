// Idle warps and blocks wait on stacks; who has too much pops one and fills its inbox.
//
// No wake-up is lost: an idle warp pushes itself, fences, and looks at the counts of public chunks;
// who publishes a chunk counts it, fences, and looks at the stack. One of the two sees the other.
#pragma once
#include "everwarp/warp/batch.cuh"

namespace ew {

// Grid-wide words that a warp looks at between batches.
struct Signals {
  u64 idle_warps;
  u32 stop, faulted;
  u32 chunks[PRIORITIES];
  u32 block_chunks;  // all priorities together

  EW_FN Signals read(const DevEngine& e) {
    const DevGrid* g = e.grid;
    u64 a, b, c, d;
    load_pair((const u64*)&g->stop, a, b, relaxed, gpu);
    load_pair((const u64*)&g->public_chunks[2], c, d, relaxed, gpu);
    u64 f = load((const u64*)&g->public_block_chunks[2], relaxed, gpu);
    u64 i = load(&g->idle_warps, relaxed, gpu);
    return {i, (u32)a, (u32)(a >> 32), {(u32)b, (u32)(b >> 32), (u32)c, (u32)(c >> 32)},
            (u32)d + (u32)(d >> 32) + (u32)f + (u32)(f >> 32)};
  }
  __device__ __forceinline__ bool ends(const DevEngine& e) const { return stop == e.epoch || faulted != 0; }
  __device__ __forceinline__ u32 best() const {
    return chunks[0] ? 0 : chunks[1] ? 1 : chunks[2] ? 2 : chunks[3] ? 3 : PRIORITIES;
  }
};

// One lane: hands a chunk to an idle warp, or publishes it.
EW_FN void give(Worker& w, u32 priority, u32 ref, u64 head) {
  u32 id = stack_pop_from(&w.e.grid->idle_warps, w.e.idle_warp_next, head);
  if (id == NONE) {
    publish(w, Class::warps(w.e), priority, ref);
  } else {
    store(&w.e.inboxes[id].chunk, (u64)ref + 1, release, gpu);
    w.stats().published += chunk_tasks(ref);
  }
}

// One lane that may push to the block's deque: hands a chunk of block-shaped tasks to an idle block.
EW_FN void give_block(Worker& w, u32 priority, u32 ref) {
  u32 id = stack_pop(&w.e.grid->idle_blocks, w.e.idle_block_next);
  if (id == NONE) {
    publish(w, Class::of_blocks(w.e), priority, ref);
  } else {
    store(&w.e.inboxes[id * BLOCK_WARPS].block_chunk, (u64)ref + 1, release, gpu);
    w.stats().published += chunk_tasks(ref);
  }
}

// The warp: shares what it will not run next while somebody is idle.
EW_FN void share(const DevEngine& e, Shared& s, u64 head) {
  Worker w = Worker::here(e, s);
  LocalQueue& q = w.local();
  head = __shfl_sync(ALL, head, 0);
  for (u32 round = 0; round < 4 && (u32)head != 0; round++) {
    u32 n = local_count(q);
    if (n < 2) return;
    u32 priority = best_priority(q);
    u32 fn = peek(w, q, !w.fifo(), priority);
    if (fn == NONE) return;
    u32 keep = meta(fn).shape == SHAPE_LANE ? WARP : 1;
    if (n <= keep) return;
    // What goes is the far end: the oldest, which in divide-and-conquer is the largest.
    priority = worst_priority(q);
    fn = peek(w, q, w.fifo(), priority);
    if (fn == NONE) return;
    u32 shape = meta(fn).shape, limit;
    if (shape == SHAPE_LANE) limit = min(n - keep, WARP);
    else limit = fn == FN_FETCH ? 1 : min(max(n / 2, 1), WARP);
    u32 id = NONE, got;
    if (w.lane == 0) id = chunk_alloc(w);
    id = __shfl_sync(ALL, id, 0);
    if (id == NONE) return;
    DevTask task = take(w, q, w.fifo(), priority, fn, limit, got);
    if (w.lane < got) store_task(&w.e.chunks[id * CHUNK_TASKS + w.lane], task, relaxed, gpu);
    __syncwarp();
    if (w.lane == 0) {
      if (got == 0) chunk_free(w, id);
      else give(w, priority, chunk_ref(id, got), head);
      head = load(&w.e.grid->idle_warps, relaxed, gpu);
    }
    __syncwarp();
    head = __shfl_sync(ALL, head, 0);
  }
}

}  // namespace ew
