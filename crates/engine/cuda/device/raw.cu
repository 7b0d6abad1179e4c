// The raw limits that benchmarks are compared with: the least that the hardware needs for each step.
// Separate from the engine, so that nothing of it can slow them down.
#include "everwarp/atomic.cuh"
using namespace ew;

// One thread replies to each number in a host word with the same number in another word.
extern "C" __global__ void raw_pingpong(u32* ask, u32* answer, u32 rounds) {
  for (u32 i = 1; i <= rounds; i++) {
    while (load(ask, acquire, sys) != i) {}
    store(answer, i, release, sys);
  }
}

// The same, relayed: block 0 polls the host, block 1 replies; between them is a word in device memory.
extern "C" __global__ void raw_relay(u32* ask, u32* answer, u32 rounds, u32* middle) {
  for (u32 i = 1; i <= rounds; i++) {
    if (blockIdx.x == 0) {
      while (load(ask, acquire, sys) != i) {}
      store(middle, i, release, gpu);
    } else {
      while (load(middle, acquire, gpu) != i) {}
      store(answer, i, release, sys);
    }
  }
}

extern "C" __global__ void raw_nothing() {}

// All threads add to addresses of their own: what a join for each task would cost at least.
extern "C" __global__ void raw_atomics(u64* cells, u32 rounds, u32 mask) {
  u32 at = blockIdx.x * blockDim.x + threadIdx.x;
  u64 sum = 0;
  for (u32 i = 0; i < rounds; i++) sum += fetch_add(&cells[(at + i * 8191) & mask], (u64)1, acq_rel, gpu);
  if (sum == ~0ull) cells[0] = sum;
}
