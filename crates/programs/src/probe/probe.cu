__device__ __forceinline__ void probe_count(const DevProbe& p, u64 place) {
  if (place < p.places) ew::add(&p.marks[place], 1u, ew::relaxed, ew::gpu);
}

__device__ __forceinline__ void probe_divide(ew::Lane& t, u32 own) {
  u32 first = t.lo(), n = t.hi(), tag = t.tag();
  u32 leaf = tag == 0 ? FN_probe_mark : tag == 1 ? FN_probe_mark_warp : FN_probe_mark_block;
  u32 size = tag == 0 ? 1 : tag == 1 ? 32 : 256;
  u32 left = min((n / 2 + size - 1) / size * size, n);
  u32 from[2] = {first, first + left}, count[2] = {left, n - left};
#pragma unroll
  for (u32 i = 0; i < 2; i++) {
    if (count[i] == 0) continue;
    bool ends = count[i] <= size;
    t.spawn(ends ? leaf : own, tag, ends ? from[i] : t.pack(from[i], count[i]));
  }
}

__device__ void probe_split(ew::Lane& t, const DevProbe&) { probe_divide(t, FN_probe_split); }
__device__ void probe_spread(ew::Lane& t, const DevProbe&) { probe_divide(t, FN_probe_spread); }
__device__ void probe_cautious(ew::Lane& t, const DevProbe&) { probe_divide(t, FN_probe_cautious); }
__device__ void probe_mark(ew::Lane& t, const DevProbe& p) { probe_count(p, t.lo()); }
__device__ void probe_mark_warp(ew::Warp& t, const DevProbe& p) { probe_count(p, (u64)t.lo() + t.lane); }
__device__ void probe_mark_block(ew::Block& t, const DevProbe& p) { probe_count(p, (u64)t.lo() + t.thread); }

__device__ void probe_chain(ew::Lane& t, const DevProbe& p) {
  probe_count(p, t.lo());
  if (t.hi() > 0) t.spawn(FN_probe_chain, 0, t.pack(t.lo() + 1, t.hi() - 1));
}

__device__ void probe_join(ew::Lane& t, const DevProbe&) {
  u32 first = t.lo(), n = t.hi();
  t.fork(FN_probe_check, 0, first + n);
  t.spawn_child(FN_probe_split, 0, t.pack(first, n / 2));
  t.spawn_child(FN_probe_split, 0, t.pack(first + n / 2, n - n / 2));
}

__device__ void probe_join_block(ew::Block& t, const DevProbe&) {
  t.fork(FN_probe_check, 0, t.lo() + 128);
  if (t.thread < 128) t.spawn_child(FN_probe_mark, 0, t.lo() + t.thread);
}

__device__ void probe_check(ew::Lane& t, const DevProbe& p) {
  u32 sum = 0;
  for (u32 i = 0; i < t.lo(); i++) sum += ew::load(&p.marks[i], ew::relaxed, ew::gpu);
  t.report_slot(0, sum);
}

__device__ void probe_log(ew::Lane& t, const DevProbe& p) {
  u32 place = ew::fetch_add(p.logged, 1u, ew::relaxed, ew::gpu);
  if (place < p.places) ew::store(&p.log[place], t.lo(), ew::relaxed, ew::gpu);
}

__device__ void probe_endless(ew::Lane& t, const DevProbe&) {
  t.spawn(FN_probe_endless, 0, 0);
  t.spawn(FN_probe_endless, 0, 0);
}

__device__ void probe_hang(ew::Lane&, const DevProbe& p) {
  while (ew::load(&p.marks[0], ew::relaxed, ew::gpu) == 0) {}
}

__device__ void probe_greedy(ew::Lane& t, const DevProbe&) {
  t.spawn(FN_probe_mark, 0, 0);
  t.spawn(FN_probe_mark, 0, 0);
}

__device__ void probe_fault(ew::Lane& t, const DevProbe&) { t.fault(t.arg()); }
