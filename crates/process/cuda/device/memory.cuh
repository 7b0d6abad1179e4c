// Linear memory as imports see it, and copies between it and the host.
#pragma once

#include "everwarp/api.cuh"

namespace process {

// Past the first-level cache, which may hold the parameters that another table had in the same place.
__device__ __forceinline__ DevProcess* at(const DevProcessTable& t, u32 slot) {
  return (DevProcess*)(__ldcg((const u64*)&t.records) + slot * __ldcg(&t.record_stride));
}
__device__ __forceinline__ DevInstance* instance(DevProcess* p) { return (DevInstance*)(p + 1); }
// An import is called with the block of its caller.
__device__ __forceinline__ DevProcess* of(DevInstance* i) { return (DevProcess*)i - 1; }
__device__ __forceinline__ u8* output(DevProcess* p) { return (u8*)p + p->table->output_at; }

__device__ __forceinline__ u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// Bytes of device memory: one after the other, or in a memory that is interleaved with others (UNIT_BYTES of it, then as
// many of each of the others, then the next UNIT_BYTES).
struct Bytes {
  u8* base;
  u32 from;
  bool interleaved;
  __device__ __forceinline__ Bytes(const u8* p) : base((u8*)p), from(0), interleaved(false) {}
  __device__ __forceinline__ Bytes(u8* base, u32 from, bool interleaved) : base(base), from(from), interleaved(interleaved) {}
  // The address of byte k. A value that is aligned to its size and no larger than a unit is contiguous there.
  __device__ __forceinline__ u8* at(u64 k) const {
    const u64 n = from + k;
    return interleaved ? base + n / UNIT_BYTES * UNIT_STRIDE_BYTES + n % UNIT_BYTES : base + n;
  }
  // Whether `put` may store 8 bytes at byte k.
  __device__ __forceinline__ bool aligned(u64 k) const {
    return interleaved ? (from + k) % UNIT_BYTES == 0 : ((u64)base + from + k) % 8 == 0;
  }
  __device__ __forceinline__ void put(u64 k, u64 v) const {
    if (interleaved) {
      *(u32*)at(k) = (u32)v;
      *(u32*)at(k + 4) = (u32)(v >> 32);
    } else {
      *(u64*)at(k) = v;
    }
  }
};

// Words of 4 bytes from any address on. Reads the aligned words that hold them, each once, and no others.
struct Words {
  const u32* next;
  u32 step;
  u32 shift;
  u32 held;
  __device__ __forceinline__ Words(const Bytes& b, u32 k) : step(b.interleaved ? UNIT_STRIDE_BYTES / 4 : 1), held(0) {
    const u8* p = b.at(k);
    const u32 rest = (u64)p & 3;
    next = (const u32*)(p - rest);
    shift = rest == 0 ? 32 : 8 * rest;
    if (rest != 0) held = *next, next += step;
  }
  // All reads are on their way at once.
  template <u32 N>
  __device__ __forceinline__ void take(u32 (&out)[N]) {
    u32 w[N];
#pragma unroll
    for (u32 k = 0; k < N; k++) w[k] = next[k * step];
    next += N * step;
#pragma unroll
    for (u32 k = 0; k < N; k++) out[k] = __funnelshift_rc(k == 0 ? held : w[k - 1], w[k], shift);
    held = w[N - 1];
  }
};

// Copies up to N bytes from byte k on, all on their way at once. Returns the end.
template <u32 N>
__device__ __forceinline__ u32 copy_few(const Bytes& to, const Bytes& from, u32 k, u32 bytes) {
  u8 v[N];
#pragma unroll
  for (u32 j = 0; j < N; j++) {
    if (j < bytes) v[j] = *from.at(k + j);
  }
#pragma unroll
  for (u32 j = 0; j < N; j++) {
    if (j < bytes) *to.at(k + j) = v[j];
  }
  return k + bytes;
}

// One thread: copies device memory to an address, in pieces of 16 bytes where possible. Each store to host memory is a
// message of its own, so the fewer the better.
__device__ __noinline__ void copy_out(u8* to, Bytes from, u32 bytes) {
  u32 k = copy_few<15>(to, from, 0, min((u32)-(u64)to & 15, bytes));
  if (k + 16 <= bytes) {
    Words words(from, k);
    for (; k + 64 <= bytes; k += 64) {
      u32 w[16];
      words.take(w);
#pragma unroll
      for (u32 j = 0; j < 16; j += 4) *(uint4*)(to + k + 4 * j) = make_uint4(w[j], w[j + 1], w[j + 2], w[j + 3]);
    }
    for (; k + 16 <= bytes; k += 16) {
      u32 w[4];
      words.take(w);
      *(uint4*)(to + k) = make_uint4(w[0], w[1], w[2], w[3]);
    }
  }
  copy_few<15>(to, from, k, bytes - k);
}

// One thread: the same to a memory that may be interleaved with others, and then in pieces of a unit.
__device__ __noinline__ void copy_out(Bytes to, Bytes from, u32 bytes) {
  if (!to.interleaved) return copy_out(to.at(0), from, bytes);
  u32 k = copy_few<3>(to, from, 0, min(-to.from & 3, bytes));
  if (k + 4 <= bytes) {
    Words words(from, k);
    u32* unit = (u32*)to.at(k);
    constexpr u32 STEP = UNIT_STRIDE_BYTES / UNIT_BYTES;
    for (; k + 64 <= bytes; k += 64, unit += 16 * STEP) {
      u32 w[16];
      words.take(w);
#pragma unroll
      for (u32 j = 0; j < 16; j++) unit[j * STEP] = w[j];
    }
    for (; k + 4 <= bytes; k += 4, unit += STEP) {
      u32 w[1];
      words.take(w);
      unit[0] = w[0];
    }
  }
  copy_few<3>(to, from, k, bytes - k);
}

__device__ __forceinline__ void load_wide(const u8* p, u64& a, u64& b) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory");
}
__device__ __forceinline__ void store_wide(u64* p, u64 a, u64 b) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(a), "l"(b) : "memory");
}
__device__ __forceinline__ void put_bytes(const Bytes& to, u32 at, u64 v, u32 count) {
  for (u32 k = 0; k < count; k++) *to.at(at + k) = (u8)(v >> 8 * k);
}

