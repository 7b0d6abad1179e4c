// What a warp-shaped task function sees: a lane's view, the same task in all 32 lanes.
// fork() is called by all lanes together; every lane may spawn, and the function's limit is the warp's.
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
};

// What a call of a warp-shaped function leaves in each lane.
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
