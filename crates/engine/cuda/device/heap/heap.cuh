// The device heap: blocks of any size, for any set of lanes that ask together.
//
// Each multiprocessor allocates from a page of its own for each class. The lanes of a warp that want blocks
// of one class reserve them with one atomic, and take their bits with another: an idle page gives 32 blocks
// for two. Freeing clears the bits lane by lane and counts them page by page.
#pragma once
#include "everwarp/heap/run.cuh"

namespace ew {

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

// The lanes of `mask`, together: takes `n` reserved blocks of a page; lane of rank r gets the r-th.
template <bool ALONE = false>
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
    got = heap_shfl<ALONE>(mask, got, leader);
    const u32 count = __popc(got);
    if (rank >= done && rank < done + count) {
      block = h.base + ((u64)page << HEAP_PAGE_SHIFT) + (u64)(w * 32 + nth_bit(got, rank - done)) * heap_class_bytes(cls);
    }
    done += count;
  }
  return block;
}

// Where searches for a place start.
EW_FN u32 heap_seed(u32 place) { return place * 2654435761u >> 12; }

// Any set of lanes, each for itself: a block of a class, null when there is no room.
template <bool ALONE = false>
EW_FN u8* heap_small(const DevHeap& h, u32 bytes) {
  const u32 mask = heap_mask<ALONE>(), me = heap_lane();
  u8* block = nullptr;
  const u32 mine = heap_class(bytes);
  u32 todo = mask;
  while (todo != 0) {
    const u32 cls = heap_shfl<ALONE>(mask, mine, __ffs(todo) - 1);
    const u32 peers = heap_ballot<ALONE>(mask, mine == cls), leader = __ffs(mask) - 1;
    todo &= ~peers;
    // The place in `active`, from which searches start as well. Values that are cheap to compute are computed where
    // they are needed, because this is a call for tasks, and its registers are missing at the call.
    const u32 place = heap_shfl<ALONE>(mask, heap_sm() % h.multiprocessors * HEAP_SLOTS + heap_slot(cls, heap_warp()), leader);
    u32 done = 0, failed = 0;
    bool full = false;  // the page had fewer than were wanted
    while (done < __popc(peers)) {
      u32 slot = 0, got = 0, hint = 0;
      if (me == leader) {
        slot = load(&h.active[place], relaxed, gpu);
        if (slot == HEAP_BUSY) __nanosleep(20);
        else if (slot != 0 && !full) got = heap_reserve(h, slot - 1, cls, __popc(peers) - done, hint);
      }
      slot = heap_shfl<ALONE>(mask, slot, leader);
      full = false;
      if (slot == HEAP_BUSY) continue;
      got = heap_shfl<ALONE>(mask, got, leader);
      hint = heap_shfl<ALONE>(mask, hint, leader);
      if (got == 0) {
        // The first lane that finds the page full looks for another; the others wait for it.
        bool first = me == leader && compare_exchange(&h.active[place], slot, HEAP_BUSY, acquire, gpu) == slot;
        if (!heap_any<ALONE>(mask, first)) continue;
        bool claims = false;
        const u32 page = heap_find_page<ALONE>(h, mask, me, cls, heap_seed(place), slot == 0, claims);
        if (me == leader) {
          store(&h.active[place], page == HEAP_NONE ? 0 : page + 1, relaxed, gpu);
          if (claims) store(&h.counters->claiming[cls], 0, release, gpu);
          if (slot != 0) heap_drop(h, slot - 1, cls);
        }
        heap_sync<ALONE>(mask);
        if (page != HEAP_NONE) continue;
        const u32 rest = heap_scrape<ALONE>(h, mask, me, cls, heap_seed(place) + heap_shfl<ALONE>(mask, heap_clock(), leader));
        if (rest == HEAP_NONE) break;
        slot = rest + 1;
        if (me == leader) got = heap_reserve(h, rest, cls, __popc(peers) - done, hint);
        got = heap_shfl<ALONE>(mask, got, leader);
        hint = heap_shfl<ALONE>(mask, hint, leader);
        if (got == 0 && ++failed == 16) break;
        if (got == 0) continue;
      }
      const u32 rank = __popc(peers & ((1u << me) - 1));
      const bool served = mine == cls && rank >= done && rank < done + got;
      u8* one = heap_take<ALONE>(h, mask, me, slot - 1, cls, got, mine == cls ? rank - done : 0xffffu, hint);
      if (served) block = one;
      full = done + got < __popc(peers);
      done += got;
    }
  }
  if (block == nullptr) add(&h.counters->refused, (u64)1, relaxed, gpu);
  return block;
}

