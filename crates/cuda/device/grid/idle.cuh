// Idle warps and blocks set a bit; who has too much claims one and fills its inbox.
//
// No wake-up is lost: an idle warp sets its bit, fences, and looks at the count of public chunks; who
// publishes a chunk counts it, fences, and looks at the count of the idle. One of the two sees the other.
// Why bits and not a stack? Two thousand warps that go idle together would fight for its head.
#pragma once
#include "everwarp/warp/batch.cuh"

namespace ew {

EW_FN bool ends(const DevEngine& e, u32 stop) { return stop == e.epoch || stop == STOP_FAULT; }

// One lane: announces that it is idle.
EW_FN void go_idle(u32* bits, u32* count, u32 index) {
  fetch_or(&bits[index / 32], 1u << index % 32, release, gpu);
  add(count, 1, relaxed, gpu);
}

// The warp: claims somebody idle; NONE when there is nobody.
EW_FN u32 claim_idle(Worker& w, u32* bits, u32* count) {
  const u32 words = w.e.bit_words;
  const u32 random = __shfl_sync(ALL, w.random(), 0), start = random % words, turn = random >> 12 & 31;
  for (u32 base = 0; base < words; base += WARP) {
    u32 index = (start + base + w.lane) % words;
    u32 word = base + w.lane < words ? load(&bits[index], relaxed, gpu) : 0;
    u32 found = __ballot_sync(ALL, word != 0);
    u32 bit = (__ffs(__funnelshift_r(word, word, turn)) - 1 + turn) & 31;
    while (found != 0) {
      u32 who = __ffs(found) - 1;
      found &= found - 1;
      u32 id = NONE;
      if (w.lane == who && (fetch_and(&bits[index], ~(1u << bit), acquire, gpu) >> bit & 1)) {
        add(count, ~0u, relaxed, gpu);
        id = index * 32 + bit;
      }
      id = __shfl_sync(ALL, id, who);
      if (id != NONE) return id;
    }
  }
  return NONE;
}

// The warp: hands a chunk to an idle warp, or publishes it.
EW_FN void give(Worker& w, u32 priority, u32 ref) {
  u32 id = claim_idle(w, w.e.idle_warp_bits, &w.e.grid->idle_warps);
  if (w.lane != 0) return;
  if (id == NONE) {
    publish(w, Class::warps(w.e), priority, ref);
  } else {
    store(&w.e.inboxes[id].chunk, (u64)ref + 1, release, gpu);
    w.stats().published += chunk_tasks(ref);
  }
}

// The warp, which may push to the block's deque: hands a chunk of block-shaped tasks to an idle block.
EW_FN void give_block(Worker& w, u32 priority, u32 ref) {
  u32 id = claim_idle(w, w.e.idle_block_bits, &w.e.grid->idle_blocks);
  if (w.lane != 0) return;
  if (id == NONE) {
    publish(w, Class::of_blocks(w.e), priority, ref);
  } else {
    store(&w.e.inboxes[id * BLOCK_WARPS].block_chunk, (u64)ref + 1, release, gpu);
    w.stats().published += chunk_tasks(ref);
  }
}

// The warp: shares what it will not run next while somebody is idle.
EW_FN void share(Worker& w) {
  LocalQueue& q = w.local();
  for (u32 round = 0; round < 4; round++) {
    u32 n = local_count(q);
    if (n < 2) return;
    u32 fn = peek(w, q, !w.fifo(), best_priority(q));
    if (fn == NONE) return;
    u32 keep = meta(fn).shape == SHAPE_LANE ? WARP : 1;
    if (n <= keep) return;
    // What goes is the far end: the oldest, which in divide-and-conquer is the largest.
    u32 priority = worst_priority(q);
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
    if (got == 0) {
      if (w.lane == 0) chunk_free(w, id);
      __syncwarp();
      return;
    }
    give(w, priority, chunk_ref(id, got));
    __syncwarp();
    if (!__any_sync(ALL, load(&w.e.grid->idle_warps, relaxed, gpu) != 0)) return;
  }
}

}  // namespace ew
