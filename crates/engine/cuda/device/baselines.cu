// The kernels that a program without a resident engine would launch instead; benchmarks compare the engine with
// them. Separate from the engine, and written as one writes them when they are to be fast.
#include "everwarp/atomic.cuh"
using namespace ew;

constexpr u32 EMPTY = 0xffffffffu;

// ---- Dependent pairs: the arithmetic is that of programs/src/pairs/pairs.cu.

EW_FN u64 first_value(u32 i) { return (u64)i * 0x9e3779b97f4a7c15ull + 1; }
EW_FN u64 folded(u64 v) { return v ^ v >> 29; }

extern "C" __global__ void base_first(u64* firsts, u32 i) { firsts[i] = first_value(i); }
extern "C" __global__ void base_second(const u64* firsts, u64* seconds, u32 i) { seconds[i] += folded(firsts[i]); }

// Programmatic dependent launch: the next kernel may be brought up at once, and waits before it touches memory.
EW_FN void let_next_come() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
EW_FN void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
extern "C" __global__ void base_first_early(u64* firsts, u32 i) {
  let_next_come();
  wait_for_previous();
  firsts[i] = first_value(i);
}
extern "C" __global__ void base_second_early(const u64* firsts, u64* seconds, u32 i) {
  let_next_come();
  wait_for_previous();
  seconds[i] += folded(firsts[i]);
}

extern "C" __global__ void base_first_all(u64* firsts, u32 n) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) firsts[i] = first_value(i);
}
extern "C" __global__ void base_second_all(const u64* firsts, u64* seconds, u32 n) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) seconds[i] += folded(firsts[i]);
}

// ---- Tiny tasks: one cell each.

extern "C" __global__ void base_add(u32* cells, u32 i) { cells[i] += 1; }

extern "C" __global__ void base_add_all(u32* cells, u32 n) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) cells[i] += 1;
}

// Four cells a thread and step: the same work at the speed of memory.
extern "C" __global__ void base_add_wide(uint4* cells, u32 n) {
  u32 quads = n / 4, threads = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x;
  for (u32 i = me; i < quads; i += threads) {
    uint4 v = cells[i];
    cells[i] = make_uint4(v.x + 1, v.y + 1, v.z + 1, v.w + 1);
  }
  u32 rest = quads * 4 + me;
  if (rest < n) ((u32*)cells)[rest] += 1;
}

// ---- Breadth-first search by levels. A frontier is a queue of ranges of edges (first | count << 32), at most
// PART_EDGES each: hubs are divided when they are found, so that a range can be taken without a look at its row.

constexpr u32 PART_EDGES = 256;  // the host sizes queues by it
constexpr u32 WARP_EDGES = 16;   // ranges of at least as many are worked off by a warp together

struct Graph {
  const u32* rows;
  const u32* columns;
  u32* levels;
};

// Any set of active lanes: queues all edges of a vertex that was found.
EW_FN void enqueue(u64* out, u32* count, u32 first, u32 end) {
  u32 edges = end - first;
  if (edges == 0) return;
  if (edges <= PART_EDGES) {
    u32 active = __activemask(), leader = __ffs(active) - 1, base = 0;
    u32 me = threadIdx.x % 32;
    if (me == leader) base = atomicAdd(count, __popc(active));
    base = __shfl_sync(active, base, leader);
    out[base + __popc(active & ((1u << me) - 1))] = (u64)edges << 32 | first;
    return;
  }
  u32 parts = (edges + PART_EDGES - 1) / PART_EDGES;
  u32 base = atomicAdd(count, parts);
  for (u32 i = 0; i < parts; i++, first += PART_EDGES) {
    out[base + i] = (u64)min(PART_EDGES, end - first) << 32 | first;
  }
}

