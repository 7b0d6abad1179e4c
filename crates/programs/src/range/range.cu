__device__ __forceinline__ void range_halve(ew::Lane& t, u32 size, u32 leaf, u32 own) {
  u32 first = t.lo(), n = t.hi();
  u32 left = min((n / 2 + size - 1) / size * size, n);
  u32 from[2] = {first, first + left}, count[2] = {left, n - left};
#pragma unroll
  for (u32 i = 0; i < 2; i++) {
    if (count[i] != 0) t.spawn(count[i] <= size ? leaf : own, 0, t.pack(from[i], count[i]));
  }
}

// Values that an earlier submission wrote are read past the first-level cache.
__device__ __forceinline__ void range_one(const DevRange& p, u32 i) { p.cells[i] = __ldcg(&p.cells[i]) + 1; }

__device__ void range_add(ew::Lane& t, const DevRange& p) {
  if (t.lo() < p.cells_len) range_one(p, t.lo());
}
__device__ void range_spread(ew::Lane& t, const DevRange&) { range_halve(t, 1, FN_range_add, FN_range_spread); }
__device__ void range_split(ew::Lane& t, const DevRange& p) {
  range_halve(t, p.grain, FN_range_grain, FN_range_split);
}

__device__ void range_fan(ew::Warp& t, const DevRange& p) {
  u32 first = t.lo(), n = t.hi();
  u32 grains = (n + p.grain - 1) / p.grain;
  u32 each = (grains + 63) / 64 * p.grain;
#pragma unroll
  for (u32 i = 0; i < 2; i++) {
    const u64 begin = (u64)(i * 32 + t.lane) * each;
    if (begin >= n) continue;
    u32 count = min(each, n - (u32)begin);
    t.spawn(count <= p.grain ? FN_range_grain : FN_range_fan, 0, t.pack(first + (u32)begin, count));
  }
}

__device__ void range_grain(ew::Warp& t, const DevRange& p) {
  u32 first = t.lo(), n = t.hi();
  if ((u64)first + n > p.cells_len) return t.fault(first);
  // Grains begin at multiples of 128 cells, so all but the last few cells of a range move 16 bytes at a time.
  uint4* wide = (uint4*)(p.cells + first);
  u32 quads = n / 4, i = t.lane;
  for (; i + 224 < quads; i += 256) {
    uint4 v[8];
#pragma unroll
    for (u32 k = 0; k < 8; k++) v[k] = __ldcg(&wide[i + 32 * k]);
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
      wide[i + 32 * k] = make_uint4(v[k].x + 1, v[k].y + 1, v[k].z + 1, v[k].w + 1);
    }
  }
  for (; i < quads; i += 32) {
    uint4 v = __ldcg(&wide[i]);
    wide[i] = make_uint4(v.x + 1, v.y + 1, v.z + 1, v.w + 1);
  }
  if (quads * 4 + t.lane < n) range_one(p, first + quads * 4 + t.lane);
}
