// A child's first call of the host.

namespace process {

// Tells the host of a child, which is to have what its first ancestor has: until it calls the host, nobody there
// knows of it. The answer comes at once, and is waited for on the spot.
__device__ __noinline__ void introduce(DevInstance* i) {
  DevProcess* p = of(i);
  const DevWorld* world = p->table->world;
  const u64 root = kin(world, kin(p)->root)->pid;
  p->flags &= ~PROCESS_UNKNOWN;
  const Call c(i);
  Call::begin(p, 0);
  c.args((u32)root, root >> 32);
  c.post(HOSTCALL_ADOPT);
  await(p);
  c.close();
}

}  // namespace process
