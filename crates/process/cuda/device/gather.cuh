// How neighbours that have waited for the host go on together.
//
// The 32 processes of a group start together and mostly do the same. So they call the host at about the same time,
// but are answered one by one. If each of them went on at once, they would be spread over as many warps as there are
// wakes, a few lanes in each, and they would stay there. On an H200 32,768 processes that read a file and then compute
// ran with 4 lanes in a warp.
//
// So each group has a word with a bit for each process in either half:
//  - high: it is parked, or about to be, and waits for a short call. The process sets the bit before it parks. The lane
//    that makes it run again clears the bit, or the process itself if it could not park.
//  - low: it may go on, and waits for the processes of the high half. The lane that has woken it sets the bit, and must
//    not run it.
// A lane that finds no bit in the high half and some in the low half takes those, and they go on together. A short call
// is answered soon, whatever its neighbours do, so no process waits long (the contract's HOSTCALL_PATIENT says how);
// no process waits for one that sleeps or waits for other processes.
//
// Why is no process forgotten? The lane that clears a bit of the high half looks at the word, or has a task do so. To
// leave that to the host's wake, which comes as well, is not enough: it may have come already, and have found the bit.
// `crates/engine/cuda/src/models/gather.rs` is a model of it.
#pragma once

#include "everwarp/api.cuh"

namespace process {

__device__ __forceinline__ u64* gathering(const DevProcessTable& t, u32 slot) { return t.gathering + slot / START_PROCESSES; }
__device__ __forceinline__ u64 waiting_bit(u32 slot) { return 1ull << (32 + slot % START_PROCESSES); }

__device__ __forceinline__ bool answered_soon(const DevProcess* p) { return p->call == CALL_COUNTED || p->call == CALL_SOON; }

// One lane that owns a process with a call on its way, before it parks.
__device__ __forceinline__ void expect_wake(const DevProcessTable& t, const DevProcess* p, u32 slot) {
  if (answered_soon(p)) ew::fetch_or(gathering(t, slot), waiting_bit(slot), ew::acq_rel, ew::gpu);
}

// One lane that owns a process which was about to park, or was parked and is not woken by the host. Returns whether
// other processes wait for it, so that a task must gather them.
__device__ __forceinline__ bool expect_none(const DevProcessTable& t, const DevProcess* p, u32 slot) {
  if (!answered_soon(p)) return false;
  return (u32)ew::fetch_and(gathering(t, slot), ~waiting_bit(slot), ew::acq_rel, ew::gpu) != 0;
}

// The warp: the processes of a group that the bits of `which` name may go on, and no other lane runs them; those of
// `waited` among them have set their bit. Returns the processes that go on here and now.
__device__ __noinline__ u32 gather(const DevProcessTable& t, u32 group, u32 which, u32 waited, u32 lane) {
  u64* word = t.gathering + group;
  u32 all = 0;
  if (lane == 0) {
    // No carry: bits of `which` are not set in the low half, and those of `waited` are in the high one. Release: the
    // lane that takes them sees the answers that were taken for them.
    const u64 change = (u64)which - ((u64)waited << 32);
    u64 now = ew::fetch_add(word, change, ew::acq_rel, ew::gpu) + change;
    while (now != 0 && now >> 32 == 0) {
      const u64 found = ew::compare_exchange(word, now, 0ull, ew::acq_rel, ew::gpu);
      if (found == now) {
        all = (u32)now;
        break;
      }
      now = found;
    }
  }
  all = __shfl_sync(~0u, all, 0);
  // Pairs with the releases above, of the lanes that have set the bits.
  ew::fence(ew::acq_rel, ew::gpu);
  return all;
}

}  // namespace process
