// The turn of a process: it belongs to the lane that runs it, or to the lane that wakes it.
#pragma once

#include "everwarp/api.cuh"

namespace process {

// Gives up the lane until the host wakes the process; false if it has done so already. The host's wake is a separate
// task, and may run before this lane is done with the process: the later of the two goes on with it.
__device__ __forceinline__ bool park(DevProcess* p) {
  // Release: the lane that wakes the process sees what was saved.
  if (ew::compare_exchange(&p->turn, TURN_RUNS, TURN_PARKED, ew::acq_rel, ew::gpu) == TURN_RUNS) return true;
  // Takes the wake, and sees what came before it: before the last wake, if there were several.
  ew::exchange(&p->turn, TURN_RUNS, ew::acq_rel, ew::gpu);
  return false;
}

// Whether the caller may go on with the process. A wake for which the process does not wait is remembered, so that its
// next park returns at once; that costs one look too many and no more.
__device__ __forceinline__ bool resume(DevProcess* p) {
  while (true) {
    if (ew::compare_exchange(&p->turn, TURN_PARKED, TURN_RUNS, ew::acq_rel, ew::gpu) == TURN_PARKED) return true;
    const u32 found = ew::compare_exchange(&p->turn, TURN_RUNS, TURN_WOKEN, ew::acq_rel, ew::gpu);
    if (found == TURN_RUNS) return false;
    // Written once more, so that the wake is a release for the lane that takes it.
    if (found == TURN_WOKEN && ew::compare_exchange(&p->turn, TURN_WOKEN, TURN_WOKEN, ew::acq_rel, ew::gpu) == TURN_WOKEN) {
      return false;
    }
  }
}

}  // namespace process
