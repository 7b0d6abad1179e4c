// What a checked heap keeps for each block: its tag, its guard, and the errors that were found.
//
// A guard is the last 8 bytes of a block: a word that follows from the address and the second one, and the number of
// bytes between the requested size and the guard. Some of those bytes hold a pattern, so that one
// byte too many shows.
#pragma once
#include "everwarp/heap/heap.cuh"

namespace ew {

EW_FN u32 load(const u16* p, relaxed_t, gpu_t) {
  u16 v;
  asm volatile("ld.relaxed.gpu.global.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
  return v;
}
EW_FN void store(u16* p, u32 v, release_t, gpu_t) {
  asm volatile("st.release.gpu.global.u16 [%0], %1;" ::"l"(p), "h"((u16)v) : "memory");
}
EW_FN u32 compare_exchange(u16* p, u32 expected, u32 v, relaxed_t, gpu_t) {
  u16 old;
  asm volatile("atom.relaxed.gpu.global.cas.b16 %0, [%1], %2, %3;"
               : "=h"(old) : "l"(p), "h"((u16)expected), "h"((u16)v) : "memory");
  return old;
}

EW_FN u16* heap_tag(const DevHeap& h, u32 page, u32 index) { return &h.tags[(u64)page * HEAP_PAGE_TAGS + index]; }

// The page and block of an address.
struct HeapPlace {
  u32 page;
  u32 index;   // of the block in its page
  u32 within;  // bytes from the start of the block
  u64 bytes;   // of the block; 0: the address is in no page of blocks
};
EW_FN HeapPlace heap_place(const DevHeap& h, const u8* at) {
  const u64 offset = (u64)(at - h.base);
  const u32 page = (u32)min(offset >> HEAP_PAGE_SHIFT, (u64)0xffffffffu), in_page = (u32)offset & (HEAP_PAGE_BYTES - 1);
  HeapPlace none{page, 0, 0, 0};
  if (page >= h.page_limit) return none;
  const u32 kind = load(&h.pages[page].state, relaxed, gpu) & ((1u << HEAP_STATE_BITS) - 1);
  if (kind == HEAP_RUN) {
    u32 first = page;
    while (first > 0 && load(&h.pages[first].run, relaxed, gpu) == 0) first--;
    const u64 bytes = (u64)load(&h.pages[first].run, relaxed, gpu) << HEAP_PAGE_SHIFT;
    const u64 within = ((u64)(page - first) << HEAP_PAGE_SHIFT) + in_page;
    if (within >= bytes) return none;
    return {first, 0, (u32)min(within, (u64)0xffffffffu), bytes};
  }
  const u32 cls = load(&h.pages[page].class_, relaxed, gpu);
  if (kind == HEAP_FREE || cls >= HEAP_CLASSES) return none;
  const u32 bytes = heap_class_bytes(cls), index = in_page / bytes;
  if (index >= heap_class_blocks(cls)) return none;
  return {page, index, in_page % bytes, bytes};
}

// One lane: an error for the host to read. The first ones are kept, all are counted.
EW_FN void heap_report(const DevHeap& h, u32 kind, u32 owner, u32 by, const u8* at, u64 bytes) {
  const u64 place = fetch_add(&h.counters->errors, (u64)1, relaxed, gpu);
  if (h.errors == nullptr || place >= HEAP_ERRORS) return;
  DevHeapError& e = h.errors[place];
  e.address = (u64)at;
  e.bytes = bytes;
  e.owner = owner;
  e.by = by;
  // The host reads by copies, which pass through L2: the rest is there before the kind.
  store(&e.kind, kind, release, gpu);
}

EW_FN u32 heap_guard_word(const u8* block, u32 slack) { return HEAP_GUARD_MAGIC ^ slack ^ (u32)((u64)block >> 4); }

// One lane: the guard of a block that takes `takes` bytes for `bytes` that were asked for.
EW_FN void heap_set_guard(u8* block, u64 bytes, u64 takes) {
  const u64 end = takes - HEAP_GUARD_BYTES;
  const u32 slack = (u32)(end - bytes);
  for (u32 i = 0; i < min(slack, HEAP_FENCE_BYTES); i++) block[bytes + i] = HEAP_FENCE;
  *(u64*)(block + end) = (u64)slack << 32 | heap_guard_word(block, slack);
}

// One lane: whether no write has gone beyond the end of a block.
EW_FN bool heap_is_intact(const u8* block, u64 takes) {
  const u64 end = takes - HEAP_GUARD_BYTES, guard = *(const u64*)(block + end);
  const u32 slack = (u32)(guard >> 32);
  if (slack > end || (u32)guard != heap_guard_word(block, slack)) return false;
  for (u32 i = 0; i < min(slack, HEAP_FENCE_BYTES); i++) {
    if (block[end - slack + i] != HEAP_FENCE) return false;
  }
  return true;
}

}  // namespace ew
