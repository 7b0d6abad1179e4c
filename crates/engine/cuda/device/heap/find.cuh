// Where a class gets its pages from: listed ones, others' own, free ones, empty ones of other classes.
#pragma once
#include "everwarp/heap/page.cuh"

namespace ew {

// The lanes of `mask`, together: a page for this class with room, for a place in `active`. The first page of
// a place is one that another place has, if there is one, so that a rare class does not take a page for each place. One
// lane may return with `claims`, for which others wait: the claim ends once the page is in its place.
template <bool ALONE = false>
EW_FN u32 heap_find_page(const DevHeap& h, u32 mask, u32 me, u32 cls, u32 seed, bool first, bool& claims) {
  const u32 pages = heap_pages(h), words = heap_words(pages), start = seed % words, leader = __ffs(mask) - 1;
  const u32 there = load(&h.counters->listed[cls], relaxed, gpu), free = pages - load(&h.counters->taken, relaxed, gpu);
  if (heap_any<ALONE>(mask, there != 0)) {
    const u32 page = heap_claim<ALONE>(mask, me, heap_listed(h, cls), words, start);
    if (page != HEAP_NONE) {
      if (me == leader) {
        add(&h.counters->listed[cls], ~0u, relaxed, gpu);
        const u32 state = load(&h.pages[page].state, relaxed, gpu);
        store(&h.pages[page].state, heap_state(state >> HEAP_STATE_BITS, HEAP_ACTIVE), relaxed, gpu);
      }
      heap_sync<ALONE>(mask);
      return page;
    }
  }
  while (heap_any<ALONE>(mask, first || free < heap_few(h))) {
    const u32 page = heap_join<ALONE>(h, mask, me, cls, seed);
    if (page != HEAP_NONE) return page;
    // Where very few pages are left, the lanes that want one for a class at the same time share the page that the first
    // of them takes; else each multiprocessor would take one at once. The lane with the claim looks once more.
    bool waits = false;
    if (me == leader && !claims) {
      const u32 left = pages - load(&h.counters->taken, relaxed, gpu);
      waits = left != 0 && left < heap_very_few(h);
      claims = waits && exchange(&h.counters->claiming[cls], 1, acquire, gpu) == 0;
      if (waits && !claims) __nanosleep(100);
    }
    if (!heap_any<ALONE>(mask, waits)) break;
  }
  u32 page = heap_claim<ALONE>(mask, me, h.free, words, start);
  if (page != HEAP_NONE && me == leader) add(&h.counters->taken, 1, relaxed, gpu);
  // Nothing is free: an empty page of another class will do.
#pragma unroll 1
  for (u32 i = 1; page == HEAP_NONE && i < HEAP_CLASSES; i++) {
    const u32 other = (cls + i) % HEAP_CLASSES;
    u32 tries = heap_shfl<ALONE>(mask, load(&h.counters->listed[other], relaxed, gpu), leader);
    for (; tries > 0 && page == HEAP_NONE; tries--) {
      const u32 one = heap_claim<ALONE>(mask, me, heap_listed(h, other), words, start + tries);
      if (one == HEAP_NONE) break;
      bool empty = false;
      if (me == leader) {
        add(&h.counters->listed[other], ~0u, relaxed, gpu);
        empty = heap_take_back(h, one, other);
        if (!empty) {
          const u32 state = load(&h.pages[one].state, relaxed, gpu), generation = state >> HEAP_STATE_BITS;
          store(&h.pages[one].state, heap_state(generation, HEAP_UNLISTED), relaxed, gpu);
          heap_list(h, one, other, generation);
        }
      }
      if (heap_any<ALONE>(mask, empty)) page = one;
    }
  }
  if (page != HEAP_NONE && me == leader) heap_give(h, page, cls);
  heap_sync<ALONE>(mask);
  return page;
}

// The lanes of `mask`, together: when nothing else is left, any page with a block of this class, even
// if another place allocates from it, or any empty page.
template <bool ALONE = false>
EW_FN u32 heap_scrape(const DevHeap& h, u32 mask, u32 me, u32 cls, u32 seed) {
  const u32 lanes = __popc(mask), rank = __popc(mask & ((1u << me) - 1)), leader = __ffs(mask) - 1;
  const u32 pages = heap_pages(h);
  for (u32 base = 0; base < pages; base += lanes) {
    const u32 at = (seed + base + rank) % pages;
    bool fits = false, empty = false;
    if (base + rank < pages) {
      const u32 of = load(&h.pages[at].class_, relaxed, gpu), state = load(&h.pages[at].state, relaxed, gpu) & ((1u << HEAP_STATE_BITS) - 1);
      const i32 there = heap_available(h, at);
      const bool has_class = state == HEAP_ACTIVE || state == HEAP_LISTED || state == HEAP_UNLISTED;
      fits = has_class && of == cls && there > 0;
      empty = state == HEAP_ACTIVE && of != cls && there == (i32)heap_class_blocks(of);
    }
    u32 found = heap_ballot<ALONE>(mask, fits);
    if (found != 0) return heap_shfl<ALONE>(mask, at, __ffs(found) - 1);
    found = heap_ballot<ALONE>(mask, empty);
    while (found != 0) {
      const u32 who = __ffs(found) - 1;
      found &= found - 1;
      const u32 page = heap_shfl<ALONE>(mask, at, who);
      bool taken = false;
      if (me == leader) {
        const u32 of = load(&h.pages[page].class_, relaxed, gpu);
        taken = of < HEAP_CLASSES && heap_take_back(h, page, of);
        if (taken) {
          heap_seize(h, page, of);
          heap_give(h, page, cls);
        }
      }
      if (heap_any<ALONE>(mask, taken)) return page;
    }
  }
  return HEAP_NONE;
}

}  // namespace ew
