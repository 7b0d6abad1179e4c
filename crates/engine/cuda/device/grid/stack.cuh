// A stack of ids in device memory that any lane may push to and pop from (Treiber's, with a tag
// against reuse): head = tag << 32 | id + 1, links in a separate array.
#pragma once
#include "everwarp/warp/worker.cuh"

namespace ew {

EW_FN void stack_push(u64* head, u32* next, u32 id) {
  u64 h = load(head, relaxed, gpu);
  while (true) {
    store(&next[id], (u32)h, relaxed, gpu);
    // Release: the pusher's writes to the id's object happen before the popper's reads.
    u64 seen = compare_exchange(head, h, ((h >> 32) + 1) << 32 | (id + 1), acq_rel, gpu);
    if (seen == h) return;
    h = seen;
  }
}

EW_FN u32 stack_pop_from(u64* head, u32* next, u64 h) {
  while ((u32)h != 0) {
    u32 link = load(&next[(u32)h - 1], relaxed, gpu);
    u64 seen = compare_exchange(head, h, ((h >> 32) + 1) << 32 | link, acq_rel, gpu);
    if (seen == h) return (u32)h - 1;
    h = seen;
  }
  return NONE;
}

// NONE when empty.
EW_FN u32 stack_pop(u64* head, u32* next) { return stack_pop_from(head, next, load(head, acquire, gpu)); }

// Free ids are spread over shards: one head would serve a few million operations a second in
// all. A warp pushes to its block's shard and looks there first.
EW_FN u64* shard(const DevEngine& e, u32 kind, u32 index) {
  return &e.shards[(kind * SHARDS + index % SHARDS) * SHARD_STRIDE];
}
EW_FN void shard_push(const DevEngine& e, u32 kind, u32* next, u32 id) { stack_push(shard(e, kind, blockIdx.x), next, id); }

// One lane: an id from the own shard, one never used, or one from any shard.
EW_FN u32 shard_pop(const DevEngine& e, u32 kind, u32* next, u32* fresh, u32 limit) {
#pragma unroll 1
  for (u32 i = 0; i < SHARDS; i++) {
    u32 id = stack_pop(shard(e, kind, blockIdx.x + i), next);
    if (id != NONE) return id;
    if (i == 0 && load(fresh, relaxed, gpu) < limit) {
      id = fetch_add(fresh, 1, relaxed, gpu);
      if (id < limit) return id;
    }
  }
  return NONE;
}

}  // namespace ew
