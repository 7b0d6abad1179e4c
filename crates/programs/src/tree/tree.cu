__device__ void tree_node(ew::Block& t, const DevTree& p) {
  u32 node = t.lo(), below = t.hi();
  if (below > 0 && t.thread < 2) t.spawn(FN_tree_node, 0, t.pack(2 * node + 1 + t.thread, below - 1));
  u32 at = (node * 256 + t.thread) % (1 << 20);
  u32 value = p.table[at] * (node | 1) + t.thread;
  // A warp's sum may need 37 bits: its halves are added apart.
  u32 low = __reduce_add_sync(0xffffffffu, value & 0xffff);
  u32 high = __reduce_add_sync(0xffffffffu, value >> 16);
  if (t.thread % 32 == 0) {
    u32 place = (node + t.thread / 32 * 512) % (1 << 12);
    ew::add(&p.sums[place], ((u64)high << 16) + low, ew::relaxed, ew::gpu);
  }
}
