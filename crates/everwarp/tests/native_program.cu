__device__ bool primes_is_prime(u32 n) {
  if (n < 2) return false;
  for (u32 d = 2; (u64)d * d <= n; d++)
    if (n % d == 0) return false;
  return true;
}

__device__ void primes_count(ew::Lane& t, const DevNone&) {
  u32 first = t.lo(), count = t.hi();
  if (count > 16) {
    u32 half = count / 2;
    t.spawn(FN_primes_count, 0, t.pack(first, half));
    t.spawn(FN_primes_count, 0, t.pack(first + half, count - half));
    return;
  }
  u64 found = 0;
  for (u32 n = first; n < first + count; n++) found += primes_is_prime(n);
  t.report_add(found);
}
