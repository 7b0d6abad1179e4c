// Graphs that a graph launches from the device: as many tiny tasks at a time as may be on their way, then itself again.
#include "everwarp/atomic.cuh"
using namespace ew;

// NVRTC declares cudaGraphLaunch; the toolkit's device runtime, which is linked in, has it.

// The host has the same.
struct Rounds {
  u32 next;    // the first task of the next round; 0 between two runs
  u32 first;   // that of this round
  u32 failed;  // the error of a launch that failed
};

// Task `k` of the round. One graph each.
extern "C" __global__ void base_round_task(u32* cells, const Rounds* rounds, u32 k) { cells[rounds->first + k] += 1; }

// One block, a thread for each graph.
extern "C" __global__ void base_round(const cudaGraphExec_t* graphs, Rounds* rounds, u32 tasks) {
  if (threadIdx.x == 0) rounds->first = rounds->next;
  __syncthreads();
  const u32 first = rounds->first, left = tasks - first;
  fence(acq_rel, gpu);
  int failed = threadIdx.x < left ? cudaGraphLaunch(graphs[threadIdx.x], cudaStreamGraphFireAndForget) : 0;
  if (threadIdx.x == 0) {
    rounds->next = left > blockDim.x ? first + blockDim.x : 0;
    if (left > blockDim.x) {
      // Begins when all that this round launched has ended.
      const int again = cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
      failed = failed != 0 ? failed : again;
    }
  }
  if (failed != 0) rounds->failed = (u32)failed;
}
