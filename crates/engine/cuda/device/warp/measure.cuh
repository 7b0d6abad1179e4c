// How long batches run, in histograms in device memory. Only images that measure define EVERWARP_MEASURE; for all others these
// functions are empty, and the code is what it would be without them.
#pragma once
#include "everwarp/warp/worker.cuh"

namespace ew {

#ifdef EVERWARP_MEASURE

// The bucket of a time: each power of two has equal steps, as in the histograms of the host.
EW_FN u32 measure_bucket(u64 took) {
  constexpr u32 STEPS = 1u << MEASURE_STEP_BITS;
  if (took < STEPS) return (u32)took;
  const u32 exponent = 63 - __clzll(took);
  const u32 step = (u32)(took >> (exponent - MEASURE_STEP_BITS)) & (STEPS - 1);
  return min((exponent - MEASURE_STEP_BITS + 1) * STEPS + step, MEASURE_BUCKETS - 1);
}

// One lane: a batch of tasks has run. Shards are shared by blocks, so the counters are added to with atomics; the host reads
// them while they grow, and may miss the last batches.
EW_CALL void measure_count(u32 fn, u32 tasks) {
  Worker w = Worker::here();
  MeasureHand& h = w.s.measures[w.warp];
  const u64 began = h.began;
  h.began = 0;
  if (fn >= w.e.measure_functions) return;
  DevMeasure* m = w.e.measures + (u64)(blockIdx.x % MEASURE_SHARDS) * w.e.measure_functions + fn;
  add(&m->calls, (u64)tasks, relaxed, gpu);
  if (began == 0) return;
  const u64 took = clock_ns() - began;
  add(&m->buckets[measure_bucket(took)], 1ull, relaxed, gpu);
  add(&m->sum, took, relaxed, gpu);
  atomicMax((unsigned long long*)&m->most, (unsigned long long)took);
}

// The warp: a batch is about to run. One in MEASURE_EVERY is measured, at uneven distances: a program in step with them would
// have only some of its functions measured.
EW_FN void measure_begin(Worker& w) {
  if (w.lane == 0) {
    MeasureHand& h = w.s.measures[w.warp];
    if (--h.left == 0) {
      u32 r = h.random;
      r ^= r << 13;
      r ^= r >> 17;
      r ^= r << 5;
      h.random = r;
      h.left = 1 + r % (2 * MEASURE_EVERY - 1);
      h.began = clock_ns();
    }
  }
  __syncwarp();
}
// The warp: the batch has run, which had this many tasks of a function.
EW_FN void measure_end(Worker& w, u32 fn, u32 tasks) {
  if (w.lane == 0) measure_count(fn, tasks);
  __syncwarp();
}

// The warp, when an epoch begins: its first batch is measured.
EW_FN void measure_arrive(Worker& w, u32 epoch) {
  if (w.lane == 0) w.s.measures[w.warp] = MeasureHand{0, 1, (w.global * 2 + 1) ^ epoch << 20};
}

#else

EW_FN void measure_begin(Worker&) {}
EW_FN void measure_end(Worker&, u32, u32) {}
EW_FN void measure_arrive(Worker&, u32) {}

#endif

}  // namespace ew
