// The search by levels, for graphs whose vertices have many edges; see levels.rs.

// Divides `count` units from `first` on among up to 64 tasks, each with a multiple of `grain` units. F: how to spawn.
template <typename F>
__device__ __forceinline__ void bfs_fan(ew::Warp& t, u32 first, u32 count, u32 grain, F&& spawn) {
  const u32 each = ((count + BFS_FAN - 1) / BFS_FAN + grain - 1) / grain * grain;
#pragma unroll
  for (u32 i = 0; i < BFS_FAN / 32; i++) {
    const u64 begin = (u64)(i * 32 + t.lane) * each;
    if (begin < count) spawn(t.pack(first + (u32)begin, min(each, count - (u32)begin)));
  }
}

// Divides a part of 2^power of a vertex' edges into 64; see bfs_wide.
template <typename F>
__device__ __forceinline__ void bfs_divide(ew::Warp& t, u32 v, u32 power, u32 part, F&& spawn) {
#pragma unroll
  for (u32 i = 0; i < BFS_FAN / 32; i++) spawn(t.pack(v, power + 6 << 26 | part << 6 | (i * 32 + t.lane)));
}

// The warp: the sum over the lanes up to and including this one.
__device__ __forceinline__ u32 bfs_sums(const ew::Warp& t, u32 sum) {
#pragma unroll
  for (u32 step = 1; step < 32; step *= 2) {
    const u32 before = __shfl_up_sync(0xffffffffu, sum, step);
    if (t.lane >= step) sum += before;
  }
  return sum;
}

__device__ void bfs_level(ew::Warp& t, const DevBfs& p) {
  DevBfsState& s = *p.state;
  u32 tag = t.tag(), level = 0, n = 1, reached = 0;
  const u32 source = t.lo();
  if (tag & BFS_START) {
    tag = 0;
    if (t.lane == 0) {
      p.queue[0] = source;
      p.bits[source / 32] = 1u << source % 32;
    }
  } else {
    level = t.lo();
    n = ew::load(&s.found[level % 2], ew::relaxed, ew::gpu);
    reached = ew::load(&s.reached, ew::relaxed, ew::gpu);
  }
  if (n == 0) return;
  reached += n;
  __syncwarp();
  if (t.lane == 0) {
    s.level = level;
    s.reached = reached;
    s.found[(level + 1) % 2] = 0;
  }
  __syncwarp();
  const bool was_up = tag & BFS_UPWARDS, up = was_up || n > (p.vertices - reached) / BFS_UP_SHARE;
  if (was_up ? n <= BFS_TAIL : !up && level >= BFS_PATIENCE && n <= BFS_NARROW) {
    return bfs_fan(t, 0, n, BFS_DOWN_ENTRIES, [&](u64 arg) { t.spawn(FN_bfs_down, tag | BFS_LEAVE, arg); });
  }
  if (up) {
    t.fork(FN_bfs_level, (tag ^ BFS_BITMAP) | BFS_UPWARDS, level + 1);
    const u32 parts = (p.vertices + BFS_UP_VERTICES - 1) / BFS_UP_VERTICES;
    bfs_fan(t, 0, parts, 1, [&](u64 arg) { t.spawn_child(FN_bfs_up, tag, arg); });
  } else {
    t.fork(FN_bfs_level, tag, level + 1);
    if (level == 0 && p.rows[source + 1] - p.rows[source] > BFS_WIDE_EDGES) {
      return bfs_divide(t, source, 0, 0, [&](u64 arg) { t.spawn_child(FN_bfs_wide, tag, arg); });
    }
    bfs_fan(t, 0, n, BFS_DOWN_ENTRIES, [&](u64 arg) { t.spawn_child(FN_bfs_down, tag, arg); });
  }
}

