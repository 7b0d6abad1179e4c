// The local queue: 512 tasks in shared memory, taken from either end, by priority and function.
#pragma once
#include "everwarp/grid/deque.cuh"

namespace ew {

constexpr u32 TAKEN = 0xffffffffu;  // head of a task that `take` has removed, until it compacts
constexpr u32 ANY_FN = NONE;

// The bits that tasks of one batch have in common: function and priority.
constexpr u32 TASK_KIND = (1u << TASK_FN_BITS) - 1 | (PRIORITIES - 1) << TASK_PRIORITY_SHIFT;

EW_FN u32 local_count(const LocalQueue& q) { return q.tail - q.head; }

// How many more tasks the queue takes. One place is kept free, for the continuation of a group that a
// payment of debts ends.
EW_FN u32 local_room(const LocalQueue& q) { return LOCAL_TASKS - 1 - local_count(q); }

// One lane: the queue may hold tasks of this priority from now on.
EW_FN void note_priority(LocalQueue& q, u32 priority) {
  u32 bit = 1u << priority;
  if ((q.priorities & bit) == 0) atomicOr_block(&q.priorities, bit);
}

// Any set of active lanes: appends one task each, of a priority that is noted elsewhere. There is room: it
// was made sure of before the batch.
EW_FN void append(LocalQueue& q, const DevTask& task) { q.tasks[atomicAdd_block(&q.tail, 1) % LOCAL_TASKS] = task; }

// The same with its priority.
EW_FN void push(LocalQueue& q, const DevTask& task) {
  append(q, task);
  note_priority(q, priority_of(task.head));
}

// The warp: appends the first n lanes' tasks in order.
EW_FN void push_all(Worker& w, LocalQueue& q, const DevTask& task, u32 n) {
  u32 base = q.tail;
  __syncwarp();
  if (w.lane < n) {
    q.tasks[(base + w.lane) % LOCAL_TASKS] = task;
    note_priority(q, priority_of(task.head));
  }
  if (w.lane == 0) q.tail = base + n;
  __syncwarp();
}

// The highest priority that the queue may hold; PRIORITIES when it is empty.
EW_FN u32 best_priority(const LocalQueue& q) {
  return local_count(q) == 0 ? PRIORITIES : min(__ffs(q.priorities) - 1, (int)PRIORITIES);
}
EW_FN u32 worst_priority(const LocalQueue& q) {
  return local_count(q) == 0 ? PRIORITIES : 31 - __clz(q.priorities);
}

// The warp: the function of the first task of this priority from one end; NONE when there is none.
EW_FN u32 peek(Worker& w, LocalQueue& q, bool newest, u32 priority) {
  const u32 head = q.head, tail = q.tail, n = tail - head;
  for (u32 base = 0; base < n; base += WARP) {
    u32 i = base + w.lane;
    u32 task = q.tasks[(newest ? tail - 1 - i : head + i) % LOCAL_TASKS].head;
    u32 matching = __ballot_sync(ALL, i < n && priority_of(task) == priority);
    if (matching != 0) return __shfl_sync(ALL, fn_of(task), __ffs(matching) - 1);
  }
  return NONE;
}

// The warp: removes up to `limit` tasks of one priority and, unless `fn` is ANY_FN, one function, looking
// from the newest or from the oldest end. Lane r < got receives the r-th. Clears the priority's bit when it meets none.
EW_FN DevTask take_here(Worker& w, LocalQueue& q, bool newest, u32 priority, u32 fn, u32 limit, u32& got) {
  const u32 head = q.head, tail = q.tail, n = tail - head;
  DevTask task{TAKEN, 0, 0};
  got = 0;
  u32 scanned = 0;
  bool clean = true;  // all of the first window match: no staging, no compaction
  DevTask (&staging)[WARP] = w.s.staging[w.warp];
  for (u32 base = 0; base < n && got < limit; base += WARP) {
    u32 i = base + w.lane;
    u32 at = (newest ? tail - 1 - i : head + i) % LOCAL_TASKS;
    if (i < n) task = q.tasks[at];
    bool match = i < n && priority_of(task.head) == priority;
    u32 matching = __ballot_sync(ALL, match);
    if (fn != ANY_FN) {
      match = match && fn_of(task.head) == fn;
      matching = __ballot_sync(ALL, match);
    }
    u32 window = min(n - base, WARP);
    u32 wanted = min(window, limit);
    u32 low = wanted == WARP ? ALL : (1u << wanted) - 1;
    if (base == 0 && (matching & low) == low) {
      got = wanted;
      break;
    }
    clean = false;
    u32 rank = got + __popc(matching & w.lt());
    if (match && rank < limit) {
      staging[rank] = task;
      q.tasks[at].head = TAKEN;
    }
    got = min(limit, got + __popc(matching));
    scanned = min(base + WARP, n);
  }
  __syncwarp();
  if (!clean) {
    if (got == 0) {
      if (w.lane == 0) q.priorities &= ~(1u << priority);
      __syncwarp();
      return task;
    }
    // Moves the tasks that were passed over away from the end, in their order; positions count from the end.
    u32 write = scanned;
    for (u32 step = (scanned - 1) / WARP + 1; step-- > 0;) {
      u32 i = step * WARP + w.lane;
      bool there = i < scanned;
      DevTask kept{TAKEN, 0, 0};
      if (there) kept = q.tasks[(newest ? tail - 1 - i : head + i) % LOCAL_TASKS];
      bool keep = there && kept.head != TAKEN;
      u32 keeping = __ballot_sync(ALL, keep);
      u32 to = write - __popc(keeping >> w.lane);
      if (keep && to != i) q.tasks[(newest ? tail - 1 - to : head + to) % LOCAL_TASKS] = kept;
      write -= __popc(keeping);
      __syncwarp();
    }
    if (w.lane < got) task = staging[w.lane];
  }
  if (w.lane == 0) {
    if (newest) q.tail = tail - got;
    else q.head = head + got;
  }
  __syncwarp();
  return task;
}

// The warp: the same, of one function, among the 64 tasks nearest to the end; `first` holds the nearest 32,
// and `matching` says which of them match (some do).
EW_FN DevTask take_near(Worker& w, LocalQueue& q, bool newest, u32 limit, u32 priority, u32 fn, const DevTask& first,
                        u32 matching, u32& got) {
  const u32 head = q.head, tail = q.tail, n = tail - head;
  const bool wide = n > WARP && __popc(matching) < limit;
  auto at = [&](u32 i) -> DevTask& { return q.tasks[(newest ? tail - 1 - i : head + i) % LOCAL_TASKS]; };
  DevTask second{};
  u32 more = 0;
  if (wide) {
    second = at(WARP + w.lane);
    more = __ballot_sync(ALL, WARP + w.lane < n && priority_of(second.head) == priority && fn_of(second.head) == fn);
  }
  const u32 scanned = min(n, wide ? 2 * WARP : WARP);
  const u32 rank = __popc(matching & w.lt()), rank2 = __popc(matching) + __popc(more & w.lt());
  const bool taken = (matching >> w.lane & 1) && rank < limit, taken2 = (more >> w.lane & 1) && rank2 < limit;
  const bool kept = w.lane < scanned && !taken, kept2 = WARP + w.lane < scanned && !taken2;
  got = min(limit, __popc(matching) + __popc(more));
  DevTask (&staging)[WARP] = w.s.staging[w.warp];
  if (taken) staging[rank] = first;
  if (taken2) staging[rank2] = second;
  // The tasks that were passed over move away from the end, in their order. All of them have been read before.
  const u32 keep = __ballot_sync(ALL, kept), keep2 = __ballot_sync(ALL, kept2);
  __syncwarp();
  if (kept) at(scanned - __popc(keep2) - __popc(keep >> w.lane)) = first;
  if (kept2) at(scanned - __popc(keep2 >> w.lane)) = second;
  __syncwarp();
  if (w.lane == 0) {
    if (newest) q.tail = tail - got;
    else q.head = head + got;
  }
  const DevTask task = staging[w.lane];
  __syncwarp();
  return task;
}

struct Taken {
  DevTask task{};
  u32 got;
};
EW_CALL Taken take_call(u32 queue, bool newest, u32 priority, u32 fn, u32 limit) {
  Worker w = Worker::here();
  Taken t;
  t.task = take_here(w, w.s.queues[queue], newest, priority, fn, limit, t.got);
  return t;
}
// The same as a call.
EW_FN DevTask take(Worker& w, LocalQueue& q, bool newest, u32 priority, u32 fn, u32 limit, u32& got) {
  Taken t = take_call(&q == &w.block_local() ? BLOCK_WARPS : w.warp, newest, priority, fn, limit);
  got = t.got;
  return t.task;
}

// The warp: moves up to 32 tasks of the lowest priority from the far end to the owner's deque.
// False when the pool has no chunk.
EW_FN bool spill_here(Worker& w, LocalQueue& q, const Class& c) {
  u32 got = 0, priority = 0;
  DevTask task{};
  while (got == 0) {
    priority = worst_priority(q);
    if (priority >= PRIORITIES) return true;
    // A chunk first: tasks must not leave the queue without a place to go.
    u32 id = NONE;
    if (w.lane == 0) id = chunk_alloc_here(w);
    id = __shfl_sync(ALL, id, 0);
    if (id == NONE) return false;
    task = take_here(w, q, w.fifo(), priority, ANY_FN, WARP, got);
    if (got == 0) {
      if (w.lane == 0) chunk_free_here(w, id);
      continue;
    }
    if (w.lane < got) store_task(&w.e.chunks[id * CHUNK_TASKS + w.lane], task, relaxed, gpu);
    __syncwarp();
    if (w.lane == 0) publish(w, c, priority, chunk_ref(id, got));
    __syncwarp();
  }
  return true;
}

// The same as a call, of the warp's or of the block's queue.
EW_CALL bool spill(bool blocks) {
  Worker w = Worker::here();
  return spill_here(w, w.s.queues[blocks ? BLOCK_WARPS : w.warp], Class::of(w.e, blocks));
}

// The warp: loads a chunk into the queue, which has room for it, and frees the chunk.
EW_FN void unload(Worker& w, LocalQueue& q, u32 ref) {
  u32 n = chunk_tasks(ref), id = chunk_id(ref);
  DevTask task{};
  if (w.lane < n) task = load_task(&w.e.chunks[id * CHUNK_TASKS + w.lane], relaxed, gpu);
  if (w.lane < n && is_block(fn_of(task.head))) q.strays = 1;
  push_all(w, q, task, n);
  if (w.lane == 0) {
    chunk_free_here(w, id);
    w.stats().received += n;
  }
  __syncwarp();
}

// The same as a call, into the warp's or the block's queue.
EW_CALL void unload_call(bool blocks, u32 ref) {
  Worker w = Worker::here();
  unload(w, w.s.queues[blocks ? BLOCK_WARPS : w.warp], ref);
}

// The warp: brings a chunk of exactly this priority into its own or the block's queue, its own chunks first.
EW_CALL bool refill_at(bool blocks, u32 priority) {
  Worker w = Worker::here();
  const Class c = Class::of(w.e, blocks);
  u32 ref = NONE;
  if (w.lane == 0) ref = w.fifo() && !blocks ? take_oldest(w, c, priority, c.self(w)) : take_newest(w, c, priority);
  ref = __shfl_sync(ALL, ref, 0);
  if (ref == NONE) ref = find_public(w, c, priority);
  if (ref == NONE) return false;
  unload(w, w.s.queues[blocks ? BLOCK_WARPS : w.warp], ref);
  return true;
}

}  // namespace ew
