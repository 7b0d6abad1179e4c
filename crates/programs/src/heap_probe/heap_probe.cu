// The pattern of a place: each byte of its block is one of a word that only this place has.
__device__ __forceinline__ u32 heap_probe_mix(u32 v) {
  v = (v ^ v >> 16) * 0x7feb352du;
  v = (v ^ v >> 15) * 0x846ca68bu;
  return v ^ v >> 16;
}
__device__ __forceinline__ u8 heap_probe_byte(u32 place, u32 i) { return (u8)(heap_probe_mix(place + 1) >> i % 4 * 8); }

// Writes the pattern into bytes from..to of a block, as the `me`-th of `width`: words, and at both ends bytes.
static __device__ __noinline__ void heap_probe_write(u8* block, u32 place, u32 from, u32 to, u32 me, u32 width) {
  const u32 word = heap_probe_mix(place + 1), begin = (from + 3) / 4, end = to / 4;
#pragma unroll 1
  for (u32 i = begin + me; i < end; i += width) ((u32*)block)[i] = word;
  if (me != 0) return;
  for (u32 i = from; i < min(begin * 4, to); i++) block[i] = heap_probe_byte(place, i);
  for (u32 i = max(end * 4, from); i < to; i++) block[i] = heap_probe_byte(place, i);
}
// How many words and bytes of the first `to` bytes differ from the pattern.
static __device__ __noinline__ u32 heap_probe_wrong(const u8* block, u32 place, u32 to, u32 me, u32 width) {
  const u32 word = heap_probe_mix(place + 1), end = to / 4;
  u32 wrong = 0;
#pragma unroll 1
  for (u32 i = me; i < end; i += width) wrong += ((const u32*)block)[i] != word;
  if (me == 0) for (u32 i = end * 4; i < to; i++) wrong += block[i] != heap_probe_byte(place, i);
  return wrong;
}
__device__ __forceinline__ u32 heap_probe_size(const DevHeapProbe& p, u32 v) { return p.low + heap_probe_mix(v) % (p.high - p.low + 1); }

__device__ void heap_probe_fill(ew::Lane& t, const DevHeapProbe& p) {
  // No value is kept across the call except those that the task has anyway.
  p.sizes[t.lo()] = t.hi() != 0 ? t.hi() : heap_probe_size(p, t.lo());
  u8* block = t.alloc_for(t.tag() != 0 ? t.tag() : t.owner(), p.sizes[t.lo()]);
  p.blocks[t.lo()] = (u64)block;
  if (block == nullptr) return;
  heap_probe_write(block, t.lo(), 0, p.sizes[t.lo()], 0, 1);
  t.report_add(1);
}

__device__ void heap_probe_check(ew::Lane& t, const DevHeapProbe& p) {
  const u32 place = t.lo();
  if (p.blocks[place] == 0) return;
  const u32 wrong = heap_probe_wrong((u8*)p.blocks[place], place, p.sizes[place], 0, 1);
  if (wrong != 0) t.report_add(wrong);
}

__device__ void heap_probe_empty(ew::Lane& t, const DevHeapProbe& p) {
  t.free((u8*)p.blocks[t.lo()]);
  p.blocks[t.lo()] = 0;
}

// Errors are added to the task's report at once, so that no value is kept across calls.
__device__ __forceinline__ void heap_probe_change(ew::Lane& t, const DevHeapProbe& p, u32 place, u32 bytes) {
  u8* block = t.realloc((u8*)p.blocks[place], bytes);
  if (block == nullptr) return t.report_add(1ull << 32);
  p.blocks[place] = (u64)block;
  const u32 kept = min(p.sizes[place], bytes);
  const u32 wrong = heap_probe_wrong(block, place, kept, 0, 1);
  if (wrong != 0) t.report_add(wrong);
  heap_probe_write((u8*)p.blocks[place], place, kept, bytes, 0, 1);
  p.sizes[place] = bytes;
}
__device__ void heap_probe_resize(ew::Lane& t, const DevHeapProbe& p) { heap_probe_change(t, p, t.lo(), t.hi()); }

