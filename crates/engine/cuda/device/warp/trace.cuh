// What each warp ran and when, in a ring for each warp in device memory. Only images of a traced program define EVERWARP_TRACE; for
// all others these functions are empty, and the code is what it would be without them.
#pragma once
#include "everwarp/warp/worker.cuh"

namespace ew {

#ifdef EVERWARP_TRACE

// The first entry of a warp's ring, which has the number of slices that the warp has written.
EW_FN DevTrace* trace_ring(const Worker& w) { return w.e.traces + (u64)w.global * (w.e.trace_slots + 1); }

// One lane: writes the slice that is open, which ends now, and begins one of another function.
EW_CALL void trace_turn(u32 next) {
  Worker w = Worker::here();
  TraceHand& h = w.s.traces[w.warp];
  const u64 now = clock_ns();
  if (h.tasks != 0) {
    DevTrace* ring = trace_ring(w);
    const u64 took = min(now - h.begin, (1ull << TRACE_TOOK_BITS) - 1), tasks = min(h.tasks, (1u << TRACE_TASKS_BITS) - 1);
    const u64 what = (u64)h.function << (TRACE_TOOK_BITS + TRACE_TASKS_BITS) | tasks << TRACE_TOOK_BITS | took;
    store_pair((u64*)(ring + 1 + h.written % w.e.trace_slots), h.begin, what, relaxed, gpu);
    h.written++;
    store(&ring->begin, h.written, relaxed, gpu);
  }
  h.begin = now;
  h.function = next;
  h.tasks = 0;
}

// The warp: begins a slice.
EW_FN void trace_begin(Worker& w, u32 fn) {
  if (w.lane == 0 && w.e.trace_slots != 0) trace_turn(fn);
  __syncwarp();
}
// The warp: it has run this many tasks of the function of its slice, and goes on with a function.
EW_FN void trace_ran(Worker& w, u32 tasks, u32 next) {
  if (w.lane == 0 && w.e.trace_slots != 0) {
    w.s.traces[w.warp].tasks += tasks;
    if (next != w.s.traces[w.warp].function) trace_turn(next);
  }
  __syncwarp();
}
// The warp: ends its slice.
EW_FN void trace_end(Worker& w) { trace_ran(w, 0, NONE); }

// The warp, when an epoch begins: goes on behind what it has written.
EW_FN void trace_arrive(Worker& w) {
  if (w.lane != 0 || w.e.trace_slots == 0) return;
  DevTrace* ring = trace_ring(w);
  w.s.traces[w.warp] = TraceHand{0, load(&ring->begin, relaxed, gpu), 0, NONE};
  // The host reads the time with its own clock once the first epoch has answered.
  if (w.global == 0 && load(&ring->what, relaxed, gpu) == 0) store(&ring->what, clock_ns(), relaxed, gpu);
}

#else

EW_FN void trace_begin(Worker&, u32) {}
EW_FN void trace_ran(Worker&, u32, u32) {}
EW_FN void trace_end(Worker&) {}
EW_FN void trace_arrive(Worker&) {}

#endif

}  // namespace ew
