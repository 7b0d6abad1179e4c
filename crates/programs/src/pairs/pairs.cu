// Words that several tasks touch are accessed at the device's scope; the order comes from the spawn.
__device__ __forceinline__ void pairs_one(const DevPairs& p, u32 i) {
  if (i < p.pairs) ew::store(&p.firsts[i], (u64)i * 0x9e3779b97f4a7c15ull + 1, ew::relaxed, ew::gpu);
}
__device__ __forceinline__ void pairs_two(const DevPairs& p, u32 i) {
  if (i >= p.pairs) return;
  u64 v = ew::load(&p.firsts[i], ew::relaxed, ew::gpu);
  ew::add(&p.seconds[i], v ^ v >> 29, ew::relaxed, ew::gpu);
}

__device__ void pairs_first(ew::Lane& t, const DevPairs& p) { pairs_one(p, t.lo()); }
__device__ void pairs_second(ew::Lane& t, const DevPairs& p) { pairs_two(p, t.lo()); }

__device__ void pairs_pair(ew::Lane& t, const DevPairs& p) {
  pairs_one(p, t.lo());
  t.spawn(FN_pairs_second, 0, t.lo());
}

__device__ void pairs_joined(ew::Lane& t, const DevPairs&) {
  t.fork(FN_pairs_second, 0, t.lo());
  t.spawn_child(FN_pairs_first, 0, t.lo());
}

__device__ void pairs_spread(ew::Lane& t, const DevPairs&) {
  u32 leaf = t.tag() == 0 ? FN_pairs_pair : FN_pairs_joined;
  u32 first = t.lo(), n = t.hi(), left = n / 2;
  u32 from[2] = {first, first + left}, count[2] = {left, n - left};
#pragma unroll
  for (u32 i = 0; i < 2; i++) {
    if (count[i] == 0) continue;
    bool ends = count[i] == 1;
    t.spawn(ends ? leaf : FN_pairs_spread, t.tag(), ends ? from[i] : t.pack(from[i], count[i]));
  }
}

__device__ void pairs_chain(ew::Lane& t, const DevPairs& p) {
  pairs_one(p, t.lo());
  t.spawn(FN_pairs_link, 0, t.arg());
}

__device__ void pairs_link(ew::Lane& t, const DevPairs& p) {
  pairs_two(p, t.lo());
  if (t.hi() > 0) t.spawn(FN_pairs_chain, 0, t.pack(t.lo() + 1, t.hi() - 1));
}