// Four places of its own, and as many steps as asked for, each at one of them.
__device__ void heap_probe_churn(ew::Lane& t, const DevHeapProbe& p) {
#pragma unroll 1
  for (u32 i = 0; i < t.hi(); i++) {
    const u32 state = heap_probe_mix(t.lo() * 2654435761u + i * 97 + 1);
    const u32 place = t.lo() * 4 + state % 4;
    if (p.blocks[place] == 0) {
      p.sizes[place] = heap_probe_size(p, state);
      p.blocks[place] = (u64)t.alloc(p.sizes[place]);
      if (p.blocks[place] == 0) t.report_add(1ull << 32);
      else heap_probe_write((u8*)p.blocks[place], place, 0, p.sizes[place], 0, 1);
    } else if ((state >> 8) % 2 == 0) {
      heap_probe_change(t, p, place, heap_probe_size(p, state));
    } else {
      const u32 wrong = heap_probe_wrong((u8*)p.blocks[place], place, p.sizes[place], 0, 1);
      if (wrong != 0) t.report_add(wrong);
      t.free((u8*)p.blocks[place]);
      p.blocks[place] = 0;
    }
  }
}

// One block for all, which is filled, grown, and checked; then one for each lane or thread.
template <u32 WIDTH, class View>
__device__ __forceinline__ void heap_probe_together(View& t, const DevHeapProbe& p, u32 me) {
  u8* block = t.alloc(t.hi());
  if (block == nullptr) return t.report_add(me == 0 ? 1ull << 32 : 0);
  heap_probe_write(block, t.lo(), 0, t.hi(), me, WIDTH);
  block = t.realloc(block, 2 * (u64)t.hi());
  if (block == nullptr) return t.report_add(me == 0 ? 1ull << 32 : 0);
  t.report_add(heap_probe_wrong(block, t.lo(), t.hi(), me, WIDTH));
  heap_probe_write(block, t.lo(), 0, 2 * t.hi(), me, WIDTH);
  if (me == 0) {
    p.blocks[t.lo()] = t.lo() % 2 == 0 ? (u64)block : 0;
    p.sizes[t.lo()] = 2 * t.hi();
  }
  if (t.lo() % 2 == 1) t.free(block);
  block = t.each().alloc(me + 1);
  if (block == nullptr) return t.report_add(1ull << 32);
  heap_probe_write(block, t.lo() + me, 0, me + 1, 0, 1);
  t.report_add(heap_probe_wrong(block, t.lo() + me, me + 1, 0, 1));
  t.each().free(block);
}
__device__ void heap_probe_warp(ew::Warp& t, const DevHeapProbe& p) { heap_probe_together<32>(t, p, t.lane); }
__device__ void heap_probe_block(ew::Block& t, const DevHeapProbe& p) { heap_probe_together<256>(t, p, t.thread); }

__device__ void heap_probe_release(ew::Warp& t, const DevHeapProbe&) {
  const u64 bytes = t.release_owner(t.tag(), t.lo(), t.hi());
  if (t.lane == 0) t.report_add(bytes);
}
__device__ void heap_probe_sweep(ew::Warp& t, const DevHeapProbe&) {
  const u64 broken = t.check_heap(t.lo(), t.hi());
  if (t.lane == 0) t.report_add(broken);
}

__device__ void heap_probe_mistake(ew::Lane& t, const DevHeapProbe& p) {
  if (t.lo() == 2) return t.free(p.blocks);
  u8* block = t.alloc(t.hi());
  if (block == nullptr) return t.fault(t.lo());
  const u32 kind = t.lo(), bytes = t.hi();
  p.blocks[kind] = (u64)block;
  p.sizes[kind] = bytes;
  if (kind == 1) t.free(block);
  if (kind == 1) t.free(block);
  if (kind == 3) t.free(block + 16);
  if (kind == 4 || kind == 5) block[bytes] = 0;
  if (kind == 4) t.free(block);
}

__device__ void heap_probe_until(ew::Lane& t, const DevHeapProbe& p) {
  u8* block = t.alloc(t.hi());
  if (block == nullptr) return t.spawn(FN_heap_probe_until, 0, t.arg());
  p.blocks[t.lo()] = (u64)block;
  p.sizes[t.lo()] = t.hi();
  heap_probe_write(block, t.lo(), 0, t.hi(), 0, 1);
}
