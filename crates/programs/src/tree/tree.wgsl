fn tree_node() {
  let node = ew_lo();
  let below = ew_hi();
  if below > 0u && ew_thread < 2u { ew_spawn(FN_tree_node, 0u, 2u * node + 1u + ew_thread, below - 1u); }
  var sum = vec2(0u, 0u);
  for (var thread = ew_thread; thread < 256u; thread += EW_THREADS) {
    let at = (node * 256u + thread) % (1u << 20u);
    let value = ew_load_constant(ew_pointer(DevTree_table) + at) * (node | 1u) + thread;
    let low = sum.x + value;
    sum = vec2(low, sum.y + select(0u, 1u, low < value));
  }
  // Several places, so that tasks seldom contend for one.
  let place = (node + ew_thread / 8u * 512u) % (1u << 12u);
  ew_add64(ew_pointer(DevTree_sums) + 2u * place, sum);
}
