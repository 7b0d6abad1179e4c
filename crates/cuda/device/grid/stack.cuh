// A stack of ids in device memory that any lane may push to and pop from (Treiber's, with a tag
// against reuse): head = tag << 32 | id + 1, links in an array beside it.
#pragma once
#include "everwarp/warp/worker.cuh"

namespace ew {

EW_FN void stack_push(u64* head, u32* next, u32 id) {
  u64 h = load(head, relaxed, gpu);
  while (true) {
    store(&next[id], (u32)h, relaxed, gpu);
    // Release: what the pusher wrote into the id's object happens before what its popper reads.
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

}  // namespace ew
