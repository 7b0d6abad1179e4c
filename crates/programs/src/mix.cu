#ifndef EVERWARP_PROGRAMS_MIX
#define EVERWARP_PROGRAMS_MIX
// A random number for a number: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014), as in lib.rs.
__device__ __forceinline__ u64 programs_mix(u64 number) {
  u64 z = number + 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}
#endif
