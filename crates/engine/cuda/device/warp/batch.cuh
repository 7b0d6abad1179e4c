// One batch: pick a priority and a function, make sure of room, run up to 32 tasks, finish them.
#pragma once
#include "everwarp/grid/idle.cuh"
#include "everwarp/warp/finish.cuh"
#include "everwarp/warp/measure.cuh"
#include "everwarp/warp/trace.cuh"

namespace ew {

EW_FN void dispatch_lane(u32 fn, Lane& t);    // generated with the image
EW_FN WarpEnd dispatch_warp(u32 fn, const DevTask& task, u32 lane);  // generated with the image
EW_FN void dispatch_block(u32 fn, Block& t);  // generated with the image

EW_FN void set_state(Worker& w, u32 state, u32 fn) {
  if (w.lane == 0) {
    w.stats().state = state;
    w.stats().function = fn;
  }
  __syncwarp();
  // The counters go out in one 64-byte store; only this warp writes them.
  if (w.lane < 4) store_task((DevTask*)&w.e.workers[w.global] + w.lane, ((const DevTask*)&w.stats())[w.lane], relaxed, gpu);
}

// The warp runs this function now. The counters go out only now and then.
EW_FN void show(Worker& w, u32 fn) {
  DevWorker& now = w.stats();
  // All lanes see what the first one counted last, before it writes again: they decide alike.
  const bool all = now.batches % 16 == 0, changes = now.state != WORKER_RUNNING || now.function != fn;
  __syncwarp();
  if (all) return set_state(w, WORKER_RUNNING, fn);
  if (changes && w.lane == 0) {
    now.state = WORKER_RUNNING;
    now.function = fn;
    store((u64*)&w.e.workers[w.global].state, (u64)fn << 32 | WORKER_RUNNING, relaxed, gpu);
  }
}

// The warp: takes a range of the arena and queues its tasks; larger ranges are halved for others.
EW_CALL void fetch(u32 head, u32 group, u64 arg) {
  Worker w = Worker::here();
  LocalQueue& q = w.local();
  const u32 start = (u32)arg;
  u32 count = (u32)(arg >> 32);
  while (count > FETCH_TASKS) {
    u32 keep = (count / 2 + FETCH_TASKS - 1) / FETCH_TASKS * FETCH_TASKS;
    push_all(w, q, DevTask{head, group, (u64)(count - keep) << 32 | (start + keep)}, 1);
    count = keep;
  }
  // All loads are on their way before the first is needed.
  DevTask got[FETCH_TASKS / WARP]{};
#pragma unroll
  for (u32 i = 0; i < FETCH_TASKS / WARP; i++) {
    u32 at = i * WARP + w.lane;
    if (at < count) got[i] = load_task(&w.e.arena[(start + at) & (w.e.arena_tasks - 1)], relaxed, sys);
  }
  u32 priorities = 0;
  const u32 tail = q.tail;
#pragma unroll
  for (u32 i = 0; i < FETCH_TASKS / WARP; i++) {
    u32 at = i * WARP + w.lane, fn = fn_of(got[i].head);
    if (at >= count) continue;
    if (fn < FN_FIRST || fn >= FN_COUNT) {
      raise_fault(w.e, FAULT_BAD_SUBMISSION, fn, got[i].head);
      got[i].head = FN_NONE;
    }
    if (is_block(fn)) q.strays = 1;
    // The flags of a submission mean nothing here.
    q.tasks[(tail + at) % LOCAL_TASKS] = DevTask{got[i].head & (TASK_BATCH - 1), group, got[i].arg};
    priorities |= 1u << priority_of(got[i].head);
  }
  priorities = __reduce_or_sync(ALL, priorities);
  if (w.lane == 0) {
    q.tail = tail + count;
    q.priorities |= priorities;
  }
  __syncwarp();
}

// A batch: tasks of one function in lanes 0..got-1; none with got = 0.
struct Batch {
  DevTask task;
  u32 got;
  u32 fn;
  FnMeta m;
};

// The warp: how many of `want` tasks of this function may run now. Spills until all may, or the pool
// has nothing left: then fewer run, which is how an exhausted pool pushes back.
EW_FN u32 admit(Worker& w, LocalQueue& q, const FnMeta& m, u32 want) {
  u32 k;
  while (true) {
    u32 n = local_count(q), each = m.least_room(), room = local_room(q);
    k = m.shape() == SHAPE_LANE ? want : 1;
    if (room >= k * each) break;
    k = m.shape() == SHAPE_LANE ? room / each : 0;
    if (n <= WARP || !spill(false)) break;
  }
  // With the pool of ids used up, each batch takes only a part of what is at hand: the fewer are left,
  // the narrower the batches, so that the warp reaches the leaves, where ids come back.
  if (m.forks() && k > 0 && !groups_at_hand(w, k)) k = min(k, (w.s.group_count[w.warp] + 7) / 8);
  return k;
}

EW_FN void count_batches(Worker& w, const LocalQueue& q, u32 batches, u32 tasks) {
  if (w.lane == 0) {
    w.stats().executed += tasks;
    w.stats().batches += batches;
    w.stats().queued = local_count(q);
  }
}

// The work that a batch leaves, if any.
constexpr u32 ENDS = 1;     // completions
constexpr u32 COUNTS = 2;   // counts of groups, forks
constexpr u32 CHANGES = 4;  // lanes go on with another function
constexpr u32 STRANGE = 8;  // forks, or ends that cannot be owed to the group that the warp may owe to
constexpr u32 BROKEN = 16;  // a rule was broken

// The warp: runs a batch of lane-shaped tasks. Lanes then go on with the first task that theirs spawned,
// without a way through the queue, as long as those are of one function, the warp stays full or no
// other warp waits, and there is room.
EW_FN void run_lanes(Worker& w, LocalQueue& q, Batch b) {
  u32 active = b.got == WARP ? ALL : (1u << b.got) - 1, ran = 0;
  const u32 priority = priority_of(b.task.head);  // lane 0's; all tasks have the same, also those that lanes go on with
  for (u32 streak = 1;; streak++) {
    const bool mine = active >> w.lane & 1;
    Lane t = Lane::begin(b.task, b.m);
    if (b.m.least_room() < t.limit) {
      // One place for each lane is left for a continuation.
      t.limit = min(t.limit, local_room(q) / __popc(active) - 1);
      // All lanes have read what there is, before one of them queues a task.
      __syncwarp();
    }
    measure_begin(w, b.fn, __popc(active));
    if (mine) dispatch_lane(b.fn, t);
    __syncwarp();
    measure_end(w, b.fn);
    // Read here: before, it would occupy a register while the functions run.
    const u32 creditor = w.s.debts[w.warp].group;
    const bool holds = mine && t.next.head != NONE;
    const u32 held = __ballot_sync(ALL, holds);
    // A task that was replaced by another one in its group leaves nothing to be counted. One that the host counts, and
    // that has no successors, needs only its completion.
    const bool direct = (b.task.group & HOST_DIRECT) != 0;
    const bool plain = t.forked == NONE && t.delta == !direct;
    const u32 odd = __reduce_or_sync(ALL, (mine && plain && direct ? ENDS : 0) | (mine && !plain ? COUNTS : 0) |
                                              (holds && fn_of(t.next.head) != b.fn ? CHANGES : 0) |
                                              (mine && (t.forked != NONE || direct || b.task.group != creditor) ? STRANGE : 0) |
                                              (mine && t.broken != 0 ? BROKEN : 0));
    if (odd & BROKEN) {
      if (mine && t.broken != 0) raise_fault(w.e, t.broken, b.fn, t.broken == FAULT_FORK ? b.task.head : b.m.max_spawn() + 1);
    }
    ran += b.fn == FN_NONE ? 0 : __popc(active);
    const bool empty = q.head == q.tail;
    // Mostly all go on with one function, the same as before; then nothing about it must be looked up.
    u32 next = b.fn;
    FnMeta after = b.m;
    bool alike = held != 0;
    if (odd & CHANGES) {
      next = __shfl_sync(ALL, fn_of(t.next.head), __ffs(held) - 1);
      after = meta(next);
      alike = after.shape() == SHAPE_LANE && after.fifo() == b.m.fifo() && __all_sync(ALL, !holds || fn_of(t.next.head) == next);
      if (alike && w.lane == 0) {
        w.stats().function = next;
        store(&w.e.workers[w.global].function, next, relaxed, gpu);
      }
    }
    trace_ran(w, __popc(active), alike ? next : NONE);
    if (empty && alike && (odd & ~(STRANGE | CHANGES)) == 0 && streak < 4 * LOOK_EVERY && after.simple()) {
      b.task = t.next;
      b.fn = next;
      b.m = after;
      active = held;
      continue;
    }
    if (!empty && w.lane == 0) note_priority(q, priority);
    if (odd & COUNTS) {
      const bool more = b.m.fifo() && (held != 0 || !empty);
      // A search in full swing passes by the first alone.
      if (more && !(odd & STRANGE)) owe(w, mine ? (int)t.delta - 1 : 0);
      else finish(Outcome{mine, b.task, t.delta, t.forked, t.children, DevTask{t.then_head, 0, t.then_arg}, t.value, more});
    } else if (odd & ENDS) {
      complete(w, mine && direct, b.task.group, t.value);
    }
    if (held == 0) return count_batches(w, q, streak, ran);
    if (!empty && b.m.fifo()) {
      // In its order: after what is queued.
      if (holds) append(q, t.next);
      __syncwarp();
      return count_batches(w, q, streak, ran);
    }
    const u32 n = local_count(q);
    bool go = alike && local_room(q) >= WARP * (after.max_spawn() + 1) &&
         (n == 0 ? streak < 4 * LOOK_EVERY : streak < LOOK_EVERY && !b.m.fifo() && __popc(held) >= 24);
    if (go && after.forks()) go = groups_at_hand(w, WARP);
    if (!go) {
      if (holds) push(q, t.next);
      __syncwarp();
      return count_batches(w, q, streak, ran);
    }
    b.task = t.next;
    active = held;
    b.fn = next;
    b.m = after;
  }
}

constexpr u32 PICKED = 0;    // a batch
constexpr u32 AGAIN = 1;     // none, but another look may find one
constexpr u32 STARVED = 2;   // none can run now

// The warp: picks a batch from its queue, which is not empty.
EW_FN u32 pick(Worker& w, LocalQueue& q, Batch& b) {
  const bool newest = !w.fifo();
  const u32 head = q.head, tail = q.tail, n = tail - head, window = min(n, WARP);
  u32 priority = __ffs(q.priorities) - 1;
  if (n == 0 || priority >= PRIORITIES) return AGAIN;
  // One look at the near end decides what runs; mostly it is also all that runs.
  b.task = q.tasks[(newest ? tail - 1 - w.lane : head + w.lane) % LOCAL_TASKS];
  u32 kind = __shfl_sync(ALL, b.task.head, 0) & TASK_KIND, matching = 0;
  if (priority_of(kind) != priority) {
    // Less urgent work lies in front.
    u32 urgent = __ballot_sync(ALL, w.lane < window && priority_of(b.task.head) == priority);
    kind = urgent == 0 ? NONE : __shfl_sync(ALL, b.task.head, __ffs(urgent) - 1) & TASK_KIND;
  }
  if (kind != NONE) {
    b.fn = fn_of(kind);
    matching = __ballot_sync(ALL, w.lane < window && (b.task.head & TASK_KIND) == kind);
  } else {
    b.fn = peek(w, q, newest, priority);
    if (b.fn == NONE) {
      __syncwarp();
      if (w.lane == 0) q.priorities &= ~(1u << priority);
      __syncwarp();
      return AGAIN;
    }
  }
  b.m = meta(b.fn);
  if (b.m.shape() == SHAPE_BLOCK) {
    if (w.lane == 0) q.strays = 1;
    __syncwarp();
    return STARVED;
  }
  u32 got = admit(w, q, b.m, b.m.shape() == SHAPE_LANE ? window : 1);
  // Tasks that were spilled may be among those that were looked at.
  if (local_count(q) != n) return AGAIN;
  if (got == 0) {
    if (w.lane == 0) w.stats().starved++;
    set_state(w, WORKER_STARVED, b.fn);
    return STARVED;
  }
  u32 low = got == WARP ? ALL : (1u << got) - 1;
  if ((matching & low) == low) {
    if (w.lane == 0) {
      if (newest) q.tail = tail - got;
      else q.head = head + got;
    }
    __syncwarp();
  } else if (matching != 0) {
    // A full batch is gathered from the nearest tasks; to look further would cost more than it gains.
    b.task = take_near(w, q, newest, got, priority, b.fn, b.task, matching, got);
  } else {
    b.task = take(w, q, newest, priority, b.fn, got, got);
    if (got == 0) return AGAIN;
  }
  b.got = got;
  return PICKED;
}

// The warp: sends tasks of warp shape, and ranges of a batch, to idle warps.
EW_FN void spread(Worker& w, LocalQueue& q, bool idle) {
  if (!idle || local_count(q) < 2) return;
  const u32 far = fn_of(q.tasks[(w.fifo() ? q.tail - 1 : q.head) % LOCAL_TASKS].head);
  if (is_warp(far) || far == FN_FETCH) scatter();
}

// The warp: runs a batch; there is room for what it may spawn. `idle`: some warp was idle a turn ago.
EW_FN void run(Worker& w, LocalQueue& q, Batch b, bool idle) {
  measure_take(w, b.task, b.got);
  const Debt debt = w.s.debts[w.warp];
  const u32 group = __shfl_sync(ALL, b.task.group, 0);
  // Only searches owe; for all else it does not matter to whom nothing is owed.
  if (group != debt.group && (debt.owed != 0 || b.m.fifo())) {
    if (debt.owed != 0) pay(w);
    __syncwarp();
    if (w.lane == 0) w.s.debts[w.warp] = Debt{group, 0};
    __syncwarp();
  }
  if (w.fifo() != b.m.fifo()) w.set(FLAG_FIFO, b.m.fifo());
  if (b.m.shape() == SHAPE_LANE) {
    show(w, b.fn);
    trace_begin(w, b.fn);
    run_lanes(w, q, b);
    return trace_end(w);
  }
  DevTask task = b.task;
  task.head = __shfl_sync(ALL, task.head, 0);
  task.group = group;
  task.arg = __shfl_sync(ALL, task.arg, 0);
  if (b.fn == FN_FETCH) {
    fetch(task.head, task.group, task.arg);
    // Before it runs one: a batch comes to a single warp.
    return spread(w, q, idle);
  }
  show(w, b.fn);
  trace_begin(w, b.fn);
  measure_begin(w, b.fn, 1);
  const WarpEnd t = dispatch_warp(b.fn, task, w.lane);
  __syncwarp();
  measure_end(w, b.fn);
  trace_ran(w, 1, NONE);
  if (w.lane == 0 && local_count(q) != 0) note_priority(q, priority_of(task.head));
  u32 delta = __reduce_add_sync(ALL, t.delta);
  u32 children = __reduce_add_sync(ALL, t.children);
  u64 value = t.value;
  if (__any_sync(ALL, value != 0)) {
    for (u32 i = 16; i > 0; i /= 2) value += __shfl_xor_sync(ALL, value, i);
  }
  if (t.broken != 0) raise_fault(w.e, t.broken, b.fn, t.broken == FAULT_FORK ? task.head : b.m.max_spawn() + 1);
  if (delta + children > b.m.max_spawn() && w.lane == 0) raise_fault(w.e, FAULT_SPAWN_LIMIT, b.fn, delta + children);
  finish(Outcome{w.lane == 0, task, delta, t.forked, children, DevTask{t.then_head, 0, t.then_arg}, value,
                 b.m.fifo() && local_count(q) != 0});
  count_batches(w, q, 1, 1);
  spread(w, q, idle);
}

}  // namespace ew
