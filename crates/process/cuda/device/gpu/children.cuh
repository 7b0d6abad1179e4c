// Children: a process spawns others, waits for them and ends them, all in device memory.
//
// A child has a place that the host never gives to another process. Its parent takes the place from the free places of
// the module, and gives it back when it has the status: so until then the pid means this child and no other. A process
// ends after its children: it kills those that are left. So no descendant outlives the first ancestor, and that
// ancestor's count of descendants limits all of them.
//
// The state of a child's record. The host may end a child from outside.
// 1. It is 0 while the place is free. The parent makes it CHILD_RUNNING when it has written what the child starts with.
// 2. A parent that waits for the end adds CHILD_AWAITED; a child that has ended adds CHILD_EXITED, and wakes the parent if
//    that was set. So one of the two sees the other.
// 3. The host first adds CHILD_HELD to a child that runs, and then looks at the generation: the parent does not give the
//    place away as long as it is held, so the place has no other process. It is held for some stores.
// `crates/engine/cuda/src/models/children.rs` is a model of it.
#pragma once

#include "process/gpu/adopt.cuh"
#include "process/gpu/channel.cuh"
#include "process/gpu/wake.cuh"

namespace process {

// The warp: writes the record of a process that starts. `s` is what it is started with.
__device__ __forceinline__ void begin_relations(const DevProcessTable& t, const DevSpawn* s, u32 lane) {
  const u64 pid = __ldcg(&s->pid);
  DevRelations* k = relations(t.world, (u32)pid);
  const u32 given = __ldcg(&s->given);
  const u32* ends = (const u32*)__ldcg((const u64*)&s->strings) - 1;
  for (u32 h = lane; h < HANDLES; h += 32) k->handles[h] = h < given ? __ldcg(ends - h) : 0;
  for (u32 c = lane; c < CHILDREN; c += 32) k->children[c] = 0;
  if (lane != 0) return;
  k->pid = pid;
  k->instance = __ldcg(&s->instance);
  k->descendants = k->spawned = 0;
  k->waits_on = 0;
  k->retired = 0;
  if (k->parent == 0) k->root = (u32)pid;
}

// Takes a free place of a module, of the stack of this block first; NONE if there is none.
__device__ __noinline__ u32 take_place(const DevWorld* world, const DevModule& m) {
  for (u32 k = 0; k < FREE_STACKS; k++) {
    const u32 place = ew::stack_pop(m.free + (blockIdx.x + k) % FREE_STACKS * FREE_STRIDE, world->place_links);
    if (place != ew::NONE) return place;
  }
  return ew::NONE;
}
__device__ __forceinline__ void give_place(const DevWorld* world, const DevModule& m, u32 place) {
  ew::stack_push(m.free + blockIdx.x % FREE_STACKS * FREE_STRIDE, world->place_links, place);
}

// Asks the process in a place to end. It may wait for the host, which does not look at these words.
__device__ __noinline__ void ask_end(const DevWorld* world, u32 place) {
  const DevRelations* k = relations(world, place);
  const DevProcessTable& t = *world->modules[__ldcg(&k->module)].table;
  const u32 slot = __ldcg(&k->slot);
  // In this order: see `prepare`.
  ew::store(&t.spawns[slot].kill, 1, ew::relaxed, ew::sys);
  ew::fence(ew::acq_rel, ew::sys);
  ew::store(&instance(at(t, slot))->kill, 1, ew::relaxed, ew::sys);
  wake(world, place);
}

// A parent asks for the end of its child.
__device__ __noinline__ void kill_child(DevProcess* p, u64 pid) {
  ask_end(p->table->world, (u32)pid);
  tell_of(p, hostcall::Interrupt{.slot = (u32)pid, .generation = (u32)(pid >> 32)});
}

// Asks a child to end for the host, which is not its parent; false if there is no such child, or it has ended.
__device__ __noinline__ bool kill_from_outside(const DevWorld* world, u32 place, u32 generation) {
  DevChildRecord* b = child_record(world, place);
  u32 state = ew::load(&b->state, ew::relaxed, ew::gpu);
  while (true) {
    if ((state & CHILD_RUNNING) == 0 || (state & CHILD_EXITED) != 0) return false;
    if ((state & CHILD_HELD) != 0) {
      // Another lane holds it, for a moment.
      __nanosleep(64);
      state = ew::load(&b->state, ew::relaxed, ew::gpu);
      continue;
    }
    // Acquire: the generation, and what the child begins with, were written before.
    const u32 found = ew::compare_exchange(&b->state, state, state | CHILD_HELD, ew::acquire, ew::gpu);
    if (found == state) break;
    state = found;
  }
  const bool same = ew::load(&b->generation, ew::relaxed, ew::gpu) == generation;
  if (same) ask_end(world, place);
  // Release: what the parent does with the place comes after it.
  ew::fetch_and(&b->state, ~CHILD_HELD, ew::release, ew::gpu);
  return same;
}

// Takes the status of the child of entry `entry`, if it has ended: then its place is free. Otherwise its end will
// wake this process.
struct Ended {
  u32 status, code;
  i64 fuel;
};
__device__ __noinline__ bool reap(DevWorld* world, DevRelations* k, u32 entry, Ended& ended) {
  const u32 place = (u32)k->children[entry];
  DevChildRecord* b = child_record(world, place);
  // Acquire: what the child says of its end. A child that is awaited already stays so.
  u32 state = ew::fetch_or(&b->state, CHILD_AWAITED, ew::acq_rel, ew::gpu);
  if ((state & CHILD_EXITED) == 0) return false;
  // Acquire: what the host did to the place came before.
  for (; (state & CHILD_HELD) != 0; state = ew::load(&b->state, ew::acquire, ew::gpu)) __nanosleep(64);
  ended = Ended{b->status, b->code, b->fuel};
  k->children[entry] = 0;
  ew::add(&relations(world, k->root)->descendants, ~0u, ew::relaxed, ew::gpu);
  ew::store(&b->state, 0, ew::relaxed, ew::gpu);
  give_place(world, world->modules[relations(world, place)->module], place);
  return true;
}

// Gives up the ends and the children of a process that has ended. False if it must wait for its children.
__device__ __noinline__ bool retire(DevProcess* p) {
  DevWorld* world = p->table->world;
  const u32 place = (u32)p->pid;
  DevRelations* k = relations(world, place);
  if (k->retired == 0) {
    k->retired = 1;
    if (const u32 on = ew::load(&k->waits_on, ew::relaxed, ew::gpu)) {
      DevChannel& c = world->channels[on - 1];
      channel::locked(c, [&] { channel::leave(world, c, on - 1, place); });
    }
    for (u32 h = 0; h < HANDLES; h++) {
      const u32 end = (u32)k->handles[h];
      if (end != 0) channel::close(world, channel::number_of(end), channel::side_of(end));
    }
    for (u32 c = 0; c < CHILDREN; c++) {
      if (k->children[c] != 0) kill_child(p, k->children[c]);
    }
  }
  Ended ended;
  for (u32 c = 0; c < CHILDREN; c++) {
    if (k->children[c] != 0 && !reap(world, k, c, ended)) return false;
  }
  return true;
}

// Reports an end to the parent. The place belongs to the parent then, and must not be touched afterwards.
__device__ __noinline__ void tell_parent(DevProcess* p) {
  const DevWorld* world = p->table->world;
  DevInstance* i = instance(p);
  const u32 parent = relations(p)->parent - 1;
  DevChildRecord* b = child_record(world, (u32)p->pid);
  p->dirty = i->memory_bytes;
  b->status = STATUS_TRAPPED;
  if (i->trap == 0 || i->trap == TRAP_EXIT) b->status = STATUS_EXITED;
  if (i->trap == TRAP_KILLED) b->status = STATUS_KILLED;
  if (i->trap == TRAP_OUT_OF_FUEL) b->status = STATUS_OUT_OF_FUEL;
  b->code = i->trap == TRAP_EXIT ? p->exit_code : 0;
  b->fuel = i->fuel;
  // Release: the parent that takes the status sees it, and the next process of the place sees what was written there.
  if ((ew::fetch_or(&b->state, CHILD_EXITED, ew::acq_rel, ew::gpu) & CHILD_AWAITED) != 0) wake(world, parent);
}

}  // namespace process