// The warp: offers level + 1 to the far ends of up to four edges a lane (EMPTY: none), and queues the unreached ones.
constexpr u32 BFS_EMPTY = 0xffffffffu;
__device__ __forceinline__ void bfs_offer(ew::Warp& t, const DevBfs& p, u32 level, u32 bitmap, const u32 (&u)[4], const u32 (&v)[4]) {
  u64 seen[4];
#pragma unroll
  for (u32 k = 0; k < 4; k++) seen[k] = u[k] != BFS_EMPTY ? ew::load(&p.best[u[k]], ew::relaxed, ew::gpu) : 0;
  u32 found[4], n = 0;
#pragma unroll
  for (u32 k = 0; k < 4; k++) {
    const u64 offer = (u64)(level + 1) << 32 | v[k];
    const bool is_new = seen[k] > offer && ew::fetch_min(&p.best[u[k]], offer, ew::relaxed, ew::gpu) == ~0ull;
    __syncwarp();
    found[k] = __ballot_sync(0xffffffffu, is_new);
    n += __popc(found[k]);
  }
  if (n == 0) return;
  u32 at = 0;
  if (t.lane == 0) at = ew::fetch_add(&p.state->found[(level + 1) % 2], n, ew::relaxed, ew::gpu);
  at = __shfl_sync(0xffffffffu, at, 0);
  u32* out = p.queue + (level % 2 ? 0 : p.vertices);
#pragma unroll
  for (u32 k = 0; k < 4; k++) {
    if (found[k] >> t.lane & 1) {
      out[at + __popc(found[k] & ((1u << t.lane) - 1))] = u[k];
      ew::fetch_or(&p.bits[bitmap * p.words + u[k] / 32], 1u << u[k] % 32, ew::relaxed, ew::gpu);
    }
    at += __popc(found[k]);
  }
}

__device__ void bfs_down(ew::Warp& t, const DevBfs& p) {
  const u32 first = t.lo(), count = t.hi(), tag = t.tag();
  if (count > BFS_DOWN_ENTRIES) return bfs_fan(t, first, count, BFS_DOWN_ENTRIES, [&](u64 arg) { t.spawn(FN_bfs_down, tag, arg); });
  const u32 level = ew::load(&p.state->level, ew::relaxed, ew::gpu);
  u32 v = 0, begin = 0, degree = 0;
  if (t.lane < count) {
    v = p.queue[(level % 2 ? p.vertices : 0) + first + t.lane];
    if (tag & BFS_LEAVE) return t.spawn(FN_bfs_visit, 0, t.pack(v, level));
    begin = p.rows[v];
    degree = p.rows[v + 1] - begin;
  }
  if (tag & BFS_LEAVE) return;
  if (degree > BFS_WIDE_EDGES) {
    t.spawn(FN_bfs_wide, tag, v);
    degree = 0;
  }
  // The edges of all these vertices are numbered one after the other: edge i belongs to the last vertex whose first
  // edge has a number up to i.
  const u32 end = bfs_sums(t, degree), total = __shfl_sync(0xffffffffu, end, 31), offset = begin - (end - degree);
  for (u32 base = 0; base < total; base += 128) {
    u32 u[4], from[4];
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
      const u32 i = base + k * 32 + t.lane;
      u32 owner = 0;
#pragma unroll
      for (u32 step = 16; step > 0; step /= 2) {
        if (i >= __shfl_sync(0xffffffffu, end, owner + step - 1)) owner += step;
      }
      const u32 edge = i + __shfl_sync(0xffffffffu, offset, owner);
      from[k] = __shfl_sync(0xffffffffu, v, owner);
      u[k] = i < total ? p.columns[edge] : BFS_EMPTY;
    }
    bfs_offer(t, p, level, tag & BFS_BITMAP, u, from);
  }
}

// Part `hi & 2^26 - 1` of 2^(hi >> 26) of a vertex' edges.
__device__ void bfs_wide(ew::Warp& t, const DevBfs& p) {
  const u32 v = t.lo(), part = t.hi() & ((1 << 26) - 1), power = t.hi() >> 26, tag = t.tag();
  const u32 level = ew::load(&p.state->level, ew::relaxed, ew::gpu);
  const u32 row = p.rows[v];
  const u64 degree = p.rows[v + 1] - row;
  const u32 begin = row + (u32)(degree * part >> power), end = row + (u32)(degree * (part + 1) >> power);
  if (end - begin > BFS_WIDE_EDGES && power <= 18) {
    return bfs_divide(t, v, power, part, [&](u64 arg) { t.spawn(FN_bfs_wide, tag, arg); });
  }
  const u32 from[4] = {v, v, v, v};
  for (u32 base = begin; base < end; base += 128) {
    u32 u[4];
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
      const u32 edge = base + k * 32 + t.lane;
      u[k] = edge < end ? p.columns[edge] : BFS_EMPTY;
    }
    bfs_offer(t, p, level, tag & BFS_BITMAP, u, from);
  }
}

__device__ __forceinline__ bool bfs_has(const u32* bits, u32 v) { return v != BFS_EMPTY && (bits[v / 32] >> v % 32 & 1); }

