// The device heap: blocks of any size, for any set of lanes that ask together.
//
// Each multiprocessor allocates from a page of its own for each class. The lanes of a warp that want blocks
// of one class reserve them with one atomic, and take their bits with another: an idle page gives 32 blocks
// for two. Freeing clears the bits lane by lane and counts them page by page.
#pragma once
#include "everwarp/heap/page.cuh"

namespace ew {

EW_FN u32 heap_lane() {
  u32 me;
  asm("mov.u32 %0, %%laneid;" : "=r"(me));
  return me;
}

// The place of the n-th set bit, from 0; there are more than n.
EW_FN u32 nth_bit(u32 bits, u32 n) {
  u32 at = 0;
#pragma unroll
  for (u32 half = 16; half > 0; half /= 2) {
    const u32 below = __popc(bits >> at & ((1u << half) - 1));
    if (n >= below) {
      n -= below;
      at += half;
    }
  }
  return at;
}

// The lanes of `mask`, together: a page for this class with room, for a place in `active`. The first page of
// a place is one that others have, if there is one: so a class that few want does not take a page each.
EW_FN u32 heap_find_page(const DevHeap& h, u32 mask, u32 me, u32 cls, u32 seed, bool first) {
  const u32 words = heap_words(h), start = seed % words, leader = __ffs(mask) - 1;
  u32* listed = &h.listed[cls * words];
  const u32 there = load(&h.counters->listed[cls], relaxed, gpu), free = load(&h.counters->free, relaxed, gpu);
  if (__any_sync(mask, there != 0)) {
    const u32 page = heap_claim(mask, me, listed, words, start);
    if (page != HEAP_NONE) {
      if (me == leader) {
        add(&h.counters->listed[cls], ~0u, relaxed, gpu);
        const u32 state = load(&h.pages[page].state, relaxed, gpu);
        store(&h.pages[page].state, heap_state(state >> HEAP_STATE_BITS, HEAP_ACTIVE), relaxed, gpu);
      }
      __syncwarp(mask);
      return page;
    }
  }
  if (__any_sync(mask, first || free < heap_few(h))) {
    const u32 page = heap_join(h, mask, me, cls, seed);
    if (page != HEAP_NONE) return page;
  }
  u32 page = heap_claim(mask, me, h.free, words, start);
  if (page != HEAP_NONE && me == leader) add(&h.counters->free, ~0u, relaxed, gpu);
  // Nothing is free: an empty page of another class will do.
#pragma unroll 1
  for (u32 i = 1; page == HEAP_NONE && i < HEAP_CLASSES; i++) {
    const u32 other = (cls + i) % HEAP_CLASSES;
    u32 tries = __shfl_sync(mask, load(&h.counters->listed[other], relaxed, gpu), leader);
    for (; tries > 0 && page == HEAP_NONE; tries--) {
      const u32 one = heap_claim(mask, me, &h.listed[other * words], words, start + tries);
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
      if (__any_sync(mask, empty)) page = one;
    }
  }
  if (page != HEAP_NONE && me == leader) heap_give(h, page, cls);
  __syncwarp(mask);
  return page;
}

// The lanes of `mask`, together: when nothing else is left, any page with a block of this class, whoever
// allocates from it, or any empty page.
EW_FN u32 heap_scrape(const DevHeap& h, u32 mask, u32 me, u32 cls, u32 seed) {
  const u32 lanes = __popc(mask), rank = __popc(mask & ((1u << me) - 1)), leader = __ffs(mask) - 1;
  for (u32 base = 0; base < h.page_count; base += lanes) {
    const u32 at = (seed + base + rank) % h.page_count;
    bool fits = false, empty = false;
    if (base + rank < h.page_count) {
      const u32 of = load(&h.pages[at].class_, relaxed, gpu), state = load(&h.pages[at].state, relaxed, gpu) & ((1u << HEAP_STATE_BITS) - 1);
      const i32 there = heap_available(h, at);
      const bool has_class = state == HEAP_ACTIVE || state == HEAP_LISTED || state == HEAP_UNLISTED;
      fits = has_class && of == cls && there > 0;
      empty = state == HEAP_ACTIVE && of != cls && there == (i32)heap_class_blocks(of);
    }
    u32 found = __ballot_sync(mask, fits);
    if (found != 0) return __shfl_sync(mask, at, __ffs(found) - 1);
    found = __ballot_sync(mask, empty);
    while (found != 0) {
      const u32 who = __ffs(found) - 1;
      found &= found - 1;
      const u32 page = __shfl_sync(mask, at, who);
      bool taken = false;
      if (me == leader) {
        const u32 of = load(&h.pages[page].class_, relaxed, gpu);
        taken = of < HEAP_CLASSES && heap_take_back(h, page, of);
        if (taken) heap_give(h, page, cls);
      }
      if (__any_sync(mask, taken)) return page;
    }
  }
  return HEAP_NONE;
}

// The lanes of `mask`, together: takes `n` reserved blocks of a page; lane of rank r gets the r-th.
EW_FN u8* heap_take(const DevHeap& h, u32 mask, u32 me, u32 page, u32 cls, u32 n, u32 rank, u32 hint) {
  const u32 blocks = heap_class_blocks(cls), words = (blocks + 31) / 32, leader = __ffs(mask) - 1;
  u32* used = &h.used[page * HEAP_PAGE_WORDS];
  u8* block = nullptr;
  u32 done = 0;
  for (u32 w = hint / 32 % words; done < n; w = w + 1 == words ? 0 : w + 1) {
    u32 got = 0;
    if (me == leader) {
      const u32 valid = w + 1 == words && blocks % 32 != 0 ? (1u << blocks % 32) - 1 : 0xffffffffu;
      const u32 free = ~load(&used[w], relaxed, gpu) & valid, there = __popc(free);
      if (free != 0) {
        const u32 want = there <= n - done ? free : free & ((2u << nth_bit(free, n - done - 1)) - 1);
        got = want & ~fetch_or(&used[w], want, acquire, gpu);
      }
    }
    got = __shfl_sync(mask, got, leader);
    const u32 count = __popc(got);
    if (rank >= done && rank < done + count) {
      block = h.base + ((u64)page << HEAP_PAGE_SHIFT) + (u64)(w * 32 + nth_bit(got, rank - done)) * heap_class_bytes(cls);
    }
    done += count;
  }
  return block;
}

// One lane, which has claimed these pages: makes them a run.
EW_FN u8* heap_make_run(const DevHeap& h, u32 first, u32 length) {
  for (u32 i = 0; i < length; i++) {
    DevHeapPage& p = h.pages[first + i];
    store(&p.run, i == 0 ? length : 0, relaxed, gpu);
    store(&p.state, heap_state((load(&p.state, relaxed, gpu) >> HEAP_STATE_BITS) + 1, HEAP_RUN), release, gpu);
  }
  add(&h.counters->free, 0u - length, relaxed, gpu);
  return h.base + ((u64)first << HEAP_PAGE_SHIFT);
}

EW_FN void heap_unclaim(const DevHeap& h, u32 first, u32 length) {
  for (u32 i = 0; i < length; i++) fetch_or(&h.free[(first + i) / 32], 1u << (first + i) % 32, release, gpu);
}

// One lane: a run of pages for a large block; null when there is none. Runs of several pages are looked for
// by one lane of the grid at a time, from where the last one ended.
EW_FN u8* heap_run(const DevHeap& h, u64 bytes, u32 seed) {
  const u64 pages = (bytes + HEAP_PAGE_BYTES - 1) >> HEAP_PAGE_SHIFT;
  if (pages > h.page_count) return nullptr;
  if (pages == 1) {
    const u32 me = heap_lane(), page = heap_claim(1u << me, me, h.free, heap_words(h), seed % heap_words(h));
    return page == HEAP_NONE ? nullptr : heap_make_run(h, page, 1);
  }
  while (exchange(&h.counters->run_lock, 1, acquire, gpu) != 0) __nanosleep(200);
  u8* block = nullptr;
  const u32 start = load(&h.counters->run_next, relaxed, gpu);
  u32 length = 0, page = start;
  // Once round, and on to where a run that begins before the start may end.
  for (u64 looked = 0; looked < h.page_count + pages && block == nullptr; looked++, page++) {
    if (page == h.page_count) {
      heap_unclaim(h, page - length, length);
      length = page = 0;
    }
    // Pages are claimed one by one, and given back when the run breaks.
    const u32 bit = 1u << page % 32;
    if ((load(&h.free[page / 32], relaxed, gpu) & bit) && (fetch_and(&h.free[page / 32], ~bit, acquire, gpu) & bit)) {
      length++;
    } else {
      heap_unclaim(h, page - length, length);
      length = 0;
    }
    if (length == pages) block = heap_make_run(h, page + 1 - length, length);
  }
  if (block == nullptr) heap_unclaim(h, page - length, length);
  store(&h.counters->run_next, page % h.page_count, relaxed, gpu);
  exchange(&h.counters->run_lock, 0, release, gpu);
  return block;
}

// Any set of lanes, each for itself: a block of at least this many bytes, aligned to 16; null when there is
// no room, which is counted. Zero bytes are one.
EW_FN u8* heap_alloc(const DevHeap& h, u64 bytes) {
  const u32 mask = __activemask(), me = heap_lane();
  u8* block = nullptr;
  const bool large = bytes > HEAP_LARGEST_CLASS;
  const u32 mine = large ? HEAP_CLASSES : heap_class((u32)bytes);
  u32 sm, warp, clock;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock));
  u32 todo = __ballot_sync(mask, !large);
  while (todo != 0) {
    const u32 cls = __shfl_sync(mask, mine, __ffs(todo) - 1);
    const u32 peers = __ballot_sync(mask, mine == cls), rank = __popc(peers & ((1u << me) - 1)), leader = __ffs(mask) - 1;
    todo &= ~peers;
    u32* active = &h.active[__shfl_sync(mask, sm % h.multiprocessors * HEAP_SLOTS + heap_slot(cls, warp), leader)];
    const u32 seed = __shfl_sync(mask, (sm * HEAP_SLOTS + heap_slot(cls, warp)) * 2654435761u >> 12, leader);
    u32 done = 0, n = __popc(peers), failed = 0;
    bool full = false;  // the page had fewer than were wanted
    while (done < n) {
      u32 slot = 0, got = 0, hint = 0;
      if (me == leader) {
        slot = load(active, relaxed, gpu);
        if (slot == HEAP_BUSY) __nanosleep(20);
        else if (slot != 0 && !full) got = heap_reserve(h, slot - 1, cls, n - done, hint);
      }
      slot = __shfl_sync(mask, slot, leader);
      full = false;
      if (slot == HEAP_BUSY) continue;
      got = __shfl_sync(mask, got, leader);
      hint = __shfl_sync(mask, hint, leader);
      if (got == 0) {
        // Who finds the page full first looks for another; the rest waits for it.
        bool first = me == leader && compare_exchange(active, slot, HEAP_BUSY, acquire, gpu) == slot;
        if (!__any_sync(mask, first)) continue;
        const u32 page = heap_find_page(h, mask, me, cls, seed, slot == 0);
        if (me == leader) {
          store(active, page == HEAP_NONE ? 0 : page + 1, relaxed, gpu);
          if (slot != 0) heap_drop(h, slot - 1, cls);
        }
        __syncwarp(mask);
        if (page != HEAP_NONE) continue;
        const u32 rest = heap_scrape(h, mask, me, cls, seed + __shfl_sync(mask, clock, leader));
        if (rest == HEAP_NONE) break;
        slot = rest + 1;
        if (me == leader) got = heap_reserve(h, rest, cls, n - done, hint);
        got = __shfl_sync(mask, got, leader);
        hint = __shfl_sync(mask, hint, leader);
        if (got == 0 && ++failed == 16) break;
        if (got == 0) continue;
      }
      const bool served = mine == cls && rank >= done && rank < done + got;
      u8* one = heap_take(h, mask, me, slot - 1, cls, got, mine == cls ? rank - done : 0xffffu, hint);
      if (served) block = one;
      full = done + got < n;
      done += got;
    }
  }
  if (large) block = heap_run(h, bytes, (sm * 2654435761u + me * 97) >> 8);
  if (block == nullptr) add(&h.counters->refused, (u64)1, relaxed, gpu);
  return block;
}

