// Children: a process spawns others, waits for them and ends them, all in device memory.
//
// A child has a place that the host never gives away. Its parent takes the place from the module's free ones, and
// gives it back when it has the status: so until then the pid means this child and no other. A process ends when
// its children have: it kills those that are left. So nothing outlives the first ancestor, whose count of
// descendants is the quota of all of them.

namespace process {

// The warp: what a process begins with. `s` is what it is started with, `place` its number.
__device__ __forceinline__ void begin_kin(const DevProcessTable& t, const DevSpawn* s, u32 lane) {
  const u64 pid = __ldcg(&s->pid);
  DevKin* k = kin(t.world, (u32)pid);
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

// Asks for the end of a child. What it waits for may be the host, which does not look at these words.
__device__ __noinline__ void kill_child(DevProcess* p, u64 pid) {
  const DevWorld* world = p->table->world;
  const u32 place = (u32)pid;
  const DevKin* k = kin(world, place);
  const DevProcessTable& t = *world->modules[__ldcg(&k->module)].table;
  const u32 slot = __ldcg(&k->slot);
  // In this order: see `prepare`.
  ew::store(&t.spawns[slot].kill, 1, ew::relaxed, ew::sys);
  ew::fence(ew::acq_rel, ew::sys);
  ew::store(&instance(at(t, slot))->kill, 1, ew::relaxed, ew::sys);
  wake(world, place);
  tell_of(p, HOSTCALL_INTERRUPT, pid);
}

// Takes the status of the child of entry `entry`, if it has ended: then its place is free. Otherwise its end will
// wake this process.
struct Ended {
  u32 status, code;
  i64 fuel;
};
__device__ __noinline__ bool reap(DevWorld* world, DevKin* k, u32 entry, Ended& ended) {
  const u32 place = (u32)k->children[entry];
  DevKin* child = kin(world, place);
  // Acquire: what the child says of its end. A child that is awaited already stays so.
  if (ew::compare_exchange(&child->bond, BOND_RUNS, BOND_AWAITED, ew::acq_rel, ew::gpu) != BOND_ENDED) return false;
  ended = Ended{child->status, child->code, child->fuel};
  k->children[entry] = 0;
  ew::add(&kin(world, k->root)->descendants, ~0u, ew::relaxed, ew::gpu);
  give_place(world, world->modules[child->module], place);
  return true;
}

// Gives up what an ended process has: its ends, and its children. False if it must wait for those.
__device__ __noinline__ bool retire(DevProcess* p) {
  DevWorld* world = p->table->world;
  const u32 place = (u32)p->pid;
  DevKin* k = kin(world, place);
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

// Tells the parent of an end. Its place is the parent's then, so nothing of it may be touched afterwards.
__device__ __noinline__ void tell_parent(DevProcess* p) {
  const DevWorld* world = p->table->world;
  DevInstance* i = instance(p);
  DevKin* k = kin(world, (u32)p->pid);
  p->dirty = i->memory_bytes;
  k->status = STATUS_TRAPPED;
  if (i->trap == 0 || i->trap == TRAP_EXIT) k->status = STATUS_EXITED;
  if (i->trap == TRAP_KILLED) k->status = STATUS_KILLED;
  if (i->trap == TRAP_OUT_OF_FUEL) k->status = STATUS_OUT_OF_FUEL;
  k->code = i->trap == TRAP_EXIT ? p->exit_code : 0;
  k->fuel = i->fuel;
  const u32 parent = k->parent - 1;
  // Release: whoever takes the status sees it, and whoever has the place next sees what was written there.
  if (ew::exchange(&k->bond, BOND_ENDED, ew::acq_rel, ew::gpu) == BOND_AWAITED) wake(world, parent);
}

}  // namespace process
