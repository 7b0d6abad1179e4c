// What each warp ran and when, in a ring for each warp in device memory. Only images of a traced program define EVERWARP_TRACE; for
// all others these functions are empty, and the code is what it would be without them.
//
// Rules:
// 1. An entry is written when its slice ends, by one lane. A slice of handlers comes before the slice of tasks that it lies in.
// 2. Lanes that run turns of actors together handle a message each, between two meetings: that is one slice of handlers. Warps and
//    blocks meet before and after each call of a handler.
// 3. A message is known by the address of its cell, which its sender and the turn that handles it both know. What is sent is written
//    before the mailbox has it, and what is taken before its cell has another message. So of all that was sent in a cell, the turn has
//    taken what was sent there last. A message that finds no room is written again when it is sent again. News are messages, too.
#pragma once
#include "everwarp/warp/worker.cuh"

namespace ew {

#ifdef EVERWARP_TRACE

// What the calling warp has at hand, with the pointer to its ring: a turn that sends a message has no registers to compute it.
EW_FN TraceHand& trace_hand() { return shared().traces[threadIdx.x / WARP]; }

// Any lane of the warp, which has a ring: writes an entry over the oldest one.
EW_FN void trace_put(TraceHand& h, u64 begin, u64 what) {
  atomicAdd_block(&h.fresh, 1u);
  // Two words of 32 bits and no division, because turns have no registers for more.
  const u32 place = atomicInc_block(&h.next, everwarp_tables.trace_slots - 1);
  store_pair((u64*)(h.ring + 1 + place), begin, what, relaxed, gpu);
}
// The same of a slice, which ends now.
EW_FN void trace_put_slice(TraceHand& h, u32 kind, u32 fn, u64 begin, u64 now, u32 count) {
  const u64 took = min(now - begin, (1ull << TRACE_TOOK_BITS) - 1), most = min(count, (1u << TRACE_TASKS_BITS) - 1);
  trace_put(h, begin, (u64)kind << TRACE_KIND_SHIFT | (u64)fn << (TRACE_TOOK_BITS + TRACE_TASKS_BITS) | most << TRACE_TOOK_BITS | took);
}

// One lane: writes the slice that is open, which ends now, and begins one of another function.
EW_CALL void trace_turn(u32 next) {
  TraceHand& h = trace_hand();
  const u64 now = clock_ns();
  if (h.tasks != 0) {
    trace_put_slice(h, TRACE_RAN, h.function, h.begin, now, h.tasks);
    h.written += h.fresh;
    h.fresh = 0;
    store(&h.ring->begin, h.written, relaxed, gpu);
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
  DevTrace* ring = w.e.traces + (u64)w.global * (w.e.trace_slots + 1);
  const u64 written = load(&ring->begin, relaxed, gpu);
  w.s.traces[w.warp] = TraceHand{ring, 0, written, 0, 0, (u32)(written % w.e.trace_slots), 0, NONE, 0};
  // The host reads the time with its own clock once the first epoch has answered.
  if (w.global == 0 && load(&ring->what, relaxed, gpu) == 0) store(&ring->what, clock_ns(), relaxed, gpu);
}

// One lane of those that meet: the messages that they have handled since they met last are a slice.
EW_CALL void trace_handlers() {
  if (everwarp_tables.trace_slots == 0) return;
  TraceHand& h = trace_hand();
  // Others of the warp may run turns apart from these, and count meanwhile.
  const u32 handled = atomicExch_block(&h.handled, 0u);
  const u64 now = clock_ns();
  if (handled != 0) trace_put_slice(h, TRACE_HANDLED, h.function, min(h.handling, now), now, handled);
  h.handling = now;
}
// The lanes of the warp that run turns together: they meet, before they handle a message each and after they have.
EW_FN void trace_meet(u32 lanes) {
  // What they have counted, before one of them reads it.
  __syncwarp(lanes);
  if (lane_id() == __ffs(lanes) - 1) trace_handlers();
  // No lane handles a message before the slice begins.
  __syncwarp(lanes);
}

// One lane: it is about to handle a message that was sent in a cell; null if it was taken before.
EW_CALL void trace_takes(const DevMessage* cell) {
  if (everwarp_tables.trace_slots == 0) return;
  TraceHand& h = trace_hand();
  atomicAdd_block(&h.handled, 1u);
  if (cell != nullptr) trace_put(h, (u64)cell, (u64)TRACE_TAKEN << TRACE_KIND_SHIFT);
}

// One lane: it is about to send the message in a cell, if the mailbox has room. No call, because its caller is one.
EW_FN void trace_sends(const DevMessage* cell) {
  if (everwarp_tables.trace_slots != 0) trace_put(trace_hand(), clock_ns(), (u64)TRACE_SENT << TRACE_KIND_SHIFT | (u64)cell);
}

#else

EW_FN void trace_begin(Worker&, u32) {}
EW_FN void trace_ran(Worker&, u32, u32) {}
EW_FN void trace_end(Worker&) {}
EW_FN void trace_arrive(Worker&) {}
EW_FN void trace_meet(u32) {}
EW_FN void trace_takes(const DevMessage*) {}
EW_FN void trace_sends(const DevMessage*) {}

#endif

}  // namespace ew
