// Public places of chunks: a deque for each queue and priority, and overflow stacks for what the deques cannot hold.
//
// Rules of a deque's word (head, tail, tag):
// 1. Only the owner pushes and moves the tail: a warp for its own, the holder of the block's lock for
//    a block's. Any warp may move the head, by compare-and-swap of the whole word.
// 2. A slot is written before the tail passes it, and not reused before the head has passed it.
// 3. A pop of the owner changes the tag, so that a thief that read a slot since replaced must fail.
// 4. The queue's bit is set after each push. The warp that empties the deque clears it, and then looks again.
#pragma once
#include "everwarp/grid/chunk.cuh"

namespace ew {

constexpr u64 DEQUE_INDEX = 0xffffff;
EW_FN u32 deque_head(u64 word) { return (u32)(word & DEQUE_INDEX); }
EW_FN u32 deque_tail(u64 word) { return (u32)(word >> 24 & DEQUE_INDEX); }
EW_FN u32 deque_length(u64 word) { return (deque_tail(word) - deque_head(word)) & (u32)DEQUE_INDEX; }

// Which queues: the warps' or, for block-shaped tasks, the blocks'.
struct Class {
  u32* bits;       // [priority][bit_words]
  u32* total;      // chunks of all priorities
  u32* count;      // [priority]
  u64* overflow;   // [priority]
  u32 members;     // how many queues there can be
  bool blocks;

