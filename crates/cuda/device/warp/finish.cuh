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
  if (counting != 0) {
    bool fired = false;
    if (counts) {
      u32 peers = __match_any_sync(counting, o.task.group);
      u32 sum = __reduce_add_sync(peers, change);
      if (w.lane == __ffs(peers) - 1) {
        // Release: our reports happen before the continuation. Acquire: so do everybody else's.
        u32 old = fetch_add(&w.e.groups[o.task.group].pending, sum, acq_rel, gpu);
        fired = old + sum == 0;
      }
    }
    __syncwarp();
    fire(w, q, fired, o.task.group);
  }
  complete(w, o.present && direct && !opened, o.task.group, o.value);
}

}  // namespace ew
