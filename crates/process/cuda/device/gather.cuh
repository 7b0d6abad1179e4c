// How neighbours go on together that have waited for the host.
//
// The 32 processes of a group begin together and mostly do the same. So they call the host at about the same time,
// but are answered one by one. If each of them went on then, they would be spread over as many warps as there are
// wakes, a few lanes in each, and what a warp has begun it goes on with. On an H200 32,768 processes that read a file
// and then compute ran with 4 lanes in a warp.
//
// So each group has a word with a bit for each process in either half:
//  - high: it is parked, or about to be, and waits for a short call. Set by the process itself before it parks;
//    taken back by whoever has made it run again, or by itself if it could not park.
//  - low: it may go on, and waits for those of the high half. Set by who has woken it, who must not run it.
// Whoever finds no bit of the high half and some of the low half takes those, and they go on together. A short call is
// answered soon, whatever its neighbours do, so that nobody waits long (the contract's HOSTCALL_PATIENT says how);
// nobody waits for one who sleeps or waits for other processes.
//
// Why is nobody forgotten? Whoever takes a bit of the high half back looks at the word, or has a task do so. To leave
// that to the host's wake, which comes as well, is not enough: it may have come already, and have found the bit.
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

// One lane that owns a process which was about to park, or was parked and is not woken by the host. Answers whether
// others wait for it, and somebody is to look after them.
__device__ __forceinline__ bool expect_none(const DevProcessTable& t, const DevProcess* p, u32 slot) {
  if (!answered_soon(p)) return false;
  return (u32)ew::fetch_and(gathering(t, slot), ~waiting_bit(slot), ew::acq_rel, ew::gpu) != 0;
}

// The warp: processes of a group may go on that the bits of `which` name and that nobody else goes on with; those of
// `waited` among them have set their bit. Answers who goes on here and now.
__device__ __noinline__ u32 gather(const DevProcessTable& t, u32 group, u32 which, u32 waited, u32 lane) {
  u64* word = t.gathering + group;
  u32 all = 0;
  if (lane == 0) {
    // No carry: bits of `which` are not set in the low half, and those of `waited` are in the high one. Release:
    // whoever takes them sees what was done for them.
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
  // Pairs with the releases above of those who have noted them.
  ew::fence(ew::acq_rel, ew::gpu);
  return all;
}

}  // namespace process
