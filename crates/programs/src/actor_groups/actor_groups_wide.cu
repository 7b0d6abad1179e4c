// The same of warp and block shape. The lanes handle their messages one after the other.
template <class A>
__device__ __forceinline__ void actor_groups_each(A& a, u32 place, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
#pragma unroll 1
  for (u32 i = 0; i < a.count; i++) {
    if (place == i) actor_groups_handle(a, s, m, p);
    a.sync();
  }
}

__device__ void actor_groups_warps_member(ew::WarpActor& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  actor_groups_each(a, a.lane, s, m, p);
}
__device__ void actor_groups_warps_careful(ew::WarpActor& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  actor_groups_each(a, a.lane, s, m, p);
}
__device__ void actor_groups_warps_stubborn(ew::WarpActor& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  actor_groups_each(a, a.lane, s, m, p);
}
__device__ void actor_groups_blocks_member(ew::BlockActor& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  actor_groups_each(a, a.thread, s, m, p);
}
__device__ void actor_groups_blocks_careful(ew::BlockActor& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  actor_groups_each(a, a.thread, s, m, p);
}
__device__ void actor_groups_blocks_stubborn(ew::BlockActor& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  actor_groups_each(a, a.thread, s, m, p);
}
__device__ void actor_groups_warps_patient(ew::WarpActor& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  actor_groups_each(a, a.lane, s, m, p);
}
__device__ void actor_groups_blocks_patient(ew::BlockActor& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  actor_groups_each(a, a.thread, s, m, p);
}
