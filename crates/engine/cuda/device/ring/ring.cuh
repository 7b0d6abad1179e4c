// Ring kernels: a block handles the messages of a stream, one at a time and in order. `DevRing` and what it points to are
// declared by crates/ring/src/far.
//
// 1. The host writes messages to memory that both sides reach, and submits a kick that says how many they are. A kick may
//    overtake another; counts are all that they bring.
// 2. The kick that finds nothing counted starts a turn. So there is one turn at most, and it has the message number `next`.
// 3. The turn takes a message off the count when it has handled it, and ends when none is left.
// 4. `stop` ends the turn before the next message. What is counted stays so. The host waits until no kick and no turn is left;
//    later it starts a turn itself.
#pragma once
#include "everwarp/block/block.cuh"

namespace ew {

// How long a turn goes on before other tasks of its block are to run.
constexpr u64 RING_SLICE_NS = 50000;

EW_FN void ring_kick(Lane& t, const DevRing& ring, u32 turn) {
  // Release: the host wrote these messages before, and the turn that counts them off acquires that. Acquire: the turn that
  // this one starts goes on where the last one has ended.
  if (fetch_add(&ring.own->counted, t.arg(), acq_rel, gpu) == 0) t.spawn(turn, 0, 0);
}

// Handles messages: handle(input, output) is called by all threads and returns 0, or why the message failed.
template <class Handle> EW_FN void ring_turn(Block& t, const DevRing& ring, u32 turn, Handle handle) {
  const u64 begin = clock_ns();
  for (;;) {
    const u64 number = load(&ring.own->next, relaxed, gpu);
    DevRingMessage* const message = ring.messages + number % ring.capacity;
    u64 input, output;
    load_pair(&message->input, input, output, relaxed, sys);
    // Threads may see a stop at different times; all do what one has seen.
    if (__syncthreads_or(load(&ring.host->stop, relaxed, sys) != 0)) return;
    if (t.thread == 0) store(&ring.host->started, number + 1, relaxed, sys);
    const u64 code = handle((const u8*)input, (u8*)output);
    if (code != 0) store(&ring.own->code, code, relaxed, gpu);
    const bool failed = __syncthreads_or(code != 0);
    u64 then = 0;
    if (t.thread == 0) {
      store(&message->code, failed ? load(&ring.own->code, relaxed, gpu) : 0, relaxed, sys);
      store(&ring.own->next, number + 1, relaxed, gpu);
      // Release: the host reads the result after this. The other threads wrote theirs before the barrier.
      store(&ring.host->done, number + 1, release, sys);
      // Release and acquire: as in a kick.
      const u64 left = fetch_add(&ring.own->counted, ~0ull, acq_rel, gpu) - 1;
      then = left == 0 ? 0 : clock_ns() - begin < RING_SLICE_NS ? 1 : 2;
    }
    then = t.same(then);
    if (then == 1) continue;
    if (then == 2 && t.thread == 0) t.spawn(turn, 0, 0);
    return;
  }
}

}  // namespace ew
