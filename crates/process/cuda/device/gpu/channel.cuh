// Channels: bounded queues of messages in device memory, with lists of the processes that wait on each side.
//
// Rules.
// 1. All fields of a channel, and the fields of DevRelations that say that a process waits on it, are read and written under
//    the channel's lock. A process that holds a lock is never suspended, preempted or killed: only compiled code can
//    be, and it holds no lock.
// 2. A process that finds no room, or no message, puts itself at the end of its side's list under the same lock, and then
//    parks. A process that is woken looks again, and takes itself off the list if it is still on it.
// 3. A sender takes the first receiver off its list, under the lock, and wakes it afterwards; a receiver does so with the
//    first sender. A wake that comes before the other process has parked makes its `park` return at once.
// 4. A process that was woken may die before it looks. A process that gives up an end therefore wakes the next one of
//    its own side if there is a message or room.
// 5. When the last end of a side is given up, all processes that wait on the other side are woken. When the last end of
//    both is given up, the channel is freed.
//
// Why a lock and no queue without one? A queue would still need the lists, and what parks must be on its list
// before it has looked for the last time. Copying 64 bytes takes less time than the lock's own two atomics.
#pragma once

#include "process/gpu/wake.cuh"
#include "process/memory.cuh"

namespace channel {

using process::relations;
using process::wake;
constexpr u32 NO_PROCESS = 0;

template <class F>
__device__ __forceinline__ void locked(DevChannel& c, F f) {
  process::locked(&c.lock, f);
}

// Under the lock: puts a process at the end of a side's list.
__device__ __forceinline__ void join(const DevWorld* world, DevChannel& c, u32 number, u32 side, u32 place) {
  DevRelations* k = relations(world, place);
  k->waits_on = number + 1;
  k->waits_side = side;
  k->before = c.last[side];
  k->behind = NO_PROCESS;
  if (c.last[side] == NO_PROCESS) c.first[side] = place + 1;
  else relations(world, c.last[side] - 1)->behind = place + 1;
  c.last[side] = place + 1;
}
// Under the lock: takes it off, if it is on a list of this channel.
__device__ __forceinline__ void leave(const DevWorld* world, DevChannel& c, u32 number, u32 place) {
  DevRelations* k = relations(world, place);
  if (k->waits_on != number + 1) return;
  const u32 side = k->waits_side;
  if (k->before == NO_PROCESS) c.first[side] = k->behind;
  else relations(world, k->before - 1)->behind = k->behind;
  if (k->behind == NO_PROCESS) c.last[side] = k->before;
  else relations(world, k->behind - 1)->before = k->before;
  k->waits_on = 0;
}
// Under the lock: takes the first one off, its place and one.
__device__ __forceinline__ u32 first(const DevWorld* world, DevChannel& c, u32 number, u32 side) {
  const u32 place = c.first[side];
  if (place != NO_PROCESS) leave(world, c, number, place - 1);
  return place;
}

__device__ __forceinline__ u8* message(const DevWorld* world, const DevChannel& c, u32 number, u32 index) {
  return world->messages + (u64)number * CHANNEL_BYTES + (u64)(index % c.capacity) * c.stride;
}

// Sends from linear memory that was checked, or from memory of the host. The process at `place` waits if it must and
// `waits`; the host has no place.
constexpr u32 HOST = 0xffffffffu;
__device__ __noinline__ u32 send(const DevWorld* world, u32 number, u32 place, bool waits, const u8* from, u32 bytes) {
  DevChannel& c = world->channels[number];
  u32 result = 0, other = NO_PROCESS;
  locked(c, [&] {
    if (place != HOST) leave(world, c, number, place);
    if (c.ends[SIDE_RECEIVE] == 0) {
      result = GPU_CLOSED;
    } else if (bytes > c.bytes) {
      result = GPU_SIZE;
    } else if (c.count == c.capacity) {
      result = GPU_AGAIN;
      if (waits) join(world, c, number, SIDE_SEND, place);
    } else {
      u8* to = message(world, c, number, c.head + c.count);
      *(u32*)to = bytes;
      process::copy_out(to + MESSAGE_HEAD, from, bytes);
      c.count++;
      other = first(world, c, number, SIDE_RECEIVE);
    }
  });
  if (other != NO_PROCESS) wake(world, other - 1);
  return result;
}

// Receives to memory with room for `room` bytes, and returns the length of the message.
__device__ __noinline__ u32 receive(const DevWorld* world, u32 number, u32 place, bool waits, u8* to, u32 room) {
  DevChannel& c = world->channels[number];
  u32 result = 0, other = NO_PROCESS;
  locked(c, [&] {
    if (place != HOST) leave(world, c, number, place);
    if (c.count == 0) {
      result = c.ends[SIDE_SEND] == 0 ? GPU_CLOSED : GPU_AGAIN;
      if (result == GPU_AGAIN && waits) join(world, c, number, SIDE_RECEIVE, place);
    } else {
      const u8* from = message(world, c, number, c.head);
      result = *(const u32*)from;
      if (result > room) {
        result = GPU_SIZE;
      } else {
        process::copy_in(to, from + MESSAGE_HEAD, result);
        c.head = (c.head + 1) % c.capacity;
        c.count--;
        other = first(world, c, number, SIDE_SEND);
      }
    }
    // The message was not taken: it is for the next receiver.
    if (result == GPU_SIZE) other = first(world, c, number, SIDE_RECEIVE);
  });
  if (other != NO_PROCESS) wake(world, other - 1);
  return result;
}

// A new channel with an end of each side: its number, or GPU_LIMIT or GPU_SIZE.
__device__ __noinline__ u32 open(DevWorld* world, u32 capacity, u32 bytes) {
  const u64 stride = MESSAGE_HEAD + ((u64)bytes + 15) / 16 * 16;
  if (capacity == 0 || bytes > MESSAGE_BYTES || capacity * stride > CHANNEL_BYTES) return GPU_SIZE;
  const u32 number = ew::stack_pop(&world->channels_free, world->channel_links);
  if (number == ew::NONE) return GPU_LIMIT;
  DevChannel& c = world->channels[number];
  locked(c, [&] {
    c.capacity = capacity;
    c.bytes = bytes;
    c.stride = (u32)stride;
    c.head = c.count = 0;
    c.ends[SIDE_SEND] = c.ends[SIDE_RECEIVE] = 1;
  });
  return number;
}

// Adds ends to a side. The caller holds one already.
__device__ __noinline__ void keep(const DevWorld* world, u32 number, u32 side, u32 more) {
  DevChannel& c = world->channels[number];
  locked(c, [&] { c.ends[side] += more; });
}

// Gives up an end.
__device__ __noinline__ void close(DevWorld* world, u32 number, u32 side) {
  DevChannel& c = world->channels[number];
  const u32 opposite = side ^ 1;
  bool last = false, free = false;
  u32 other = NO_PROCESS;
  locked(c, [&] {
    last = --c.ends[side] == 0;
    free = last && c.ends[opposite] == 0;
    const bool something = side == SIDE_RECEIVE ? c.count != 0 : c.count != c.capacity;
    if (!last && something) other = first(world, c, number, side);
    else if (last) other = first(world, c, number, opposite);
  });
  if (free) return ew::stack_push(&world->channels_free, world->channel_links, number);
  while (other != NO_PROCESS) {
    wake(world, other - 1);
    other = NO_PROCESS;
    // Should those have closed it and others have it by now, one of them looks once too often.
    if (last) locked(c, [&] { other = first(world, c, number, opposite); });
  }
}

// The channel and the side of an entry in a process's table of ends.
__device__ __forceinline__ u32 number_of(u32 end) { return (end & ~END_RECEIVES) - 1; }
__device__ __forceinline__ u32 side_of(u32 end) { return end & END_RECEIVES ? SIDE_RECEIVE : SIDE_SEND; }
__device__ __forceinline__ u32 end_of(const DevRelations* k, u32 handle) {
  const u64 entry = k->handles[handle % HANDLES];
  return (u32)(entry >> 32) == handle >> HANDLE_BITS ? (u32)entry : 0;
}
// A free entry from `from` on; HANDLES if there is none.
__device__ __forceinline__ u32 free_entry(const DevRelations* k, u32 from) {
  while (from < HANDLES && (u32)k->handles[from] != 0) from++;
  return from;
}
__device__ __forceinline__ u32 enter(DevRelations* k, u32 at, u32 end) {
  const u32 generation = (u32)(k->handles[at] >> 32);
  k->handles[at] = (u64)generation << 32 | end;
  return generation << HANDLE_BITS | at;
}
__device__ __forceinline__ void forget(DevRelations* k, u32 at) {
  // The generation has as many bits as a handle has room for.
  const u32 generation = ((u32)(k->handles[at] >> 32) + 1) & (0xffffffffu >> HANDLE_BITS);
  k->handles[at] = (u64)generation << 32;
}

}  // namespace channel
