// The imports of `everwarp:gpu`; guests/GPU.md says what they promise.
#pragma once

#include "process/gpu/channel.cuh"
#include "process/gpu/children.cuh"
#include "process/wasi/import.cuh"

namespace peers {

using process::relations;
using process::Memory;
using process::of;
constexpr u32 OK = 0;
// Fuel from here on is a process's without a limit: it has not used half of what it began with.
constexpr i64 ENDLESS = 1ll << 62;

struct Long {
  i64 fuel;
  u64 value;
};
__device__ __forceinline__ bool bad(const Memory& m, u32 at, u64 bytes, u32 align) { return m.check(at, bytes, align) != ERRNO_SUCCESS; }
__device__ __forceinline__ bool killed(DevInstance* i) { return ew::load(&i->kill, ew::relaxed, ew::sys) != 0; }

// Whether all 32 lanes are here at once; otherwise this lane counts as alone: no smaller set is sure to stay together
// until it has voted. Either all 32 lanes see that they are together, or none does.
__device__ __forceinline__ bool together() { return __activemask() == 0xffffffffu; }
__device__ __forceinline__ u32 lane() {
  u32 v;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(v));
  return v;
}

__device__ __noinline__ u32 spawn_as(DevInstance* i, DevRelations* k, u32 module, u32 entry, i64 fuel, u32 args, u32 args_len, u32 ends, u32 count) {
  DevProcess* p = of(i);
  DevWorld* world = p->table->world;
  const Memory m(i);
  const DevModule& of_child = world->modules[module];
  const u32 place = process::take_place(world, of_child);
  if (place == ew::NONE) return GPU_LIMIT;
  DevRelations* child = relations(world, place);
  const DevProcessTable& t = *of_child.table;
  DevChildRecord* b = process::child_record(world, place);
  const u32 slot = child->slot, generation = b->generation;
  // The arguments as `strings` encodes them, after the ends, which are stored backwards.
  u8* strings = (u8*)child->strings;
  u32 strung = 0;
  for (u32 b = 0; b < args_len; b++) {
    const u8 c = m.base[args + b];
    strings[STRINGS_HEAD + b] = c;
    strung += c == 0;
  }
  ((uint4*)strings)[0] = make_uint4(strung, args_len, 0, 0);
  ((uint4*)strings)[1] = make_uint4(0, 0, 0, 0);
  for (u32 e = 0; e < count; e++) {
    const u32 end = channel::end_of(k, m.word(ends + 4 * e));
    channel::keep(world, channel::number_of(end), channel::side_of(end), 1);
    ((u32*)strings)[-1 - (int)e] = end;
  }
  const u32 own = generation == 0x7fffffff ? 1 : generation + 1;
  b->generation = own;
  b->parent = p->pid;
  child->parent = (u32)p->pid + 1;
  child->root = k->root;
  const u64 pid = (u64)own << 32 | place;
  k->children[entry] = pid;
  DevSpawn* s = &t.spawns[slot];
  s->pid = pid;
  s->strings = strings;
  s->fuel = fuel;
  s->memory_limit = of_child.memory_limit;
  s->flags = (p->flags & (PROCESS_COLLECTS | PROCESS_TALKS)) | PROCESS_UNKNOWN | (generation == 0 ? PROCESS_FRESH : 0) | of_child.flags;
  s->kill = 0;
  s->given = count;
  s->instance = k->spawned++;
  // Release: from here on another process or the host may ask it to end.
  ew::store(&b->state, CHILD_RUNNING, ew::release, ew::gpu);
  process::post(world, of_child.start_head, 1ull << 32 | slot);
  return OK;
}

// The module of this name; GPU_NAME if there is none. Without a name the caller's own.
__device__ __noinline__ u32 module_named(const DevWorld* world, const DevRelations* k, const Memory& m, u32 name, u32 length) {
  if (length == 0) return k->module;
  // The host adds modules while the kernel is parked. The modules that are counted were written before it went on.
  const u32 count = ew::load(&world->module_count, ew::relaxed, ew::gpu);
  for (u32 n = 0; n < count; n++) {
    const DevModule& module = world->modules[n];
    if (module.name_bytes != length) continue;
    u32 same = 0;
    while (same < length && module.name[same] == m.base[name + same]) same++;
    if (same == length) return n;
  }
  return GPU_NAME;
}

