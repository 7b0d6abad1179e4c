// The view of a warp-shaped task function: a lane's view, the same task in all 32 lanes.
// fork() is called by all lanes together; every lane may spawn, and the function's limit is the warp's.
// alloc(), free() and realloc() are called by all lanes together, for one block of the warp; each() gives the
// view in which lanes have blocks of their own.
#pragma once
#include "everwarp/lane/lane.cuh"

namespace ew {

struct Warp : Lane {
  u32 lane;

  __device__ __forceinline__ explicit Warp(const Lane& base, u32 lane) : Lane(base), lane(lane) {
    next.head = 0;  // nothing is held back: all that is spawned is queued
  }
  __device__ __forceinline__ void fork(u32 fn, u32 tag, u64 arg) {
    if (lane == 0) Lane::fork(fn, tag, arg);
    forked = __shfl_sync(0xffffffffu, forked, 0);
  }
  __device__ __forceinline__ void fork_collect(u32 fn, u32 tag) {
    if (lane == 0) Lane::fork_collect(fn, tag);
    forked = __shfl_sync(0xffffffffu, forked, 0);
  }
  __device__ __forceinline__ Lane& each() { return *this; }
  __device__ __forceinline__ u8* alloc(u64 bytes) const { return alloc_for(owner(), bytes); }
  __device__ __forceinline__ u8* alloc_for(u32 whose, u64 bytes) const {
    u64 block = 0;
    if (lane == 0) block = (u64)heap_task_alloc(bytes, whose);
    return (u8*)__shfl_sync(ALL, block, 0);
  }
  __device__ __forceinline__ void free(void* block) const {
    // Not before the last lane has done with it.
    __syncwarp();
    if (lane == 0) heap_task_free((u8*)block, owner());
    __syncwarp();
  }
  __device__ __forceinline__ u8* realloc(void* block, u64 bytes) const {
    __syncwarp();
    return (u8*)__shfl_sync(ALL, (u64)heap_realloc(lane == 0, (u8*)block, bytes, owner()), 0);
  }
  // Frees every block of an owner for which no task allocates any more, as one of `parts` warps that divide the heap
  // among themselves. Returns how many bytes came back.
  __device__ __forceinline__ u64 release_owner(u32 whose, u32 part, u32 parts) const {
    return heap_task_release(whose, part, parts);
  }
  // Likewise: reports the blocks that were written beyond their end, and returns how many there are. No task may
  // allocate or free meanwhile.
  __device__ __forceinline__ u64 check_heap(u32 part, u32 parts) const { return heap_task_sweep(part, parts); }
};

// The result of a warp-shaped function in each lane.
struct WarpEnd {
  u32 delta;
  u32 children;
  u32 forked;
  u32 broken;
  u32 then_head;
  u64 then_arg;
  u64 value;

  EW_FN WarpEnd of(const Warp& t) { return {t.delta, t.children, t.forked, t.broken, t.then_head, t.then_arg, t.value}; }
};

}  // namespace ew
