__device__ void sieve_filter(ew::Actor& a, DevSieve& s, const ew::Message& m, const DevNone&) {
  constexpr u32 FILTER = 0, KEPT = 26;
  const u32 number = (u32)m.word(0), count = s.count;
#pragma unroll 1
  for (u32 i = 0; i < count; i++) {
    if (number % s.primes[i] == 0) return;
  }
  if (count < KEPT) {
    s.primes[count] = number;
    s.count = count + 1;
    return;
  }
  if (s.next == 0) s.next = a.launch(FILTER);
  a.tell(s.next, 0, number);
}

__device__ void sieve_source(ew::Actor& a, DevSieve&, const ew::Message& m, const DevNone&) {
  u64 number = m.word(0);
  const u64 end = m.word(1), to = m.word(2);
#pragma unroll 1
  for (u32 i = 0; i < 8 && number < end; i++, number += 2) a.tell(to, 0, number);
  if (number < end) a.tell(a.id(), 0, number, end, to);
}
