// The shared memory of a block, and a warp's own state.
#pragma once
#include "everwarp/atomic.cuh"

// Where everything is; written by the host when it loads the image.
extern "C" { __constant__ DevEngine everwarp_tables; }

namespace ew {

constexpr u32 NONE = 0xffffffffu;
constexpr u32 ALL = 0xffffffffu;
constexpr u32 WARP = 32;

// Values of Shared::ready, by which warps of a block, and the ingress warp, hand tasks to one that waits.
constexpr u32 READY_BUSY = 0;     // the warp is not waiting
constexpr u32 READY_WAITING = 1;  // it waits, and may be claimed
constexpr u32 READY_CLAIMED = 2;  // another warp is filling its staging area
constexpr u32 READY_FULL = 0x100; // | count: its staging area holds tasks

// A queue of tasks in shared memory; indices are free-running.
struct LocalQueue {
  DevTask tasks[LOCAL_TASKS];
  u32 head;
  u32 tail;
  u32 priorities;  // bit p set: may hold tasks of priority p; never clear while it does
  u32 strays;      // not 0: holds block-shaped tasks that belong into the block's queue
};

// Ends of tasks of a group that its count does not know of yet; see `finish`.
struct Debt {
  u32 group;
  u32 owed;
};

#ifdef EVERWARP_TRACE
// The slice of a warp's time that is being traced; see warp/trace.cuh.
struct TraceHand {
  DevTrace* ring;  // its first entry, which has the number of entries that the warp has written
  u64 begin;
  u64 written;   // entries of the slices before it
  u64 handling;  // when the slice of handlers began
  u32 fresh;     // entries since
  u32 next;      // the place of the next one
  u32 tasks;
  u32 function;
  u32 handled;   // messages of the slice of handlers
};
#endif

#ifdef EVERWARP_MEASURE
// Functions whose tasks a warp counts at a time.
constexpr u32 MEASURE_COUNTS = 8;

// What a warp needs to measure its batches; see warp/measure.cuh.
struct MeasureHand {
  u64 left;           // batches until one is measured | until the handlers of one are << 32
  u64 began;          // when the batch began that is measured
  u32 measured;       // whether the running batch is
  u32 inside;         // what the handlers of the running batch stand for; 0 if they are not measured
  u32 weight;         // batches that the next measured one stands for
  u32 inside_weight;  // the same of those whose handlers are measured
  u32 tail;           // the end of the warp's queue when the batch began
  u32 random;         // not 0
  u32 sample;         // the next sample of this warp
  u32 counts[MEASURE_COUNTS];  // function | tasks << TASK_FN_BITS
};
#endif

struct Shared {
  u32 epoch;
  LocalQueue queues[BLOCK_QUEUES];
  DevTask staging[BLOCK_WARPS][WARP];
  u32 group_ids[BLOCK_WARPS][GROUP_CACHE];
  DevWorker stats[BLOCK_WARPS];
  Debt debts[BLOCK_WARPS];
  u32 group_count[BLOCK_WARPS];
  u32 chunk_ids[BLOCK_WARPS][CHUNK_CACHE];
  u32 chunk_count[BLOCK_WARPS];
  u32 ready[BLOCK_WARPS];
  u32 flags[BLOCK_WARPS];
  // Block mode; see block/mode.cuh.
  u32 block_lock;
  u32 block_call;
  u32 block_go;
  u32 leaving;  // the epoch ends
  u32 block_count;
  DevTask block_task[BLOCK_BATCH];
  DevTask block_then[BLOCK_BATCH];
  u64 block_value[BLOCK_BATCH];
  u32 block_fork[BLOCK_BATCH];
  u32 block_delta[BLOCK_BATCH];
  u32 block_children[BLOCK_BATCH];
#ifdef EVERWARP_TRACE
  TraceHand traces[BLOCK_WARPS];
#endif
#ifdef EVERWARP_MEASURE
  MeasureHand measures[BLOCK_WARPS];
#endif
};

// Shape, order and limits of a function, from the generated table.
struct FnMeta {
  u32 bits;  // one word, which lives long: shape (2) | breadth-first (1) | forks (1) | most that it spawns (12) | room that it starts with (16)
  __device__ __forceinline__ u32 shape() const { return bits & 3; }  // SHAPE_…
  __device__ __forceinline__ bool fifo() const { return bits & 4; }
  __device__ __forceinline__ bool forks() const { return bits & 8; }
  __device__ __forceinline__ u32 max_spawn() const { return bits >> 4 & 0xfff; }
  // The room that a lane needs to start; it then spawns only as many tasks as there is room for.
  __device__ __forceinline__ u32 least_room() const { return bits >> 16; }
  // Whether an empty queue has room for what a batch spawns, and no groups are needed.
  __device__ __forceinline__ bool simple() const { return !forks() && max_spawn() < LOCAL_TASKS / WARP - 1; }
};
constexpr u32 SHAPE_LANE = 0;
constexpr u32 SHAPE_WARP = 1;
constexpr u32 SHAPE_BLOCK = 2;

EW_FN FnMeta meta(u32 function);    // generated with the image
EW_FN bool is_block(u32 function);  // the same: whether its shape is a block's
EW_FN bool is_warp(u32 function);   // the same: whether it is a warp's

EW_FN u32 fn_of(u32 head) { return head & ((1u << TASK_FN_BITS) - 1); }
EW_FN u32 priority_of(u32 head) { return head >> TASK_PRIORITY_SHIFT & (PRIORITIES - 1); }
EW_FN u32 tag_of(u32 head) { return head >> TASK_TAG_SHIFT & 0xff; }
EW_FN u32 instance_of(u32 head) { return head >> TASK_INSTANCE_SHIFT & 0xff; }

// Batches between two looks at the rest of the grid, while there is work at hand.
constexpr u32 LOOK_EVERY = 8;

// Shared::flags.
constexpr u32 FLAG_FIFO = 1;
constexpr u32 FLAG_IDLE = 2;
constexpr u32 FLAG_BLOCK_IDLE = 4;

EW_FN Shared& shared() {
  extern __shared__ __align__(128) u8 memory[];
  return *(Shared*)memory;
}

// One warp. All members are the same in every lane, but `lane`; all can be derived anew at any place,
// so that functions off the hot path need not be inlined.
struct Worker {
  const DevEngine& e;
  Shared& s;
  u32 lane;
  u32 warp;    // in the block
  u32 global;  // in the grid

