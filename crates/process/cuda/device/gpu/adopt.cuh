// What the host is told of children.
#pragma once

#include "process/call.cuh"
#include "process/gpu/wake.cuh"

namespace process {

// Names another process to the host, between two calls of the caller's own. The answer comes at once, and is waited
// for on the spot.
__device__ __noinline__ void tell_of(DevProcess* p, u32 call, u64 first, u64 second) {
  Call::begin(p, 0);
  const Call c(instance(p));
  send(p, SEND_HERE, call, first, second, 0, 0, 0, 0);
  await(p);
  c.close();
}
template <class C>
__device__ __forceinline__ void tell_of(DevProcess* p, const C& call) {
  u64 a[6] = {};
  call.words(a);
  tell_of(p, C::NUMBER, a[0], a[1]);
}

// Tells the host of a child, which is to have what its first ancestor has: until it calls the host, nobody there
// knows of it.
__device__ __noinline__ void introduce(DevInstance* i) {
  DevProcess* p = of(i);
  const DevWorld* world = p->table->world;
  const u64 root = kin(world, kin(p)->root)->pid;
  p->flags &= ~PROCESS_UNKNOWN;
  tell_of(p, hostcall::Adopt{.slot = (u32)root, .generation = (u32)(root >> 32)});
}

}  // namespace process