// Any set of lanes, each for itself: a run of pages, null when there is no room.
template <bool ALONE = false>
EW_FN u8* heap_large(const DevHeap& h, u64 bytes) {
  const u32 mask = heap_mask<ALONE>(), me = heap_lane();
  u8* block = nullptr;
  if (bytes <= HEAP_PAGE_BYTES) block = heap_one_page(h, (heap_sm() * 2654435761u + me * 97) >> 8);
  for (u32 todo = heap_ballot<ALONE>(mask, block == nullptr); todo != 0; todo &= todo - 1) {
    const u32 who = __ffs(todo) - 1;
    u8* run = heap_run<ALONE>(h, mask, me, heap_shfl<ALONE>(mask, bytes, who));
    if (me == who) block = run;
  }
  if (block == nullptr) add(&h.counters->refused, (u64)1, relaxed, gpu);
  return block;
}

// Any set of lanes, each for itself: a block of at least this many bytes, aligned to 16; null when there is
// no room, which is counted. Zero bytes are one.
template <bool ALONE = false>
EW_FN u8* heap_alloc(const DevHeap& h, u64 bytes) {
  if (bytes > HEAP_LARGEST_CLASS) return heap_large<ALONE>(h, bytes);
  return heap_small<ALONE>(h, (u32)bytes);
}

// The bytes of the block that begins here; 0 when none does.
EW_FN u64 heap_block_bytes(const DevHeap& h, const u8* block) {
  const u64 offset = (u64)(block - h.base);
  const u32 page = (u32)min(offset >> HEAP_PAGE_SHIFT, (u64)0xffffffffu), within = (u32)offset & (HEAP_PAGE_BYTES - 1);
  if (page >= h.page_limit) return 0;
  const u32 state = load(&h.pages[page].state, relaxed, gpu) & ((1u << HEAP_STATE_BITS) - 1);
  if (state == HEAP_RUN) return within == 0 ? (u64)load(&h.pages[page].run, relaxed, gpu) << HEAP_PAGE_SHIFT : 0;
  const u32 cls = load(&h.pages[page].class_, relaxed, gpu);
  if (state == HEAP_FREE || cls >= HEAP_CLASSES) return 0;
  const u32 bytes = heap_class_bytes(cls), index = within / bytes;
  if (within % bytes != 0 || !(load(&h.used[page * HEAP_PAGE_WORDS + index / 32], relaxed, gpu) >> index % 32 & 1)) return 0;
  return bytes;
}

// Any set of lanes, each for itself: frees a block. An address that is no block, or was freed before, is counted and
// changes nothing else. Null is ignored.
template <bool ALONE = false>
EW_FN void heap_free(const DevHeap& h, u8* block) {
  if (block == nullptr) return;
  const u32 mask = heap_mask<ALONE>(), me = heap_lane();
  const u64 offset = (u64)(block - h.base);
  const u32 page = (u32)min(offset >> HEAP_PAGE_SHIFT, (u64)0xffffffffu), within = (u32)offset & (HEAP_PAGE_BYTES - 1);
  bool right = page < h.page_limit;
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
    // Release: the owner's accesses to the block come before those of the next owner.
    right = within % bytes == 0 && index < heap_class_blocks(cls) &&
            (fetch_and(&h.used[page * HEAP_PAGE_WORDS + index / 32], ~bit, release, gpu) & bit) != 0;
  }
  const u32 length = run && within == 0 ? exchange(&h.pages[page].run, 0, acq_rel, gpu) : 0;
  if (!right && length == 0) add(&h.counters->wrong_frees, (u64)1, relaxed, gpu);
  heap_free_runs<ALONE>(h, mask, me, page, length);
  // One count for each page.
  u32 todo = heap_ballot<ALONE>(mask, right);
  while (todo != 0) {
    const u32 leader = __ffs(todo) - 1, one = heap_shfl<ALONE>(mask, page, leader);
    const u32 peers = heap_ballot<ALONE>(mask, right && page == one);
    todo &= ~peers;
    if (me != leader) continue;
    heap_put_back(h, one, cls, __popc(peers));
  }
}

}  // namespace ew
