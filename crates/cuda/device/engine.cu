// The resident kernel. The image generator puts the programs and their dispatch before this file.
#include "everwarp/system/ingress.cuh"

namespace ew {

// The warp: brings back n tasks that a queue held when the last epoch parked.
EW_FN void restore(Worker& w, LocalQueue& q, u32 queue, u32 n) {
  for (u32 base = 0; base < n; base += WARP) {
    DevTask task;
    if (base + w.lane < n) task = load_task(&w.e.saved[queue * LOCAL_TASKS + base + w.lane], relaxed, gpu);
    push_all(w, q, task, min(n - base, WARP));
  }
}

EW_FN void save(Worker& w, LocalQueue& q, u32 queue) {
  u32 n = local_count(q), head = q.head;
  for (u32 i = w.lane; i < n; i += WARP) {
    store_task(&w.e.saved[queue * LOCAL_TASKS + i], q.tasks[(head + i) % LOCAL_TASKS], relaxed, gpu);
  }
  __syncwarp();
  if (w.lane == 0) store(&w.e.saved_count[queue], n, release, gpu);
}

EW_FN void arrive(Worker& w) {
  // One round trip for all that may have been left: each lane looks at another word. An epoch claims the
  // saved queues of its own warps by an exchange, since who adopts orphans does so too.
  const u32* hands = &w.e.saved_hands[w.global * SAVED_HANDS];
  u64 found = 0;
  if (w.lane < 2) found = load(&hands[w.lane], relaxed, gpu);
  if (w.lane == 2) found = exchange(&w.e.saved_count[w.queue_id()], 0, acq_rel, gpu);
  if (w.lane == 3 && w.warp == 0) found = exchange(&w.e.saved_count[w.block_queue_id()], 0, acq_rel, gpu);
  if (w.lane == 4) found = load(&w.inbox().chunk, acquire, gpu);
  if (w.lane == 5) found = load(&w.inbox().block_chunk, acquire, gpu);
  const u32 groups = __shfl_sync(ALL, found, 0), chunks = __shfl_sync(ALL, found, 1);
  const u32 tasks = __shfl_sync(ALL, found, 2), block_tasks = __shfl_sync(ALL, found, 3);
  const bool chunk = __shfl_sync(ALL, found, 4) != 0, block_chunk = __shfl_sync(ALL, found, 5) != 0;
  for (u32 i = w.lane; i < groups; i += WARP) w.s.group_ids[w.warp][i] = load(&hands[2 + i], relaxed, gpu);
  if (w.lane < chunks) w.s.chunk_ids[w.warp][w.lane] = load(&hands[2 + GROUP_CACHE + w.lane], relaxed, gpu);
  if (w.lane < 4) ((DevTask*)&w.stats())[w.lane] = load_task((const DevTask*)&w.e.workers[w.global] + w.lane, relaxed, gpu);
  __syncwarp();
  if (w.lane == 0) {
    w.s.group_count[w.warp] = groups;
    w.s.chunk_count[w.warp] = chunks;
    w.local().strays = tasks != 0;
  }
  __syncwarp();
  restore(w, w.local(), w.queue_id(), tasks);
  restore(w, w.block_local(), w.block_queue_id(), block_tasks);
  // An inbox may have been filled after the last look of the last epoch.
  w.set(FLAG_IDLE, chunk);
  w.set(FLAG_BLOCK_IDLE, w.warp == 0 && block_chunk);
}

EW_FN void depart(Worker& w) {
  u32* hands = &w.e.saved_hands[w.global * SAVED_HANDS];
  u32 groups = w.s.group_count[w.warp], chunks = w.s.chunk_count[w.warp];
  for (u32 i = w.lane; i < groups; i += WARP) store(&hands[2 + i], w.s.group_ids[w.warp][i], relaxed, gpu);
  if (w.lane < chunks) store(&hands[2 + GROUP_CACHE + w.lane], w.s.chunk_ids[w.warp][w.lane], relaxed, gpu);
  if (w.lane == 0) {
    store(&hands[0], groups, relaxed, gpu);
    store(&hands[1], chunks, relaxed, gpu);
    w.stats().queued = local_count(w.local());
  }
  save(w, w.local(), w.queue_id());
  if (w.warp == 0) save(w, w.block_local(), w.block_queue_id());
  set_state(w, WORKER_AWAY, 0);
}

// What a warp does in warp mode until it looks round again; false when it shall stop.
EW_FN bool turn(Worker& w, bool& turned) {
  u64 a, b;
  load_pair((const u64*)&w.e.grid->stop, a, b, relaxed, gpu);
  a = __shfl_sync(ALL, a, 0);
  b = __shfl_sync(ALL, b, 0);
  if (ends(w.e, (u32)a)) return false;
  LocalQueue& q = w.local();
  if (w.idle()) check_inbox(w);
  if (q.strays) route_strays(w.e, w.s);
  if (blockIdx.x != 0) {
    if (w.warp == 0) {
      bool call = local_count(w.block_local()) != 0 || (b >> 32) != 0 ||
                  (w.block_idle() && load(&w.inbox().block_chunk, relaxed, gpu) != 0);
      if (__any_sync(ALL, call)) {
        if (w.lane == 0) store(&w.s.block_call, 1, release, cta);
        __syncwarp();
      }
    }
    u32 call = __shfl_sync(ALL, load(&w.s.block_call, acquire, cta), 0);
    if (call && (turned || local_count(q) == 0)) {
      turned = false;
      return !block_mode(w.e, w.s);
    }
  }
  turned = true;
  if (local_count(q) == 0 && !((u32)b != 0 && refill(w)) && !adopt(w)) wait(w);
  if ((u32)b != 0 && best_priority(q) > 0 && local_count(q) != 0) {
    // More urgent work in public places comes first.
    u32 count = w.lane < PRIORITIES ? load(&w.e.grid->chunks_at[w.lane], relaxed, gpu) : 0;
    u32 best = __ffs(__ballot_sync(ALL, count != 0)) - 1;
    if (best < best_priority(q) && (local_count(q) <= LOCAL_TASKS - CHUNK_TASKS || spill(w, q, Class::warps(w.e)))) {
      refill_at(w, best);
    }
  }
  for (u32 i = 0; i < 4 && local_count(q) != 0; i++) {
    if (!batch(w)) {
      if (w.lane == 0 && !q.strays) __nanosleep(500);
      __syncwarp();
      break;
    }
    // More than a batch: others may want some, and know it from the next look.
    if (local_count(q) > WARP && i > 0) break;
  }
  if (local_count(q) > 1 && (a >> 32) != 0) share(w);
  return true;
}

}  // namespace ew

