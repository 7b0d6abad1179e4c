// The same of warp and block shape. The lanes handle their messages one after the other, so that each leaves what it would leave alone.
template <class A>
__device__ __forceinline__ void actor_services_each(A& a, u32 place, DevAgent& s, const ew::Message& m) {
#pragma unroll 1
  for (u32 i = 0; i < a.count; i++) {
    if (place == i) actor_services_handle(a, s, m);
    a.sync();
  }
}

__device__ void actor_services_warps_agent(ew::WarpActor& a, DevAgent& s, const ew::Message& m, const DevNone&) {
  actor_services_each(a, a.lane, s, m);
}
__device__ void actor_services_warps_careful(ew::WarpActor& a, DevAgent& s, const ew::Message& m, const DevNone&) {
  actor_services_each(a, a.lane, s, m);
}
__device__ void actor_services_blocks_agent(ew::BlockActor& a, DevAgent& s, const ew::Message& m, const DevNone&) {
  actor_services_each(a, a.thread, s, m);
}
__device__ void actor_services_blocks_careful(ew::BlockActor& a, DevAgent& s, const ew::Message& m, const DevNone&) {
  actor_services_each(a, a.thread, s, m);
}
