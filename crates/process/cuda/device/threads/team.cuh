// Threads of one process: how they start and end.
//
// A thread has a place like a process, after the places of processes: so it has a lane, frames, a slot for host calls
// and a turn of its own. It has the memory of its process's first thread, the leader, and calls the host by the
// leader's pid. Each leader has places for as many threads as its process may have, so no process takes another's.
//
// Rules.
// 1. `state` counts the threads other than the leader. The thread that starts one takes a place in `taken`, writes what
//    the new thread is started with, and then counts it; if the process has ended meanwhile, it takes all of that back.
// 2. The thread that ends the process first has `claimed`, writes the reason to the team, sets TEAM_ENDS and then asks
//    all others to end: rule 1 makes sure that it finds every thread that was counted, and that no other starts.
// 3. A thread that has ended gives its place back and then counts itself off; after that it does not touch the team.
//    The last one wakes the leader if the process has ended.
// 4. The leader reports the end to the host when TEAM_ENDS is set and no other thread is counted.
#pragma once

#include "process/gpu/adopt.cuh"
#include "process/gpu/children.cuh"
#include "process/gpu/wake.cuh"

namespace team {

using process::at;
using process::instance;
using process::relations;

__device__ __forceinline__ DevTeam* of(const DevProcess* p) { return (DevTeam*)p->team; }
__device__ __forceinline__ bool is_leader(const DevProcess* p) { return (u32)p->pid == (u32)p->owner; }
__device__ __forceinline__ DevProcess* leader(const DevProcess* p) { return at(*p->table, of(p)->leader); }
// The place of a thread in the table.
__device__ __forceinline__ u32 slot_of(const DevProcessTable& t, const DevTeam* team, u32 k) {
  return t.first_thread + team->leader * t.threads + k;
}
// The number of a place of the table among those of all modules.
__device__ __forceinline__ u32 place_of(const DevProcess* p, u32 slot) { return (u32)p->owner - of(p)->leader + slot; }
__device__ __forceinline__ bool endless(i64 fuel) { return fuel >= 1ll << 62; }

// One lane: makes the team of a place ready for a process that starts.
__device__ __forceinline__ void begin(const DevProcessTable& t, DevProcess* p, u32 slot) {
  DevTeam* team = t.teams + slot;
  team->lock = team->first = team->last = team->state = team->claimed = 0;
  team->leader = slot;
  team->fuel = team->used = 0;
  for (u32 w = 0; w < 32; w++) team->taken[w] = 0;
  p->team = team;
}

// Whether a thread is to end. A request to end the process may have reached only the leader.
__device__ __forceinline__ u32 killed(DevInstance* i) {
  DevProcess* p = process::of(i);
  const u32 own = ew::load(&i->kill, ew::relaxed, ew::sys);
  if (p->team == nullptr || is_leader(p)) return own;
  return own | ew::load(&instance(leader(p))->kill, ew::relaxed, ew::sys);
}

// One lane: gives the place `slot` the memory of its process.
__device__ __forceinline__ void share_memory(const DevProcessTable& t, DevProcess* p, u32 slot) {
  DevInstance* i = instance(p);
  DevSharing* own = (DevSharing*)((u8*)i + t.sharing_at);
  if (slot < t.first_thread) {
    begin(t, p, slot);
    p->owner = p->pid;
    own->length = &own->memory_bytes;
    return;
  }
  const DevProcess* first = at(t, (slot - t.first_thread) / t.threads);
  p->team = first->team;
  p->owner = first->pid;
  DevSharing* its = (DevSharing*)((u8*)instance((DevProcess*)first) + t.sharing_at);
  own->length = &its->memory_bytes;
  i->memory = instance((DevProcess*)first)->memory;
  i->memory_bytes = ew::load(&its->memory_bytes, ew::relaxed, ew::gpu);
}

// The length of the memory. A header may have an older one.
__device__ __forceinline__ u64 memory_bytes(const DevProcess* p) {
  const DevInstance* i = instance((DevProcess*)p);
  return ew::load(((const DevSharing*)((const u8*)i + p->table->sharing_at))->length, ew::relaxed, ew::gpu);
}

// Asks the thread in a place to end, in the order that `prepare` needs.
__device__ __forceinline__ void ask(const DevProcessTable& t, u32 slot) {
  ew::store(&t.spawns[slot].kill, 1, ew::relaxed, ew::sys);
  ew::fence(ew::acq_rel, ew::sys);
  ew::store(&instance(at(t, slot))->kill, 1, ew::relaxed, ew::sys);
}

// Calls `f` with the slot of every other thread of the process.
template <class F>
__device__ __forceinline__ void others(const DevProcess* p, F f) {
  const DevProcessTable& t = *p->table;
  const DevTeam* team = of(p);
  const u32 own = team->leader + (u32)p->pid - (u32)p->owner;
  if (!is_leader(p)) f(team->leader);
  for (u32 w = 0; w < (t.threads + 31) / 32; w++) {
    for (u32 bits = ew::load(&team->taken[w], ew::acquire, ew::gpu); bits != 0; bits &= bits - 1) {
      const u32 slot = slot_of(t, team, 32 * w + __ffs(bits) - 1);
      if (slot != own) f(slot);
    }
  }
}

// Ends the process for the reason for which this thread has ended, unless it has ended before. The thread has no call on
// its way.
__device__ __noinline__ void end(DevProcess* p) {
  DevTeam* team = of(p);
  if (ew::compare_exchange(&team->claimed, 0, 1, ew::acq_rel, ew::gpu) != 0) return;
  const DevInstance* i = instance(p);
  team->trap = i->trap;
  team->trap_function = i->trap_function;
  team->trap_offset = i->trap_offset;
  team->exit_code = p->exit_code;
  // Release: the leader reads the above. Acquire: what the counted threads are started with.
  if (ew::fetch_or(&team->state, TEAM_ENDS, ew::acq_rel, ew::gpu) == 0) return;
  const DevProcessTable& t = *p->table;
  others(p, [&](u32 slot) { ask(t, slot); });
  // They may wait for the host: it cancels all of that at once.
  process::tell_of(p, hostcall::Interrupt{.slot = (u32)p->owner, .generation = (u32)(p->owner >> 32)});
  others(p, [&](u32 slot) { process::wake(t.world, place_of(p, slot)); });
}

// A thread other than the leader has ended. Its place may have another thread as soon as this returns.
__device__ __noinline__ void leave(DevProcess* p) {
  DevTeam* team = of(p);
  const DevProcessTable& t = *p->table;
  const DevInstance* i = instance(p);
  const u32 leader = (u32)p->owner, k = (u32)p->start_args[0] - 1;
  const i64 left = i->fuel > 0 ? i->fuel : 0;
  if (endless(p->granted)) ew::add((u64*)&team->used, (u64)(p->granted - left), ew::relaxed, ew::gpu);
  else ew::add((u64*)&team->fuel, (u64)left, ew::relaxed, ew::gpu);
  DevWorld* world = t.world;
  // Release: the next thread of the place comes after this.
  ew::fetch_and(&team->taken[k / 32], ~(1u << k % 32), ew::release, ew::gpu);
  if (ew::fetch_add(&team->state, ~0u, ew::acq_rel, ew::gpu) == TEAM_ENDS + 1) process::wake(world, leader);
}

// The leader has ended. Returns whether all other threads have; if not, the last of them wakes it.
__device__ __noinline__ bool retire(DevProcess* p) {
  end(p);
  DevTeam* team = of(p);
  if (ew::load(&team->state, ew::acquire, ew::gpu) != TEAM_ENDS) return false;
  DevInstance* i = instance(p);
  i->trap = team->trap;
  i->trap_function = team->trap_function;
  i->trap_offset = team->trap_offset;
  p->exit_code = team->exit_code;
  // The process has used what all threads have used.
  i->fuel += (i64)ew::load((u64*)&team->fuel, ew::relaxed, ew::gpu) - (i64)ew::load((u64*)&team->used, ew::relaxed, ew::gpu);
  if (i->fuel < 0) i->fuel = 0;
  i->memory_bytes = memory_bytes(p);
  ew::store((u64*)&team->fuel, 0, ew::relaxed, ew::gpu);
  ew::store((u64*)&team->used, 0, ew::relaxed, ew::gpu);
  return true;
}

// Takes a place for a thread: its number from 1 on, or 0 if there is none.
__device__ __noinline__ u32 take(const DevProcessTable& t, DevTeam* team) {
  for (u32 w = 0; w < (t.threads + 31) / 32; w++) {
    const u32 left = t.threads - 32 * w, room = left < 32 ? (1u << left) - 1 : ~0u;
    u32 free = ~ew::load(&team->taken[w], ew::relaxed, ew::gpu) & room;
    while (free != 0) {
      const u32 bit = free & -free;
      // Acquire: it comes after the last thread of the place.
      const u32 before = ew::fetch_or(&team->taken[w], bit, ew::acquire, ew::gpu);
      if ((before & bit) == 0) return 32 * w + __ffs(bit);
      free = ~before & room;
    }
  }
  return 0;
}

// Starts a thread and returns its number, or 0. `fuel` is the caller's, and becomes what the caller keeps.
__device__ __noinline__ u32 spawn(DevInstance* i, i64& fuel, u32 argument) {
  DevProcess* p = process::of(i);
  const DevProcessTable& t = *p->table;
  DevTeam* team = of(p);
  const u32 number = take(t, team);
  if (number == 0) return 0;
  const bool free = endless(p->granted);
  const i64 all = free ? fuel : fuel + (i64)ew::exchange((u64*)&team->fuel, 0, ew::relaxed, ew::gpu);
  const i64 given = free ? 0x7fffffffffffffff : all / 2;
  const u32 slot = slot_of(t, team, number - 1), place = place_of(p, slot);
  DevChildRecord* b = process::child_record(t.world, place);
  const u32 generation = b->generation;
  b->generation = generation == 0x7fffffff ? 1 : generation + 1;
  DevSpawn* s = &t.spawns[slot];
  s->pid = (u64)b->generation << 32 | place;
  s->strings = p->strings;
  s->fuel = given;
  s->memory_limit = i->memory_limit;
  s->flags = PROCESS_THREAD | (generation == 0 ? PROCESS_FRESH : 0);
  s->kill = 0;
  s->given = 0;
  s->instance = argument;
  // Release: the thread that ends the process finds the place started.
  const u32 before = given == 0 ? TEAM_ENDS : ew::fetch_add(&team->state, 1, ew::acq_rel, ew::gpu);
  if ((before & TEAM_ENDS) != 0) {
    if (!free) ew::add((u64*)&team->fuel, (u64)(all - fuel), ew::relaxed, ew::gpu);
    ew::fetch_and(&team->taken[(number - 1) / 32], ~(1u << (number - 1) % 32), ew::release, ew::gpu);
    if (given != 0 && ew::fetch_add(&team->state, ~0u, ew::acq_rel, ew::gpu) == TEAM_ENDS + 1) {
      process::wake(t.world, (u32)p->owner);
    }
    return 0;
  }
  if (!free) fuel = all - given;
  const DevModule& m = t.world->modules[relations(t.world, place)->module];
  process::post(t.world, m.start_head, 1ull << 32 | slot);
  return number;
}

}  // namespace team