// The bytes of the block that begins here; 0 when none does.
EW_FN u64 heap_block_bytes(const DevHeap& h, const u8* block) {
  const u64 offset = (u64)(block - h.base);
  const u32 page = (u32)min(offset >> HEAP_PAGE_SHIFT, (u64)0xffffffffu), within = (u32)offset & (HEAP_PAGE_BYTES - 1);
  if (page >= h.page_count) return 0;
  const u32 state = load(&h.pages[page].state, relaxed, gpu) & ((1u << HEAP_STATE_BITS) - 1);
  if (state == HEAP_RUN) return within == 0 ? (u64)load(&h.pages[page].run, relaxed, gpu) << HEAP_PAGE_SHIFT : 0;
  const u32 cls = load(&h.pages[page].class_, relaxed, gpu);
  if (state == HEAP_FREE || cls >= HEAP_CLASSES) return 0;
  const u32 bytes = heap_class_bytes(cls), index = within / bytes;
  if (within % bytes != 0 || !(load(&h.used[page * HEAP_PAGE_WORDS + index / 32], relaxed, gpu) >> index % 32 & 1)) return 0;
  return bytes;
}

EW_FN bool heap_free_run(const DevHeap& h, u32 page) {
  const u32 length = exchange(&h.pages[page].run, 0, acq_rel, gpu);
  for (u32 i = 0; i < length; i++) {
    DevHeapPage& p = h.pages[page + i];
    store(&p.state, heap_state((load(&p.state, relaxed, gpu) >> HEAP_STATE_BITS) + 1, HEAP_FREE), relaxed, gpu);
    fetch_or(&h.free[(page + i) / 32], 1u << (page + i) % 32, release, gpu);
  }
  add(&h.counters->free, length, relaxed, gpu);
  return length != 0;
}

