// The tasks that the host submits for channels and children.
#pragma once

#include "process/gpu/channel.cuh"
#include "process/gpu/children.cuh"

// arg: the address of the operation. Reports the result plus 1: a report of 0 is none.
static __device__ __forceinline__ void process_channel(ew::Lane& t, const DevProcessTable& table) {
  const DevHostOp* o = (const DevHostOp*)t.arg();
  u8* message = (u8*)(o + 1);
  DevWorld* world = table.world;
  // This multiprocessor may have cached the operation before the host copied to it.
  ew::fence(ew::acq_rel, ew::gpu);
  const u32 operation = __ldcg(&o->operation), number = __ldcg(&o->channel), side = __ldcg(&o->side), bytes = __ldcg(&o->bytes);
  u32 result = 0;
  if (operation == HOST_OPEN) result = channel::open(world, side, bytes);
  if (operation == HOST_KEEP) channel::keep(world, number, side, bytes);
  if (operation == HOST_CLOSE) channel::close(world, number, side);
  if (operation == HOST_SEND) result = channel::send(world, number, channel::HOST, false, message, bytes);
  if (operation == HOST_RECEIVE) result = channel::receive(world, number, channel::HOST, false, message, MESSAGE_BYTES);
  // The host copies the message after the end of this task, which releases.
  t.report_add((u64)result + 1);
}

// arg: the place of a child | its generation << 32. Asks the child to end, and reports `KILL_…`.
static __device__ __forceinline__ void process_kill(ew::Lane& t, const DevProcessTable& table) {
  // As above.
  ew::fence(ew::acq_rel, ew::gpu);
  t.report_add(process::kill_from_outside(table.world, t.lo(), t.hi()) ? KILL_TOLD : KILL_NO_PROCESS);
}

// Tag ANCHOR_OPENS: opens the group of the tasks that the processes of a host submit: the group of this task, whose count
// stays raised by one. ANCHOR_ENDS: the host has no processes any more; a task that does nothing takes over that one, so that
// the group ends when the tasks have ended that processes have submitted. ANCHOR_ENDED: that task.
static __device__ __forceinline__ void process_anchor(ew::Lane& t, const DevProcessTable& table) {
  if (t.tag() == ANCHOR_ENDED) return;
  // As above: these may be the first places of this table, while other processes have run for long.
  ew::fence(ew::acq_rel, ew::gpu);
  if (t.tag() == ANCHOR_ENDS) {
    const u32 head = t.head(FN_process_anchor, ANCHOR_ENDED, ew::priority_of(t.task.head));
    return process::hand_on(DevTask{head, __ldcg(&table.world->group), 0});
  }
  ew::add(&everwarp_tables.groups[t.task.group].pending, 1, ew::relaxed, ew::gpu);
  ew::store(&table.world->group, t.task.group, ew::release, ew::gpu);
}