  EW_FN Class warps(const DevEngine& e) {
    return {e.warp_bits, &e.grid->public_chunks, e.grid->chunks_at, e.grid->overflow, e.max_blocks * BLOCK_WARPS, false};
  }
  EW_FN Class of_blocks(const DevEngine& e) {
    return {e.block_bits, &e.grid->public_block_chunks, e.grid->block_chunks_at, e.grid->overflow_block, e.max_blocks, true};
  }
  EW_FN Class of(const DevEngine& e, bool blocks) { return blocks ? of_blocks(e) : warps(e); }
  __device__ __forceinline__ u32 queue(u32 member) const {
    return blocks ? member * BLOCK_QUEUES + BLOCK_WARPS
                  : member / BLOCK_WARPS * BLOCK_QUEUES + member % BLOCK_WARPS;
  }
  // Counts chunks that came into public places, or left them.
  __device__ __forceinline__ void counted(u32 priority, u32 change) const {
    add(&count[priority], change, relaxed, gpu);
    add(total, change, relaxed, gpu);
  }
  // The calling warp's, or its block's, place among the members.
  __device__ __forceinline__ u32 self(const Worker& w) const { return blocks ? blockIdx.x : w.global; }
};

EW_FN void deque_emptied(const DevEngine& e, DevDeque& d, const Class& c, u32 member, u32 priority) {
  u32* word = &c.bits[priority * e.bit_words + member / 32];
  fetch_and(word, ~(1u << member % 32), acq_rel, gpu);
  // Pairs with the fetch_or of a push: either it came after, or its push is seen here.
  if (deque_length(load(&d.word, acquire, gpu)) != 0) fetch_or(word, 1u << member % 32, acq_rel, gpu);
}

// One lane of the owner. Never fails: a chunk without room in the deque goes to the overflow stack.
EW_FN void publish(Worker& w, const Class& c, u32 priority, u32 ref) {
  u32 member = c.self(w);
  DevDeque& d = w.e.deques[c.queue(member) * PRIORITIES + priority];
  u64 word = load(&d.word, relaxed, gpu);
  if (deque_length(word) >= DEQUE_CHUNKS) {
    store(&w.e.chunk_count[chunk_id(ref)], chunk_tasks(ref), relaxed, gpu);
    stack_push(&c.overflow[priority], w.e.chunk_next, chunk_id(ref));
  } else {
    store(&d.slots[deque_tail(word) % DEQUE_CHUNKS], ref, relaxed, gpu);
    fetch_add(&d.word, (u64)1 << 24, release, gpu);
    fetch_or(&c.bits[priority * w.e.bit_words + member / 32], 1u << member % 32, acq_rel, gpu);
  }
  c.counted(priority, 1);
  w.stats().published += chunk_tasks(ref);
}

// One lane: takes the oldest chunk of a member's deque; NONE when empty or taken by others.
EW_FN u32 take_oldest(Worker& w, const Class& c, u32 priority, u32 member) {
  DevDeque& d = w.e.deques[c.queue(member) * PRIORITIES + priority];
  u64 word = load(&d.word, acquire, gpu);
  for (u32 attempt = 0; attempt < 4; attempt++) {
    if (deque_length(word) == 0) return NONE;
    u32 head = deque_head(word);
    u32 ref = load(&d.slots[head % DEQUE_CHUNKS], relaxed, gpu);
    u64 taken = (word & ~DEQUE_INDEX) | ((head + 1) & DEQUE_INDEX);
    u64 seen = compare_exchange(&d.word, word, taken, acq_rel, gpu);
    if (seen == word) {
      c.counted(priority, ~0u);
      if (deque_length(taken) == 0) deque_emptied(w.e, d, c, member, priority);
      return ref;
    }
    word = seen;
  }
  return NONE;
}

// One lane of the owner: takes the newest chunk of its own deque.
EW_FN u32 take_newest(Worker& w, const Class& c, u32 priority) {
  u32 member = c.self(w);
  DevDeque& d = w.e.deques[c.queue(member) * PRIORITIES + priority];
  u64 word = load(&d.word, relaxed, gpu);
  while (deque_length(word) != 0) {
    u32 tail = (deque_tail(word) - 1) & (u32)DEQUE_INDEX;
    u32 ref = load(&d.slots[tail % DEQUE_CHUNKS], relaxed, gpu);
    u64 taken = ((word >> 48) + 1) << 48 | (u64)tail << 24 | deque_head(word);
    u64 seen = compare_exchange(&d.word, word, taken, acq_rel, gpu);
    if (seen == word) {
      c.counted(priority, ~0u);
      if (deque_length(taken) == 0) deque_emptied(w.e, d, c, member, priority);
      return ref;
    }
    word = seen;
  }
  return NONE;
}

// The warp: finds a chunk of this priority anywhere; NONE when none was found.
EW_FN u32 find_public(Worker& w, const Class& c, u32 priority) {
  u32 ref = NONE;
  if (!__any_sync(ALL, load(&c.count[priority], relaxed, gpu) != 0)) return NONE;
  if (w.lane == 0) {
    u32 id = stack_pop(&c.overflow[priority], w.e.chunk_next);
    if (id != NONE) {
      ref = chunk_ref(id, load(&w.e.chunk_count[id], relaxed, gpu));
      c.counted(priority, ~0u);
    }
  }
  ref = __shfl_sync(ALL, ref, 0);
  if (ref != NONE) return ref;
  const u32 words = (c.members + 31) / 32;
  const u32 start = __shfl_sync(ALL, w.random(), 0) % words;
  for (u32 base = 0; base < words; base += WARP) {
    u32 at = base + w.lane;
    u32 bits = 0, index = (start + at) % words;
    if (at < words) bits = load(&c.bits[priority * w.e.bit_words + index], relaxed, gpu);
    // Each lane proposes one queue of its word, from a random place on.
    u32 found = __ballot_sync(ALL, bits != 0);
    u32 turn = start & 31;
    u32 rotated = __funnelshift_r(bits, bits, turn);
    u32 victim = index * 32 + ((__ffs(rotated) - 1 + turn) & 31);
    while (found != 0) {
      u32 who = __ffs(found) - 1;
      found &= found - 1;
      if (w.lane == who) ref = take_oldest(w, c, priority, victim);
      ref = __shfl_sync(ALL, ref, who);
      if (ref != NONE) return ref;
    }
  }
  return NONE;
}

}  // namespace ew
