constexpr u32 OPERATORS_ROWS = 8;

__device__ void operators_spread(ew::Lane& t, const DevOperators&) {
  u32 first = t.lo(), n = t.hi();
  u32 left = min((n / 2 + OPERATORS_ROWS - 1) / OPERATORS_ROWS * OPERATORS_ROWS, n);
  u32 from[2] = {first, first + left}, count[2] = {left, n - left};
#pragma unroll
  for (u32 i = 0; i < 2; i++) {
    if (count[i] == 0) continue;
    u32 fn = count[i] <= OPERATORS_ROWS ? FN_operators_bias_relu : FN_operators_spread;
    t.spawn(fn, 0, t.pack(from[i], count[i]));
  }
}

// Each warp of the block takes one row, so the block needs no barrier of its own.
__device__ void operators_bias_relu(ew::Block& t, const DevOperators& p) {
  if (t.thread == 0) t.spawn(FN_operators_softmax, 0, t.arg());
  u32 warp = t.thread / 32, quads = p.columns / 4;
  if (warp >= t.hi()) return;
  u64 row = (u64)(t.lo() + warp) * p.columns;
  const float4* in = (const float4*)(p.input + row);
  const float4* bias = (const float4*)p.bias;
  float4* out = (float4*)(p.middle + row);
#pragma unroll 4
  for (u32 i = t.thread % 32; i < quads; i += 32) {
    float4 v = in[i], b = bias[i];
    out[i] = make_float4(fmaxf(v.x + b.x, 0.f), fmaxf(v.y + b.y, 0.f), fmaxf(v.z + b.z, 0.f), fmaxf(v.w + b.w, 0.f));
  }
}

// The row is read twice, from the second-level cache, rather than held: the scheduler leaves few registers.
__device__ void operators_softmax(ew::Block& t, const DevOperators& p) {
  u32 warp = t.thread / 32, quads = p.columns / 4;
  if (warp >= t.hi()) return;
  u64 row = (u64)(t.lo() + warp) * p.columns;
  const float4* in = (const float4*)(p.middle + row);
  float4* out = (float4*)(p.output + row);
  float most = -3.4e38f, sum = 0.f;
#pragma unroll 2
  for (u32 i = t.thread % 32; i < quads; i += 32) {
    float4 v = __ldcg(&in[i]);
    float m = fmaxf(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)), most);
    sum = sum * __expf(most - m) + __expf(v.x - m) + __expf(v.y - m) + __expf(v.z - m) + __expf(v.w - m);
    most = m;
  }
#pragma unroll
  for (u32 i = 16; i > 0; i /= 2) {
    float m = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, i));
    float other = __shfl_xor_sync(0xffffffffu, sum * __expf(most - m), i);
    sum = sum * __expf(most - m) + other;
    most = m;
  }
  float scale = 1.f / sum;
#pragma unroll 2
  for (u32 i = t.thread % 32; i < quads; i += 32) {
    float4 v = __ldcg(&in[i]);
    out[i] = make_float4(__expf(v.x - most) * scale, __expf(v.y - most) * scale, __expf(v.z - most) * scale,
                         __expf(v.w - most) * scale);
  }
}
