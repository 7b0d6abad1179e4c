// Pages: given to a class, listed when they have room, taken back when they are empty.
//
// Rules of a page:
// 1. `available` counts free blocks that are not reserved. A block may be taken only after a successful
//    reservation; its bit in `used` is cleared before the count goes up. So every reservation finds a bit.
// 2. A page is taken from its class by exchanging `available` from "all" to "no class": then no block is in
//    use or reserved, and no reservation can succeed until the page has been given to another class. A
//    reserving lane looks at the class again afterwards, and withdraws if it has changed.
// 3. `state` says how the page may be reached. Its generation changes with the class, so that a lane that remembers
//    the page from before cannot change its state.
// 4. A bit in `free` or `listed` is a claim on the page: the lane that clears it owns the page's state.
// 5. Pages are appended by the host: entries in `pages` first, then bits in `free`, in words that had none,
//    then the number of pages. A lane that claims a bit finds the entry; one that does not see the
//    number yet only searches less.
#pragma once
#include "everwarp/heap/class.cuh"

namespace ew {

constexpr i32 HEAP_NOBODYS = -(1 << 30);
constexpr u32 HEAP_NONE = 0xffffffffu;

EW_FN u32 heap_state(u32 generation, u32 state) { return generation << HEAP_STATE_BITS | state; }
// Lanes work in one of two ways. Together: those of a mask, by votes and shuffles. Or each ALONE, and then there
// is no vote: where a warp has diverged, several sets of its lanes may be in the same function at a time, and
// votes among one set were seen to go wrong while another set voted (values of lanes that were not there).
template <bool ALONE> EW_FN u32 heap_mask();
template <bool ALONE> EW_FN u32 heap_ballot(u32 mask, bool value) {
  if constexpr (ALONE) return value ? mask : 0;
  else return __ballot_sync(mask, value);
}
template <bool ALONE> EW_FN bool heap_any(u32 mask, bool value) {
  if constexpr (ALONE) return value;
  else return __any_sync(mask, value);
}
template <bool ALONE, class T> EW_FN T heap_shfl(u32 mask, T value, u32 lane) {
  if constexpr (ALONE) return value;
  else return __shfl_sync(mask, value, lane);
}
template <bool ALONE> EW_FN u32 heap_add(u32 mask, u32 value) {
  if constexpr (ALONE) return value;
  else return __reduce_add_sync(mask, value);
}
template <bool ALONE> EW_FN void heap_sync(u32 mask) {
  if constexpr (!ALONE) __syncwarp(mask);
}

// Pages that there are now, and words of their bits.
EW_FN u32 heap_pages(const DevHeap& h) { return load(&h.counters->pages, relaxed, gpu); }
EW_FN u32 heap_words(u32 pages) { return (pages + 31) / 32; }
// Bits of listed pages of a class.
EW_FN u32* heap_listed(const DevHeap& h, u32 cls) { return &h.listed[cls * heap_words(h.page_limit)]; }

// Read where they are needed, so that none occupies a register from one use to the next.
EW_FN u32 heap_sm() {
  u32 sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}
EW_FN u32 heap_warp() {
  u32 warp;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
  return warp;
}
EW_FN u32 heap_clock() {
  u32 clock;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock));
  return clock;
}
EW_FN u32 heap_lane() {
  u32 me;
  asm("mov.u32 %0, %%laneid;" : "=r"(me));
  return me;
}
template <bool ALONE> EW_FN u32 heap_mask() {
  if constexpr (ALONE) return 1u << heap_lane();
  else return __activemask();
}

EW_FN i32 heap_available(const DevHeap& h, u32 page) { return (i32)load((const u32*)&h.pages[page].available, relaxed, gpu); }

