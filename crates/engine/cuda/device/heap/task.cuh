// The heap's calls for tasks. They are never inlined, so that images whose programs do not use the heap hold none of
// it, and the others keep their registers for the scheduler.
#pragma once
#include "everwarp/heap/realloc.cuh"
#include "everwarp/heap/sweep.cuh"
#include "everwarp/warp/worker.cuh"

namespace ew {

// Whether the whole warp is here, so that no lane can be elsewhere: its lanes then work together.
EW_FN bool heap_together() { return __activemask() == ALL; }

EW_CALL bool heap_task_admit(u64 bytes, u32 owner) {
  const DevHeap& h = *everwarp_tables.heap;
  return heap_together() ? heap_admit(h, bytes, owner) : heap_admit<true>(h, bytes, owner);
}
EW_CALL u8* heap_task_small(u32 bytes) {
  const DevHeap& h = *everwarp_tables.heap;
  return heap_together() ? heap_small(h, bytes) : heap_small<true>(h, bytes);
}
EW_CALL u8* heap_task_large(u64 bytes) {
  const DevHeap& h = *everwarp_tables.heap;
  return heap_together() ? heap_large(h, bytes) : heap_large<true>(h, bytes);
}
EW_CALL void heap_task_label(u8* block, u64 bytes, u32 owner) {
  const DevHeap& h = *everwarp_tables.heap;
  if (heap_together()) heap_label(h, block, bytes, owner);
  else heap_label<true>(h, block, bytes, owner);
}

// Null without a heap, as when there is no room. The steps of `heap_alloc_for`.
EW_FN u8* heap_task_alloc(u64 bytes, u32 owner) {
  const DevHeap* h = everwarp_tables.heap;
  if (h == nullptr) return nullptr;
  const bool owned = h->mode & HEAP_OWNED;
  if ((owned || !heap_is_sane(*h, bytes, owner)) && !heap_task_admit(bytes, owner)) return nullptr;
  const u64 whole = heap_whole(*h, bytes);
  u8* block = whole > HEAP_LARGEST_CLASS ? heap_task_large(whole) : heap_task_small((u32)whole);
  if (owned) heap_task_label(block, bytes, owner);
  return block;
}
EW_CALL void heap_task_free(u8* block, u32 by) {
  const DevHeap* h = everwarp_tables.heap;
  if (h == nullptr) return;
  if (heap_together()) heap_free_any(*h, block, by);
  else heap_free_any<true>(*h, block, by);
}
EW_CALL u64 heap_task_resize(bool wants, u8* old, u64 bytes, u32 by, bool anyhow) {
  const DevHeap* h = everwarp_tables.heap;
  if (h == nullptr) return 0;
  return heap_together() ? heap_resize(*h, wants, old, bytes, by, anyhow) : heap_resize<true>(*h, wants, old, bytes, by, anyhow);
}
EW_CALL void heap_task_copy(bool wants, const u8* from, u8* to, u64 bytes) {
  const DevHeap* h = everwarp_tables.heap;
  if (h == nullptr) return;
  if (heap_together()) heap_copy(*h, wants, from, to, bytes);
  else heap_copy<true>(*h, wants, from, to, bytes);
}

// Any set of lanes, each for itself; those without a request help with the copies. Returns a block of at least `bytes`
// with the contents of the old one, up to the shorter of both; the old one is then gone. Null if there is no room, or
// if the old one is no block, which is counted; an old block then stays as it is. Without an old one it allocates for
// `owner`; a block keeps its owner.
EW_FN u8* heap_realloc(bool wants, u8* old, u64 bytes, u32 owner) {
  const bool has = wants && old != nullptr;
  u64 found = has ? 0 : HEAP_MOVES | (u64)owner << HEAP_MOVES_BITS;
  const u64 tried = heap_task_resize(has, old, bytes, owner, false);
  if (has) found = tried;
  const bool moves = wants && (found & HEAP_MOVES);
  u8* block = moves ? nullptr : (u8*)found;
  if (moves) block = heap_task_alloc(bytes, (u32)(found >> HEAP_MOVES_BITS));
  const bool copies = moves && has && block != nullptr;
  heap_task_copy(copies, old, block, bytes);
  if (copies) heap_task_free(old, owner);
  // Not even a smaller one: then the old one will do.
  if (moves && has && block == nullptr) {
    found = heap_task_resize(true, old, bytes, owner, true);
    if (!(found & HEAP_MOVES)) block = (u8*)found;
  }
  return wants ? block : nullptr;
}
EW_CALL u64 heap_task_release(u32 owner, u32 part, u32 parts) {
  const DevHeap* h = everwarp_tables.heap;
  return h == nullptr ? 0 : heap_release(*h, owner, part, parts);
}
EW_CALL u64 heap_task_sweep(u32 part, u32 parts) {
  const DevHeap* h = everwarp_tables.heap;
  return h == nullptr ? 0 : heap_sweep(*h, part, parts);
}

}  // namespace ew
