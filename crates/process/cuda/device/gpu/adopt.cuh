// What the host is told of children.

namespace process {

// Names another process to the host, between two calls of the caller's own. The answer comes at once, and is waited
// for on the spot.
__device__ __noinline__ void tell_of(DevProcess* p, u32 call, u64 pid) {
  Call::begin(p, 0);
  const Call c(instance(p));
  c.args((u32)pid, pid >> 32);
  c.post_here(call);
  await(p);
  c.close();
}

// Tells the host of a child, which is to have what its first ancestor has: until it calls the host, nobody there
// knows of it.
__device__ __noinline__ void introduce(DevInstance* i) {
  DevProcess* p = of(i);
  const DevWorld* world = p->table->world;
  const u64 root = kin(world, kin(p)->root)->pid;
  p->flags &= ~PROCESS_UNKNOWN;
  tell_of(p, HOSTCALL_ADOPT, root);
}

}  // namespace process