// The entry of a child; CHILDREN if there is none of this pid.
__device__ __forceinline__ u32 child_entry(const DevRelations* k, u64 pid) {
  u32 entry = 0;
  while (entry < CHILDREN && (pid == 0 || k->children[entry] != pid)) entry++;
  return entry;
}

__device__ __noinline__ wasi::Errno send(DevInstance* i, i64 fuel, u32 handle, u32 at, u32 length, bool waits) {
  const Memory m(i);
  if (bad(m, at, length, 1)) return {fuel, GPU_MEMORY, 0};
  DevProcess* p = of(i);
  const u32 end = channel::end_of(relations(p), handle);
  if (end == 0 || channel::side_of(end) != SIDE_SEND) return {fuel, GPU_HANDLE, 0};
  // A kill that comes later wakes the process.
  const bool may_wait = waits && !killed(i);
  const u32 result = channel::send(p->table->world, channel::number_of(end), (u32)p->pid, may_wait, m.base + at, length);
  if (result == GPU_AGAIN && may_wait) PARK;
  return {wasi::unless_killed(i, fuel), result, 0};
}

__device__ __noinline__ wasi::Errno receive(DevInstance* i, i64 fuel, u32 handle, u32 at, u32 length, bool waits) {
  const Memory m(i);
  if (bad(m, at, length, 1)) return {fuel, GPU_MEMORY, 0};
  DevProcess* p = of(i);
  const u32 end = channel::end_of(relations(p), handle);
  if (end == 0 || channel::side_of(end) != SIDE_RECEIVE) return {fuel, GPU_HANDLE, 0};
  const bool may_wait = waits && !killed(i);
  const u32 result = channel::receive(p->table->world, channel::number_of(end), (u32)p->pid, may_wait, m.base + at, length);
  if (result == GPU_AGAIN && may_wait) PARK;
  return {wasi::unless_killed(i, fuel), result, 0};
}

}  // namespace peers

#define GPU(result, name, ...) \
  extern "C" __device__ __noinline__ result everwarp_gpu_##name(DevInstance* i, i64 fuel, u32 depth, ##__VA_ARGS__)

GPU(wasi::Errno, lane) { return {fuel, peers::lane(), 0}; }
GPU(wasi::Errno, warp) { return {fuel, ew::Worker::here().global, 0}; }
GPU(peers::Long, process) { return {fuel, process::of(i)->pid}; }
GPU(wasi::Errno, instance) { return {fuel, process::relations(process::of(i))->instance, 0}; }
GPU(wasi::Errno, active) { return {fuel, peers::together() ? 0xffffffffu : 1u << peers::lane(), 0}; }
GPU(wasi::Errno, ballot, u32 vote) {
  const u32 votes = peers::together() ? __ballot_sync(0xffffffffu, vote != 0) : (u32)(vote != 0) << peers::lane();
  return {fuel, votes, 0};
}
GPU(peers::Long, shuffle, u64 value, u32 from) {
  return {fuel, peers::together() ? __shfl_sync(0xffffffffu, value, from % 32) : value};
}

