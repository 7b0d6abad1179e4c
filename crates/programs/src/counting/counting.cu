__device__ void counting_counter(ew::Actor&, DevCounter& s, const ew::Message& m, const DevNone&) {
  s.sum += m.word(0);
  s.count++;
}

__device__ void counting_producer(ew::Actor& a, DevCounter&, const ew::Message& m, const DevNone&) {
  const u64 first = m.word(0), end = m.word(1), counter = m.word(2);
  const u64 next = min(end, first + 8);
#pragma unroll 1
  for (u64 number = first; number < next; number++) a.tell(counter, 0, number);
  if (next < end) a.tell(a.id(), 0, next, end, counter);
}
