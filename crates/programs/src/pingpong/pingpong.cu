__device__ void pingpong_ping(ew::Lane& t, const DevNone&) {
  if (t.lo() == 0) t.report_slot(0, 1);
  else t.spawn(FN_pingpong_pong, 0, t.lo() - 1);
}

__device__ void pingpong_pong(ew::Lane& t, const DevNone&) {
  if (t.lo() == 0) t.report_slot(0, 2);
  else t.spawn(FN_pingpong_ping, 0, t.lo() - 1);
}

__device__ void pingpong_level(ew::Warp& t, const DevNone&) {
  if (t.lo() == 0) {
    if (t.lane == 0) t.report_slot(0, 1);
    return;
  }
  t.fork(FN_pingpong_level, 0, t.lo() - 1);
  t.spawn_child(FN_pingpong_leaf, 0, 0);
}

__device__ void pingpong_leaf(ew::Lane&, const DevNone&) {}