GPU(wasi::Errno, channel, u32 capacity, u32 bytes, u32 to) {
  const process::Memory m(i);
  if (peers::bad(m, to, 8, 4)) return {fuel, GPU_MEMORY, 0};
  DevProcess* p = process::of(i);
  DevRelations* k = process::relations(p);
  const u32 a = channel::free_entry(k, 0), b = channel::free_entry(k, a + 1);
  if (b >= HANDLES) return {fuel, GPU_LIMIT, 0};
  const u32 number = channel::open(p->table->world, capacity, bytes);
  if (number == GPU_SIZE || number == GPU_LIMIT) return {fuel, number, 0};
  m.word(to) = channel::enter(k, a, number + 1);
  m.word(to + 4) = channel::enter(k, b, number + 1 | END_RECEIVES);
  return {fuel, peers::OK, 0};
}
GPU(wasi::Errno, send, u32 handle, u32 at, u32 length) { return peers::send(i, fuel, handle, at, length, true); }
GPU(wasi::Errno, try_send, u32 handle, u32 at, u32 length) { return peers::send(i, fuel, handle, at, length, false); }
GPU(wasi::Errno, receive, u32 handle, u32 at, u32 length) { return peers::receive(i, fuel, handle, at, length, true); }
GPU(wasi::Errno, try_receive, u32 handle, u32 at, u32 length) { return peers::receive(i, fuel, handle, at, length, false); }
GPU(wasi::Errno, close, u32 handle) {
  DevProcess* p = process::of(i);
  DevRelations* k = process::relations(p);
  const u32 end = channel::end_of(k, handle);
  if (end == 0) return {fuel, GPU_HANDLE, 0};
  channel::forget(k, handle % HANDLES);
  channel::close(p->table->world, channel::number_of(end), channel::side_of(end));
  return {fuel, peers::OK, 0};
}

GPU(peers::Long, spawn, u32 name, u32 name_len, u32 args, u32 args_len, u32 ends, u32 count) {
  const auto error = [&](u32 e) { return peers::Long{fuel, (u64)(i64)(int)e}; };
  const process::Memory m(i);
  if (peers::bad(m, name, name_len, 1) || peers::bad(m, args, args_len, 1) || peers::bad(m, ends, 4ull * count, 4)) return error(GPU_MEMORY);
  if (count > HANDLES || args_len > ARGUMENT_BYTES) return error(GPU_SIZE);
  if (args_len != 0 && m.base[args + args_len - 1] != 0) return error(GPU_SIZE);
  DevProcess* p = process::of(i);
  DevWorld* world = p->table->world;
  DevRelations* k = process::relations(p);
  for (u32 e = 0; e < count; e++) {
    if (channel::end_of(k, m.word(ends + 4 * e)) == 0) return error(GPU_HANDLE);
  }
  const u32 module = peers::module_named(world, k, m, name, name_len);
  if (module == GPU_NAME) return error(GPU_NAME);
  u32 entry = 0;
  while (entry < CHILDREN && k->children[entry] != 0) entry++;
  const bool endless = fuel >= peers::ENDLESS;
  const i64 given = endless ? 0x7fffffffffffffff : fuel / 2;
  if (entry == CHILDREN || given == 0) return error(GPU_LIMIT);
  u32* descendants = &process::relations(world, k->root)->descendants;
  u32 result = GPU_LIMIT;
  if (ew::fetch_add(descendants, 1, ew::relaxed, ew::gpu) < DESCENDANTS) {
    result = peers::spawn_as(i, k, module, entry, given, args, args_len, ends, count);
  }
  if (result != peers::OK) {
    ew::add(descendants, ~0u, ew::relaxed, ew::gpu);
    return error(result);
  }
  return {endless ? fuel : fuel - given, k->children[entry]};
}
GPU(wasi::Errno, wait, u64 pid, u32 to) {
  const process::Memory m(i);
  if (peers::bad(m, to, 8, 4)) return {fuel, GPU_MEMORY, 0};
  DevProcess* p = process::of(i);
  DevRelations* k = process::relations(p);
  const u32 entry = peers::child_entry(k, pid);
  if (entry == CHILDREN) return {fuel, GPU_PROCESS, 0};
  process::Ended ended;
  if (!process::reap(p->table->world, k, entry, ended)) {
    if (peers::killed(i)) return {wasi::unless_killed(i, fuel), 0, 0};
    PARK;
  }
  m.word(to) = ended.status;
  m.word(to + 4) = ended.code;
  // The fuel that the child has left comes back, if there is a limit.
  if (fuel < peers::ENDLESS && ended.fuel > 0) fuel += ended.fuel;
  return {wasi::unless_killed(i, fuel), peers::OK, 0};
}
GPU(wasi::Errno, kill, u64 pid) {
  DevProcess* p = process::of(i);
  const u32 entry = peers::child_entry(process::relations(p), pid);
  if (entry == CHILDREN) return {fuel, GPU_PROCESS, 0};
  process::kill_child(p, pid);
  return {fuel, peers::OK, 0};
}
