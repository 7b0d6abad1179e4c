// What the lanes have, added.
__device__ __forceinline__ u64 actor_shapes_sum(u32 lane, u64 value) {
#pragma unroll
  for (u32 i = ew::WARP / 2; i > 0; i /= 2) value += __shfl_sync(ew::ALL, value, lane ^ i);
  return value;
}

// First what messages change, all of them, then what they send.
template <class A>
__device__ __forceinline__ void actor_shapes_handle(A& a, DevShape& s, const ew::Message& m, const DevShapes& p, u32 warp) {
  if (a.lane == 0) s.seen[warp] += a.count;
  if (warp != 0) return;
  const u64 w0 = m.word(0), w1 = m.word(1);
  const bool replies = m.is_reply();
  const u32 tag = replies ? 0 : m.tag();
  const u64 added = actor_shapes_sum(a.lane, tag == 1 || tag == 5 || tag == 8 ? w0 : 0);
  const u64 replied = actor_shapes_sum(a.lane, !replies ? 0 : m.failure() != ew::NONE ? 1000 : 1);
  const u32 same = __match_any_sync(ew::ALL, tag == 4 ? w0 : 1000 + a.lane);
  u64 errors = 0;
  if (tag == 4) {
    errors = s.expected[w0] + __popc(same & ((1u << a.lane) - 1)) != w1;
  }
  errors = actor_shapes_sum(a.lane, errors);
  __syncwarp(ew::ALL);
  if (tag == 4 && same >> a.lane >> 1 == 0) s.expected[w0] = w1 + 1;
  if (a.lane == 0) {
    s.sum += added;
    s.count += a.count;
    s.errors += errors;
    s.replies += replied;
    s.most = s.most < a.count ? a.count : s.most;
  }
  if (tag == 3) s.other = w0;  // LINK
  if (tag == 11) {             // LAUNCH
    const u64 child = a.launch(7);
    a.tell(child, 1, w0);
    s.other = child;
  }
  __syncwarp(ew::ALL);
  switch (tag) {
    case 2:  // GET
      a.reply(2, s.sum, s.count, s.errors, s.replies);
      break;
    case 5:  // PASS
      a.tell(s.other, 4, w0, w1);
      break;
    case 6:  // FORWARD
      if (s.other == 0) a.reply(6, w0);
      else a.forward(s.other);
      break;
    case 7:  // ASK
      a.ask(s.other, (u32)w0, 7, 7);
      break;
    case 8:  // FAIL_UP_TO
      if (++p.calls[w1] <= m.word(2)) a.fail();
      break;
    case 9:  // STOP
      a.stop();
      break;
    case 10:  // KILL
      a.kill(s.other);
      break;
    case 12:  // FOUR
#pragma unroll 1
      for (u32 i = 0; i < 4; i++) a.tell(s.other, 4, w0, w1 + i);
  }
}

__device__ void actor_shapes_warp(ew::WarpActor& a, DevShape& s, const ew::Message& m, const DevShapes& p) {
  actor_shapes_handle(a, s, m, p, 0);
}
__device__ void actor_shapes_block(ew::BlockActor& a, DevShape& s, const ew::Message& m, const DevShapes& p) {
  actor_shapes_handle(a, s, m, p, a.thread / ew::WARP);
}
__device__ void actor_shapes_narrow(ew::WarpActor& a, DevShape& s, const ew::Message& m, const DevShapes& p) {
  actor_shapes_handle(a, s, m, p, 0);
}
__device__ void actor_shapes_atomic(ew::WarpActor& a, DevShape& s, const ew::Message& m, const DevShapes& p) {
  actor_shapes_handle(a, s, m, p, 0);
}
__device__ void actor_shapes_stubborn(ew::WarpActor& a, DevShape& s, const ew::Message& m, const DevShapes& p) {
  actor_shapes_handle(a, s, m, p, 0);
}
__device__ void actor_shapes_patient(ew::BlockActor& a, DevShape& s, const ew::Message& m, const DevShapes& p) {
  actor_shapes_handle(a, s, m, p, a.thread / ew::WARP);
}
__device__ void actor_shapes_latest(ew::WarpActor& a, DevShape& s, const ew::Message& m, const DevShapes& p) {
  actor_shapes_handle(a, s, m, p, 0);
}

__device__ void actor_shapes_sender(ew::Actor& a, DevShape& s, const ew::Message& m, const DevShapes&) {
  if (m.is_reply()) {
    s.replies += m.failure() != ew::NONE ? 1000 : 1;
    return;
  }
  const u64 w0 = m.word(0), end = m.word(2);
  u64 at = m.word(1);
  switch (m.tag()) {
    case 1:  // ADD
      s.sum += w0;
      break;
    case 2:  // GET
      a.reply(2, s.sum, s.count, s.errors, s.replies);
      break;
    case 3:  // LINK
      s.other = w0;
      break;
    case 4:  // NUMBER
      s.errors += s.expected[w0] != at;
      s.expected[w0] = at + 1;
      s.count++;
      break;
    case 7:  // ASK
      a.ask(s.other, (u32)w0, 7, 7);
      break;
    case 13:  // BURST
#pragma unroll 1
      for (u32 i = 0; i < 4 && at < end; i++) a.tell(s.other, 4, w0, at++);
      if (at < end) a.tell(a.id(), 13, w0, at, end);
  }
}
