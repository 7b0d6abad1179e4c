// Stands in for the engine's headers when the device code of actors runs on the host: atomics, and the view of a task.
//
// A lane is a fiber, and another lane may go on before each access to memory that lanes share; or it is a thread, for
// ThreadSanitizer. See main.cpp.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#define __device__
#define __forceinline__ inline
#define __global__

#include "everwarp/contract.cuh"

#define EW_FN static inline
#define EW_CALL static __attribute__((noinline))

namespace ew {

constexpr u32 NONE = 0xffffffffu;
constexpr u32 WARP = 32;

// Another lane may go on here.
void step();

struct gpu_t {};
struct relaxed_t { static constexpr int host = __ATOMIC_RELAXED, failed = __ATOMIC_RELAXED; };
struct acquire_t { static constexpr int host = __ATOMIC_ACQUIRE, failed = __ATOMIC_ACQUIRE; };
struct release_t { static constexpr int host = __ATOMIC_RELEASE, failed = __ATOMIC_RELAXED; };
struct acq_rel_t { static constexpr int host = __ATOMIC_ACQ_REL, failed = __ATOMIC_ACQUIRE; };
constexpr gpu_t gpu{};
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
  template <class O> void add(T* p, T v, O, gpu_t) { fetch_add(p, v, O{}, gpu); }
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
inline u64 clock_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (u64)now.tv_sec * 1000000000 + (u64)now.tv_nsec;
}
inline void fence(acq_rel_t, gpu_t) { __atomic_thread_fence(__ATOMIC_ACQ_REL); }

inline u32 min(u32 a, u32 b) { return a < b ? a : b; }
inline u32 max(u32 a, u32 b) { return a > b ? a : b; }

struct Index { u32 x; };
extern thread_local Index threadIdx;
constexpr Index blockIdx{0};

// A warp of one lane.
inline u32 __activemask() { return 1; }
inline u32 __ballot_sync(u32, bool holds) { return holds; }
inline bool __any_sync(u32, bool holds) { return holds; }
inline u32 __popc(u32 bits) { return (u32)__builtin_popcount(bits); }

struct Tables { DevGroup* groups; };
extern Tables everwarp_tables;

EW_FN u32 fn_of(u32 head) { return head & ((1u << TASK_FN_BITS) - 1); }
EW_FN u32 priority_of(u32 head) { return head >> TASK_PRIORITY_SHIFT & (PRIORITIES - 1); }
EW_FN u32 tag_of(u32 head) { return head >> TASK_TAG_SHIFT & 0xff; }

// Tasks that the running task of a lane has queued. They can run once it has been counted.
struct Queue;
struct Shared { Queue* queues[8]; };
Shared& shared();
void append(Queue*, const DevTask&);

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
    append(nullptr, DevTask{head(fn, tag, 0), task.group, arg});
  }
  u32 hold() {
    delta++;
    return task.group;
  }
  void report_add(u64 v) { add(&everwarp_tables.groups[task.group].value, v, relaxed, gpu); }
  void fault(u64 detail) {
    fprintf(stderr, "a task raised fault %llx\n", detail);
    abort();
  }
};

}  // namespace ew
using ew::blockIdx;
using ew::threadIdx;
