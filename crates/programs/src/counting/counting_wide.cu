__device__ void counting_wide_warp(ew::WarpActor& a, DevCounter& s, const ew::Message& m, const DevNone&) {
  u64 sum = m.word(0);
#pragma unroll
  for (u32 i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(ew::ALL, sum, i);
  if (a.lane != 0) return;
  s.sum += sum;
  s.count += a.count;
}

// The first warp has enough to add all of them.
__device__ void counting_wide_block(ew::BlockActor& a, DevCounter& s, const ew::Message& m, const DevNone& none) {
  if (a.thread < ew::WARP) counting_wide_warp(a, s, m, none);
}

__device__ void counting_wide_producer(ew::Actor& a, DevCounter&, const ew::Message& m, const DevNone&) {
  const u64 first = m.word(0), end = m.word(1), counter = m.word(2);
  const u64 next = min(end, first + 8);
#pragma unroll 1
  for (u64 number = first; number < next; number++) a.tell(counter, 0, number);
  if (next < end) a.tell(a.id(), 0, next, end, counter);
}
