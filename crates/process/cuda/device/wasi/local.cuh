// Imports that the device serves itself: arguments, environment, clocks, random bytes, `proc_exit`.
#pragma once

#include "process/wasi/import.cuh"

namespace wasi {

// The strings of the arguments or of the environment: their count, their bytes, and the first.
struct Strings {
  u32 count;
  u32 bytes;
  const u8* text;
  __device__ __forceinline__ Strings(const DevProcess* p, bool environment) {
    const u32* head = (const u32*)p->strings;
    count = __ldcg(&head[environment ? 2 : 0]);
    bytes = __ldcg(&head[environment ? 3 : 1]);
    text = p->strings + STRINGS_HEAD + (environment ? __ldcg(&head[1]) : 0);
  }
};

__device__ __noinline__ u32 sizes(DevInstance* i, bool environment, u32 count_at, u32 bytes_at) {
  const Memory m(i);
  const Strings s(process::of(i), environment);
  const u32 e = m.put(count_at, s.count);
  return e != OK ? e : m.put(bytes_at, s.bytes);
}

__device__ __noinline__ u32 strings(DevInstance* i, bool environment, u32 list_at, u32 text_at) {
  const Memory m(i);
  const Strings s(process::of(i), environment);
  u32 e = m.check(list_at, 4ull * s.count, 4);
  if (e == OK) e = m.check(text_at, s.bytes, 1);
  if (e != OK) return e;
  u32 at = 0;
  for (u32 k = 0; k < s.count; k++) {
    m.word(list_at + 4 * k) = text_at + at;
    u8 c;
    do *m.from(text_at).at(at) = c = __ldcg(&s.text[at]);
    while (at++, c != 0);
  }
  return OK;
}

__device__ __forceinline__ u32 rotate(u32 v, u32 by) { return __funnelshift_l(v, v, by); }
__device__ __forceinline__ void quarter(u32* x, u32 a, u32 b, u32 c, u32 d) {
  x[a] += x[b], x[d] = rotate(x[d] ^ x[a], 16);
  x[c] += x[d], x[b] = rotate(x[b] ^ x[c], 12);
  x[a] += x[b], x[d] = rotate(x[d] ^ x[a], 8);
  x[c] += x[d], x[b] = rotate(x[b] ^ x[c], 7);
}

// Random bytes are ChaCha's with 8 rounds (D. J. Bernstein, "ChaCha, a variant of Salsa20", 2008): the table's
// key, which the host's system has made, the process as the nonce, and a counter of blocks.
__device__ __noinline__ u32 random(DevInstance* i, u32 at, u32 length) {
  const Memory m(i);
  if (const u32 e = m.check(at, length, 1); e != OK) return e;
  DevProcess* p = process::of(i);
  for (u32 done = 0; done < length; done += 64) {
    u32 start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
#pragma unroll
    for (u32 k = 0; k < 8; k++) start[4 + k] = p->table->random_key[k];
    start[12] = (u32)p->random_blocks, start[13] = (u32)(p->random_blocks >> 32);
    start[14] = (u32)p->pid, start[15] = (u32)(p->pid >> 32);
    p->random_blocks++;
    u32 x[16];
#pragma unroll
    for (u32 k = 0; k < 16; k++) x[k] = start[k];
#pragma unroll 1
    for (u32 round = 0; round < 4; round++) {
      quarter(x, 0, 4, 8, 12), quarter(x, 1, 5, 9, 13), quarter(x, 2, 6, 10, 14), quarter(x, 3, 7, 11, 15);
      quarter(x, 0, 5, 10, 15), quarter(x, 1, 6, 11, 12), quarter(x, 2, 7, 8, 13), quarter(x, 3, 4, 9, 14);
    }
#pragma unroll
    for (u32 k = 0; k < 64; k++) {
      if (done + k < length) *m.from(at).at(done + k) = (u8)((x[k / 4] + start[k / 4]) >> 8 * (k % 4));
    }
  }
  return OK;
}

}  // namespace wasi

WASI(args_sizes_get, u32 a, u32 b) { return {fuel, wasi::sizes(i, false, a, b), 0}; }
WASI(args_get, u32 a, u32 b) { return {fuel, wasi::strings(i, false, a, b), 0}; }
WASI(environ_sizes_get, u32 a, u32 b) { return {fuel, wasi::sizes(i, true, a, b), 0}; }
WASI(environ_get, u32 a, u32 b) { return {fuel, wasi::strings(i, true, a, b), 0}; }
WASI(random_get, u32 at, u32 length) { return {fuel, wasi::random(i, at, length), 0}; }
WASI(sched_yield) { return {fuel, wasi::OK, 0}; }
WASI(proc_raise, u32) { return {fuel, ERRNO_NOTSUP, 0}; }

// The device's clock has a step of about a microsecond. Clocks of processor time do not exist here.
WASI(clock_res_get, u32 clock, u32 at) {
  if (clock > 1) return {fuel, clock > 3 ? ERRNO_INVAL : ERRNO_BADF, 0};
  return {fuel, wasi::Memory(i).put(at, (u64)1000), 0};
}
WASI(clock_time_get, u32 clock, u64, u32 at) {
  if (clock > 1) return {fuel, clock > 3 ? ERRNO_INVAL : ERRNO_BADF, 0};
  const u64 offset = clock == 0 ? process::of(i)->table->clock_offset : 0;
  return {fuel, wasi::Memory(i).put(at, process::now() + offset), 0};
}

extern "C" __device__ __noinline__ wasi::Nothing everwarp_wasi_proc_exit(DevInstance* i, i64 fuel, u32, u32 code) {
  process::of(i)->exit_code = code;
  i->trap = TRAP_EXIT;
  i->trap_function = i->trap_offset = 0;
  i->fuel = fuel;
  return {-1};
}