// Offers level `next` to the far ends of four edges, all loads in flight together. Returns the number of edges of the vertices found.
EW_FN u32 offer(const Graph& g, u32 e, u32 stride, u32 end, u32 next, u64* out, u32* count) {
  u32 u[4], first[4], last[4], found = 0, edges = 0;
#pragma unroll
  for (u32 k = 0; k < 4; k++) u[k] = e + k * stride < end ? g.columns[e + k * stride] : EMPTY;
  u32 level[4];
#pragma unroll
  for (u32 k = 0; k < 4; k++) level[k] = u[k] != EMPTY ? __ldcg(&g.levels[u[k]]) : 0;
#pragma unroll
  for (u32 k = 0; k < 4; k++) {
    if (level[k] == EMPTY && atomicCAS(&g.levels[u[k]], EMPTY, next) == EMPTY) found |= 1 << k;
  }
#pragma unroll
  for (u32 k = 0; k < 4; k++) {
    first[k] = found >> k & 1 ? g.rows[u[k]] : 0;
    last[k] = found >> k & 1 ? g.rows[u[k] + 1] : 0;
  }
#pragma unroll
  for (u32 k = 0; k < 4; k++) {
    edges += last[k] - first[k];
    if (found >> k & 1) enqueue(out, count, first[k], last[k]);
  }
  return edges;
}

// The warp: works off one range a lane, large ones together. A lane without one passes count 0.
EW_FN u32 expand(const Graph& g, u64 range, u32 next, u64* out, u32* counter) {
  u32 first = (u32)range, count = (u32)(range >> 32), edges = 0;
  u32 large = __ballot_sync(0xffffffffu, count >= WARP_EDGES);
  while (large != 0) {
    u32 from = __ffs(large) - 1;
    large &= large - 1;
    u32 begin = __shfl_sync(0xffffffffu, first, from), n = __shfl_sync(0xffffffffu, count, from);
    for (u32 e = begin + threadIdx.x % 32; e < begin + n; e += 128) edges += offer(g, e, 32, begin + n, next, out, counter);
    __syncwarp();
  }
  if (count < WARP_EDGES) {
    for (u32 e = first; e < first + count; e += 4) edges += offer(g, e, 1, first + count, next, out, counter);
  }
  __syncwarp();
  return edges;
}

// The place in a queue that a lane begins with: neighbours in the queue, such as the parts of a hub, go to different
// warps, and a short queue to as many warps as there are.
EW_FN u32 place(u32 warp, u32 warps) { return threadIdx.x % 32 * warps + warp; }
EW_FN u32 grid_warp() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }
EW_FN u32 grid_warps() { return gridDim.x * blockDim.x / 32; }

// The grid: works off a queue of n ranges.
EW_FN u32 expand_all(const Graph& g, const u64* in, u32 n, u32 next, u64* out, u32* counter) {
  u32 warp = grid_warp(), warps = grid_warps(), edges = 0;
  for (u32 base = 0; base + warp < n; base += warps * 32) {
    u32 i = base + place(warp, warps);
    edges += expand(g, i < n ? in[i] : 0, next, out, counter);
  }
  return edges;
}

// The block: true in all threads of the last of `blocks` blocks to get here, which sees the writes of the others.
EW_FN bool is_last(u32* ticket, u32 blocks) {
  __shared__ u32 last;
  __syncthreads();
  if (threadIdx.x == 0) last = fetch_add(ticket, 1u, acq_rel, gpu) == blocks - 1;
  __syncthreads();
  return last;
}

// One level, launched by a host that knows the size of the frontier. The last block writes the next size to a word in
// host memory, so that the host need not wait for the kernel's end. state: next size, ticket.
extern "C" __global__ void __launch_bounds__(256, 4) base_level(const u32* rows, const u32* columns, u32* levels, const u64* in, u32 n,
                                                             u64* out, u32* state, u32 next, u64* host) {
  expand_all(Graph{rows, columns, levels}, in, n, next, out, &state[0]);
  if (!is_last(&state[1], gridDim.x) || threadIdx.x != 0) return;
  u32 size = load(&state[0], relaxed, gpu);
  state[0] = 0;
  state[1] = 0;
  store(host, (u64)next << 32 | size, release, sys);
}

