// Whose turn a process is: that of the lane that runs it, or of whoever wakes it.
#pragma once

#include "everwarp/api.cuh"

namespace process {

// Gives up the lane until the host wakes the process; false if it has done so already. The host's wake comes
// as a task of its own, perhaps before this lane is done with the process: who comes second of the two goes on.
__device__ __forceinline__ bool park(DevProcess* p) {
  // Release: who wakes it sees what was saved.
  if (ew::compare_exchange(&p->turn, TURN_RUNS, TURN_PARKED, ew::acq_rel, ew::gpu) == TURN_RUNS) return true;
  // Takes the wake, and sees what came before it: before the last one, if there were several.
  ew::exchange(&p->turn, TURN_RUNS, ew::acq_rel, ew::gpu);
  return false;
}

// Whoever is to go on with the process: whether it may. A wake that nobody waits for is remembered, so that the next
// park is none; that costs a look too many and no more.
__device__ __forceinline__ bool resume(DevProcess* p) {
  while (true) {
    if (ew::compare_exchange(&p->turn, TURN_PARKED, TURN_RUNS, ew::acq_rel, ew::gpu) == TURN_PARKED) return true;
    const u32 found = ew::compare_exchange(&p->turn, TURN_RUNS, TURN_WOKEN, ew::acq_rel, ew::gpu);
    if (found == TURN_RUNS) return false;
    // Written once more, so that the wake is a release for whoever takes it.
    if (found == TURN_WOKEN && ew::compare_exchange(&p->turn, TURN_WOKEN, TURN_WOKEN, ew::acq_rel, ew::gpu) == TURN_WOKEN) {
      return false;
    }
  }
}

}  // namespace process
