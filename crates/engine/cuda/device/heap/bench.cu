// Kernels for benchmarks and tests of the heap: one for each step, a thread for each slot or for several.
#include "everwarp/heap/sweep.cuh"
using namespace ew;

namespace {
__device__ u32 mix(u32 v) {
  v = (v ^ v >> 16) * 0x7feb352du;
  v = (v ^ v >> 15) * 0x846ca68bu;
  return v ^ v >> 16;
}
// `low` to `high` bytes, by slot; the same in each round of the same seed.
__device__ u32 size_of(u32 slot, u32 low, u32 high, u32 seed) {
  return low == high ? low : low + mix(slot * 2654435761u + seed) % (high - low + 1);
}
}  // namespace

// Each thread fills `each` slots, one after the other.
extern "C" __global__ void heap_fill(const __grid_constant__ DevHeap h, u8** slots, u32 threads, u32 each, u32 low, u32 high, u32 seed) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  for (u32 k = 0; k < each; k++) {
    const u32 slot = k * threads + i;
    slots[slot] = heap_alloc(h, size_of(slot, low, high, seed));
  }
}
extern "C" __global__ void heap_empty(const __grid_constant__ DevHeap h, u8** slots, u32 threads, u32 each) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  for (u32 k = 0; k < each; k++) heap_free(h, slots[k * threads + i]);
}
// The same for owners: each 1,024 threads have one of them.
__device__ u32 owner_of(u32 thread, u32 owners) { return 1 + thread / 1024 % owners; }
extern "C" __global__ void heap_fill_owned(const __grid_constant__ DevHeap h, u8** slots, u32 threads, u32 each, u32 low, u32 high, u32 seed, u32 owners) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  for (u32 k = 0; k < each; k++) {
    const u32 slot = k * threads + i;
    slots[slot] = heap_alloc_for(h, size_of(slot, low, high, seed), owner_of(i, owners));
  }
}
extern "C" __global__ void heap_empty_owned(const __grid_constant__ DevHeap h, u8** slots, u32 threads, u32 each, u32 owners) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  for (u32 k = 0; k < each; k++) heap_free_any(h, slots[k * threads + i], owner_of(i, owners));
}
// Frees the blocks of an owner; any number of whole warps.
extern "C" __global__ void heap_release_owner(const __grid_constant__ DevHeap h, u32 owner) {
  heap_release(h, owner, (blockIdx.x * blockDim.x + threadIdx.x) / 32, gridDim.x * blockDim.x / 32);
}
// Each thread allocates and frees `rounds` times, and writes to its blocks.
extern "C" __global__ void heap_churn(const __grid_constant__ DevHeap h, u32 threads, u32 rounds, u32 low, u32 high, u32 seed) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  for (u32 k = 0; k < rounds; k++) {
    u8* block = heap_alloc(h, size_of(i + k * threads, low, high, seed));
    if (block != nullptr) *(u32*)block = i;
    heap_free(h, block);
  }
}
// A warp writes its slot's number into every word of the block, or counts the words that differ.
extern "C" __global__ void heap_mark(u8** slots, u32 count, u32 low, u32 high, u32 seed, u64* wrong, u64* there) {
  const u32 slot = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (slot >= count || slots[slot] == nullptr) return;
  const u32 words = size_of(slot, low, high, seed) / 4;
  u32* block = (u32*)slots[slot];
  u32 bad = 0;
  for (u32 i = lane; i < words; i += 32) {
    if (wrong == nullptr) block[i] = slot + 1;
    else bad += block[i] != slot + 1;
  }
  if (bad != 0) atomicAdd(wrong, (u64)bad);
  if (lane == 0 && there != nullptr) atomicAdd(there, (u64)1);
}
// Gives empty pages back, so that a heap without blocks is as it was. One block of threads, alone on the device.
extern "C" __global__ void heap_trim(const __grid_constant__ DevHeap h) {
  for (u32 i = threadIdx.x; i < h.multiprocessors * HEAP_SLOTS; i += blockDim.x) h.active[i] = 0;
  __syncthreads();
  if (threadIdx.x < 32) heap_reclaim(h, 0xffffffffu, threadIdx.x);
}
// A heap without blocks: no page has a class. Everything else was set to zero.
extern "C" __global__ void heap_start(const __grid_constant__ DevHeap h) {
  const u32 page = blockIdx.x * blockDim.x + threadIdx.x;
  if (page >= h.page_limit) return;
  h.pages[page].available = HEAP_NOBODYS;
  fetch_or(&h.free[page / 32], 1u << page % 32, relaxed, gpu);
  if (page == 0) store(&h.counters->pages, h.page_limit, relaxed, gpu);
}

// The same by CUDA's own device allocator.
extern "C" __global__ void malloc_fill(u8** slots, u32 threads, u32 each, u32 low, u32 high, u32 seed) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  for (u32 k = 0; k < each; k++) {
    const u32 slot = k * threads + i;
    slots[slot] = (u8*)malloc(size_of(slot, low, high, seed));
  }
}
extern "C" __global__ void malloc_empty(u8** slots, u32 threads, u32 each) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  for (u32 k = 0; k < each; k++) free(slots[k * threads + i]);
}
