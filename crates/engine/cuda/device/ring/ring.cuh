// Ring kernels: a block handles the messages of a stream, one at a time and in order. `DevRing` and what it points to are
// declared by crates/ring/src/far, whose twin.rs is the twin of this file.
//
// 1. The host writes messages to memory that both sides reach, says in `sent` how many there are, and submits a kick that says
//    how many are new. A kick may overtake another; counts are all that they bring.
// 2. `counted` is what kicks have brought less what turns have taken off. The kick that makes it positive starts a turn. The turn
//    takes off what it has handled when it ends, and not before: so there is one turn at most, and it has the message number `next`.
// 3. A turn handles what is sent, also before its kick comes, and looks for more for some time after the last message. Then it takes
//    off what it has handled. If something is left, it is still the only turn, and goes on. Where kicks are on their way, `counted`
//    is below zero until they have come.
// 4. `stop` ends the turn before the next message. What is counted stays so. The host waits until no kick and no turn is left;
//    later it starts a turn itself.
#pragma once
#include "everwarp/block/block.cuh"

namespace ew {

// How long a turn goes on before other tasks of its block are to run.
constexpr u64 RING_SLICE_NS = 50000;
// How long it looks for the next message. A kick and the start of a turn take longer than a round trip over the bus.
constexpr u64 RING_LINGER_NS = 20000;

// What a turn does next.
enum class RingNext : u64 { message, end, again };

EW_FN void ring_kick(Lane& t, const DevRing& ring, u32 turn) {
  // Release and acquire: the turn that this one starts goes on where the last one has ended.
  const u64 before = fetch_add(&ring.own->counted, t.arg(), acq_rel, gpu);
  if ((i64)before <= 0 && (i64)(before + t.arg()) > 0) t.spawn(turn, 0, 0);
}

// Waits for the message with this number; `handled` are not taken off the count yet. One thread calls.
EW_FN RingNext ring_wait(const DevRing& ring, u64 number, u64& handled, u64 begin) {
  u64 idle = clock_ns();
  while (true) {
    const u64 stop = load(&ring.host->stop, relaxed, sys);
    // Acquire: the message that the host wrote before.
    const u64 sent = load(&ring.host->sent, acquire, sys);
    const u64 now = clock_ns();
    if (stop == 0 && sent != number) return now - begin < RING_SLICE_NS ? RingNext::message : RingNext::again;
    if (stop == 0 && now - idle < RING_LINGER_NS) continue;
    // Release: the turn that comes next reads what this one has written of its kernel.
    const u64 left = fetch_add(&ring.own->counted, 0 - handled, acq_rel, gpu) - handled;
    if (stop != 0 || (i64)left <= 0) return RingNext::end;
    handled = 0;
    idle = now;
  }
}

// Handles messages: handle(input, output) is called by all threads and returns 0, or why the message failed. The argument of the
// task is what its kernel's last turn has handled and not taken off the count.
template <class Handle> EW_FN void ring_turn(Block& t, const DevRing& ring, u32 turn, Handle handle) {
  const u64 begin = clock_ns();
  u64 handled = t.arg();
  for (u64 number = load(&ring.own->next, relaxed, gpu);; number++) {
    RingNext next = RingNext::message;
    if (t.thread == 0) next = ring_wait(ring, number, handled, begin);
    next = (RingNext)t.same((u64)next);
    if (next == RingNext::again && t.thread == 0) t.spawn(turn, 0, handled);
    if (next != RingNext::message) return;
    DevRingMessage* const message = ring.messages + number % ring.capacity;
    u64 input, output;
    load_pair(&message->input, input, output, relaxed, sys);
    if (t.thread == 0) store(&ring.host->started, number + 1, relaxed, sys);
    const u64 code = handle((const u8*)input, (u8*)output);
    if (code != 0) store(&ring.own->code, code, relaxed, gpu);
    const bool failed = __syncthreads_or(code != 0);
    if (t.thread != 0) continue;
    store(&message->code, failed ? load(&ring.own->code, relaxed, gpu) : 0, relaxed, sys);
    store(&ring.own->next, number + 1, relaxed, gpu);
    // Release: the host reads the result after this. The other threads wrote theirs before the barrier.
    store(&ring.host->done, number + 1, release, sys);
    handled++;
  }
}

}  // namespace ew
