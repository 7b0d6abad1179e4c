// Four neighbours at a time: a thread has as many bytes on their way over the bus as a load can ask for.
__device__ int handle(const float* input, uint64_t inputs, float* output, uint64_t, void*) {
  const uint64_t fours = inputs / 4;
#pragma unroll 4
  for (uint64_t i = threadIdx.x; i < fours; i += blockDim.x) {
    const float4 in = ((const float4*)input)[i];
    ((float4*)output)[i] = make_float4(2.0f * in.x + 1.0f, 2.0f * in.y + 1.0f, 2.0f * in.z + 1.0f, 2.0f * in.w + 1.0f);
  }
  for (uint64_t i = 4 * fours + threadIdx.x; i < inputs; i += blockDim.x) output[i] = 2.0f * input[i] + 1.0f;
  return 0;
}
