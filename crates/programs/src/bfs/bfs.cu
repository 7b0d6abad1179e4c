constexpr u32 BFS_PATH_STEPS = 64;

__device__ void bfs_reset(ew::Warp& t, const DevBfs& p) {
  u32 part = t.lo(), parts = t.hi();
  if (parts > 1) {
    u32 left = parts / 2;
    if (t.lane < 2) t.spawn(FN_bfs_reset, 0, t.lane == 0 ? t.pack(part, left) : t.pack(part + left, parts - left));
    return;
  }
#pragma unroll 8
  for (u32 i = t.lane; i < BFS_RESET_VERTICES; i += 32) {
    u32 v = part * BFS_RESET_VERTICES + i;
    if (v < p.vertices) ew::store(&p.best[v], ~0ull, ew::relaxed, ew::gpu);
  }
  for (u32 i = t.lane; i < BFS_RESET_VERTICES / 32; i += 32) {
    u32 word = part * (BFS_RESET_VERTICES / 32) + i;
    if (word < p.words) p.bits[word] = p.bits[p.words + word] = 0;
  }
}

// The result of a walk along a path: up to two vertices to visit at a level.
struct BfsWalk {
  u32 level;
  u32 count;
  u32 to[2];
};

// One lane follows a path of vertices with two edges from v, which has this level. It does so only if it runs alone, so
// that no other lane waits for it. An offer is the length of a path that exists, so the lane may make it before the
// result of its offer to the previous vertex has arrived. Only the last vertex must be visited, because the vertices
// before it lead nowhere else. If no path starts at v, the level of the result is the given one.
EW_CALL BfsWalk bfs_walk(const DevBfs* params, u32 v, u32 level) {
  const DevBfs p = *params;  // in registers: after each exchange it would be read again
  const u32 first = p.rows[v], edges = p.rows[v + 1] - first;
  if (edges == 0 || edges > 2) return {level, 1, {v, 0}};
  const u64 offer = (u64)++level << 32 | v;
  const u32 one = p.columns[first], other = p.columns[first + edges - 1];
  const u64 before = ew::fetch_min(&p.best[one], offer, ew::relaxed, ew::gpu);
  const bool a = before >> 32 > level, b = ew::fetch_min(&p.best[other], offer, ew::relaxed, ew::gpu) >> 32 > level;
  if (a == b) return {level, (u32)a + b, {one, other}};
  u32 from = v;
  v = a ? one : other;
#pragma unroll 1
  for (u32 step = 1; step <= BFS_PATH_STEPS; step++) {
    const u32 row = p.rows[v], n = p.rows[v + 1] - row;
    if (n == 0) return {level, 0, {0, 0}};
    if (n > 2) break;
    const u32 left = p.columns[row], right = p.columns[row + n - 1];
    if (n == 2 && left != from && right != from) break;
    const u32 next = left != from ? left : right;
    if (next == from) return {level, 0, {0, 0}};
    ew::lower(&p.best[next], (u64)(level + 1) << 32 | v, ew::relaxed, ew::gpu);
    from = v;
    v = next;
    level++;
    // Stops where other lanes have reached the path before.
    if (step % 16 == 0 && ew::load(&p.best[v], ew::relaxed, ew::gpu) >> 32 < level) return {level, 0, {0, 0}};
  }
  // Another lane may have offered this level to the vertex, with a smaller parent, and have found it reached. So this
  // walk visits the vertex.
  const bool due = ew::load(&p.best[v], ew::relaxed, ew::gpu) >> 32 == level;
  return {level, due, {v, 0}};
}

__device__ void bfs_visit(ew::Lane& t, const DevBfs& p) {
  // The level is the task's and not the vertex's. If the vertex's level was lowered since, another visit is on its way,
  // and the offers of this one are refused. To wait for the vertex's level would cost more than the refusals.
  u32 v = t.lo(), level = t.hi();
  if (__popc(__activemask()) == 1) {
    const BfsWalk w = bfs_walk(&p, v, level);
    if (w.level != level) {
#pragma unroll
      for (u32 i = 0; i < 2; i++) if (i < w.count) t.spawn(FN_bfs_visit, 0, t.pack(w.to[i], w.level));
      return;
    }
  }
  u32 first = p.rows[v], end = p.rows[v + 1];
  u32 edges = end - first;
  if (edges > BFS_LANE_EDGES) {
    u32 parts = (edges + BFS_PART_EDGES - 1) / BFS_PART_EDGES;
    t.spawn(FN_bfs_hub, level, t.pack(v, (parts > 1 ? 32 - __clz(parts - 1) : 0) << 26));
    return;
  }
  // All loads are in flight before the first result is needed; then all exchanges are.
  u64 offer = (u64)(level + 1) << 32 | v;
  u32 u[BFS_LANE_EDGES];
  u64 old[BFS_LANE_EDGES];
#pragma unroll
  for (u32 i = 0; i < BFS_LANE_EDGES; i++) u[i] = i < edges ? p.columns[first + i] : 0;
#pragma unroll
  for (u32 i = 0; i < BFS_LANE_EDGES; i++) {
    old[i] = 0;
    if (i < edges) old[i] = ew::fetch_min(&p.best[u[i]], offer, ew::relaxed, ew::gpu);
  }
#pragma unroll
  for (u32 i = 0; i < BFS_LANE_EDGES; i++) {
    if (old[i] >> 32 > level + 1) t.spawn(FN_bfs_visit, 0, t.pack(u[i], level + 1));
  }
}

__device__ void bfs_hub(ew::Warp& t, const DevBfs& p) {
  u32 v = t.lo(), part = t.hi() & ((1 << 26) - 1), parts = t.hi() >> 26;
  u64 mine = ew::load(&p.best[v], ew::relaxed, ew::gpu);
  u32 level = __shfl_sync(0xffffffffu, (u32)(mine >> 32), 0);
  u64 begin = p.rows[v] + (u64)part * BFS_PART_EDGES;
  u32 end = p.rows[v + 1];
  if ((level & 0xff) != t.tag() || begin >= end) return;
  if (parts > 0) {
    u32 half = part + (t.lane << (parts - 1));
    if (t.lane < 2) t.spawn(FN_bfs_hub, level, t.pack(v, (parts - 1) << 26 | half));
    return;
  }
  u64 offer = (u64)(level + 1) << 32 | v;
#pragma unroll
  for (u32 i = 0; i < BFS_PART_EDGES / 32; i++) {
    u32 at = (u32)begin + i * 32 + t.lane;
    if (at >= end) continue;
    u32 u = p.columns[at];
    // Hubs lead mostly to vertices that were reached before: a load is cheaper than an exchange.
    if (ew::load(&p.best[u], ew::relaxed, ew::gpu) <= offer) continue;
    u64 old = ew::fetch_min(&p.best[u], offer, ew::relaxed, ew::gpu);
    if (old >> 32 > level + 1) t.spawn(FN_bfs_visit, 0, t.pack(u, level + 1));
  }
}
