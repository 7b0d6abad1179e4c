// The view of a block-shaped task function: all 256 threads, the same task.
// fork() takes effect once, by thread 0; every thread may spawn, and the function's limit is the block's.
// alloc(), free() and realloc() are called by all threads together, for one block of memory; each() gives the
// view in which threads have blocks of their own. same() is called by all threads, too, and gives them a value of thread 0.
#pragma once
#include "everwarp/warp/warp.cuh"

namespace ew {

struct Block : Lane {
  u32 thread;
  u32 place;  // in the block's batch

  __device__ __forceinline__ explicit Block(const Lane& base, u32 thread, u32 place)
      : Lane(base), thread(thread), place(place) {
    forked = shared().block_fork[place];
  }
  __device__ __forceinline__ void fork(u32 fn, u32 tag, u64 arg) { open(head(fn, tag, priority_of(task.head)), arg); }
  __device__ __forceinline__ void fork_collect(u32 fn, u32 tag) {
    open(head(fn, tag, priority_of(task.head)) | TASK_ARG_FROM_GROUP, 0);
  }
  __device__ __forceinline__ void spawn(u32 fn, u32 tag, u64 arg) { spawn_at(priority_of(task.head), fn, tag, arg); }
  __device__ __forceinline__ void spawn_at(u32 priority, u32 fn, u32 tag, u64 arg) {
    delta++;
    route(DevTask{head(fn, tag, priority), task.group, arg});
  }
  __device__ __forceinline__ void spawn_child(u32 fn, u32 tag, u64 arg) {
    children++;
    route(DevTask{head(fn, tag, priority_of(task.head)), forked, arg});
  }
  __device__ __forceinline__ Lane& each() { return *this; }
  __device__ __forceinline__ u8* alloc(u64 bytes) const { return alloc_for(owner(), bytes); }
  __device__ __forceinline__ u8* alloc_for(u32 whose, u64 bytes) const {
    u8* block = nullptr;
    if (thread == 0) block = heap_task_alloc(bytes, whose);
    return (u8*)same((u64)block);
  }
  __device__ __forceinline__ void free(void* block) const {
    // Not before the last thread has done with it.
    __syncthreads();
    if (thread == 0) heap_task_free((u8*)block, owner());
  }
  __device__ __forceinline__ u8* realloc(void* old, u64 bytes) const {
    __syncthreads();
    u8* block = nullptr;
    if (thread < WARP) block = heap_realloc(thread == 0, (u8*)old, bytes, owner());
    return (u8*)same((u64)block);
  }
  // Gives thread 0's value to all. No task is handed over through this place while the block runs one.
  __device__ __forceinline__ u64 same(u64 value) const {
    u64& place = shared().staging[0][0].arg;
    if (thread == 0) place = value;
    __syncthreads();
    value = place;
    __syncthreads();
    return value;
  }

 private:
  __device__ __forceinline__ void open(u32 head, u64 arg) {
    if (thread != 0) return;
    if (forked == NONE || shared().block_then[place].head != NONE) {
      raise_fault(everwarp_tables, FAULT_FORK, fn_of(task.head), task.head);
      return;
    }
    shared().block_then[place] = DevTask{head, task.group, arg};
  }
  // Block-shaped tasks stay with the block, others with the warp that made them.
  __device__ __forceinline__ void route(const DevTask& t) {
    push(shared().queues[is_block(fn_of(t.head)) ? BLOCK_WARPS : threadIdx.x / WARP], t);
  }
};

}  // namespace ew
