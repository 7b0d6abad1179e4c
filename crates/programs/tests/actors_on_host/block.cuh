// Stands in for the engine's headers when the device code of actors runs on the host: atomics, and the view of a task.
//
// A lane is a fiber, and another lane of its warp, or another warp, may go on before each access to memory that lanes share;
// or it is a thread and a warp of its own, for ThreadSanitizer. See world.h.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#define __device__
#define __constant__
#define __forceinline__ inline
#define __global__

#include "everwarp/contract.cuh"

#define EW_FN static inline
#define EW_CALL static __attribute__((noinline))

namespace ew {

constexpr u32 NONE = 0xffffffffu;
// Lanes of a warp. As threads, each lane is a warp of its own.
#ifdef THREADS
constexpr u32 WARP = 1;
#else
constexpr u32 WARP = 4;
#endif
constexpr u32 ALL = (1u << WARP) - 1;

// Another lane may go on here.
void step();

struct gpu_t {};
struct sys_t {};
struct relaxed_t { static constexpr int host = __ATOMIC_RELAXED, failed = __ATOMIC_RELAXED; };
struct acquire_t { static constexpr int host = __ATOMIC_ACQUIRE, failed = __ATOMIC_ACQUIRE; };
struct release_t { static constexpr int host = __ATOMIC_RELEASE, failed = __ATOMIC_RELAXED; };
struct acq_rel_t { static constexpr int host = __ATOMIC_ACQ_REL, failed = __ATOMIC_ACQUIRE; };
constexpr gpu_t gpu{};
constexpr sys_t sys{};
constexpr relaxed_t relaxed{};
constexpr acquire_t acquire{};
constexpr release_t release{};
constexpr acq_rel_t acq_rel{};

#define HOST_ATOMICS(T)                                                                            \
  template <class O> T load(const T* p, O, gpu_t) { step(); return __atomic_load_n(p, O::host); } \
  template <class O> void store(T* p, T v, O, gpu_t) { step(); __atomic_store_n(p, v, O::host); } \
  template <class O> T fetch_add(T* p, T v, O, gpu_t) { step(); return __atomic_fetch_add(p, v, O::host); } \
  template <class O> T fetch_or(T* p, T v, O, gpu_t) { step(); return __atomic_fetch_or(p, v, O::host); }   \
  template <class O> T fetch_and(T* p, T v, O, gpu_t) { step(); return __atomic_fetch_and(p, v, O::host); } \
  template <class O> T exchange(T* p, T v, O, gpu_t) { step(); return __atomic_exchange_n(p, v, O::host); } \
  template <class O> T compare_exchange(T* p, T expected, T v, O, gpu_t) {                          \
    step();                                                                                        \
    __atomic_compare_exchange_n(p, &expected, v, false, O::host, O::failed);                       \
    return expected;                                                                               \
  }                                                                                                \
  template <class O> void add(T* p, T v, O, gpu_t) { fetch_add(p, v, O{}, gpu); }                   \
  template <class O> T load(const T* p, O, sys_t) { return load(p, O{}, gpu); }                     \
  template <class O> void store(T* p, T v, O, sys_t) { store(p, v, O{}, gpu); }
HOST_ATOMICS(u32)
HOST_ATOMICS(u64)

// Two words in any order: no access to both is one step.
inline void load_pair(const u64* p, u64& a, u64& b, relaxed_t, gpu_t) {
  b = load(p + 1, relaxed, gpu);
  a = load(p, relaxed, gpu);
}
inline void store_pair(u64* p, u64 a, u64 b, relaxed_t, gpu_t) {
  store(p + 1, b, relaxed, gpu);
  store(p, a, relaxed, gpu);
}
inline void load_pair(const u64* p, u64& a, u64& b, relaxed_t, sys_t) { load_pair(p, a, b, relaxed, gpu); }
inline void store_pair(u64* p, u64 a, u64 b, relaxed_t, sys_t) { store_pair(p, a, b, relaxed, gpu); }
inline u32 clock_cycles() {
  static thread_local u32 now = 0;
  return now += 12345;
}
inline u64 clock_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (u64)now.tv_sec * 1000000000 + (u64)now.tv_nsec;
}
inline void fence(acq_rel_t, gpu_t) { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
inline void fence(acq_rel_t, sys_t) { __atomic_thread_fence(__ATOMIC_ACQ_REL); }

inline u32 min(u32 a, u32 b) { return a < b ? a : b; }
inline u32 max(u32 a, u32 b) { return a > b ? a : b; }

struct Index { u32 x; };
extern thread_local Index threadIdx;
constexpr Index blockIdx{0};

// Room for the tasks that a call spawns, which needs room for `least` (0: all) to start.
u32 lanes_room(u32 least, u32 most);

// What lanes of a warp do together. A site is a place in the source: lanes that wait at different ones do not meet.
struct Values { u64 of[32]; };
// Some lanes that are at this site, with this one among them: nothing says that those that can be together are.
u32 lanes_together(const char* site);
// The values of the lanes in a mask, which all come to this site with it.
Values lanes_exchange(const char* site, u32 mask, u64 value);
u32 lane_id();
inline u32 lanes_ballot(const char* site, u32 mask, bool holds) {
  const Values all = lanes_exchange(site, mask, holds);
  u32 result = 0;
  for (u32 lane = 0; lane < 32; lane++) result |= (mask >> lane & 1 && all.of[lane] != 0) << lane;
  return result;
}
inline u32 lanes_match(const char* site, u32 mask, u64 value) {
  const Values all = lanes_exchange(site, mask, value);
  u32 result = 0;
  for (u32 lane = 0; lane < 32; lane++) result |= (mask >> lane & 1 && all.of[lane] == value) << lane;
  return result;
}
#define EW_TEXT(line) #line
#define EW_LINE(line) EW_TEXT(line)
#define EW_SITE __FILE__ ":" EW_LINE(__LINE__)
#define __activemask() ew::lanes_together(EW_SITE)
#define __ballot_sync(mask, holds) ew::lanes_ballot(EW_SITE, mask, holds)
#define __any_sync(mask, holds) (ew::lanes_ballot(EW_SITE, mask, holds) != 0)
#define __all_sync(mask, holds) (ew::lanes_ballot(EW_SITE, mask, !(holds)) == 0)
#define __match_any_sync(mask, value) ew::lanes_match(EW_SITE, mask, value)
template <class T> T lanes_shuffle(const char* site, u32 mask, T value, u32 from) {
  return (T)lanes_exchange(site, mask, (u64)value).of[from % WARP];
}
inline u32 lanes_sum(const char* site, u32 mask, u32 value) {
  const Values all = lanes_exchange(site, mask, value);
  u32 result = 0;
  for (u32 lane = 0; lane < 32; lane++) result += mask >> lane & 1 ? (u32)all.of[lane] : 0;
  return result;
}
#define __shfl_sync(mask, value, from) ew::lanes_shuffle(EW_SITE, mask, value, from)
#define __reduce_add_sync(mask, value) ew::lanes_sum(EW_SITE, mask, value)
// A block has one warp.
#define __syncthreads() __syncwarp(ew::ALL)
#define __syncthreads_or(holds) __any_sync(ew::ALL, holds)
#define __syncwarp(mask) ((void)ew::lanes_exchange(EW_SITE, mask, 0))
inline u32 __clz(u32 bits) { return bits == 0 ? 32 : (u32)__builtin_clz(bits); }
inline u32 __ffs(u32 bits) { return (u32)__builtin_ffs((int)bits); }
inline u32 __popc(u32 bits) { return (u32)__builtin_popcount(bits); }

struct Tables { DevGroup* groups; };
extern Tables everwarp_tables;

EW_FN u32 fn_of(u32 head) { return head & ((1u << TASK_FN_BITS) - 1); }
EW_FN u32 priority_of(u32 head) { return head >> TASK_PRIORITY_SHIFT & (PRIORITIES - 1); }
EW_FN u32 tag_of(u32 head) { return head >> TASK_TAG_SHIFT & 0xff; }

// Tasks that the running task of a lane has queued. They can run once it has been counted.
struct LocalQueue { u32 strays; };
struct Shared { LocalQueue queues[8]; DevTask staging[1][WARP]; };
Shared& shared();
void append(LocalQueue&, const DevTask&);
inline void note_priority(LocalQueue&, u32) {}
inline bool is_block(u32) { return false; }
inline void raise_fault(const Tables&, u32 code, u32 function, u64 detail) {
  fprintf(stderr, "function %u raised fault %u: %llx\n", function, code, detail);
  abort();
}

// The view of a task, as in lane/lane.cuh.
struct Lane {
  DevTask task;
  u32 limit, delta, children, broken;

  u64 arg() const { return task.arg; }
  u32 lo() const { return (u32)task.arg; }
  u32 hi() const { return (u32)(task.arg >> 32); }
  u32 tag() const { return tag_of(task.head); }
  static u64 pack(u32 lo, u32 hi) { return (u64)hi << 32 | lo; }
  u32 head(u32 fn, u32 tag, u32 priority) const {
    return fn | (tag & 0xff) << TASK_TAG_SHIFT | priority << TASK_PRIORITY_SHIFT;
  }
  void spawn(u32 fn, u32 tag, u64 arg) {
    if (delta + children >= limit) broken = FAULT_SPAWN_LIMIT;
    delta++;
    append(shared().queues[0], DevTask{head(fn, tag, 0), task.group, arg});
  }
  u32 pass_on() {
    delta++;
    return task.group;
  }
  void report_add(u64 v) { add(&everwarp_tables.groups[task.group].value, v, relaxed, gpu); }
  void fault(u64 detail) {
    fprintf(stderr, "a task raised fault %llx\n", detail);
    abort();
  }
};

// Tasks that all lanes of a warp run together, and those of a block, which has one warp.
struct Warp : Lane {
  u32 lane;
};
struct Block : Lane {
  u32 thread;
};

// Nothing is measured.
inline void measure_handler_begins() {}
inline void measure_handler_ends() {}

#ifdef TRACED
// Lanes meet where those of a traced image do, and the world looks at what is written about each message.
#define trace_meet(lanes) __syncwarp(lanes)
void trace_sends(const DevMessage* cell);
void trace_takes(const DevMessage* cell);
#else
inline void trace_meet(u32) {}
inline void trace_sends(const DevMessage*) {}
inline void trace_takes(const DevMessage*) {}
#endif

}  // namespace ew
using ew::__popc;
using ew::blockIdx;
using ew::threadIdx;
