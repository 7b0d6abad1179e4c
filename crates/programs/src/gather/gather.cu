#include "everwarp/files/files.cuh"

__device__ __forceinline__ u64 gather_chance(u32 batch, u32 seed, u32 at) {
  return programs_mix((u64)batch << 40 ^ (u64)seed << 16 ^ at);
}

__device__ __forceinline__ void gather_found(ew::Lane& t, const DevGather& p, u32 place, u32 node) {
  ew::store(p.nodes + place, node, ew::relaxed, ew::gpu);
  t.spawn(FN_gather_fetch, 0, place);
}

// The sample of a seed is in the table of nodes, level by level.
__device__ void gather_sample(ew::Lane& t, const DevGather& p) {
  const u32 batch = t.hi(), seed = t.lo() % p.seeds, base = t.lo() * p.each;
  gather_found(t, p, base, (u32)(gather_chance(batch, seed, 0) % p.vertices));
  u32 first = 0, count = 1, next = 1;
  for (u32 hop = 0; hop < p.hops; hop++) {
    const u32 fanout = p.fanouts[hop];
    for (u32 at = 0; at < count * fanout; at++) {
      const u32 parent = ew::load(p.nodes + base + first + at / fanout, ew::relaxed, ew::gpu);
      const u32 begin = p.offsets[parent], degree = p.offsets[parent + 1] - begin;
      // A vertex without neighbours stands for them.
      const u32 node = degree == 0 ? parent : p.columns[begin + (u32)(gather_chance(batch, seed, next + at) % degree)];
      gather_found(t, p, base + next + at, node);
    }
    first = next;
    count *= fanout;
    next += count;
  }
}

__device__ __forceinline__ u64 gather_offset(const DevGather& p, u32 place) {
  return (u64)ew::load(p.nodes + place, ew::relaxed, ew::gpu) * p.row;
}

__device__ __forceinline__ void gather_failed(const DevGather& p, u32 error) {
  ew::compare_exchange(p.error, (u64)0, (u64)error, ew::relaxed, ew::gpu);
}

// The warp copies a row from a page that it holds, and releases the page.
__device__ __forceinline__ void gather_copy(ew::Warp& t, const DevGather& p, u32 place, const u8* page) {
  const u64* from = (const u64*)page;
  u64* to = (u64*)(p.rows + (u64)place * p.row);
  u64 sum = 0;
  for (u32 i = t.lane; i < p.row / 8; i += 32) {
    // What the host has written is read past the first-level cache.
    const u64 word = __ldcg(from + i);
    to[i] = word;
    sum += word;
  }
  t.report_add(sum * (2 * (u64)(place % (p.seeds * p.each)) + 1));
  // Not before the last lane has read.
  __syncwarp();
  if (t.lane == 0) ew::Files(t, p.files, FN_gather_door).release(p.handle, gather_offset(p, place));
}

__device__ __forceinline__ void gather_one(ew::Warp& t, const DevGather& p) {
  const u32 place = t.lo();
  u64 here = 0;
  if (t.lane == 0) {
    ew::Files files(t, p.files, FN_gather_door);
    const ew::Page page = files.acquire(p.handle, gather_offset(p, place), {FN_gather_fetched, 0, place});
    switch (page.state) {
      case ew::PageState::here: here = (u64)page.bytes; break;
      case ew::PageState::later: break;
      case ew::PageState::full: t.spawn(FN_gather_again, 0, place); break;
      case ew::PageState::failed: gather_failed(p, page.error); break;
    }
  }
  here = __shfl_sync(0xffffffffu, here, 0);
  if (here != 0) gather_copy(t, p, place, (const u8*)here);
}

__device__ void gather_fetch(ew::Warp& t, const DevGather& p) { gather_one(t, p); }

__device__ void gather_again(ew::Warp& t, const DevGather& p) { gather_one(t, p); }

__device__ void gather_fetched(ew::Warp& t, const DevGather& p) {
  const ew::FileEnd end(t.arg());
  if (end.error != 0) {
    if (t.lane == 0) gather_failed(p, end.error);
    return;
  }
  const ew::Files files(t, p.files, FN_gather_door);
  gather_copy(t, p, end.note, files.held(p.handle, gather_offset(p, end.note)));
}

__device__ void gather_door(ew::Warp& t, const DevGather& p) { ew::file_door(t, p.files, FN_gather_door); }