// Any set of lanes, each for itself: frees a block. What is no block, or was freed before, is counted and
// changes nothing else. Null is nothing.
EW_FN void heap_free(const DevHeap& h, u8* block) {
  if (block == nullptr) return;
  const u32 mask = __activemask(), me = heap_lane();
  const u64 offset = (u64)(block - h.base);
  const u32 page = (u32)min(offset >> HEAP_PAGE_SHIFT, (u64)0xffffffffu), within = (u32)offset & (HEAP_PAGE_BYTES - 1);
  bool right = page < h.page_count;
  u32 cls = HEAP_CLASSES, state = 0;
  if (right) {
    cls = load(&h.pages[page].class_, relaxed, gpu);
    state = load(&h.pages[page].state, relaxed, gpu);
  }
  const u32 kind = state & ((1u << HEAP_STATE_BITS) - 1);
  const bool run = right && kind == HEAP_RUN;
  right = right && !run && kind != HEAP_FREE && cls < HEAP_CLASSES;
  if (right) {
    const u32 bytes = heap_class_bytes(cls), index = within / bytes, bit = 1u << index % 32;
    // Release: what the owner did with the block comes before what the next one does.
    right = within % bytes == 0 && index < heap_class_blocks(cls) &&
            (fetch_and(&h.used[page * HEAP_PAGE_WORDS + index / 32], ~bit, release, gpu) & bit) != 0;
  } else if (run) {
    if (within != 0 || !heap_free_run(h, page)) add(&h.counters->wrong_frees, (u64)1, relaxed, gpu);
  }
  if (!right && !run) add(&h.counters->wrong_frees, (u64)1, relaxed, gpu);
  // One count for each page.
  u32 todo = __ballot_sync(mask, right);
  while (todo != 0) {
    const u32 leader = __ffs(todo) - 1, one = __shfl_sync(mask, page, leader);
    const u32 peers = __ballot_sync(mask, right && page == one);
    todo &= ~peers;
    if (me != leader) continue;
    const i32 n = __popc(peers), before = (i32)fetch_add((u32*)&h.pages[one].available, (u32)n, release, gpu);
    if (before < heap_worth_listing(cls) && before + n >= heap_worth_listing(cls)) {
      // Pairs with the fence of heap_drop: one of the two sees the other.
      fence(sc, gpu);
      const u32 now = load(&h.pages[one].state, relaxed, gpu);
      if ((now & ((1u << HEAP_STATE_BITS) - 1)) == HEAP_UNLISTED) heap_list(h, one, cls, now >> HEAP_STATE_BITS);
    }
  }
}

}  // namespace ew
