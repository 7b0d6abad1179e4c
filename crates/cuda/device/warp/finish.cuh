// The end of a batch: forks become groups, groups count down, and those that reach zero fire.
#pragma once
#include "everwarp/block/block.cuh"

namespace ew {

// What one task leaves behind.
struct Outcome {
  bool present;   // this lane has a task to finish
  DevTask task;
  u32 delta;      // tasks it spawned into its own group
  u32 forked;     // the group it opened, or NONE
  u32 children;
  DevTask then;   // the continuation of that group, without its group
  u64 value;      // reported to the host directly
};

// The warp: queues the continuations of groups that fired. There is room for one a lane.
EW_FN void fire(Worker& w, LocalQueue& q, bool fired, u32 id) {
  u32 firing = __ballot_sync(ALL, fired);
  if (firing == 0) return;
  DevTask then{0, 0, 0};
  u64 value = 0;
  if (fired) {
    then = load_task(&w.e.groups[id].then, relaxed, gpu);
    value = load(&w.e.groups[id].value, relaxed, gpu);
  }
  groups_free(w, id, fired);
  bool ends = fired && fn_of(then.head) == FN_COMPLETE;
  complete(w, ends, then.group, value);
  if (fired && !ends) {
    if (then.head & TASK_ARG_FROM_GROUP) then.arg = value;
    then.head &= ~TASK_ARG_FROM_GROUP;
    push(q, then);
    if (is_block(fn_of(then.head))) q.strays = 1;
  }
  __syncwarp();
  if (w.lane == 0) w.stats().fired += __popc(firing);
}

// The warp: settles what it owes to a group's count.
//
// A warp that runs many tasks of one group does not count each batch: it notes the difference and
// settles it before any of its tasks can be seen by others, when it has nothing else to do, and every so
// often. Meanwhile the count still holds the tasks that the warp had when it last settled, of which the
// running ones descend: it cannot reach zero while any of them is left, so the group cannot fire early.
EW_FN void settle(Worker& w, LocalQueue& q) {
  const u32 debt = w.s.debt[w.warp], group = w.s.debt_group[w.warp];
  if (debt == 0) return;
  // Orders every lane's reports before the count.
  __syncwarp();
  bool fired = false;
  if ((int)debt > 0) return settle_growth(w);
  if (w.lane == 0) {
    w.s.debt[w.warp] = 0;
    fired = fetch_add(&w.e.groups[group].pending, debt, acq_rel, gpu) + debt == 0;
  }
  __syncwarp();
  fire(w, q, fired, group);
}

// The warp: finishes up to 32 tasks. Everything they spawned is still in this warp's hands.
EW_FN void finish(Worker& w, LocalQueue& q, const Outcome& o) {
  bool opened = o.present && o.forked != NONE;
  bool childless = opened && o.children == 0;
  if (opened) {
    DevTask then = o.then;
    then.group = o.task.group;
    if (childless) {
      // Nothing to wait for: the continuation is simply the next task.
      if (then.head & TASK_ARG_FROM_GROUP) then.arg = 0;
      then.head &= ~TASK_ARG_FROM_GROUP;
      push(q, then);
      if (is_block(fn_of(then.head))) q.strays = 1;
    } else {
      group_open(w.e, o.forked, o.children, then);
    }
  }
  groups_free(w, o.forked, childless);
  bool direct = (o.task.group & HOST_DIRECT) != 0;
  if (o.present && direct && o.delta != 0) raise_fault(w.e, FAULT_NOT_COUNTED, fn_of(o.task.head), o.task.head);
  // Orders every lane's reports and group records before the counts below.
  __syncwarp();
  u32 change = o.delta - (opened ? 0 : 1);
  bool counts = o.present && !direct && change != 0;
  u32 counting = __ballot_sync(ALL, counts);
  if (counting == 0) return complete(w, o.present && direct && !opened, o.task.group, o.value);
  bool fired = false;
  u32 id = __shfl_sync(ALL, o.task.group, __ffs(counting) - 1);
  if (__all_sync(ALL, !counts || o.task.group == id)) {
    // One group for all: noted, not counted.
    if (w.s.debt_group[w.warp] != id) settle(w, q);
    u32 sum = __reduce_add_sync(ALL, counts ? change : 0);
    __syncwarp();
    if (w.lane == 0) {
      w.s.debt_group[w.warp] = id;
      w.s.debt[w.warp] += sum;
    }
    __syncwarp();
    return complete(w, o.present && direct && !opened, o.task.group, o.value);
  }
  // Several groups: counted one by one. One of them may be the one that is owed growth.
  settle_growth(w);
  if (counts) {
    u32 peers = __match_any_sync(counting, o.task.group);
    u32 sum = __reduce_add_sync(peers, change);
    if (w.lane == __ffs(peers) - 1) {
      // Release: our reports happen before the continuation. Acquire: so do everybody else's.
      u32 old = fetch_add(&w.e.groups[o.task.group].pending, sum, acq_rel, gpu);
      fired = old + sum == 0;
      id = o.task.group;
    }
  }
  __syncwarp();
  fire(w, q, fired, id);
  complete(w, o.present && direct && !opened, o.task.group, o.value);
}

}  // namespace ew
