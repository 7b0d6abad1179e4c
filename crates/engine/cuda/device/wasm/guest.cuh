// WebAssembly as CUDA C++: what the code that crates/handler/src/cuda writes for modules is made of. It computes what the CPU
// engine computes, to the bit, and touches no memory but its own.
#pragma once
#include "everwarp/atomic.cuh"

namespace ew {
namespace wasm {

// What a handler has besides the module's own variables.
struct Guest {
  u8* memory;
  long long fuel;  // the fuel is used up when it is not negative
  u32 trap;        // why it failed (MODULE_...), with a tag in the next byte, or 0
  u32 where;       // the function that failed, or more about the reason
};

#ifdef __CUDA_ARCH__
EW_FN float f32(u32 bits) { return __uint_as_float(bits); }
EW_FN double f64(u64 bits) { return __longlong_as_double((long long)bits); }
EW_FN u32 raw(float v) { return __float_as_uint(v); }
EW_FN u64 raw(double v) { return (u64)__double_as_longlong(v); }
// Not the operators, which the compiler may join to a fused multiplication and addition.
EW_FN float add(float a, float b) { return __fadd_rn(a, b); }
EW_FN float sub(float a, float b) { return __fadd_rn(a, -b); }
EW_FN float mul(float a, float b) { return __fmul_rn(a, b); }
EW_FN float div(float a, float b) { return __fdiv_rn(a, b); }
EW_FN float root(float a) { return __fsqrt_rn(a); }
EW_FN double add(double a, double b) { return __dadd_rn(a, b); }
EW_FN double sub(double a, double b) { return __dadd_rn(a, -b); }
EW_FN double mul(double a, double b) { return __dmul_rn(a, b); }
EW_FN double div(double a, double b) { return __ddiv_rn(a, b); }
EW_FN double root(double a) { return __dsqrt_rn(a); }
EW_FN float up(float v) { return ::ceilf(v); }
EW_FN float down(float v) { return ::floorf(v); }
EW_FN float chop(float v) { return ::truncf(v); }
EW_FN float even(float v) { return ::rintf(v); }
EW_FN double up(double v) { return ::ceil(v); }
EW_FN double down(double v) { return ::floor(v); }
EW_FN double chop(double v) { return ::trunc(v); }
EW_FN double even(double v) { return ::rint(v); }
EW_FN u32 clz(u32 v) { return (u32)__clz((int)v); }
EW_FN u64 clz(u64 v) { return (u64)__clzll((long long)v); }
EW_FN u32 ctz(u32 v) { return v == 0 ? 32 : (u32)__ffs((int)v) - 1; }
EW_FN u64 ctz(u64 v) { return v == 0 ? 64 : (u64)__ffsll((long long)v) - 1; }
EW_FN u32 popcnt(u32 v) { return (u32)__popc(v); }
EW_FN u64 popcnt(u64 v) { return (u64)__popcll(v); }

// Written as instructions: the compiler may assume that pointers to different types never name the same memory.
EW_FN u8 load_aligned(const u8* p) {
  u32 v;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return (u8)v;
}
EW_FN u16 load_aligned(const u16* p) {
  u16 v;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
  return v;
}
EW_FN u32 load_aligned(const u32* p) {
  u32 v;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
EW_FN u64 load_aligned(const u64* p) {
  u64 v;
  asm volatile("ld.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
EW_FN void store_aligned(u8* p, u8 v) { asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"((u32)v) : "memory"); }
EW_FN void store_aligned(u16* p, u16 v) { asm volatile("st.global.u16 [%0], %1;" ::"l"(p), "h"(v) : "memory"); }
EW_FN void store_aligned(u32* p, u32 v) { asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
EW_FN void store_aligned(u64* p, u64 v) { asm volatile("st.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory"); }
#else
EW_FN float f32(u32 bits) { return __builtin_bit_cast(float, bits); }
EW_FN double f64(u64 bits) { return __builtin_bit_cast(double, bits); }
EW_FN u32 raw(float v) { return __builtin_bit_cast(u32, v); }
EW_FN u64 raw(double v) { return __builtin_bit_cast(u64, v); }
template <class F> EW_FN F add(F a, F b) { return a + b; }
template <class F> EW_FN F sub(F a, F b) { return a - b; }
template <class F> EW_FN F mul(F a, F b) { return a * b; }
template <class F> EW_FN F div(F a, F b) { return a / b; }
EW_FN float root(float a) { return __builtin_sqrtf(a); }
EW_FN double root(double a) { return __builtin_sqrt(a); }
EW_FN float up(float v) { return __builtin_ceilf(v); }
EW_FN float down(float v) { return __builtin_floorf(v); }
EW_FN float chop(float v) { return __builtin_truncf(v); }
EW_FN float even(float v) { return __builtin_rintf(v); }
EW_FN double up(double v) { return __builtin_ceil(v); }
EW_FN double down(double v) { return __builtin_floor(v); }
EW_FN double chop(double v) { return __builtin_trunc(v); }
EW_FN double even(double v) { return __builtin_rint(v); }
EW_FN u32 clz(u32 v) { return v == 0 ? 32 : (u32)__builtin_clz(v); }
EW_FN u64 clz(u64 v) { return v == 0 ? 64 : (u64)__builtin_clzll(v); }
EW_FN u32 ctz(u32 v) { return v == 0 ? 32 : (u32)__builtin_ctz(v); }
EW_FN u64 ctz(u64 v) { return v == 0 ? 64 : (u64)__builtin_ctzll(v); }
EW_FN u32 popcnt(u32 v) { return (u32)__builtin_popcount(v); }
EW_FN u64 popcnt(u64 v) { return (u64)__builtin_popcountll(v); }
template <class T> EW_FN T load_aligned(const T* p) {
  T v;
  __builtin_memcpy(&v, p, sizeof(T));
  return v;
}
template <class T> EW_FN void store_aligned(T* p, T v) { __builtin_memcpy(p, &v, sizeof(T)); }
#endif

// The bits of a result: all NaNs are the canonical one.
EW_FN u32 bits(float v) { return v != v ? 0x7fc00000u : raw(v); }
EW_FN u64 bits(double v) { return v != v ? 0x7ff8000000000000ull : raw(v); }

template <class F> EW_FN auto least(F a, F b) {
  // Of two zeros the negative one; a sum with a NaN is one.
  if (a == b) return (decltype(raw(a)))(raw(a) | raw(b));
  return a < b ? raw(a) : a > b ? raw(b) : bits(add(a, b));
}
template <class F> EW_FN auto greatest(F a, F b) {
  if (a == b) return (decltype(raw(a)))(raw(a) & raw(b));
  return a > b ? raw(a) : a < b ? raw(b) : bits(add(a, b));
}
#ifdef __CUDA_ARCH__
EW_FN u32 demote(u64 v) { return bits(__double2float_rn(f64(v))); }
EW_FN u32 f32_of_i32(u32 v) { return raw(__int2float_rn((int)v)); }
EW_FN u32 f32_of_u32(u32 v) { return raw(__uint2float_rn(v)); }
EW_FN u32 f32_of_i64(u64 v) { return raw(__ll2float_rn((long long)v)); }
EW_FN u32 f32_of_u64(u64 v) { return raw(__ull2float_rn(v)); }
EW_FN u64 f64_of_i64(u64 v) { return raw(__ll2double_rn((long long)v)); }
EW_FN u64 f64_of_u64(u64 v) { return raw(__ull2double_rn(v)); }
#else
EW_FN u32 demote(u64 v) { return bits((float)f64(v)); }
EW_FN u32 f32_of_i32(u32 v) { return raw((float)(int)v); }
EW_FN u32 f32_of_u32(u32 v) { return raw((float)v); }
EW_FN u32 f32_of_i64(u64 v) { return raw((float)(long long)v); }
EW_FN u32 f32_of_u64(u64 v) { return raw((float)v); }
EW_FN u64 f64_of_i64(u64 v) { return raw((double)(long long)v); }
EW_FN u64 f64_of_u64(u64 v) { return raw((double)v); }
#endif
EW_FN u64 promote(u32 v) { return bits((double)f32(v)); }
EW_FN u64 f64_of_i32(u32 v) { return raw((double)(int)v); }
EW_FN u64 f64_of_u32(u32 v) { return raw((double)v); }

// Conversions to integers, of numbers between two bounds that do not belong to the range.
template <class I, class F> EW_FN I to_integer(F v, F below, bool includes, F above, u32& trap) {
  if (v != v) {
    trap = MODULE_CONVERSION;
    return 0;
  }
  if (!((includes ? v >= below : v > below) && v < above)) {
    trap = MODULE_OVERFLOW;
    return 0;
  }
  return (I)v;
}
template <class I, class F> EW_FN I saturated(F v, F below, bool includes, F above, I least, I most) {
  if (v != v) return 0;
  if (!(includes ? v >= below : v > below)) return least;
  return v < above ? (I)v : most;
}
constexpr double TWO31 = 2147483648.0, TWO32 = 4294967296.0, TWO63 = 9223372036854775808.0, TWO64 = 18446744073709551616.0;
EW_FN u32 i32_of_f32(u32 v, u32& trap) { return (u32)to_integer<int>(f32(v), (float)-TWO31, true, (float)TWO31, trap); }
EW_FN u32 u32_of_f32(u32 v, u32& trap) { return to_integer<u32>(f32(v), -1.0f, false, (float)TWO32, trap); }
EW_FN u32 i32_of_f64(u64 v, u32& trap) { return (u32)to_integer<int>(f64(v), -TWO31 - 1, false, TWO31, trap); }
EW_FN u32 u32_of_f64(u64 v, u32& trap) { return to_integer<u32>(f64(v), -1.0, false, TWO32, trap); }
EW_FN u64 i64_of_f32(u32 v, u32& trap) { return (u64)to_integer<long long>(f32(v), (float)-TWO63, true, (float)TWO63, trap); }
EW_FN u64 u64_of_f32(u32 v, u32& trap) { return to_integer<u64>(f32(v), -1.0f, false, (float)TWO64, trap); }
EW_FN u64 i64_of_f64(u64 v, u32& trap) { return (u64)to_integer<long long>(f64(v), -TWO63, true, TWO63, trap); }
EW_FN u64 u64_of_f64(u64 v, u32& trap) { return to_integer<u64>(f64(v), -1.0, false, TWO64, trap); }
constexpr int INT_LEAST = -2147483647 - 1, INT_MOST = 2147483647;
constexpr long long LONG_MOST = 9223372036854775807ll, LONG_LEAST = -LONG_MOST - 1;
EW_FN u32 i32_sat_f32(u32 v) { return (u32)saturated<int>(f32(v), (float)-TWO31, true, (float)TWO31, INT_LEAST, INT_MOST); }
EW_FN u32 u32_sat_f32(u32 v) { return saturated<u32>(f32(v), -1.0f, false, (float)TWO32, 0u, ~0u); }
EW_FN u32 i32_sat_f64(u64 v) { return (u32)saturated<int>(f64(v), -TWO31 - 1, false, TWO31, INT_LEAST, INT_MOST); }
EW_FN u32 u32_sat_f64(u64 v) { return saturated<u32>(f64(v), -1.0, false, TWO32, 0u, ~0u); }
EW_FN u64 i64_sat_f32(u32 v) { return (u64)saturated<long long>(f32(v), (float)-TWO63, true, (float)TWO63, LONG_LEAST, LONG_MOST); }
EW_FN u64 u64_sat_f32(u32 v) { return saturated<u64>(f32(v), -1.0f, false, (float)TWO64, 0ull, ~0ull); }
EW_FN u64 i64_sat_f64(u64 v) { return (u64)saturated<long long>(f64(v), -TWO63, true, TWO63, LONG_LEAST, LONG_MOST); }
EW_FN u64 u64_sat_f64(u64 v) { return saturated<u64>(f64(v), -1.0, false, TWO64, 0ull, ~0ull); }

// Divisions.
template <class U, class I> EW_FN U div_s(U a, U b, u32& trap) {
  constexpr U least = (U)1 << (8 * sizeof(U) - 1);
  if (b == 0) trap = MODULE_DIVISION;
  else if (a == least && b == (U)-1) trap = MODULE_OVERFLOW;
  else return (U)((I)a / (I)b);
  return 0;
}
template <class U> EW_FN U div_u(U a, U b, u32& trap) {
  if (b != 0) return a / b;
  trap = MODULE_DIVISION;
  return 0;
}
template <class U, class I> EW_FN U rem_s(U a, U b, u32& trap) {
  if (b == 0) trap = MODULE_DIVISION;
  else if (b != (U)-1) return (U)((I)a % (I)b);
  return 0;
}
template <class U> EW_FN U rem_u(U a, U b, u32& trap) {
  if (b != 0) return a % b;
  trap = MODULE_DIVISION;
  return 0;
}

// Accesses to bytes that are known to be within the memory.
EW_CALL u64 load_bytes(const u8* p, u32 count) {
  u64 v = 0;
  for (u32 i = 0; i < count; i++) v |= (u64)load_aligned(p + i) << 8 * i;
  return v;
}
EW_CALL void store_bytes(u8* p, u64 v, u32 count) {
  for (u32 i = 0; i < count; i++) store_aligned(p + i, (u8)(v >> 8 * i));
}
template <class T> EW_FN T load(const u8* p) {
  if ((u64)p % sizeof(T) == 0) return load_aligned((const T*)p);
  return (T)load_bytes(p, sizeof(T));
}
template <class T> EW_FN void store(u8* p, T v) {
  if ((u64)p % sizeof(T) == 0) store_aligned((T*)p, v);
  else store_bytes(p, v, sizeof(T));
}
// Of a memory with `size` bytes.
EW_CALL bool copy(u8* memory, u64 size, u32 to, u32 from, u32 count) {
  if ((u64)to + count > size || (u64)from + count > size) return false;
  if ((to | from | count) % 8 == 0) {
    for (u32 i = 0; i < count; i += 8) {
      const u32 at = to <= from ? i : count - 8 - i;
      store_aligned((u64*)(memory + to + at), load_aligned((const u64*)(memory + from + at)));
    }
    return true;
  }
  for (u32 i = 0; i < count; i++) {
    const u32 at = to <= from ? i : count - 1 - i;
    store_aligned(memory + to + at, load_aligned(memory + from + at));
  }
  return true;
}
EW_CALL bool fill(u8* memory, u64 size, u32 to, u32 value, u32 count) {
  if ((u64)to + count > size) return false;
  for (u32 i = 0; i < count; i++) store_aligned(memory + to + i, (u8)value);
  return true;
}
EW_CALL bool init(u8* memory, u64 size, const u8* data, u64 length, u32 to, u32 from, u32 count) {
  if ((u64)to + count > size || (u64)from + count > length) return false;
  for (u32 i = 0; i < count; i++) store_aligned(memory + to + i, data[from + i]);
  return true;
}
// Copies between a message and a memory, by all threads of a block.
EW_FN void copy_by_block(u8* to, const u8* from, u64 count, u32 thread, u32 threads) {
  if (((u64)to | (u64)from | count) % 8 == 0) {
    for (u64 i = thread; i < count / 8; i += threads) store_aligned((u64*)to + i, load_aligned((const u64*)from + i));
    return;
  }
  for (u64 i = thread; i < count; i += threads) store_aligned(to + i, load_aligned(from + i));
}
// The first content of a memory: words from an offset that is a multiple of 8 on.
EW_CALL void begin(u8* memory, u32 to, const u64* words, u32 count) {
  for (u32 i = 0; i < count; i++) store_aligned((u64*)(memory + to) + i, words[i]);
}

}  // namespace wasm
}  // namespace ew
