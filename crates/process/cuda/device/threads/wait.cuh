// Waiting at an address, and notifying: what compiled code calls for `memory.atomic.wait32`, `wait64` and `notify`.
//
// A process has one list of its threads that wait, in the order in which they came, under one lock.
//
// Rules.
// 1. The list, and the fields of a record that say that its thread waits, are read and written under the lock. A thread
//    that holds the lock is never suspended.
// 2. A waiter compares the value under the lock, puts itself at the end, and then parks. A notifier that has changed the
//    value takes the lock afterwards: so it finds the waiter on the list, or the waiter finds the new value.
// 3. A notifier takes the first waiters of the address off the list, up to the count that it was given, and wakes them
//    under the lock: until it releases the lock they cannot wait anew.
// 4. A waiter that is woken looks: it was notified, its time is over, it is to end, or it waits on. In the first case it
//    is off the list; in the next two it takes itself off, under the lock.
// 5. A timeout is a call of the host that waits for a clock, on its way as long as the thread waits. It is sent under the
//    lock, and the notifier has the host cancel it, also under the lock: so the host gets the two in this order. The
//    thread takes the answer before it goes on.
//
// Why one list and not one for each address? A process has at most some dozens of threads. Why the lock, even if no
// thread waits? Without it a notifier could miss a waiter that has compared the old value and is not on the list yet.
#pragma once

#include "process/gpu/adopt.cuh"
#include "process/gpu/wake.cuh"
#include "process/threads/team.cuh"
#include "process/wasi/import.cuh"

namespace team {

using process::Call;

__device__ __forceinline__ void listed(const DevProcessTable& t, DevTeam* team, DevProcess* p) {
  const u32 own = team->leader + (u32)p->pid - (u32)p->owner;
  p->wait_before = team->last;
  p->wait_behind = 0;
  if (team->last == 0) team->first = own + 1;
  else at(t, team->last - 1)->wait_behind = own + 1;
  team->last = own + 1;
}
__device__ __forceinline__ void unlisted(const DevProcessTable& t, DevTeam* team, DevProcess* p) {
  if (p->wait_before == 0) team->first = p->wait_behind;
  else at(t, p->wait_before - 1)->wait_behind = p->wait_behind;
  if (p->wait_behind == 0) team->last = p->wait_before;
  else at(t, p->wait_behind - 1)->wait_before = p->wait_before;
}

// Whether the value is as expected. The load is ordered with all atomic accesses of the process.
__device__ __forceinline__ bool as_expected(u64 address, u64 expected, u32 bytes) {
  ew::fence(ew::sc, ew::gpu);
  if (bytes == 8) return ew::load((u64*)address, ew::acquire, ew::gpu) == expected;
  return ew::load((u32*)address, ew::acquire, ew::gpu) == (u32)expected;
}

// Has the host wait for a time: a subscription of WASI to the monotonic clock, for `nanoseconds` from now.
__device__ __noinline__ void post_time(const Call& c, u64 nanoseconds) {
  const u64 subscription[6] = {0, 0, 1, nanoseconds, 0, 0};
  const u64 now = process::now();
  c.fresh(sizeof subscription);
  c.payload((const u8*)subscription, sizeof subscription);
  c.post_long(hostcall::PollOneoff{.count = 1, .realtime = now + c.p->table->clock_offset, .monotonic = now});
  // The first look would find nothing.
  c.answered();
}

// Begins to wait; false if the value is not as expected.
__device__ __noinline__ bool begin_wait(DevProcess* p, u64 address, u64 expected, i64 timeout, u32 bytes) {
  DevTeam* team = of(p);
  bool waits = false;
  process::locked(&team->lock, [&] {
    waits = as_expected(address, expected, bytes);
    if (!waits) return;
    if (timeout >= 0) post_time(Call(instance(p)), (u64)timeout);
    p->wait = WAIT_LISTED;
    p->wait_address = address;
    listed(*p->table, team, p);
  });
  return waits;
}

// Whether a wait is over: then `result` is its answer.
__device__ __noinline__ bool end_wait(DevProcess* p, bool killed, u32& result) {
  DevTeam* team = of(p);
  const Call c(instance(p));
  const bool late = p->call != CALL_NONE && c.answered();
  bool over = true;
  process::locked(&team->lock, [&] {
    result = late ? WAITED_TIMED_OUT : WAITED_NOTIFIED;
    if (p->wait == WAIT_NOTIFIED) result = WAITED_NOTIFIED;
    else if (late || killed) unlisted(*p->table, team, p);
    else over = false;
    if (over) p->wait = WAIT_NONE;
  });
  if (over && p->call != CALL_NONE) {
    if (!late) process::await(p);
    c.close();
  }
  return over;
}

__device__ __noinline__ u32 notify(DevProcess* p, u64 address, u32 most) {
  DevTeam* team = of(p);
  const DevProcessTable& t = *p->table;
  u32 woken = 0;
  process::locked(&team->lock, [&] {
    for (u32 next = team->first; next != 0 && woken < most;) {
      DevProcess* other = at(t, next - 1);
      next = other->wait_behind;
      if (other->wait_address != address) continue;
      unlisted(t, team, other);
      const u32 place = (u32)other->pid;
      const bool timed = other->call != CALL_NONE;
      // The last access to the waiter before the wake, by rule 3.
      other->wait = WAIT_NOTIFIED;
      if (timed) process::tell_of(p, hostcall::CallOff{.slot = place});
      process::wake(t.world, place);
      woken++;
    }
  });
  return woken;
}

}  // namespace team

#define THREADS(name, ...) \
  extern "C" __device__ __noinline__ wasi::Errno everwarp_threads_##name(DevInstance* i, i64 fuel, u32 depth, ##__VA_ARGS__)

THREADS(spawn, u32 argument) {
  const u32 number = team::spawn(i, fuel, argument);
  return {fuel, number == 0 ? THREADS_AGAIN : number, 0};
}
THREADS(wait, u64 address, u64 expected, u64 timeout, u32 bytes) {
  DevProcess* p = process::of(i);
  if (p->wait == WAIT_NONE) {
    if (!team::as_expected(address, expected, bytes)) return {wasi::unless_killed(i, fuel), WAITED_OTHER, 0};
    if (timeout == 0) return {wasi::unless_killed(i, fuel), WAITED_TIMED_OUT, 0};
    if (!team::begin_wait(p, address, expected, (i64)timeout, bytes)) return {wasi::unless_killed(i, fuel), WAITED_OTHER, 0};
    PARK;
  }
  u32 result;
  if (!team::end_wait(p, team::killed(i) != 0, result)) PARK;
  return {wasi::unless_killed(i, fuel), result, 0};
}
THREADS(notify, u64 address, u32 count) { return {fuel, count == 0 ? 0 : team::notify(process::of(i), address, count), 0}; }
