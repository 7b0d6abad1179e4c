// Runs of pages: blocks that are larger than the largest class.
//
// Searches start one after the other, by a ticket, so that concurrent ones mostly find pages of their own. A warp looks
// at 1,024 pages at a time and claims a run by its bits in `free`, a word of them in each lane; a lane that is too late
// for one gives the others back.
#pragma once
#include "everwarp/heap/find.cuh"

namespace ew {

// The bits of word `at` that stand for pages from `first` up to `end`.
EW_FN u32 heap_run_bits(u32 at, u32 first, u32 end) {
  const u32 begin = at * 32;
  if (end <= begin || first >= begin + 32) return 0;
  const u32 low = first > begin ? first - begin : 0, high = min(end - begin, 32u);
  return (high == 32 ? ~0u : (1u << high) - 1) & ~0u << low;
}
// How many of the lowest bits are set.
EW_FN u32 heap_ones(u32 bits) { return bits == ~0u ? 32 : __ffs(~bits) - 1; }

// The lanes of `mask`, together: makes the pages from `first` up to `end` claimable.
template <bool ALONE = false>
EW_FN void heap_unclaim(const DevHeap& h, u32 mask, u32 me, u32 first, u32 end) {
  const u32 lanes = __popc(mask), rank = __popc(mask & ((1u << me) - 1));
  // The accesses of other lanes to the pages come before the bits: the lanes meet here, and each releases.
  heap_sync<ALONE>(mask);
  for (u32 at = first / 32 + rank; at * 32 < end; at += lanes) {
    const u32 bits = heap_run_bits(at, first, end);
    if (bits != 0) fetch_or(&h.free[at], bits, release, gpu);
  }
  heap_sync<ALONE>(mask);
}

// The lanes of `mask`, together: claims the pages from `first` up to `end`, all of them or none.
template <bool ALONE = false>
EW_FN bool heap_claim_run(const DevHeap& h, u32 mask, u32 me, u32 first, u32 end) {
  const u32 lanes = __popc(mask), rank = __popc(mask & ((1u << me) - 1));
  for (u32 base = first / 32; base * 32 < end; base += lanes) {
    const u32 at = base + rank, want = heap_run_bits(at, first, end);
    const u32 got = want != 0 ? fetch_and(&h.free[at], ~want, acquire, gpu) & want : 0;
    if (heap_any<ALONE>(mask, got != want)) {
      if (got != 0) fetch_or(&h.free[at], got, release, gpu);
      if (base * 32 > first) heap_unclaim<ALONE>(h, mask, me, first, base * 32);
      return false;
    }
  }
  return true;
}

// The lanes of `mask`, together: claims a run, looking from page `start` on; HEAP_NONE when there is none.
// `lost` says whether another warp was quicker somewhere.
template <bool ALONE = false>
EW_FN u32 heap_find_run(const DevHeap& h, u32 mask, u32 me, u32 length, u32 start, bool& lost) {
  const u32 lanes = __popc(mask), rank = __popc(mask & ((1u << me) - 1));
  const u32 words = heap_words(heap_pages(h));
  lost = false;
  // The first word comes again as the last one, with the pages before `start`.
  for (u32 base = 0; base <= words; base += lanes) {
    const u32 at = (start / 32 + base + rank) % words;
    u32 bits = base + rank <= words ? load(&h.free[at], relaxed, gpu) : 0, first = HEAP_NONE;
    if (base + rank == 0) bits &= ~0u << start % 32;
    while (bits != 0 && first == HEAP_NONE) {
      const u32 low = __ffs(bits) - 1, ones = heap_ones(bits >> low);
      u32 there = ones;
      for (u32 next = at + 1; low + ones == 32 && there < length && next < words; next++) {
        const u32 more = heap_ones(load(&h.free[next], relaxed, gpu));
        there += more;
        if (more < 32) break;
      }
      if (there >= length) first = at * 32 + low;
      bits = low + ones == 32 ? 0 : bits & ~0u << (low + ones);
    }
    u32 found = heap_ballot<ALONE>(mask, first != HEAP_NONE);
    for (; found != 0; found &= found - 1) {
      const u32 one = heap_shfl<ALONE>(mask, first, __ffs(found) - 1);
      if (heap_claim_run<ALONE>(h, mask, me, one, one + length)) return one;
      lost = true;
    }
  }
  return HEAP_NONE;
}

// The lanes of `mask`, together: makes claimed pages those of a run that begins at `first` and is `length`
// pages long; the pages before `from` have been its own before.
template <bool ALONE = false>
EW_FN void heap_make_run(const DevHeap& h, u32 mask, u32 me, u32 first, u32 from, u32 length) {
  const u32 lanes = __popc(mask), rank = __popc(mask & ((1u << me) - 1));
  for (u32 page = from + rank; page < first + length; page += lanes) {
    DevHeapPage& p = h.pages[page];
    if (page != first) store(&p.run, 0, relaxed, gpu);
    store(&p.state, heap_state((load(&p.state, relaxed, gpu) >> HEAP_STATE_BITS) + 1, HEAP_RUN), relaxed, gpu);
  }
  if (me == (u32)__ffs(mask) - 1) {
    store(&h.pages[first].run, length, relaxed, gpu);
    add(&h.counters->taken, first + length - from, relaxed, gpu);
  }
  heap_sync<ALONE>(mask);
}

// The lanes of `mask`, together: gives the pages of a run from `first` up to `end` back.
template <bool ALONE = false>
EW_FN void heap_give_back(const DevHeap& h, u32 mask, u32 me, u32 first, u32 end) {
  const u32 lanes = __popc(mask), rank = __popc(mask & ((1u << me) - 1));
  for (u32 page = first + rank; page < end; page += lanes) {
    DevHeapPage& p = h.pages[page];
    store(&p.state, heap_state((load(&p.state, relaxed, gpu) >> HEAP_STATE_BITS) + 1, HEAP_FREE), relaxed, gpu);
  }
  heap_unclaim<ALONE>(h, mask, me, first, end);
  if (me == (u32)__ffs(mask) - 1) add(&h.counters->taken, first - end, relaxed, gpu);
}

// The lanes of `mask`, together: gives back the runs that lanes have ended, each at `page` and of `length`
// pages; 0: none.
template <bool ALONE = false>
EW_FN void heap_free_runs(const DevHeap& h, u32 mask, u32 me, u32 page, u32 length) {
  // Each lane its own, unless that is long.
  constexpr u32 LONG = 64;
  if (length != 0 && length < LONG) heap_give_back<true>(h, 1u << me, me, page, page + length);
  for (u32 todo = heap_ballot<ALONE>(mask, length >= LONG); todo != 0; todo &= todo - 1) {
    const u32 who = __ffs(todo) - 1, first = heap_shfl<ALONE>(mask, page, who);
    heap_give_back<ALONE>(h, mask, me, first, first + heap_shfl<ALONE>(mask, length, who));
  }
}

// The lanes of `mask`, together: takes empty pages out of their classes; whether there were some.
template <bool ALONE = false>
EW_FN bool heap_reclaim(const DevHeap& h, u32 mask, u32 me) {
  const u32 lanes = __popc(mask), rank = __popc(mask & ((1u << me) - 1)), pages = heap_pages(h);
  bool some = false;
  for (u32 page = rank; page < pages; page += lanes) {
    const u32 kind = load(&h.pages[page].state, relaxed, gpu) & ((1u << HEAP_STATE_BITS) - 1);
    const u32 cls = load(&h.pages[page].class_, relaxed, gpu);
    if (kind != HEAP_LISTED && kind != HEAP_ACTIVE && kind != HEAP_UNLISTED) continue;
    // A page that others allocate from may be taken as well: they find no room in it and look for another.
    if (heap_available(h, page) != (i32)heap_class_blocks(cls) || !heap_take_back(h, page, cls)) continue;
    heap_seize(h, page, cls);
    fetch_or(&h.free[page / 32], 1u << page % 32, release, gpu);
    add(&h.counters->taken, ~0u, relaxed, gpu);
    some = true;
  }
  return heap_any<ALONE>(mask, some);
}

// One lane: a block of one page, null if every page has a class.
EW_FN u8* heap_one_page(const DevHeap& h, u32 seed) {
  const u32 me = heap_lane(), words = heap_words(heap_pages(h)), page = heap_claim<true>(1u << me, me, h.free, words, seed % words);
  if (page == HEAP_NONE) return nullptr;
  heap_make_run<true>(h, 1u << me, me, page, page, 1);
  return h.base + ((u64)page << HEAP_PAGE_SHIFT);
}

// The lanes of `mask`, together: a run of pages for one large block; null when there is none. While searches
// that find nothing hold pages which they give back, another may be refused as well.
template <bool ALONE = false>
EW_FN u8* heap_run(const DevHeap& h, u32 mask, u32 me, u64 bytes) {
  const u32 leader = __ffs(mask) - 1, pages = heap_pages(h);
  if (bytes > (u64)pages << HEAP_PAGE_SHIFT) return nullptr;
  const u32 length = (u32)((bytes + HEAP_PAGE_BYTES - 1) >> HEAP_PAGE_SHIFT);
  bool lost = true, reclaimed = false;
  while (lost || !reclaimed) {
    // Only when there is no such run.
    if (!lost) {
      reclaimed = true;
      if (!heap_reclaim<ALONE>(h, mask, me)) break;
    }
    const u32 ticket = me == leader ? fetch_add(&h.counters->run_next, length, relaxed, gpu) : 0;
    const u32 first = heap_find_run<ALONE>(h, mask, me, length, heap_shfl<ALONE>(mask, ticket, leader) % pages, lost);
    if (first != HEAP_NONE) {
      heap_make_run<ALONE>(h, mask, me, first, first, length);
      return h.base + ((u64)first << HEAP_PAGE_SHIFT);
    }
  }
  return nullptr;
}

}  // namespace ew
