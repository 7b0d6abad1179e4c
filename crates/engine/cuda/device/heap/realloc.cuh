// Blocks that change their size: in place where the class or the pages that follow allow it, else by a copy.
//
// There are four steps, each a call of its own for tasks: a try in place, a new block, the copy, the end of the old
// block. So no step holds the registers of another.
#pragma once
#include "everwarp/heap/owner.cuh"

namespace ew {

// The result of a try in place when the block must move: HEAP_MOVES, and its owner in the bits above.
constexpr u64 HEAP_MOVES = 1;
constexpr u32 HEAP_MOVES_BITS = 4;

// The lanes of `mask`, together: changes the run that begins at `page` from `was` to `length` pages in place;
// false if the pages that follow it are in use.
template <bool ALONE = false>
EW_FN bool heap_resize_run(const DevHeap& h, u32 mask, u32 me, u32 page, u32 was, u32 length) {
  if (length < was) {
    heap_sync<ALONE>(mask);
    if (me == (u32)__ffs(mask) - 1) store(&h.pages[page].run, length, relaxed, gpu);
    heap_give_back<ALONE>(h, mask, me, page + length, page + was);
    return true;
  }
  if (page + length > heap_pages(h) || !heap_claim_run<ALONE>(h, mask, me, page + was, page + length)) return false;
  heap_make_run<ALONE>(h, mask, me, page, page + was, length);
  return true;
}

// Any set of lanes, each for itself; some may have no request: gives a block another size in place. Returns its
// address, HEAP_MOVES with its owner, or 0 when it is no block, which is counted. With `anyhow` a block that
// becomes smaller stays in any case.
template <bool ALONE = false>
EW_FN u64 heap_resize(const DevHeap& h, bool wants, u8* old, u64 bytes, u32 by, bool anyhow) {
  const bool owned = h.mode & HEAP_OWNED, checked = h.mode & HEAP_CHECKED;
  const u32 mask = heap_mask<ALONE>(), me = heap_lane();
  HeapPlace place{};
  u32 owner = 0;
  bool right = false;
  if (wants) {
    u32 tag = 0;
    place = heap_place(h, old);
    if (owned) {
      if (place.bytes != 0) tag = load(heap_tag(h, place.page, place.index), relaxed, gpu);
      right = place.bytes != 0 && place.within == 0 && (tag & HEAP_TAG_USED);
      owner = tag & (HEAP_TAG_USED - 1);
    } else {
      right = heap_block_bytes(h, old) != 0;
    }
    if (!right) heap_wrong(h, place, tag, old, by);
  }
  const u64 had = place.bytes;
  if (right && checked && !anyhow && !heap_is_intact(old, had)) heap_report(h, HEAP_ERROR_OVERFLOW, owner, by, old, had);
  const bool sane = right && bytes <= (u64)h.page_limit << HEAP_PAGE_SHIFT;
  const u64 takes = sane ? heap_takes(bytes + (checked ? HEAP_GUARD_BYTES : 0)) : 0;
  const bool runs = sane && had > HEAP_LARGEST_CLASS && takes > HEAP_LARGEST_CLASS;
  // A block that becomes a little smaller stays where it is, with what it takes.
  bool stays = sane && (takes == had || (takes < had && !runs && (anyhow || takes * 2 > had)));
  // Runs change their length where they lie, when they can.
  bool resizes = runs && takes != had;
  if (owned) resizes = heap_charge<ALONE>(h, mask, me, resizes && takes > had, owner, takes - had) || (resizes && takes < had);
  bool resized = false;
  for (u32 todo = heap_ballot<ALONE>(mask, resizes); todo != 0; todo &= todo - 1) {
    const u32 who = __ffs(todo) - 1;
    const u32 was = (u32)(heap_shfl<ALONE>(mask, had, who) >> HEAP_PAGE_SHIFT), length = (u32)(heap_shfl<ALONE>(mask, takes, who) >> HEAP_PAGE_SHIFT);
    const bool done = heap_resize_run<ALONE>(h, mask, me, heap_shfl<ALONE>(mask, place.page, who), was, length);
    if (me == who) resized = done;
  }
  if (owned) {
    const bool less = resized && takes < had;
    heap_discharge<ALONE>(h, mask, me, less || (resizes && !resized), owner, less ? had - takes : takes - had);
  }
  if (!stays && !resized) return right ? HEAP_MOVES | (u64)owner << HEAP_MOVES_BITS : 0;
  if (checked) heap_set_guard(old, bytes, resized ? takes : had);
  return (u64)old;
}

// Any set of lanes; some may only help. Copies the contents of a block to another one, up to the `bytes`
// that were requested there. All lanes copy, 16 bytes each.
template <bool ALONE = false>
EW_FN void heap_copy(const DevHeap& h, bool wants, const u8* from, u8* to, u64 bytes) {
  const u32 mask = heap_mask<ALONE>(), me = heap_lane();
  const u32 lanes = __popc(mask), rank = __popc(mask & ((1u << me) - 1));
  if (wants) bytes = min(heap_place(h, from).bytes - (h.mode & HEAP_CHECKED ? HEAP_GUARD_BYTES : 0), bytes);
  // The writes of other lanes to the block come first.
  heap_sync<ALONE>(mask);
  for (u32 todo = heap_ballot<ALONE>(mask, wants); todo != 0; todo &= todo - 1) {
    const u32 who = __ffs(todo) - 1;
    const ulonglong2* source = (const ulonglong2*)heap_shfl<ALONE>(mask, (u64)from, who);
    ulonglong2* target = (ulonglong2*)heap_shfl<ALONE>(mask, (u64)to, who);
    const u64 length = heap_shfl<ALONE>(mask, bytes, who);
    for (u64 i = rank; i < length / 16; i += lanes) target[i] = source[i];
    for (u64 i = (length & ~15ull) + rank; i < length; i += lanes) ((u8*)target)[i] = ((const u8*)source)[i];
  }
  heap_sync<ALONE>(mask);
}

}  // namespace ew
