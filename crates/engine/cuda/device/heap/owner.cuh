// Blocks with owners: each block is tagged, and the bytes of each owner are counted as blocks come and go.
//
// Rules of a tag:
// 1. It says that its block is in use from after the block was taken until before its bit is cleared; so
//    the lane that changes it to "not in use" frees the block, and no block is freed twice.
// 2. The owner stays in it, so that an error names the last owner of the block.
// 3. An owner's count goes up before its block is looked for and down after it was freed; at any quiet moment
//    it is the sum of its blocks.
#pragma once
#include "everwarp/heap/guard.cuh"

namespace ew {

// The sum over the lanes of `peers` of counts of bytes, multiples of 16; all lanes of `mask` call.
template <bool ALONE = false>
EW_FN u64 heap_sum(u32 mask, bool mine, u64 bytes) {
  // In two parts, since the hardware adds words.
  const u32 low = mine ? (u32)(bytes >> 4) & 0xffffff : 0, high = mine ? (u32)(bytes >> 28) : 0;
  return (u64)heap_add<ALONE>(mask, low) * 16 + ((u64)heap_add<ALONE>(mask, high) << 28);
}

// One lane: adds to the bytes of an owner, unless its quota refuses.
EW_FN bool heap_charge_alone(DevHeapOwner& o, u64 bytes, u64 quota) {
  u64 now = load(&o.in_use, relaxed, gpu);
  for (u32 tries = 0; tries < 4096;) {
    if (now + bytes > quota) {
      if (now <= quota) return false;
      // The count includes a request that is being refused; or the quota was made smaller than the bytes held.
      tries++;
      __nanosleep(100);
      now = load(&o.in_use, relaxed, gpu);
      continue;
    }
    const u64 seen = compare_exchange(&o.in_use, now, now + bytes, relaxed, gpu);
    if (seen == now) return true;
    now = seen;
  }
  return false;
}

// The lanes of `mask`, together: adds to the bytes of the owners of those that want to; whether each may. One atomic for
// the lanes of one owner.
template <bool ALONE = false>
EW_FN bool heap_charge(const DevHeap& h, u32 mask, u32 me, bool wants, u32 owner, u64 bytes) {
  bool may = false;
  for (u32 todo = heap_ballot<ALONE>(mask, wants); todo != 0;) {
    const u32 leader = __ffs(todo) - 1, one = heap_shfl<ALONE>(mask, owner, leader);
    const bool mine = wants && owner == one;
    todo &= ~heap_ballot<ALONE>(mask, mine);
    const u64 sum = heap_sum<ALONE>(mask, mine, bytes);
    DevHeapOwner& o = h.owners[one];
    u64 quota = 0;
    bool all = true;
    if (me == leader) {
      quota = load(&o.quota, relaxed, gpu);
      if (quota == 0) add(&o.in_use, sum, relaxed, gpu);
      else if (fetch_add(&o.in_use, sum, relaxed, gpu) + sum > quota) {
        add(&o.in_use, 0ull - sum, relaxed, gpu);
        all = false;
      }
    }
    all = heap_shfl<ALONE>(mask, all, leader);
    quota = heap_shfl<ALONE>(mask, quota, leader);
    if (mine) may = all || heap_charge_alone(o, bytes, quota);
    heap_sync<ALONE>(mask);
  }
  return may;
}

// The lanes of `mask`, together: takes from the bytes of owners.
template <bool ALONE = false>
EW_FN void heap_discharge(const DevHeap& h, u32 mask, u32 me, bool wants, u32 owner, u64 bytes) {
  for (u32 todo = heap_ballot<ALONE>(mask, wants); todo != 0;) {
    const u32 leader = __ffs(todo) - 1, one = heap_shfl<ALONE>(mask, owner, leader);
    const bool mine = wants && owner == one;
    todo &= ~heap_ballot<ALONE>(mask, mine);
    const u64 sum = heap_sum<ALONE>(mask, mine, bytes);
    if (me == leader) add(&h.owners[one].in_use, 0ull - sum, relaxed, gpu);
  }
}

// The bytes that a request needs from `heap_alloc`, and whether they are possible at all: no heap is larger, and sums
// of larger requests would overflow.
EW_FN u64 heap_whole(const DevHeap& h, u64 bytes) { return bytes + (h.mode & HEAP_CHECKED ? HEAP_GUARD_BYTES : 0); }
EW_FN bool heap_is_sane(const DevHeap& h, u64 bytes, u32 owner) {
  return bytes <= (u64)h.page_limit << HEAP_PAGE_SHIFT && (!(h.mode & HEAP_OWNED) || owner < h.owner_limit);
}

// Any set of lanes, each for itself: whether an owner may have a block, which is then counted.
template <bool ALONE = false>
EW_FN bool heap_admit(const DevHeap& h, u64 bytes, u32 owner) {
  const u32 mask = heap_mask<ALONE>(), me = heap_lane();
  const bool sane = heap_is_sane(h, bytes, owner);
  bool may = sane;
  if (h.mode & HEAP_OWNED) may = heap_charge<ALONE>(h, mask, me, sane, owner, sane ? heap_takes(heap_whole(h, bytes)) : 0);
  if (!may) add(&h.counters->refused, (u64)1, relaxed, gpu);
  if (!may && sane) add(&h.owners[owner].refused, (u64)1, relaxed, gpu);
  return may;
}

// Any set of lanes, each for itself: a block that was admitted and allocated gets its guard and its tag; where there
// was no room, its bytes are taken from the count again.
template <bool ALONE = false>
EW_FN void heap_label(const DevHeap& h, u8* block, u64 bytes, u32 owner) {
  const u32 mask = heap_mask<ALONE>(), me = heap_lane();
  const u64 takes = heap_takes(heap_whole(h, bytes));
  if (block != nullptr) {
    if (h.mode & HEAP_CHECKED) heap_set_guard(block, bytes, takes);
    const u64 offset = (u64)(block - h.base);
    const u32 in_page = (u32)offset & (HEAP_PAGE_BYTES - 1);
    const u32 index = takes > HEAP_LARGEST_CLASS ? 0 : in_page / (u32)takes;
    // Release: a sweep that sees the tag sees the guard.
    store(heap_tag(h, (u32)(offset >> HEAP_PAGE_SHIFT), index), HEAP_TAG_USED | owner, release, gpu);
  } else {
    add(&h.owners[owner].refused, (u64)1, relaxed, gpu);
  }
  heap_discharge<ALONE>(h, mask, me, block == nullptr, owner, takes);
}

// Any set of lanes, each for itself: as `heap_alloc`, for an owner where the heap has owners. Tasks take these
// steps by a call each, so that none holds the registers of another.
template <bool ALONE = false>
EW_FN u8* heap_alloc_for(const DevHeap& h, u64 bytes, u32 owner) {
  u8* block = nullptr;
  if (!heap_admit<ALONE>(h, bytes, owner)) return block;
  block = heap_alloc<ALONE>(h, heap_whole(h, bytes));
  if (h.mode & HEAP_OWNED) heap_label<ALONE>(h, block, bytes, owner);
  return block;
}

// One lane: says that a block is not in use any more; its tag before, without the use when it was not.
EW_FN u32 heap_untag(u16* at) {
  u32 tag = load(at, relaxed, gpu);
  while (tag & HEAP_TAG_USED) {
    const u32 seen = compare_exchange(at, tag, tag & ~HEAP_TAG_USED, relaxed, gpu);
    if (seen == tag) break;
    tag = seen;
  }
  return tag;
}

// One lane: counts a wrong free, and reports it where the heap is checked.
EW_FN void heap_wrong(const DevHeap& h, const HeapPlace& place, u32 tag, const u8* block, u32 by) {
  add(&h.counters->wrong_frees, (u64)1, relaxed, gpu);
  if (!(h.mode & HEAP_CHECKED)) return;
  const u32 owner = tag & (HEAP_TAG_USED - 1);
  if (place.bytes == 0) return heap_report(h, HEAP_ERROR_FOREIGN, HEAP_OWNER_NONE, by, block, 0);
  if (place.within != 0 && (tag & HEAP_TAG_USED)) return heap_report(h, HEAP_ERROR_MIDDLE, owner, by, block, place.bytes);
  // Never used since the page has its class, or in a hole: nothing begins there.
  if (place.within != 0 || tag == 0) return heap_report(h, HEAP_ERROR_FOREIGN, owner, by, block, 0);
  heap_report(h, HEAP_ERROR_TWICE, owner, by, block, place.bytes);
}

// Any set of lanes, each for itself: as `heap_free`, for a heap with owners; `by` frees.
template <bool ALONE = false>
EW_FN void heap_free_for(const DevHeap& h, u8* block, u32 by) {
  const u32 mask = heap_mask<ALONE>(), me = heap_lane();
  HeapPlace place{};
  u32 tag = 0;
  bool right = false;
  if (block != nullptr) {
    place = heap_place(h, block);
    if (place.bytes != 0) {
      u16* at = heap_tag(h, place.page, place.index);
      right = place.within == 0;
      tag = right ? heap_untag(at) : load(at, relaxed, gpu);
      right = right && (tag & HEAP_TAG_USED);
    }
    if (!right) heap_wrong(h, place, tag, block, by);
  }
  const u32 owner = tag & (HEAP_TAG_USED - 1);
  if (right && (h.mode & HEAP_CHECKED) && !heap_is_intact(block, place.bytes)) {
    heap_report(h, HEAP_ERROR_OVERFLOW, owner, by, block, place.bytes);
  }
  if (right) heap_free<ALONE>(h, block);
  heap_sync<ALONE>(mask);
  heap_discharge<ALONE>(h, mask, me, right, owner, place.bytes);
}

// Any set of lanes, each for itself: frees a block, whatever the heap's mode.
template <bool ALONE = false>
EW_FN void heap_free_any(const DevHeap& h, u8* block, u32 by) {
  if (h.mode & HEAP_OWNED) heap_free_for<ALONE>(h, block, by);
  else heap_free<ALONE>(h, block);
}

}  // namespace ew
