// Idle warps and blocks set a bit; a warp with too much work claims one and fills its inbox.
//
// No wake-up is lost: a warp that has set its bit looks at the count of public chunks, at once and again while it
// waits, so it finds the chunks of a publisher that looked at the bits too early.
// Why bits and not a stack? Two thousand warps that go idle together would fight for its head.
#pragma once
#include "everwarp/warp/local.cuh"

namespace ew {

EW_FN bool ends(const Shared& s, u32 stop) { return stop == s.epoch || stop == STOP_FAULT; }

// One lane: announces that it is idle.
EW_FN void go_idle(u32* bits, u32* count, u32 index) {
  fetch_or(&bits[index / 32], 1u << index % 32, release, gpu);
  add(count, 1, relaxed, gpu);
}

// One lane, when the epoch ends: takes the bit back. The last block sets the counts to zero.
EW_FN void leave_idle(u32* bits, u32 index) { clear(&bits[index / 32], 1u << index % 32, relaxed, gpu); }

// The warp: claims an idle warp; NONE if there is none.
EW_FN u32 claim_idle(Worker& w, u32* bits, u32* count) {
  const u32 words = w.e.bit_words;
  const u32 random = __shfl_sync(ALL, w.random(), 0), start = random % words, turn = random >> 12 & 31;
  for (u32 base = 0; base < words; base += WARP) {
    u32 index = (start + base + w.lane) % words;
    u32 word = base + w.lane < words ? load(&bits[index], relaxed, gpu) : 0;
    u32 found = __ballot_sync(ALL, word != 0);
    u32 bit = (__ffs(__funnelshift_r(word, word, turn)) - 1 + turn) & 31;
    while (found != 0) {
      u32 who = __ffs(found) - 1;
      found &= found - 1;
      u32 id = NONE;
      if (w.lane == who && (fetch_and(&bits[index], ~(1u << bit), acquire, gpu) >> bit & 1)) {
        add(count, ~0u, relaxed, gpu);
        id = index * 32 + bit;
      }
      id = __shfl_sync(ALL, id, who);
      if (id != NONE) return id;
    }
  }
  return NONE;
}

// The warp: hands a chunk to an idle warp, or, block-shaped tasks, to an idle block; or publishes it.
// For block-shaped tasks the warp must be one that may push to the block's deque.
EW_FN void give_here(Worker& w, bool blocks, u32 priority, u32 ref) {
  DevGrid* g = w.e.grid;
  u32 id = claim_idle(w, blocks ? w.e.idle_block_bits : w.e.idle_warp_bits, blocks ? &g->idle_blocks : &g->idle_warps);
  if (w.lane == 0 && id != NONE) {
    u64* slot = blocks ? &w.e.inboxes[id * BLOCK_WARPS].block_chunk : &w.e.inboxes[id].chunk;
    store(slot, (u64)ref + 1, release, gpu);
    w.stats().published += chunk_tasks(ref);
  } else if (w.lane == 0) {
    publish(w, Class::of(w.e, blocks), priority, ref);
  }
  __syncwarp();
}

// The same as a call.
EW_CALL void give(bool blocks, u32 priority, u32 ref) {
  Worker w = Worker::here();
  give_here(w, blocks, priority, ref);
}

// The warp: claims a warp of its own block that waits for work; NONE if none does. The claimer must soon call `hand`,
// even with no tasks: the claimed warp may be waiting for that to stop waiting.
EW_FN u32 claim_neighbour(Worker& w) {
  u32 ready = w.lane < BLOCK_WARPS ? load(&w.s.ready[w.lane], relaxed, cta) : READY_BUSY;
  u32 candidates = __ballot_sync(ALL, ready == READY_WAITING);
  while (candidates != 0) {
    u32 who = __ffs(candidates) - 1;
    candidates &= candidates - 1;
    bool claimed = w.lane == 0 && compare_exchange(&w.s.ready[who], READY_WAITING, READY_CLAIMED, acq_rel, cta) == READY_WAITING;
    if (__any_sync(ALL, claimed)) return who;
  }
  return NONE;
}
// The warp: hands over the tasks of the lanes below `n`, or withdraws with n = 0.
EW_FN void hand(Worker& w, u32 who, const DevTask& task, u32 n) {
  if (w.lane < n) w.s.staging[who][w.lane] = task;
  __syncwarp();
  // Pairs with the acquire in `wait`.
  if (w.lane == 0) store(&w.s.ready[who], n == 0 ? READY_WAITING : READY_FULL + n, release, cta);
  __syncwarp();
}

// The warp, its queue's far end a warp-shaped task or a range of a batch: sends such tasks to idle warps, one each and up to 64 at once,
// until one is left or no warp is idle.
// Warp-shaped tasks are few and long, and often divide themselves: by halves they would take eleven steps to reach
// two thousand warps, each as long as one of these. A range divides itself, too, and its halves wait behind the tasks that it has
// fetched.
EW_CALL void scatter() {
  Worker w = Worker::here();
  LocalQueue& q = w.local();
  const bool newest = w.fifo();
  const u32 words = w.e.bit_words;
#pragma unroll 1
  for (u32 rounds = 0; rounds < LOCAL_TASKS / WARP; rounds++) {
    const u32 head = q.head, tail = q.tail, most = min(tail - head - 1, 2 * WARP);
    const auto far = [&](u32 i) { return q.tasks[(newest ? tail - 1 - i : head + i) % LOCAL_TASKS]; };
    const auto goes = [&](u32 i) { return __ballot_sync(ALL, i < most && meta(fn_of(far(i).head)).shape() == SHAPE_WARP); };
    const u32 near = goes(w.lane), next = goes(WARP + w.lane);
    const u32 count = near != ALL ? __ffs(~near) - 1 : next != ALL ? WARP + __ffs(~next) - 1 : 2 * WARP;
    // Each lane claims up to two warps of another word. A lane that has claimed a warp sends it a task.
    const u32 random = __shfl_sync(ALL, w.random(), 0), index = (random + w.lane) % words, turn = random >> 12 & 31;
    u32 claimed = 0;
    if (w.lane < min(count, words)) {
      u32 word = load(&w.e.idle_warp_bits[index], relaxed, gpu);
      // The warps of the ingress warp's block wait for it, and look into their inboxes rarely.
      if (index == 0) word &= ~0u << BLOCK_WARPS;
      const u32 turned = __funnelshift_r(word, word, turn), first = turned & -turned;
      // The second, if it can be, is of another block.
      const u32 others = turned ^ first, other = others >> 16 != 0 ? others & 0xffff0000u : others;
      const u32 want = first | (WARP + w.lane < count ? other & -other : 0), mask = __funnelshift_l(want, want, turn);
      if (mask != 0) claimed = fetch_and(&w.e.idle_warp_bits[index], ~mask, acquire, gpu) & mask;
    }
    const u32 second = claimed & (claimed - 1);
    const u32 ones = __ballot_sync(ALL, claimed != 0), twos = __ballot_sync(ALL, second != 0), sent = __popc(ones) + __popc(twos);
    if (sent == 0) return;
    // The first `sent` tasks go; to whom does not matter.
    DevInbox* const inboxes = &w.e.inboxes[index * 32];
    const u32 a = __ffs(claimed ^ second) - 1, b = __ffs(second) - 1;
    if (claimed != 0) store_task(&inboxes[a].task, far(__popc(ones & w.lt())), relaxed, gpu);
    if (second != 0) store_task(&inboxes[b].task, far(__popc(ones) + __popc(twos & w.lt())), relaxed, gpu);
    // Pairs with the fence in `take_mail`.
    fence(acq_rel, gpu);
    if (claimed != 0) store(&inboxes[a].chunk, INBOX_TASK, relaxed, gpu);
    if (second != 0) store(&inboxes[b].chunk, INBOX_TASK, relaxed, gpu);
    __syncwarp();
    if (w.lane == 0) {
      add(&w.e.grid->idle_warps, -sent, relaxed, gpu);
      w.stats().published += sent;
      if (newest) q.tail = tail - sent;
      else q.head = head + sent;
    }
    __syncwarp();
  }
}

// The warp: shares the tasks that it will not run next, first with waiting warps of its block, which costs next to
// nothing, then with idle warps elsewhere.
EW_FN void share(Worker& w, bool far) {
  LocalQueue& q = w.local();
  for (u32 round = 0; round < 2 * BLOCK_WARPS; round++) {
    const u32 head = q.head, tail = q.tail, n = tail - head;
    if (n < 2) return;
    // Mostly the tasks to share are neighbours at the far end.
    if (n > WARP && w.fifo()) {
      const DevTask task = q.tasks[(tail - 1 - w.lane) % LOCAL_TASKS];
      const u32 kind = __shfl_sync(ALL, task.head, 0) & TASK_KIND, most = min(n / 2, WARP);
      if (priority_of(kind) == worst_priority(q) && meta(fn_of(kind)).shape() == SHAPE_LANE &&
          __all_sync(ALL, w.lane >= most || (task.head & TASK_KIND) == kind)) {
        const u32 who = claim_neighbour(w);
        if (who != NONE) {
          __syncwarp();
          if (w.lane == 0) q.tail = tail - most;
          hand(w, who, task, most);
          continue;
        }
      }
    }
    u32 fn = peek(w, q, !w.fifo(), best_priority(q));
    if (fn == NONE) return;
    u32 keep = meta(fn).shape() == SHAPE_LANE ? WARP : 1;
    if (n <= keep) return;
    // The far end goes: the oldest tasks, which in divide-and-conquer are the largest.
    u32 priority = worst_priority(q);
    fn = peek(w, q, w.fifo(), priority);
    if (fn == NONE) return;
    u32 shape = meta(fn).shape(), limit;
    if (shape == SHAPE_LANE) limit = min(max(n - keep, w.fifo() ? n / 2 : 0), WARP);
    else limit = fn == FN_FETCH ? 1 : min(max(n / 2, 1), WARP);
    u32 who = shape == SHAPE_BLOCK ? NONE : claim_neighbour(w), id = NONE, got;
    if (who == NONE) {
      if (!far) return;
      id = chunk_alloc();
      if (id == NONE) return;
    }
    DevTask task = take(w, q, w.fifo(), priority, fn, limit, got);
    if (who != NONE) {
      hand(w, who, task, got);
      if (got == 0) return;
      continue;
    }
    if (got == 0) return chunk_free(id);
    if (w.lane < got) store_task(&w.e.chunks[id * CHUNK_TASKS + w.lane], task, relaxed, gpu);
    __syncwarp();
    give(false, priority, chunk_ref(id, got));
    far = __any_sync(ALL, load(&w.e.grid->idle_warps, relaxed, gpu) != 0);
  }
}

}  // namespace ew
