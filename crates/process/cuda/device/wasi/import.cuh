// How imports are written.
//
// An import gets the block of its caller, the fuel and the depth that is left, and the arguments.
#pragma once

#include "process/call.cuh"
#include "process/threads/team.cuh"

namespace wasi {

using process::Call;
using process::Bytes;
using process::Memory;
constexpr u32 OK = ERRNO_SUCCESS;
// The fuel that suspends the caller.
constexpr i64 SUSPENDED = -2;

// The result that compiled code gets: the fuel, then a result in 8 bytes.
struct Errno {
  i64 fuel;
  u32 value;
  u32 zero;
};
struct Nothing {
  i64 fuel;
};

// The fuel to go on with. A process that has been killed ends here rather than at its next safepoint.
__device__ __forceinline__ i64 unless_killed(DevInstance* i, i64 fuel, u32 killed) {
  if (killed == 0) return fuel;
  i->trap = TRAP_KILLED;
  i->trap_function = i->trap_offset = 0;
  i->fuel = fuel;
  return -1;
}
__device__ __noinline__ i64 unless_killed(DevInstance* i, i64 fuel) {
  return unless_killed(i, fuel, team::killed(i));
}
// After a call of the host: a lane that waited for it on the spot has read the kill word meanwhile.
__device__ __noinline__ i64 after(DevInstance* i, i64 fuel) {
  const DevProcess* p = process::of(i);
  return p->waits == WAITS_HERE ? unless_killed(i, fuel, p->killed) : unless_killed(i, fuel);
}

}  // namespace wasi

#define WASI(name, ...)                                                                                    \
  extern "C" __device__ __noinline__ wasi::Errno everwarp_wasi_##name(DevInstance* i, i64 fuel, u32 depth, \
                                                                      ##__VA_ARGS__)
// Leaves an import, before it has done anything, if `bytes` bytes of its result do not fit memory at an address.
#define CHECK(at, bytes, align) \
  if (const u32 e = wasi::Memory(i).check(at, bytes, align); e != wasi::OK) return wasi::Errno{fuel, e, 0}
// Leaves an import whose call is on its way.
#define PARK return wasi::Errno{wasi::SUSPENDED, 0, 0}
// Leaves an import that has called the host.
#define DONE(error)                              \
  do {                                           \
    const u32 done = error;                      \
    c.close();                                   \
    return {wasi::after(i, fuel), done, 0};      \
  } while (0)
// Leaves an import that needs only the error number: posts this call, waits, and hands the number on.
#define PLAIN(...)                      \
  const wasi::Call c(i);                \
  if (c.fresh()) c.post(__VA_ARGS__);   \
  if (!c.answered()) PARK;              \
  DONE(c.error())