// Stores the 16 bytes at `at` of a copy of `bytes` bytes, or as many of them as the copy has.
__device__ __forceinline__ void put_piece(const Bytes& to, u32 at, u32 bytes, u64 a, u64 b) {
  const u32 left = bytes - at;
  if (left >= 16 && to.aligned(at)) {
    to.put(at, a);
    to.put(at + 8, b);
  } else {
    put_bytes(to, at, a, min(left, 8u));
    if (left > 8) put_bytes(to, at + 8, b, min(left - 8, 8u));
  }
}

// One thread: copies bytes that the host has written, from an address that is a multiple of 16 and readable up to the
// next multiple after the end. Eight reads are on their way at once: each takes a microsecond over the bus.
__device__ __noinline__ void copy_in(Bytes to, const u8* from, u32 bytes) {
  for (u32 k = 0; k < bytes; k += 128) {
    u64 a[8], b[8];
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
      if (k + 16 * j < bytes) load_wide(from + k + 16 * j, a[j], b[j]);
    }
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
      if (k + 16 * j < bytes) put_piece(to, k + 16 * j, bytes, a[j], b[j]);
    }
  }
}

// The warp: the same, with 4 KiB on their way at once.
__device__ __noinline__ void copy_in_warp(Bytes to, const u8* from, u32 bytes, u32 lane) {
  for (u32 k = 16 * lane; k < bytes; k += 4096) {
    u64 a[8], b[8];
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
      if (k + 512 * j < bytes) load_wide(from + k + 512 * j, a[j], b[j]);
    }
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
      if (k + 512 * j < bytes) put_piece(to, k + 512 * j, bytes, a[j], b[j]);
    }
  }
}

// The linear memory of the caller. A pointer or length that reaches beyond the memory is EFAULT, an unaligned pointer
// EINVAL; the CPU engine returns the same.
struct Memory {
  u8* base;
  u64 bytes;
  bool interleaved;
  __device__ __forceinline__ explicit Memory(const DevInstance* i)
      : base(i->memory), bytes(i->memory_bytes), interleaved(of((DevInstance*)i)->flags & PROCESS_INTERLEAVED) {}
  __device__ __forceinline__ Bytes from(u32 at) const { return Bytes(base, at, interleaved); }
  __device__ __forceinline__ u32 check(u32 at, u64 length, u32 align) const {
    if (at + length > bytes) return ERRNO_FAULT;
    return at % align == 0 ? ERRNO_SUCCESS : ERRNO_INVAL;
  }
  // Checked before.
  __device__ __forceinline__ u32& word(u32 at) const { return *(u32*)from(at).at(0); }
  __device__ __forceinline__ u32 put(u32 at, u32 v) const {
    const u32 e = check(at, 4, 4);
    if (e == ERRNO_SUCCESS) word(at) = v;
    return e;
  }
  __device__ __forceinline__ u32 put(u32 at, u64 v) const {
    const u32 e = check(at, 8, 8);
    if (e == ERRNO_SUCCESS) from(at).put(0, v);
    return e;
  }
};

}  // namespace process
