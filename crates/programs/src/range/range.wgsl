fn range_halve(size: u32, leaf: u32, own: u32) {
  let first = ew_lo();
  let n = ew_hi();
  let left = min((n / 2u + size - 1u) / size * size, n);
  for (var i = 0u; i < 2u; i += 1u) {
    let begin = select(first + left, first, i == 0u);
    let count = select(n - left, left, i == 0u);
    if count != 0u { ew_spawn(select(own, leaf, count <= size), 0u, begin, count); }
  }
}

fn range_one(i: u32) {
  let at = ew_pointer(DevRange_cells) + i;
  ew_store(at, ew_load(at) + 1u);
}

fn range_add() { if ew_lo() < ew_param(DevRange_cells_len) { range_one(ew_lo()); } }
fn range_spread() { range_halve(1u, FN_range_add, FN_range_spread); }
fn range_split() { range_halve(ew_param(DevRange_grain), FN_range_grain, FN_range_split); }

fn range_fan() {
  let first = ew_lo();
  let n = ew_hi();
  let grain = ew_param(DevRange_grain);
  let grains = (n + grain - 1u) / grain;
  let each = (grains + 63u) / 64u * grain;
  for (var i = ew_thread; i < 64u; i += EW_THREADS) {
    // Without an overflow of i * each: beyond n nothing is left to spawn.
    if i > 0u && i > (n - 1u) / each { continue; }
    let begin = i * each;
    let count = min(each, n - begin);
    ew_spawn(select(FN_range_fan, FN_range_grain, count <= grain), 0u, first + begin, count);
  }
}

fn range_grain() {
  let first = ew_lo();
  let n = ew_hi();
  let cells = ew_param(DevRange_cells_len);
  if first > cells || n > cells - first {
    if ew_thread == 0u { ew_fault(first, 0u); }
    return;
  }
  for (var i = ew_thread; i < n; i += EW_THREADS) { range_one(first + i); }
}
