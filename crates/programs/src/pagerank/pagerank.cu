constexpr u32 PAGERANK_RANGE = 128;
constexpr double PAGERANK_DAMPING = 0.85;

__device__ void pagerank_step(ew::Lane& t, const DevPageRank& p) {
  u32 iteration = t.lo();
  if (iteration == p.iterations) return;
  t.fork(FN_pagerank_step, 0, iteration + 1);
  t.spawn_child(FN_pagerank_split, iteration, t.pack(0, p.vertices));
}

__device__ void pagerank_split(ew::Lane& t, const DevPageRank&) {
  u32 first = t.lo(), count = t.hi();
  if (count <= PAGERANK_RANGE) return t.spawn(FN_pagerank_gather, t.tag(), t.arg());
  u32 half = (count / 2 + PAGERANK_RANGE - 1) / PAGERANK_RANGE * PAGERANK_RANGE;
  t.spawn(FN_pagerank_split, t.tag(), t.pack(first, half));
  t.spawn(FN_pagerank_split, t.tag(), t.pack(first + half, count - half));
}

__device__ void pagerank_gather(ew::Warp& t, const DevPageRank& p) {
  u32 n = p.vertices, iteration = t.tag();
  // Values that another iteration wrote are read past the first-level cache.
  const double* from = p.ranks + (u64)(iteration % 2) * n;
  double* to = p.ranks + (u64)(1 - iteration % 2) * n;
  double base = (1 - PAGERANK_DAMPING) / n + PAGERANK_DAMPING * __ldcg(&p.dangling[iteration]) / n;
  double dangling = 0;
  for (u32 v = t.lo() + t.lane; v < t.lo() + t.hi(); v += 32) {
    double sum = 0;
    for (u32 e = p.rows[v]; e < p.rows[v + 1]; e++) {
      u32 u = p.columns[e];
      sum += __ldcg(&from[u]) / p.degrees[u];
    }
    double rank = base + PAGERANK_DAMPING * sum;
    to[v] = rank;
    if (p.degrees[v] == 0) dangling += rank;
  }
  if (dangling != 0) ew::add(&p.dangling[iteration + 1], dangling, ew::relaxed, ew::gpu);
}