// One level that reads its work from device memory, as a node of a graph must. state: size, next size,
// ticket, level.
extern "C" __global__ void __launch_bounds__(256, 4) base_level_node(const u32* rows, const u32* columns, u32* levels, u64* queue0,
                                                                  u64* queue1, u32* state, u64* host) {
  u32 n = __ldcg(&state[0]), level = __ldcg(&state[3]);
  if (n == 0) return;
  const u64* in = level % 2 ? queue1 : queue0;
  u64* out = level % 2 ? queue0 : queue1;
  expand_all(Graph{rows, columns, levels}, in, n, level + 1, out, &state[1]);
  if (!is_last(&state[2], gridDim.x) || threadIdx.x != 0) return;
  u32 size = load(&state[1], relaxed, gpu);
  state[0] = size;
  state[1] = 0;
  state[2] = 0;
  state[3] = level + 1;
  store(host, (u64)(level + 1) << 32 | size, release, sys);
}

// The grid: no block continues before all are here.
EW_FN void grid_barrier(u32* arrived, u32& barriers) {
  __syncthreads();
  barriers++;
  if (threadIdx.x == 0) {
    fetch_add(arrived, 1u, acq_rel, gpu);
    while (load(arrived, acquire, gpu) < barriers * gridDim.x) {}
  }
  __syncthreads();
}

// The warp: adds up the finds of its lanes.
EW_FN void add_up(u32* total, u32 found) {
  __syncwarp();
  found = __reduce_add_sync(0xffffffffu, found);
  if (threadIdx.x % 32 == 0 && found != 0) atomicAdd(total, found);
}

constexpr u32 ALONE_EDGES = 8192;  // a frontier with more is worth the whole grid

// The whole search in one cooperative launch. While the frontier is small, block 0 goes on alone, with barriers of
// a block instead of the grid. With `turns`, a level whose frontier has many edges is done from the other side:
// unreached vertices look for a neighbour in it (Beamer, Asanovic, Patterson: "Direction-optimizing breadth-first
// search", SC 2012; alpha = 14, beta = 24). state: 0..2 sizes in rotation, 4..6 edges in rotation; after block 0 went
// on alone 8 level, 9 size, 10 edges reached meanwhile, 11 edges of the frontier; 16 arrivals at the barrier.
extern "C" __global__ void __launch_bounds__(1024, 1) base_search(const u32* rows, const u32* columns, u32* levels, u64* queue0,
                                                                 u64* queue1, u32* state, u32 vertices, u32 edges, u32 turns) {
  __shared__ u32 alone_size[2], alone_edges[2], block_edges;
  Graph g{rows, columns, levels};
  u32 barriers = 0, level = 0, turn = 0, n = __ldcg(&state[0]), frontier = __ldcg(&state[4]);
  u32 unexplored = edges - frontier;
  bool up = false;
  const u32 me = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  while (n > 0) {
    if (!up && n <= blockDim.x && frontier <= ALONE_EDGES) {
      if (blockIdx.x == 0) {
        u32 reached = 0;
        const u32 warp = threadIdx.x / 32, mine = place(warp, blockDim.x / 32);
        while (n > 0 && n <= blockDim.x && frontier <= ALONE_EDGES) {
          u32 parity = level % 2;
          if (threadIdx.x == 0) alone_size[parity] = alone_edges[parity] = 0;
          __syncthreads();
          if (warp < n) {
            const u64* in = parity ? queue1 : queue0;
            u32 found = expand(g, mine < n ? in[mine] : 0, level + 1, parity ? queue0 : queue1, &alone_size[parity]);
            add_up(&alone_edges[parity], found);
          }
          __syncthreads();
          n = alone_size[parity];
          frontier = alone_edges[parity];
          reached += frontier;
          level++;
        }
        if (threadIdx.x == 0) {
          state[8] = level;
          state[9] = n;
          state[10] = reached;
          state[11] = frontier;
        }
      }
      grid_barrier(&state[16], barriers);
      level = __ldcg(&state[8]);
      n = __ldcg(&state[9]);
      unexplored -= __ldcg(&state[10]);
      frontier = __ldcg(&state[11]);
    } else {
      // The words of this level were cleared a level ago, those of the next are cleared now: no block reads them
      // any more, since all have passed the barrier in between.
      u32 next = (turn + 1) % 3, after = (turn + 2) % 3;
      if (me == 0) state[after] = state[4 + after] = 0;
      if (threadIdx.x == 0) block_edges = 0;
      __syncthreads();
      u64* out = level % 2 ? queue0 : queue1;
      u32 found = 0;
      if (up) {
        for (u32 v = me; v < vertices; v += threads) {
          if (__ldcg(&levels[v]) != EMPTY) continue;
          u32 first = rows[v], end = rows[v + 1];
          for (u32 e = first; e < end; e++) {
            if (__ldcg(&levels[columns[e]]) != level) continue;
            levels[v] = level + 1;
            found += end - first;
            enqueue(out, &state[next], first, end);
            break;
          }
        }
      } else {
        found = expand_all(g, level % 2 ? queue1 : queue0, n, level + 1, out, &state[next]);
      }
      add_up(&block_edges, found);
      __syncthreads();
      if (threadIdx.x == 0 && block_edges != 0) atomicAdd(&state[4 + next], block_edges);
      grid_barrier(&state[16], barriers);
      n = __ldcg(&state[next]);
      frontier = __ldcg(&state[4 + next]);
      unexplored -= frontier;
      turn = next;
      level++;
    }
    up = turns && (up ? n >= vertices / 24 : frontier > unexplored / 14);
  }
}

