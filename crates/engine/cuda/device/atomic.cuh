// Atomics with their order and scope spelled out at every use: load(&x, acquire, gpu).
//
// These are the operations of cuda::atomic_ref, written as PTX so that an image needs no header from
// a CUDA toolkit and compiles in a fraction of the time.
#pragma once
#include "everwarp/contract.cuh"

namespace ew {

struct relaxed_t {};
struct acquire_t {};
struct release_t {};
struct acq_rel_t {};
struct sc_t {};
struct cta_t {};
struct gpu_t {};
struct sys_t {};
constexpr relaxed_t relaxed{};
constexpr acquire_t acquire{};
constexpr release_t release{};
constexpr acq_rel_t acq_rel{};
constexpr sc_t sc{};
constexpr cta_t cta{};
constexpr gpu_t gpu{};
constexpr sys_t sys{};

#define EW_FN static __device__ __forceinline__
// A call that stays a call: code off the hot path, so that the hot path fits into the instruction cache.
// Only the kernel itself makes such calls: a called function that called another would need a stack frame.
#define EW_CALL static __device__ __noinline__

// Scopes beyond the block are for device and host memory, and say so: for an address in an unknown space some atomics
// become branches that wait for each result (a search was 20 % slower).
#define EW_LOAD(order, scope, space)                                                                        \
  EW_FN u32 load(const u32* p, order##_t, scope##_t) {                                               \
    u32 v;                                                                                           \
    asm volatile("ld." #order "." #scope space ".u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");            \
    return v;                                                                                        \
  }                                                                                                  \
  EW_FN u64 load(const u64* p, order##_t, scope##_t) {                                               \
    u64 v;                                                                                           \
    asm volatile("ld." #order "." #scope space ".u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");            \
    return v;                                                                                        \
  }
EW_LOAD(relaxed, cta, "")
EW_LOAD(relaxed, gpu, ".global")
EW_LOAD(relaxed, sys, ".global")
EW_LOAD(acquire, cta, "")
EW_LOAD(acquire, gpu, ".global")
EW_LOAD(acquire, sys, ".global")

#define EW_STORE(order, scope, space)                                                                       \
  EW_FN void store(u32* p, u32 v, order##_t, scope##_t) {                                            \
    asm volatile("st." #order "." #scope space ".u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");              \
  }                                                                                                  \
  EW_FN void store(u64* p, u64 v, order##_t, scope##_t) {                                            \
    asm volatile("st." #order "." #scope space ".u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");              \
  }
EW_STORE(relaxed, cta, "")
EW_STORE(relaxed, gpu, ".global")
EW_STORE(relaxed, sys, ".global")
EW_STORE(release, cta, "")
EW_STORE(release, gpu, ".global")
EW_STORE(release, sys, ".global")

#define EW_RMW(name, op32, op64, order, scope, space)                                                       \
  EW_FN u32 name(u32* p, u32 v, order##_t, scope##_t) {                                              \
    u32 old;                                                                                         \
    asm volatile("atom." #order "." #scope space "." op32 " %0, [%1], %2;"                                 \
                 : "=r"(old) : "l"(p), "r"(v) : "memory");                                           \
    return old;                                                                                      \
  }                                                                                                  \
  EW_FN u64 name(u64* p, u64 v, order##_t, scope##_t) {                                              \
    u64 old;                                                                                         \
    asm volatile("atom." #order "." #scope space "." op64 " %0, [%1], %2;"                                 \
                 : "=l"(old) : "l"(p), "l"(v) : "memory");                                           \
    return old;                                                                                      \
  }
#define EW_RMWS(order, scope, space)                                                                        \
  EW_RMW(fetch_add, "add.u32", "add.u64", order, scope, space)                                              \
  EW_RMW(fetch_or, "or.b32", "or.b64", order, scope, space)                                                 \
  EW_RMW(fetch_and, "and.b32", "and.b64", order, scope, space)                                              \
  EW_RMW(fetch_min, "min.u32", "min.u64", order, scope, space)                                              \
  EW_RMW(fetch_max, "max.u32", "max.u64", order, scope, space)                                              \
  EW_RMW(exchange, "exch.b32", "exch.b64", order, scope, space)                                             \
  EW_FN u32 compare_exchange(u32* p, u32 expected, u32 v, order##_t, scope##_t) {                    \
    u32 old;                                                                                         \
    asm volatile("atom." #order "." #scope space ".cas.b32 %0, [%1], %2, %3;"                              \
                 : "=r"(old) : "l"(p), "r"(expected), "r"(v) : "memory");                            \
    return old;                                                                                      \
  }                                                                                                  \
  EW_FN u64 compare_exchange(u64* p, u64 expected, u64 v, order##_t, scope##_t) {                    \
    u64 old;                                                                                         \
    asm volatile("atom." #order "." #scope space ".cas.b64 %0, [%1], %2, %3;"                              \
                 : "=l"(old) : "l"(p), "l"(expected), "l"(v) : "memory");                            \
    return old;                                                                                      \
  }
EW_RMWS(relaxed, cta, "")
EW_RMWS(acq_rel, cta, "")
EW_RMWS(relaxed, gpu, ".global")
EW_RMWS(acquire, gpu, ".global")
EW_RMWS(release, gpu, ".global")
EW_RMWS(acq_rel, gpu, ".global")

// Reads a word in shared memory, and invalidates this multiprocessor's cache of device memory: the acquire of device
// scope in a hand-over between warps of one block.
EW_FN u32 load_shared(const u32* p, acquire_t, gpu_t) {
  u32 v;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

// Adds without asking for the old value (a reduction: the warp does not wait for it).
EW_FN void add(u32* p, u32 v, relaxed_t, gpu_t) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
EW_FN void add(u32* p, u32 v, release_t, gpu_t) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
EW_FN void add(u64* p, u64 v, relaxed_t, gpu_t) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
EW_FN void add(double* p, double v, relaxed_t, gpu_t) {
  asm volatile("red.relaxed.gpu.global.add.f64 [%0], %1;" ::"l"(p), "d"(v) : "memory");
}

// Lowers to a minimum likewise.
EW_FN void lower(u64* p, u64 v, relaxed_t, gpu_t) {
  asm volatile("red.relaxed.gpu.global.min.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// Raises to a maximum likewise.
EW_FN void raise(u64* p, u64 v, relaxed_t, gpu_t) {
  asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// Clears bits likewise.
EW_FN void clear(u32* p, u32 bits, relaxed_t, gpu_t) {
  asm volatile("red.relaxed.gpu.global.and.b32 [%0], %1;" ::"l"(p), "r"(~bits) : "memory");
}

EW_FN void fence(acq_rel_t, gpu_t) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
EW_FN void fence(acq_rel_t, sys_t) { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
EW_FN void fence(sc_t, gpu_t) { asm volatile("fence.sc.gpu;" ::: "memory"); }
EW_FN void fence(sc_t, sys_t) { asm volatile("fence.sc.sys;" ::: "memory"); }

// A task descriptor moves in one 16-byte access.
#define EW_TASK(scope)                                                                               \
  EW_FN DevTask load_task(const DevTask* p, relaxed_t, scope##_t) {                                  \
    u64 a, b;                                                                                        \
    asm volatile("ld.relaxed." #scope ".global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory"); \
    return DevTask{(u32)a, (u32)(a >> 32), b};                                                       \
  }                                                                                                  \
  EW_FN void store_task(DevTask* p, const DevTask& t, relaxed_t, scope##_t) {                        \
    asm volatile("st.relaxed." #scope ".global.v2.u64 [%0], {%1, %2};"                                      \
                 ::"l"(p), "l"((u64)t.group << 32 | t.head), "l"(t.arg) : "memory");                 \
  }
EW_TASK(gpu)
EW_TASK(sys)

// Two words in one 16-byte access.
#define EW_PAIR(scope)                                                                               \
  EW_FN void load_pair(const u64* p, u64& a, u64& b, relaxed_t, scope##_t) {                         \
    asm volatile("ld.relaxed." #scope ".global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory"); \
  }                                                                                                  \
  EW_FN void store_pair(u64* p, u64 a, u64 b, relaxed_t, scope##_t) {                                \
    asm volatile("st.relaxed." #scope ".global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(a), "l"(b) : "memory"); \
  }
EW_PAIR(gpu)
EW_PAIR(sys)

// The calling lane of its warp.
EW_FN u32 lane_id() {
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
// Cycles of the multiprocessor, modulo 2^32.
EW_FN u32 clock_cycles() {
  u32 now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
  return now;
}
// Nanoseconds of a clock that all multiprocessors share.
EW_FN u64 clock_ns() {
  u64 now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

}  // namespace ew
