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

// The warp: finishes up to 32 tasks. Everything they spawned is still in this warp's hands, and there is
// room for one continuation a lane.
EW_CALL void finish(Outcome o) {
  Worker w = Worker::here();
  LocalQueue& q = w.local();
  const bool opened = o.present && o.forked != NONE;
  const bool direct = (o.task.group & HOST_DIRECT) != 0;
  // With children, the fork becomes a group; without, its continuation is simply the next task.
  const bool childless = opened && o.children == 0;
  o.then.group = o.task.group;
  if (opened && !childless) group_open(w.e, o.forked, o.children, o.then);
  if (o.present && direct && o.delta != 0) raise_fault(w.e, FAULT_NOT_COUNTED, fn_of(o.task.head), o.task.head);
  // Orders every lane's reports and group records before the counts below.
  __syncwarp();
  const u32 change = o.delta - (opened ? 0 : 1);
  const bool counts = o.present && !direct && change != 0;
  const u32 counting = __ballot_sync(ALL, counts);
  bool fired = false;
  if (counts) {
    u32 peers = __match_any_sync(counting, o.task.group);
    u32 sum = __reduce_add_sync(peers, change);
    if (w.lane == __ffs(peers) - 1 && sum != 0) {
      u32* pending = &w.e.groups[o.task.group].pending;
      if ((int)sum > 0) {
        // More came than went, so this cannot be the end of the group, and nobody waits for the answer.
        // It is in place before anybody else can finish what came: that is handed on with a release.
        add(pending, sum, relaxed, gpu);
      } else {
        // Release: our reports happen before the continuation.
        fired = fetch_add(pending, sum, release, gpu) + sum == 0;
        // Acquire: so do everybody else's.
        if (fired) fence(acq_rel, gpu);
      }
    }
  }
  __syncwarp();
  const u32 firing = __ballot_sync(ALL, fired);
  u32 token = o.task.group;
  bool completes = o.present && direct && !opened;
  if (firing != 0 || __any_sync(ALL, childless)) {
    // First the childless forks, then the groups that fired: a lane may have one of each.
#pragma unroll 1
    for (u32 round = 0; round < 2; round++) {
      bool mine = childless;
      u32 id = o.forked;
      u64 value = 0;
      if (round == 1) {
        mine = fired;
        id = o.task.group;
        if (fired) {
          o.then = load_task(&w.e.groups[id].then, relaxed, gpu);
          value = load(&w.e.groups[id].value, relaxed, gpu);
        }
      }
      groups_free_here(w, id, mine);
      if (!mine) continue;
      if (fn_of(o.then.head) == FN_COMPLETE) {
        completes = true;
        token = o.then.group;
        o.value = value;
      } else {
        if (o.then.head & TASK_ARG_FROM_GROUP) o.then.arg = value;
        o.then.head &= ~TASK_ARG_FROM_GROUP;
        push(q, o.then);
        if (is_block(fn_of(o.then.head))) q.strays = 1;
      }
    }
    __syncwarp();
    if (w.lane == 0) w.stats().fired += __popc(firing);
  }
  complete(w, completes, token, o.value);
}

}  // namespace ew
