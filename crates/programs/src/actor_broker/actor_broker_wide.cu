// Workers and carriers of warp and block shape. The lanes handle their messages one after the other.
template <class A, class F>
__device__ __forceinline__ void actor_broker_each(A& a, u32 place, F handle) {
#pragma unroll 1
  for (u32 i = 0; i < a.count; i++) {
    if (place == i) handle();
    a.sync();
  }
}

__device__ void actor_broker_warps_worker(ew::WarpActor& a, DevPorter& s, const ew::Message& m, const DevNone&) {
  actor_broker_each(a, a.lane, [&] { actor_broker_work(a, s, m); });
}
__device__ void actor_broker_warps_carrier(ew::WarpActor& a, DevCarrier& s, const ew::Message& m, const DevNone&) {
  actor_broker_each(a, a.lane, [&] { actor_broker_carry(a, s, m); });
}
__device__ void actor_broker_warps_steady(ew::WarpActor& a, DevCarrier& s, const ew::Message& m, const DevNone&) {
  actor_broker_each(a, a.lane, [&] { actor_broker_carry(a, s, m); });
}
__device__ void actor_broker_warps_broker(ew::Actor& a, DevBroker& s, const ew::Message& m, const DevNone&) {
  actor_broker_handle(a, s, m);
}
__device__ void actor_broker_warps_careful(ew::Actor& a, DevBroker& s, const ew::Message& m, const DevNone&) {
  actor_broker_handle(a, s, m);
}
__device__ void actor_broker_blocks_worker(ew::BlockActor& a, DevPorter& s, const ew::Message& m, const DevNone&) {
  actor_broker_each(a, a.thread, [&] { actor_broker_work(a, s, m); });
}
__device__ void actor_broker_blocks_carrier(ew::BlockActor& a, DevCarrier& s, const ew::Message& m, const DevNone&) {
  actor_broker_each(a, a.thread, [&] { actor_broker_carry(a, s, m); });
}
__device__ void actor_broker_blocks_steady(ew::BlockActor& a, DevCarrier& s, const ew::Message& m, const DevNone&) {
  actor_broker_each(a, a.thread, [&] { actor_broker_carry(a, s, m); });
}
__device__ void actor_broker_blocks_broker(ew::Actor& a, DevBroker& s, const ew::Message& m, const DevNone&) {
  actor_broker_handle(a, s, m);
}
__device__ void actor_broker_blocks_careful(ew::Actor& a, DevBroker& s, const ew::Message& m, const DevNone&) {
  actor_broker_handle(a, s, m);
}