// One lane: reserves up to `want` blocks of a page; how many, and where to look first in `hint`.
EW_FN u32 heap_reserve(const DevHeap& h, u32 page, u32 cls, u32 want, u32& hint) {
  DevHeapPage& p = h.pages[page];
  // Acquire: with the class that the page was given to comes its empty state.
  const i32 there = (i32)fetch_add((u32*)&p.available, (u32)-(i32)want, acquire, gpu);
  i32 got = min(max(there, 0), (i32)want);
  if (got > 0 && load(&p.class_, relaxed, gpu) != cls) got = 0;
  if (got != (i32)want) add((u32*)&p.available, want - got, relaxed, gpu);
  hint = heap_class_blocks(cls) - (u32)max(there, 0);
  return (u32)got;
}

// One lane: makes a page with room findable; `generation` is the one that the caller knows.
EW_FN void heap_list(const DevHeap& h, u32 page, u32 cls, u32 generation) {
  u32* state = &h.pages[page].state;
  if (compare_exchange(state, heap_state(generation, HEAP_UNLISTED), heap_state(generation, HEAP_LISTED), acq_rel, gpu) !=
      heap_state(generation, HEAP_UNLISTED)) return;
  add(&h.counters->listed[cls], 1, relaxed, gpu);
  fetch_or(&heap_listed(h, cls)[page / 32], 1u << page % 32, release, gpu);
}

// One lane: stops allocating from a page that had no room.
EW_FN void heap_drop(const DevHeap& h, u32 page, u32 cls) {
  DevHeapPage& p = h.pages[page];
  const u32 state = load(&p.state, relaxed, gpu), generation = state >> HEAP_STATE_BITS;
  if (state != heap_state(generation, HEAP_ACTIVE) || load(&p.class_, relaxed, gpu) != cls) return;
  if (compare_exchange(&p.state, state, heap_state(generation, HEAP_UNLISTED), acq_rel, gpu) != state) return;
  // A lane that freed meanwhile saw it active and left it to this one.
  fence(sc, gpu);
  if (heap_available(h, page) >= heap_worth_listing(cls)) heap_list(h, page, cls, generation);
}

// One lane, which owns the page's state and knows that it is empty and without a class: gives it to a class.
EW_FN void heap_give(const DevHeap& h, u32 page, u32 cls) {
  DevHeapPage& p = h.pages[page];
  const u32 generation = (load(&p.state, relaxed, gpu) >> HEAP_STATE_BITS) + 1;
  store((u64*)&p.state, (u64)cls << 32 | heap_state(generation, HEAP_ACTIVE), relaxed, gpu);
  // Release: class and state before the first reservation. Reservations that failed meanwhile put
  // their blocks back, so the count is added to, not set.
  add((u32*)&p.available, (u32)((i32)heap_class_blocks(cls) - HEAP_NOBODYS), release, gpu);
}

// One lane: takes an empty page of this class out of it, if there is one; whether there was.
EW_FN bool heap_take_back(const DevHeap& h, u32 page, u32 cls) {
  const u32 all = heap_class_blocks(cls);
  return compare_exchange((u32*)&h.pages[page].available, all, (u32)HEAP_NOBODYS, acq_rel, gpu) == all;
}

// One lane, which took back a page that is listed or that others allocate from: makes its state the caller's.
EW_FN void heap_seize(const DevHeap& h, u32 page, u32 cls) {
  DevHeapPage& p = h.pages[page];
  const u32 bit = 1u << page % 32;
  while (true) {
    const u32 state = load(&p.state, relaxed, gpu), generation = state >> HEAP_STATE_BITS;
    if (state == heap_state(generation, HEAP_LISTED)) {
      // Its bit is set or about to be, or another lane has claimed it and will make the page active.
      if (!(fetch_and(&heap_listed(h, cls)[page / 32], ~bit, acquire, gpu) & bit)) continue;
      add(&h.counters->listed[cls], ~0u, relaxed, gpu);
      return store(&p.state, heap_state(generation + 1, HEAP_FREE), relaxed, gpu);
    }
    // Because of the generation, a lane that drops or lists it meanwhile changes nothing.
    if (compare_exchange(&p.state, state, heap_state(generation + 1, HEAP_FREE), acq_rel, gpu) == state) return;
  }
}