  // The calling warp, derived anew: an address that one place computed from it does not occupy a register
  // until the next.
  EW_FN Worker here() {
    u32 thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return {everwarp_tables, shared(), thread % WARP, thread / WARP, blockIdx.x * BLOCK_WARPS + thread / WARP};
  }
  // Order of the last batch.
  __device__ __forceinline__ bool fifo() const { return s.flags[warp] & FLAG_FIFO; }
  // Its idle bit was set: another warp may fill the inbox.
  __device__ __forceinline__ bool idle() const { return s.flags[warp] & FLAG_IDLE; }
  // The same for block-shaped work (first warp of a block).
  __device__ __forceinline__ bool block_idle() const { return s.flags[warp] & FLAG_BLOCK_IDLE; }
  // The warp.
  __device__ __forceinline__ void set(u32 flag, bool value) {
    __syncwarp();
    if (lane == 0) s.flags[warp] = value ? s.flags[warp] | flag : s.flags[warp] & ~flag;
    __syncwarp();
  }
  __device__ __forceinline__ u32 lt() const { return (1u << lane) - 1; }
  __device__ __forceinline__ LocalQueue& local() const { return s.queues[warp]; }
  __device__ __forceinline__ LocalQueue& block_local() const { return s.queues[BLOCK_WARPS]; }
  __device__ __forceinline__ u32 queue_id() const { return blockIdx.x * BLOCK_QUEUES + warp; }
  __device__ __forceinline__ u32 block_queue_id() const { return blockIdx.x * BLOCK_QUEUES + BLOCK_WARPS; }
  __device__ __forceinline__ DevInbox& inbox() const { return e.inboxes[global]; }
  __device__ __forceinline__ DevWorker& stats() const { return s.stats[warp]; }
  __device__ __forceinline__ u32 random() const {
    u32 clock;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(clock));
    return (clock * 1664525u + global * 2654435761u) >> 8;
  }
};

// Records the first fault; the ingress warp tells the host and stops the grid.
EW_FN void raise_fault(const DevEngine& e, u32 code, u32 function, u64 detail) {
  if (compare_exchange(&e.grid->fault_claim, 0, code, acq_rel, gpu) == 0) {
    e.grid->fault.function = function;
    e.grid->fault.detail = detail;
    e.grid->fault.code = code;
    store(&e.grid->stop, STOP_FAULT, release, gpu);
  }
}

}  // namespace ew
