// Walks over all blocks of a heap, by warps that divide its pages among themselves.
#pragma once
#include "everwarp/heap/owner.cuh"

namespace ew {

// A warp, which does part number `part` of `parts`: frees every block of an owner, and returns how
// many bytes came back. No other task frees blocks of this owner meanwhile, and nothing is allocated for it; blocks of
// other owners come and go.
EW_FN u64 heap_release(const DevHeap& h, u32 owner, u32 part, u32 parts) {
  constexpr u32 ALL_LANES = 0xffffffffu;
  if (!(h.mode & HEAP_OWNED) || owner >= h.owner_limit) return 0;
  const u32 me = heap_lane(), pages = heap_pages(h), mine = HEAP_TAG_USED | owner;
  u64 came_back = 0;
  for (u32 page = part; page < pages; page += parts) {
    const u32 kind = load(&h.pages[page].state, relaxed, gpu) & ((1u << HEAP_STATE_BITS) - 1);
    const u32 cls = load(&h.pages[page].class_, relaxed, gpu);
    u32 count = 0, length = 0;
    if (kind == HEAP_RUN) {
      u16* tag = heap_tag(h, page, 0);
      if (me == 0 && load(&h.pages[page].run, relaxed, gpu) != 0 && load(tag, relaxed, gpu) == mine && heap_untag(tag) == mine) {
        length = exchange(&h.pages[page].run, 0, acq_rel, gpu);
      }
      length = __shfl_sync(ALL_LANES, length, 0);
      // As a run of lane 0.
      heap_free_runs(h, ALL_LANES, me, page, me == 0 ? length : 0);
      came_back += (u64)length << HEAP_PAGE_SHIFT;
    } else if (kind != HEAP_FREE && cls < HEAP_CLASSES) {
      const u32 words = (heap_class_blocks(cls) + 31) / 32;
      for (u32 at = me; at < words; at += 32) {
        u32* used = &h.used[page * HEAP_PAGE_WORDS + at];
        u32 bits = load(used, relaxed, gpu), ended = 0;
        for (; bits != 0; bits &= bits - 1) {
          const u32 bit = __ffs(bits) - 1;
          u16* tag = heap_tag(h, page, at * 32 + bit);
          // A page with a block in use keeps its class, so the tag is this block's.
          if (load(tag, relaxed, gpu) == mine && heap_untag(tag) == mine) ended |= 1u << bit;
        }
        if (ended != 0) fetch_and(used, ~ended, release, gpu);
        count += __popc(ended);
      }
      count = __reduce_add_sync(ALL_LANES, count);
      if (count != 0 && me == 0) heap_put_back(h, page, cls, count);
      came_back += (u64)count * heap_class_bytes(cls);
    }
  }
  if (me == 0 && came_back != 0) add(&h.owners[owner].in_use, 0ull - came_back, relaxed, gpu);
  __syncwarp();
  return came_back;
}

// A warp, likewise: looks at the guards of all blocks, reports those that were overwritten, and returns how
// many there are. The heap must be at rest: a block that is being made may be seen half-made.
EW_FN u64 heap_sweep(const DevHeap& h, u32 part, u32 parts) {
  if (!(h.mode & HEAP_CHECKED)) return 0;
  const u32 me = heap_lane(), pages = heap_pages(h);
  u32 broken = 0;
  for (u32 page = part; page < pages; page += parts) {
    const u32 kind = load(&h.pages[page].state, relaxed, gpu) & ((1u << HEAP_STATE_BITS) - 1);
    const u32 cls = load(&h.pages[page].class_, relaxed, gpu), run = load(&h.pages[page].run, relaxed, gpu);
    if (kind == HEAP_FREE || (kind == HEAP_RUN ? run == 0 : cls >= HEAP_CLASSES)) continue;
    const u64 bytes = kind == HEAP_RUN ? (u64)run << HEAP_PAGE_SHIFT : heap_class_bytes(cls);
    const u32 blocks = kind == HEAP_RUN ? 1 : heap_class_blocks(cls);
    for (u32 index = me; index < blocks; index += 32) {
      const u32 tag = load(heap_tag(h, page, index), relaxed, gpu);
      const u8* block = h.base + ((u64)page << HEAP_PAGE_SHIFT) + index * bytes;
      if (!(tag & HEAP_TAG_USED) || heap_is_intact(block, bytes)) continue;
      const u32 owner = tag & (HEAP_TAG_USED - 1);
      heap_report(h, HEAP_ERROR_OVERFLOW, owner, owner, block, bytes);
      broken++;
    }
  }
  return __reduce_add_sync(0xffffffffu, broken);
}

}  // namespace ew