// One lane: blocks of a page are free again.
EW_FN void heap_put_back(const DevHeap& h, u32 page, u32 cls, u32 n) {
  const i32 before = (i32)fetch_add((u32*)&h.pages[page].available, n, release, gpu);
  if (before >= heap_worth_listing(cls) || before + (i32)n < heap_worth_listing(cls)) return;
  // Pairs with the fence of heap_drop: one of the two sees the other.
  fence(sc, gpu);
  const u32 now = load(&h.pages[page].state, relaxed, gpu);
  if ((now & ((1u << HEAP_STATE_BITS) - 1)) == HEAP_UNLISTED) heap_list(h, page, cls, now >> HEAP_STATE_BITS);
}

// Pages that are few: multiprocessors share theirs then.
EW_FN u32 heap_few(const DevHeap& h) { return h.multiprocessors * HEAP_SLOTS; }

// Pages that are so few that one class must not take one for each multiprocessor.
EW_FN u32 heap_very_few(const DevHeap& h) { return h.multiprocessors * 16; }

// The place in `active` of a class; a warp's, where there are several.
EW_FN u32 heap_slot(u32 cls, u32 warp) {
  return cls < HEAP_WIDE_CLASS ? cls : HEAP_WIDE_CLASS + (cls - HEAP_WIDE_CLASS) * HEAP_WIDE_SLOTS + warp % HEAP_WIDE_SLOTS;
}
static_assert(HEAP_SLOTS == HEAP_WIDE_CLASS + (HEAP_CLASSES - HEAP_WIDE_CLASS) * HEAP_WIDE_SLOTS, "places of a multiprocessor");

// The lanes of `mask`, together: a page of this class with room from which others allocate.
template <bool ALONE = false>
EW_FN u32 heap_join(const DevHeap& h, u32 mask, u32 me, u32 cls, u32 seed) {
  const u32 lanes = __popc(mask), rank = __popc(mask & ((1u << me) - 1));
  const u32 wide = cls < HEAP_WIDE_CLASS ? 1 : HEAP_WIDE_SLOTS, places = h.multiprocessors * wide;
  for (u32 base = 0; base < places; base += lanes) {
    const u32 at = (seed + base + rank) % places;
    const u32 slot = base + rank < places ? load(&h.active[at / wide * HEAP_SLOTS + heap_slot(cls, at % wide)], relaxed, gpu) : 0;
    const bool fits = slot != 0 && slot != HEAP_BUSY && heap_available(h, slot - 1) > 0 &&
                      load(&h.pages[slot - 1].class_, relaxed, gpu) == cls;
    const u32 found = heap_ballot<ALONE>(mask, fits);
    if (found != 0) return heap_shfl<ALONE>(mask, slot - 1, __ffs(found) - 1);
  }
  return HEAP_NONE;
}

// The lanes of `mask`, together: claims a page whose bit is set; HEAP_NONE when none was found.
template <bool ALONE = false>
EW_FN u32 heap_claim(u32 mask, u32 me, u32* bits, u32 words, u32 start) {
  const u32 lanes = __popc(mask), rank = __popc(mask & ((1u << me) - 1));
  for (u32 base = 0; base < words; base += lanes) {
    const u32 at = (start + base + rank) % words;
    u32 word = base + rank < words ? load(&bits[at], relaxed, gpu) : 0;
    u32 found = heap_ballot<ALONE>(mask, word != 0);
    while (found != 0) {
      const u32 who = __ffs(found) - 1;
      found &= found - 1;
      u32 page = HEAP_NONE;
      while (me == who && word != 0 && page == HEAP_NONE) {
        const u32 bit = word & -word, old = fetch_and(&bits[at], ~bit, acquire, gpu);
        if (old & bit) page = at * 32 + __ffs(bit) - 1;
        word = old & ~bit;
      }
      heap_sync<ALONE>(mask);
      page = heap_shfl<ALONE>(mask, page, who);
      if (page != HEAP_NONE) return page;
    }
  }
  return HEAP_NONE;
}

}  // namespace ew