// ---- Bias and ReLU, then the softmax of each row of 1,024 numbers.

constexpr u32 ROW_QUADS = 1024 / 4;
constexpr u32 LANE_QUADS = ROW_QUADS / 32;

EW_FN float4 bias_relu(float4 v, float4 b) {
  return make_float4(fmaxf(v.x + b.x, 0.f), fmaxf(v.y + b.y, 0.f), fmaxf(v.z + b.z, 0.f), fmaxf(v.w + b.w, 0.f));
}

// The warp: the softmax of a row that it holds in registers.
EW_FN void softmax_row(float4 (&v)[LANE_QUADS], float4* out) {
  u32 lane = threadIdx.x % 32;
  float most = v[0].x, sum = 0.f;
#pragma unroll
  for (u32 k = 0; k < LANE_QUADS; k++) most = fmaxf(most, fmaxf(fmaxf(v[k].x, v[k].y), fmaxf(v[k].z, v[k].w)));
#pragma unroll
  for (u32 i = 16; i > 0; i /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, i));
#pragma unroll
  for (u32 k = 0; k < LANE_QUADS; k++) {
    v[k] = make_float4(__expf(v[k].x - most), __expf(v[k].y - most), __expf(v[k].z - most), __expf(v[k].w - most));
    sum += v[k].x + v[k].y + v[k].z + v[k].w;
  }
#pragma unroll
  for (u32 i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
  float scale = 1.f / sum;
#pragma unroll
  for (u32 k = 0; k < LANE_QUADS; k++) {
    out[k * 32 + lane] = make_float4(v[k].x * scale, v[k].y * scale, v[k].z * scale, v[k].w * scale);
  }
}

extern "C" __global__ void base_bias_relu(const float4* in, const float4* bias, float4* out, u32 rows) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * ROW_QUADS) out[i] = bias_relu(in[i], bias[i % ROW_QUADS]);
}

extern "C" __global__ void __launch_bounds__(256) base_softmax(const float4* in, float4* out, u32 rows) {
  u32 row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  float4 v[LANE_QUADS];
#pragma unroll
  for (u32 k = 0; k < LANE_QUADS; k++) v[k] = in[row * ROW_QUADS + k * 32 + threadIdx.x % 32];
  softmax_row(v, out + row * ROW_QUADS);
}

extern "C" __global__ void __launch_bounds__(256) base_fused(const float4* in, const float4* bias, float4* out, u32 rows) {
  u32 row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  float4 v[LANE_QUADS];
#pragma unroll
  for (u32 k = 0; k < LANE_QUADS; k++) {
    u32 column = k * 32 + threadIdx.x % 32;
    v[k] = bias_relu(in[row * ROW_QUADS + column], bias[column]);
  }
  softmax_row(v, out + row * ROW_QUADS);
}