// How much shared memory the kernel wants; the host reads it.
extern "C" __device__ u32 everwarp_shared_bytes = sizeof(ew::Shared);

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS_PER_SM)
    everwarp_engine(const __grid_constant__ DevEngine e) {
  using namespace ew;
  extern __shared__ __align__(128) u8 memory[];
  Shared& s = *(Shared*)memory;
  Worker w = Worker::here(e, s);
  if (threadIdx.x < BLOCK_QUEUES) {
    LocalQueue& q = s.queues[threadIdx.x];
    q.head = q.tail = q.priorities = q.strays = 0;
  }
  if (threadIdx.x < BLOCK_WARPS) {
    s.chunk_count[threadIdx.x] = 0;
    s.ready[threadIdx.x] = READY_BUSY;
    s.flags[threadIdx.x] = 0;
  }
  if (threadIdx.x == 0) s.block_lock = s.block_call = s.block_go = 0;
  __syncthreads();
  // The ingress warp answers the host before it looks at what the last epoch left.
  if (blockIdx.x == 0 && threadIdx.x == 0) store(&e.words->epoch, e.epoch, release, sys);
  arrive(w);
  __syncthreads();
  if (blockIdx.x == 0 && w.warp == 0) {
    // What an earlier, larger epoch left behind is there for whoever finds nothing else.
    if (w.lane == 0) {
      u32 queues = gridDim.x * BLOCK_QUEUES, ever = load(&e.grid->queues_ever, relaxed, gpu);
      store(&e.grid->orphan_end, ever, relaxed, gpu);
      store(&e.grid->orphan_next, queues, release, gpu);
      if (queues > ever) store(&e.grid->queues_ever, queues, relaxed, gpu);
    }
    __syncwarp();
    ingress(e, s);
  } else {
    bool turned = false;
    while (turn(w, turned)) {}
    if (blockIdx.x != 0 && load(&s.block_go, relaxed, cta) != GO_LEAVE) {
      // Whoever saw the stop in warp mode leaves from block mode, with the whole block.
      while (true) {
        if (w.warp == 0 && w.lane == 0) store(&s.block_call, 1, release, cta);
        __syncwarp();
        bool call = load(&s.block_call, acquire, cta) != 0;
        if (!__any_sync(ALL, call)) continue;
        if (block_mode(w.e, w.s)) break;
      }
    }
  }
  depart(w);
  __syncthreads();
  if (threadIdx.x == 0) {
    fence(acq_rel, gpu);
    s.block_go = fetch_add(&e.grid->departed, 1, acq_rel, gpu) == gridDim.x - 1;
  }
  __syncthreads();
  if (s.block_go == 0) return;
  // The last block out: nobody is idle in an empty house.
  for (u32 i = threadIdx.x; i < e.bit_words; i += BLOCK_THREADS) {
    store(&e.idle_warp_bits[i], 0, relaxed, gpu);
    store(&e.idle_block_bits[i], 0, relaxed, gpu);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    store(&e.grid->departed, 0, relaxed, gpu);
    store(&e.grid->idle_warps, 0, relaxed, gpu);
    store(&e.grid->idle_blocks, 0, relaxed, gpu);
    store(&e.words->parked, e.epoch, release, sys);
  }
}
