// The way out: completions, written to host memory in one 16-byte store each, next to each other.
#pragma once
#include "everwarp/grid/group.cuh"

namespace ew {

// The warp: completes the tokens of the lanes that are done.
// The host never has more tokens in flight than the ring has slots, so there is always room.
EW_FN void complete(Worker& w, bool done, u32 token, u64 value) {
  u32 completing = __ballot_sync(ALL, done);
  if (completing == 0) return;
  u32 leader = __ffs(completing) - 1, base = 0;
  if (w.lane == leader) base = fetch_add(&w.e.grid->completions, __popc(completing), relaxed, gpu);
  // Pairs with the host's acquire of `status`: the task's writes are there before its completion. The
  // device's scope suffices, and takes a quarter of the time of the system's: tasks write device memory
  // only, which the host reads by copies through the same L2. It comes before the first use of `base`, so
  // that both round trips overlap.
  if (done) fence(acq_rel, gpu);
  base = __shfl_sync(ALL, base, leader);
  if (done) {
    u32 index = base + __popc(completing & w.lt());
    u32 lap = (index & w.e.completion_slots) == 0 ? COMPLETION_LAP : 0;
    store_task((DevTask*)&w.e.completions[index & (w.e.completion_slots - 1)],
               DevTask{token & ~HOST_DIRECT, lap, value}, relaxed, sys);
  }
}

}  // namespace ew
