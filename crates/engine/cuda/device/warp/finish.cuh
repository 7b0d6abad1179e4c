// The end of a batch: forks become groups, groups count down, and those that reach zero fire.
#pragma once
#include "everwarp/block/block.cuh"

namespace ew {

// The result of one task.
struct Outcome {
  bool present;   // this lane has a task to finish
  DevTask task;
  u32 delta;      // tasks it spawned into its own group
  u32 forked;     // the group it opened, or NONE
  u32 children;
  DevTask then;   // the continuation of that group, without its group
  u64 value;      // reported to the host directly
  bool more;      // the warp goes on with tasks that probably are of the same group: it may owe (the warp)
};

// One lane: changes a group's count; true when that was its end.
EW_FN bool settle(const DevEngine& e, u32 group, int change) {
  u32* pending = &e.groups[group].pending;
  if (change > 0) {
    // More came than went, so this cannot be the end of the group, and the warp does not wait for the result.
    // It is in place before another warp can finish the new tasks: those are handed on with a release.
    add(pending, (u32)change, relaxed, gpu);
    return false;
  }
  // Release: our reports happen before the continuation. Acquire: so do everybody else's.
  const bool fired = fetch_add(pending, (u32)change, release, gpu) + change == 0;
  if (fired) fence(acq_rel, gpu);
  return fired;
}

// The warp: finishes up to 32 tasks. This warp still holds everything they spawned, and there is
// room for one continuation a lane.
//
// Debts: a warp that goes on with tasks of the group whose tasks have just ended does not count those at
// once. The group cannot reach zero meanwhile, since the warp still holds some of its tasks. The tasks that they
// spawn are set off against the debt, so that a search in full swing counts nothing in device memory.
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
  const bool completes = o.present && direct && !opened;
  Debt& debt = w.s.debts[w.warp];
  const u32 owed = debt.owed, creditor = debt.group;
  if (counting == 0 && owed == 0 && !__any_sync(ALL, completes || childless)) return;
  const u32 group = __shfl_sync(ALL, o.task.group, __ffs(counting) - 1);
  const bool uniform = counting != 0 && __all_sync(ALL, !counts || o.task.group == group);
  const bool own = uniform && (owed == 0 || creditor == group);
  bool fired = false, paid = false;
  if (own) {
    const int total = (int)__reduce_add_sync(ALL, counts ? change : 0) - (int)owed;
    const bool defer = total <= 0 && (o.more || total == 0);
    if (!defer && w.lane == __ffs(counting) - 1) fired = settle(w.e, group, total);
    __syncwarp();
    if (w.lane == 0) debt = Debt{group, defer ? (u32)-total : 0};
  } else {
    if (counts) fired = settle(w.e, o.task.group, (int)change);
    if (owed != 0 && w.lane == 0) {
      paid = settle(w.e, creditor, -(int)owed);
      debt.owed = 0;
    }
  }
  __syncwarp();
  const u32 firing = __ballot_sync(ALL, fired), paying = __ballot_sync(ALL, paid), ending = __ballot_sync(ALL, childless);
  // The groups that fired and the tasks that the host counts, the childless forks, the group that was owed:
  // a lane may have one of each.
  const u32 rounds[3] = {firing | __ballot_sync(ALL, completes), ending, paying};
#pragma unroll 1
  for (u32 round = 0; round < 3; round++) {
    if ((round == 0 ? rounds[0] : round == 1 ? rounds[1] : rounds[2]) == 0) continue;
    const bool fires = round == 0 ? fired : round == 2 && paid, mine = fires || (round == 1 && childless);
    const u32 id = round == 0 ? o.task.group : round == 1 ? o.forked : creditor;
    DevTask then = o.then;
    u64 value = 0;
    if (fires) {
      then = load_task(&w.e.groups[id].then, relaxed, gpu);
      value = load(&w.e.groups[id].value, relaxed, gpu);
    }
    groups_free_here(w, id, mine);
    const bool ends = fires && fn_of(then.head) == FN_COMPLETE;
    const bool tells = round == 0 && completes;
    complete(w, ends || tells, tells ? o.task.group : then.group, tells ? o.value : value);
    if (mine && !ends) {
      if (then.head & TASK_ARG_FROM_GROUP) then.arg = value;
      then.head &= ~TASK_ARG_FROM_GROUP;
      push(q, then);
      if (is_block(fn_of(then.head))) q.strays = 1;
    }
    __syncwarp();
  }
  if (w.lane == 0) w.stats().fired += __popc(firing) + __popc(paying);
}

// The warp, after a batch of tasks of the group that it may owe to, which neither forked nor completed, and
// with more of them at hand: counts their ends and what they spawned.
EW_FN void owe(Worker& w, int change) {
  Debt& debt = w.s.debts[w.warp];
  const int total = (int)__reduce_add_sync(ALL, change) - (int)debt.owed;
  __syncwarp();
  if (w.lane == 0) {
    if (total > 0) settle(w.e, debt.group, total);
    debt.owed = total > 0 ? 0 : (u32)-total;
  }
  __syncwarp();
}

// The warp: pays its debt, before it does something else than tasks of that group.
EW_FN void pay(Worker& w) {
  if (w.s.debts[w.warp].owed != 0) finish(Outcome{});
}

}  // namespace ew
