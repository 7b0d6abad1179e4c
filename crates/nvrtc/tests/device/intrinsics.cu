// What device sources of everwarp rely on without including anything but their own headers.

#include "words.cuh"

static_assert(sizeof(word) == 8, "a word is 64 bits");

__device__ __forceinline__ word load_acquire_gpu(const word* address) {
    word value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ void store_release_sys(word* address, word value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

extern "C" __global__ void __launch_bounds__(256, 4) intrinsics(word* words, unsigned* counts) {
    extern __shared__ unsigned staged[];
    unsigned lane = threadIdx.x & 31;
    word value = load_acquire_gpu(words + threadIdx.x);
    unsigned low = static_cast<unsigned>(value);
    unsigned peers = __match_any_sync(0xffffffffu, low);
    unsigned sum = __reduce_add_sync(0xffffffffu, low);
    unsigned first = __shfl_sync(0xffffffffu, sum, 0);
    staged[threadIdx.x] = first + __popc(peers) + lane;
    __syncthreads();
    if (staged[threadIdx.x ^ 1] == 0) __nanosleep(100);
    counts[threadIdx.x] = staged[threadIdx.x ^ 1];
    if (lane == 0) store_release_sys(words, value + 1);
}
