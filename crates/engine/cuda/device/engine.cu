// The resident kernel. The image generator puts the programs and their dispatch before this file.
#include "everwarp/system/ingress.cuh"

namespace ew {

// The warp: brings back n tasks that a queue held when the last epoch parked.
EW_FN void restore(Worker& w, LocalQueue& q, u32 queue, u32 n) {
  for (u32 base = 0; base < n; base += WARP) {
    DevTask task{};
    if (base + w.lane < n) task = load_task(&w.e.saved[queue * LOCAL_TASKS + base + w.lane], relaxed, gpu);
    push_all(w, q, task, min(n - base, WARP));
  }
}

EW_FN void save(Worker& w, LocalQueue& q, u32 queue) {
  u32 n = local_count(q), head = q.head;
  for (u32 i = w.lane; i < n; i += WARP) {
    store_task(&w.e.saved[queue * LOCAL_TASKS + i], q.tasks[(head + i) % LOCAL_TASKS], relaxed, gpu);
  }
  // The count is zero since the queue was claimed.
  if (n != 0 && w.lane == 0) store(&w.e.saved_count[queue], n, relaxed, gpu);
}

EW_FN void arrive() {
  Worker w = Worker::here();
  // One round trip for all queues that may have been saved: each lane looks at another word. An epoch claims the saved
  // queues of its own warps by an exchange, because warps that adopt orphaned queues do so, too.
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

EW_FN void depart() {
  Worker w = Worker::here();
  measure_rest(w);
  u32* hands = &w.e.saved_hands[w.global * SAVED_HANDS];
  u32 groups = w.s.group_count[w.warp], chunks = w.s.chunk_count[w.warp];
  for (u32 i = w.lane; i < groups; i += WARP) store(&hands[2 + i], w.s.group_ids[w.warp][i], relaxed, gpu);
  if (w.lane < chunks) store(&hands[2 + GROUP_CACHE + w.lane], w.s.chunk_ids[w.warp][w.lane], relaxed, gpu);
  if (w.lane == 0) {
    store(&hands[0], groups, relaxed, gpu);
    store(&hands[1], chunks, relaxed, gpu);
    w.stats().queued = local_count(w.local());
  }
  // No warp is idle once all have left.
  if (w.lane == 0 && w.idle()) leave_idle(w.e.idle_warp_bits, w.global);
  if (w.lane == 0 && w.block_idle()) leave_idle(w.e.idle_block_bits, blockIdx.x);
  save(w, w.local(), w.queue_id());
  if (w.warp == 0) save(w, w.block_local(), w.block_queue_id());
  set_state(w, WORKER_AWAY, 0);
}

// The words that a warp looks at in each turn. Each value is that of the turn before: it has arrived meanwhile.
struct Looks {
  u64 stop_idle;  // the epoch that shall stop | idle warps << 32
  u64 chunks;     // public chunks | those of block-shaped tasks << 32
  u32 mail;
  u32 block_mail;
};
EW_FN void look(Worker& w, Looks& l) {
  load_pair((const u64*)&w.e.grid->stop, l.stop_idle, l.chunks, relaxed, gpu);
  l.mail = l.block_mail = 0;
  if (w.idle()) l.mail = load((const u32*)&w.inbox().chunk, relaxed, gpu);
  if (w.block_idle()) l.block_mail = load((const u32*)&w.inbox().block_chunk, relaxed, gpu);
}

constexpr u32 TURN_ON = 0;     // another turn
constexpr u32 TURN_MEET = 1;   // block mode
constexpr u32 TURN_LEAVE = 2;  // the epoch ends

// The work of a warp in warp mode until it looks at the grid again.
EW_FN u32 turn(Looks& next, bool& turned) {
  Worker w = Worker::here();
  Looks l;
  l.stop_idle = __shfl_sync(ALL, next.stop_idle, 0);
  l.chunks = __shfl_sync(ALL, next.chunks, 0);
  l.mail = __shfl_sync(ALL, next.mail, 0);
  l.block_mail = __shfl_sync(ALL, next.block_mail, 0);
  look(w, next);
  if (ends(w.s, (u32)l.stop_idle)) {
    if (w.warp == 0 && w.lane == 0) w.s.leaving = 1;
    pay(w);
    return TURN_LEAVE;
  }
  LocalQueue& q = w.local();
  if (l.mail != 0) check_inbox(w);
  if (q.strays) route_strays();
  if (blockIdx.x != 0) {
    if (w.warp == 0 && (local_count(w.block_local()) != 0 || (l.chunks >> 32) != 0 || l.block_mail != 0)) {
      if (w.lane == 0) store(&w.s.block_call, 1, release, cta);
      __syncwarp();
    }
    u32 call = __shfl_sync(ALL, load(&w.s.block_call, acquire, cta), 0);
    if (call && (turned || local_count(q) == 0)) {
      turned = false;
      pay(w);
      return TURN_MEET;
    }
  }
  turned = true;
  const u32 chunks = (u32)l.chunks;
  Batch b{};
  if (local_count(q) == 0) pay(w);
  if (local_count(q) == 0 && !(chunks != 0 && refill(w))) {
    measure_rest(w);
    u32 why = wait(w, b);
    if (why == WAIT_CALLED) {
      turned = false;
      return blockIdx.x == 0 ? TURN_LEAVE : TURN_MEET;
    }
    look(w, next);
  }
  if (chunks != 0 && b.got == 0 && best_priority(q) > 0 && local_count(q) != 0) {
    // More urgent work in public places comes first.
    u32 count = w.lane < PRIORITIES ? load(&w.e.grid->chunks_at[w.lane], relaxed, gpu) : 0;
    u32 best = __ffs(__ballot_sync(ALL, count != 0)) - 1;
    if (best < best_priority(q) && (local_room(q) >= CHUNK_TASKS || spill(false))) refill_at(false, best);
  }
  const bool far = (l.stop_idle >> 32) != 0;
  for (u32 i = 0; i < 4 && (b.got != 0 || local_count(q) != 0); i++) {
    const u32 picked = b.got != 0 ? PICKED : pick(w, q, b);
    if (picked == STARVED) {
      pay(w);
      if (w.lane == 0 && !q.strays) __nanosleep(500);
      __syncwarp();
      break;
    }
    if (picked == PICKED) run(w, q, b, far);
    b.got = 0;
    // More than a batch: others may want some.
    if (local_count(q) > WARP && (i > 0 || w.fifo())) break;
  }
  if (local_count(q) > 1) {
    const u32 ready = w.lane < BLOCK_WARPS ? load(&w.s.ready[w.lane], relaxed, cta) : READY_BUSY;
    if (far || __any_sync(ALL, ready == READY_WAITING)) share(w, far);
  }
  return TURN_ON;
}

}  // namespace ew

// How much shared memory the kernel wants; the host reads it.
extern "C" __device__ u32 everwarp_shared_bytes = sizeof(ew::Shared);

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS_PER_SM) everwarp_engine(u32 epoch) {
  using namespace ew;
  Worker w = Worker::here();
  Shared& s = w.s;
  // The ingress warp answers the host before it looks for saved queues of the last epoch.
  if (blockIdx.x == 0 && threadIdx.x == 0) store(&w.e.words->epoch, epoch, relaxed, sys);
  if (threadIdx.x < BLOCK_QUEUES) {
    LocalQueue& q = s.queues[threadIdx.x];
    q.head = q.tail = q.priorities = q.strays = 0;
  }
  if (threadIdx.x < BLOCK_WARPS) {
    s.chunk_count[threadIdx.x] = 0;
    s.ready[threadIdx.x] = READY_BUSY;
    s.flags[threadIdx.x] = 0;
    s.debts[threadIdx.x] = Debt{0, 0};
  }
  if (threadIdx.x == 0) {
    s.epoch = epoch;
    s.block_lock = s.block_call = s.block_go = s.leaving = 0;
  }
  __syncthreads();
  trace_arrive(w);
  measure_arrive(w, epoch);
  arrive();
  __syncthreads();
  if (blockIdx.x == 0 && w.warp == 0) {
    // The queues of an earlier, larger epoch are there for warps that find nothing else.
    if (w.lane == 0) {
      u32 queues = gridDim.x * BLOCK_QUEUES, ever = load(&w.e.grid->queues_ever, relaxed, gpu);
      store(&w.e.grid->orphan_end, ever, relaxed, gpu);
      store(&w.e.grid->orphan_next, queues, release, gpu);
      if (queues > ever) store(&w.e.grid->queues_ever, queues, relaxed, gpu);
    }
    __syncwarp();
    ingress();
  } else {
    Looks looks;
    look(w, looks);
    bool turned = false, leaving = false;
    while (true) {
      u32 next = leaving ? TURN_LEAVE : turn(looks, turned);
      if (next == TURN_ON) continue;
      if (next == TURN_LEAVE) {
        // Blocks leave from block mode, whole; block 0 has none.
        if (blockIdx.x == 0) break;
        leaving = true;
        if (threadIdx.x == 0) store(&s.block_call, 1, release, cta);
        __syncwarp();
        bool call = load(&s.block_call, acquire, cta) != 0;
        if (!__any_sync(ALL, call)) continue;
      }
      if (block_mode()) break;
    }
  }
  depart();
  __syncthreads();
  if (threadIdx.x == 0 && fetch_add(&w.e.grid->departed, 1, release, gpu) == gridDim.x - 1) {
    // The last block out. Pairs with the acquire of the thread that waits for the park; as with a completion, the
    // device's scope suffices.
    fence(acq_rel, gpu);
    store(&w.e.grid->departed, 0, relaxed, gpu);
    store(&w.e.grid->idle_warps, 0, relaxed, gpu);
    store(&w.e.grid->idle_blocks, 0, relaxed, gpu);
    store(&w.e.words->parked, epoch, relaxed, sys);
  }
}
