// Kernels whose usage is known in kind: what spills, what has a frame, what has neither.

#define UNROLL _Pragma("unroll")

__device__ __forceinline__ float mix(float* p, int n) {
    float a[64];
    UNROLL for (int i = 0; i < 64; i++) a[i] = p[i * n + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < n; k++) {
        UNROLL for (int i = 0; i < 64; i++) a[i] = a[i] * a[(i * 7 + 3) % 64] + p[k + i];
    }
    float sum = 0;
    UNROLL for (int i = 0; i < 64; i++) {
        sum += a[i];
        p[i * n + threadIdx.x] = a[i];
    }
    return sum;
}

__device__ __noinline__ float mix_called(float* p, int n) { return mix(p, n); }

extern "C" __global__ void spills(float* p, int n) { p[0] = mix(p, n); }

extern "C" __global__ void calls_what_spills(float* p, int n) { p[0] = mix_called(p, n); }

extern "C" __global__ void frame(int* p, int n) {
    int a[40];
    for (int i = 0; i < 40; i++) a[i] = p[i];
    for (int i = 0; i < n; i++) a[p[i] % 40] += i;
    for (int i = 0; i < 40; i++) p[i] = a[i];
}

extern "C" __global__ void plain(int* p) {
    __shared__ int s[128];
    s[threadIdx.x & 127] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = s[(threadIdx.x + 1) & 127];
}