__device__ void bfs_up(ew::Warp& t, const DevBfs& p) {
  const u32 first = t.lo(), count = t.hi(), tag = t.tag();
  if (count > 1) return bfs_fan(t, first, count, 1, [&](u64 arg) { t.spawn(FN_bfs_up, tag, arg); });
  const u32 level = ew::load(&p.state->level, ew::relaxed, ew::gpu);
  const u32* old = p.bits + (tag & BFS_BITMAP) * p.words;
  u32* now = p.bits + (1 - (tag & BFS_BITMAP)) * p.words;
  u32 words = 0;  // lane i: the vertices of word i that were found
#pragma unroll 1
  for (u32 at = first * (BFS_UP_VERTICES / 32); at < (first + 1) * (BFS_UP_VERTICES / 32); at += 4) {
    if (at * 32 >= p.vertices) break;
    // Four vertices a lane, so that their loads are in flight together.
    const uint4 four = *(const uint4*)&old[at];
    const u32 reached[4] = {four.x, four.y, four.z, four.w};
    u32 edge[4], end[4], parent[4], u[4][4];
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
      const u32 v = (at + k) * 32 + t.lane;
      const bool open = v < p.vertices && !(reached[k] >> t.lane & 1);
      edge[k] = open ? p.in_rows[v] : 0;
      end[k] = open ? p.in_rows[v + 1] : 0;
    }
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
#pragma unroll
      for (u32 j = 0; j < 4; j++) u[k][j] = edge[k] + j < end[k] ? p.in_columns[edge[k] + j] : BFS_EMPTY;
    }
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
      parent[k] = BFS_EMPTY;
#pragma unroll
      for (u32 j = 4; j-- > 0;) parent[k] = bfs_has(old, u[k][j]) ? u[k][j] : parent[k];
      edge[k] += 4;
    }
#pragma unroll 1
    for (u32 k = 0; k < 4; k++) {
      // Columns ascend, so the first reached one is the smallest.
      u32 e = k == 0 ? edge[0] : k == 1 ? edge[1] : k == 2 ? edge[2] : edge[3];
      const u32 last = k == 0 ? end[0] : k == 1 ? end[1] : k == 2 ? end[2] : end[3];
      u32 from = k == 0 ? parent[0] : k == 1 ? parent[1] : k == 2 ? parent[2] : parent[3];
      for (u32 round = 0; round < 8 && from == BFS_EMPTY && e < last; round++, e += 4) {
        u32 w[4];
#pragma unroll
        for (u32 j = 0; j < 4; j++) w[j] = e + j < last ? p.in_columns[e + j] : BFS_EMPTY;
#pragma unroll
        for (u32 j = 4; j-- > 0;) from = bfs_has(old, w[j]) ? w[j] : from;
      }
      __syncwarp();
      // All lanes of the warp search each longer list together.
      u32 longer = __ballot_sync(0xffffffffu, from == BFS_EMPTY && e < last);
      while (longer != 0) {
        const u32 who = __ffs(longer) - 1;
        longer &= longer - 1;
        const u32 stop = __shfl_sync(0xffffffffu, last, who);
        u32 result = BFS_EMPTY;
        for (u32 base = __shfl_sync(0xffffffffu, e, who); base < stop && result == BFS_EMPTY; base += 32) {
          const u32 w = base + t.lane < stop ? p.in_columns[base + t.lane] : BFS_EMPTY;
          const u32 hits = __ballot_sync(0xffffffffu, bfs_has(old, w));
          if (hits != 0) result = __shfl_sync(0xffffffffu, w, __ffs(hits) - 1);
        }
        if (t.lane == who) from = result;
      }
      const u32 found = __ballot_sync(0xffffffffu, from != BFS_EMPTY);
      if (t.lane == at + k - first * (BFS_UP_VERTICES / 32)) words = found;
      if (from != BFS_EMPTY) ew::store(&p.best[(at + k) * 32 + t.lane], (u64)(level + 1) << 32 | from, ew::relaxed, ew::gpu);
      if (t.lane == 0) now[at + k] = (k == 0 ? four.x : k == 1 ? four.y : k == 2 ? four.z : four.w) | found;
    }
  }
  // The first vertices are queued too: if the queue holds all of them, the search goes on from it.
  const u32 end = bfs_sums(t, __popc(words)), total = __shfl_sync(0xffffffffu, end, 31);
  if (total == 0) return;
  u32 to = 0;
  if (t.lane == 0) to = ew::fetch_add(&p.state->found[(level + 1) % 2], total, ew::relaxed, ew::gpu);
  to = __shfl_sync(0xffffffffu, to, 0) + end - __popc(words);
  u32* out = p.queue + (level % 2 ? 0 : p.vertices);
  for (; words != 0 && to < BFS_TAIL; words &= words - 1, to++) {
    out[to] = first * BFS_UP_VERTICES + t.lane * 32 + __ffs(words) - 1;
  }
}
