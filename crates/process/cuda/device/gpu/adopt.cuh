// A process's reports to the host about its children.
#pragma once

#include "process/call.cuh"
#include "process/gpu/wake.cuh"

namespace process {

// Names another process to the host, between two calls of the caller's own. The answer comes at once, and the lane waits
// for it on the spot.
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

// Reports a child to the host before its first call, because the host does not know it yet. It gets the output streams
// and the directories of its first ancestor.
__device__ __noinline__ void introduce(DevInstance* i) {
  DevProcess* p = of(i);
  const DevWorld* world = p->table->world;
  const u64 root = relations(world, relations(p)->root)->pid;
  p->flags &= ~PROCESS_UNKNOWN;
  tell_of(p, hostcall::Adopt{.slot = (u32)root, .generation = (u32)(root >> 32)});
}

}  // namespace process
