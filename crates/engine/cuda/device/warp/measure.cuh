// What functions do and how long: exact counts of tasks, and histograms of samples, in device memory. Only images that measure define
// EVERWARP_MEASURE; for all others these functions are empty, and the code is what it would be without them.
//
// Rules:
// 1. A warp counts tasks in shared memory. The counts go out with each measured batch, when the warp is idle, when it leaves, and
//    when another function needs the place. So they are exact once the warps are idle or away. An atomic for each batch would be
//    one more access that the fences at the batch's end wait for.
// 2. A measured batch stands for those since the one before. Its time says how far it is to the next one: measuring takes about a
//    hundredth of all time. The distances are uneven: a program in step with them would have only some of its functions measured.
// 3. Handlers of actors are measured in batches that are chosen on their own, because to look at the clock for each message makes
//    a turn longer.
// 4. A measured batch leaves the argument of one of the tasks that it has queued in a sample, with the time. The task takes the
//    sample's number along, and gets its argument back when it is about to run.
#pragma once
#include "everwarp/warp/local.cuh"

namespace ew {

#ifdef EVERWARP_MEASURE

// In a queued task: the argument is the number of a sample. The bit means something else in the submission ring only.
constexpr u32 TASK_MARKED = TASK_LAP;
constexpr u32 MEASURE_FN = (1u << TASK_FN_BITS) - 1;

// The bucket of a value: each power of two has equal steps, as in the histograms of the host.
EW_FN u32 measure_bucket(u64 value) {
  constexpr u32 STEPS = 1u << MEASURE_STEP_BITS;
  if (value < STEPS) return (u32)value;
  const u32 exponent = 63 - __clzll(value);
  const u32 step = (u32)(value >> (exponent - MEASURE_STEP_BITS)) & (STEPS - 1);
  return min((exponent - MEASURE_STEP_BITS + 1) * STEPS + step, MEASURE_BUCKETS - 1);
}

// Any lanes: a value that stands for `weight` of its kind. The host reads while others add, and may miss the last ones.
EW_FN void measure_add(DevHistogram* all, u64 value, u64 weight) {
  add(&all->buckets[measure_bucket(value)], weight, relaxed, gpu);
  add(&all->sum, value * weight, relaxed, gpu);
  raise(&all->most, value, relaxed, gpu);
}

// How many batches follow until the next measured one, after one that took `took`.
EW_FN u32 measure_distance(MeasureHand& h, u64 took, u32 span_bits, u32 farthest) {
  const u32 mean = (u32)min(max((1ull << span_bits) / max(took, 1ull), 1ull), (u64)farthest);
  u32 r = h.random;
  r ^= r << 13;
  r ^= r >> 17;
  r ^= r << 5;
  h.random = r;
  return mean / 2 + r % mean + 1;
}

// One lane: the counts of a place go out.
EW_FN void measure_count_out(const DevEngine& e, u32& place) {
  const u32 fn = place & MEASURE_FN, tasks = place >> TASK_FN_BITS;
  place = fn;
  if (tasks != 0 && fn < e.measure_functions) add(&e.measures[fn].calls, (u64)tasks, relaxed, gpu);
}

// One lane: marks one of the tasks that a batch has queued, which stand for `weight` times as many. A sample that is still in use
// is not taken: no task is marked then.
EW_FN void measure_mark(Worker& w, MeasureHand& h, u64 now, u64 weight) {
  LocalQueue& q = w.local();
  const u32 queued = q.tail - h.tail;
  if (queued == 0) return;
  DevTask& task = q.tasks[(h.tail + h.random % queued) % LOCAL_TASKS];
  if (fn_of(task.head) < FN_FIRST || is_block(fn_of(task.head)) || (task.head & TASK_MARKED) != 0) return;
  const u32 number = w.global * MEASURE_SAMPLES + h.sample;
  DevSample* sample = w.e.samples + number;
  // Pairs with the release of the warp that ran the task of before.
  if (load(&sample->queued, acquire, gpu) != 0) return;
  h.sample = (h.sample + 1) % MEASURE_SAMPLES;
  store(&sample->argument, task.arg, relaxed, gpu);
  store(&sample->weight, weight * queued, relaxed, gpu);
  store(&sample->queued, now, relaxed, gpu);
  task.arg = number;
  task.head |= TASK_MARKED;
}

// One lane: a marked task of this function is about to run. Returns its argument.
EW_CALL u64 measure_unmark(u32 fn, u32 number) {
  const DevEngine& e = everwarp_tables;
  DevSample* sample = e.samples + number;
  const u64 argument = load(&sample->argument, relaxed, gpu), weight = load(&sample->weight, relaxed, gpu);
  const u64 now = clock_ns(), queued = load(&sample->queued, relaxed, gpu);
  if (fn < e.measure_functions) measure_add(&e.measures[fn].wait, now - min(now, queued), weight);
  // What was read is read before the sample's owner writes it again.
  store(&sample->queued, 0ull, release, gpu);
  return argument;
}

// One lane: a batch is about to run that is measured, or whose function has no place for its count.
EW_CALL void measure_sample(u32 fn, u32 tasks) {
  Worker w = Worker::here();
  MeasureHand& h = w.s.measures[w.warp];
  u32& place = h.counts[fn % MEASURE_COUNTS];
  if ((place & MEASURE_FN) != fn) {
    measure_count_out(w.e, place);
    place = fn;
  }
  place += tasks << TASK_FN_BITS;
  const u64 left = h.left;
  if ((u32)left != 0 && left >> 32 != 0) return;
  if (left >> 32 == 0) h.inside = h.inside_weight;
  h.measured = 1;
  h.tail = w.local().tail;
  h.began = clock_ns();
}

// One lane: a batch has run that is measured.
EW_CALL void measure_done(u32 fn) {
  Worker w = Worker::here();
  MeasureHand& h = w.s.measures[w.warp];
  const u64 now = clock_ns(), took = now - h.began;
  h.measured = 0;
  h.inside = 0;
  u64 left = h.left;
  if ((u32)left == 0) {
    if (fn < w.e.measure_functions) {
      DevMeasure* m = &w.e.measures[fn];
      measure_add(&m->run, took, h.weight);
      measure_add(&m->depth, local_count(w.local()), h.weight);
    }
    const u32 weight = h.weight;
    h.weight = measure_distance(h, took, MEASURE_SPAN_BITS, MEASURE_FARTHEST);
    left |= h.weight;
    measure_mark(w, h, now, weight);
  }
  if (left >> 32 == 0) {
    h.inside_weight = measure_distance(h, took, MEASURE_INSIDE_SPAN_BITS, MEASURE_INSIDE_FARTHEST);
    left |= (u64)h.inside_weight << 32;
  }
  h.left = left;
#pragma unroll 1
  for (u32 i = 0; i < MEASURE_COUNTS; i++) measure_count_out(w.e, h.counts[i]);
}

// The warp: a batch is about to run, which has this many tasks of a function.
EW_FN void measure_begin(Worker& w, u32 fn, u32 tasks) {
  if (w.lane == 0) {
    MeasureHand& h = w.s.measures[w.warp];
    u32& place = h.counts[fn % MEASURE_COUNTS];
    const u32 count = place;
    // Neither half is 0 here.
    const u64 left = h.left - (1ull << 32 | 1);
    h.left = left;
    if ((count & MEASURE_FN) == fn && (u32)left != 0 && left >> 32 != 0) place = count + (tasks << TASK_FN_BITS);
    else measure_sample(fn, tasks);
  }
  __syncwarp();
}
// The warp: the batch has run.
EW_FN void measure_end(Worker& w, u32 fn) {
  if (w.lane == 0 && w.s.measures[w.warp].measured != 0) measure_done(fn);
  __syncwarp();
}

// The warp: gives tasks in the lanes below `got` their arguments back where they are marked.
EW_FN void measure_take(Worker& w, DevTask& task, u32 got) {
  const bool marked = w.lane < got && (task.head & TASK_MARKED) != 0;
  if (!__any_sync(ALL, marked)) return;
  if (marked) {
    task.arg = measure_unmark(fn_of(task.head), (u32)task.arg);
    task.head &= ~TASK_MARKED;
  }
  __syncwarp();
}

// The warp, which waits or leaves: its counts go out.
EW_FN void measure_rest(Worker& w) {
  if (w.lane < MEASURE_COUNTS) measure_count_out(w.e, w.s.measures[w.warp].counts[w.lane]);
  __syncwarp();
}

// The warp, when an epoch begins: its first batch is measured, and the handlers of that, too.
EW_FN void measure_arrive(Worker& w, u32 epoch) {
  if (w.lane != 0) return;
  MeasureHand h{};
  h.left = 1ull << 32 | 1;
  h.weight = h.inside_weight = 1;
  h.random = (w.global * 2 + 1) ^ epoch << 20;
  w.s.measures[w.warp] = h;
}

// Whether the handlers of the running batch are measured. The address is derived anew, as in `Worker::here`: turns have no
// registers for it, and so the calls below have no parameters.
EW_FN bool measures_inside() {
  u32 thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return shared().measures[thread / WARP].inside != 0;
}

// Where a lane has the time at which its handler began: no task is handed to a warp that runs one. In a block, its first word has
// another use.
EW_FN u64& measure_handling() { return shared().staging[threadIdx.x / WARP][threadIdx.x % WARP].arg; }

EW_CALL void measure_handler() { measure_handling() = clock_ns(); }
// One lane: a handler is about to run for one message, or for those of one call.
EW_FN void measure_handler_begins() {
  if (measures_inside()) measure_handler();
}
EW_CALL void measure_handled() {
  Worker w = Worker::here();
  const u64 took = clock_ns() - measure_handling();
  const u32 fn = w.stats().function;
  if (fn < w.e.measure_functions) measure_add(&w.e.measures[fn].handling, took, w.s.measures[w.warp].inside);
}
// The same lane: it has returned.
EW_FN void measure_handler_ends() {
  if (measures_inside()) measure_handled();
}

#else

EW_FN void measure_begin(Worker&, u32, u32) {}
EW_FN void measure_end(Worker&, u32) {}
EW_FN void measure_take(Worker&, DevTask&, u32) {}
EW_FN void measure_rest(Worker&) {}
EW_FN void measure_arrive(Worker&, u32) {}
EW_FN void measure_handler_begins() {}
EW_FN void measure_handler_ends() {}

#endif

}  // namespace ew
