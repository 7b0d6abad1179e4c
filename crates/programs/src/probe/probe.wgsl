fn probe_count(place: u32) {
  if place < ew_param(DevProbe_places) { ew_add(ew_pointer(DevProbe_marks) + place, 1u); }
}

fn probe_divide(own: u32) {
  let first = ew_lo();
  let n = ew_hi();
  let tag = ew_tag();
  let size = select(select(256u, 32u, tag == 1u), 1u, tag == 0u);
  let leaf = select(select(FN_probe_mark_block, FN_probe_mark_warp, tag == 1u), FN_probe_mark, tag == 0u);
  let left = min((n / 2u + size - 1u) / size * size, n);
  for (var i = 0u; i < 2u; i += 1u) {
    let begin = select(first + left, first, i == 0u);
    let count = select(n - left, left, i == 0u);
    if count == 0u { continue; }
    let ends = count <= size;
    ew_spawn(select(own, leaf, ends), tag, begin, select(count, 0u, ends));
  }
}

fn probe_split() { probe_divide(FN_probe_split); }
fn probe_spread() { probe_divide(FN_probe_spread); }
fn probe_cautious() { probe_divide(FN_probe_cautious); }
fn probe_mark() { probe_count(ew_lo()); }
fn probe_mark_warp() { if ew_thread < 32u { probe_count(ew_lo() + ew_thread); } }
fn probe_mark_block() {
  for (var i = ew_thread; i < 256u; i += EW_THREADS) { probe_count(ew_lo() + i); }
}

fn probe_chain() {
  probe_count(ew_lo());
  if ew_hi() > 0u { ew_spawn(FN_probe_chain, 0u, ew_lo() + 1u, ew_hi() - 1u); }
}

fn probe_join() {
  let first = ew_lo();
  let n = ew_hi();
  ew_fork(FN_probe_check, 0u, first + n, 0u);
  ew_spawn_child(FN_probe_split, 0u, first, n / 2u);
  ew_spawn_child(FN_probe_split, 0u, first + n / 2u, n - n / 2u);
}

fn probe_join_block() {
  ew_fork(FN_probe_check, 0u, ew_lo() + 128u, 0u);
  for (var i = ew_thread; i < 128u; i += EW_THREADS) { ew_spawn_child(FN_probe_mark, 0u, ew_lo() + i, 0u); }
}

fn probe_check() {
  var sum = 0u;
  let marks = ew_pointer(DevProbe_marks);
  for (var i = 0u; i < ew_lo(); i += 1u) { sum += ew_load(marks + i); }
  ew_report_slot(0u, sum);
}

fn probe_log() {
  let place = ew_add(ew_pointer(DevProbe_logged), 1u);
  if place < ew_param(DevProbe_places) { ew_store(ew_pointer(DevProbe_log) + place, ew_lo()); }
}

fn probe_endless() {
  ew_spawn(FN_probe_endless, 0u, 0u, 0u);
  ew_spawn(FN_probe_endless, 0u, 0u, 0u);
}

fn probe_hang() {
  loop {
    if ew_load(ew_pointer(DevProbe_marks)) != 0u { break; }
  }
}

fn probe_greedy() {
  ew_spawn(FN_probe_mark, 0u, 0u, 0u);
  ew_spawn(FN_probe_mark, 0u, 0u, 0u);
}

fn probe_fault() { ew_fault(ew_lo(), ew_hi()); }
