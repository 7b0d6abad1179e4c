// The pattern of a place: each byte of its block is one of a word that only this place has.
fn heap_probe_mix(value: u32) -> u32 {
  var v = (value ^ (value >> 16u)) * 0x7feb352du;
  v = (v ^ (v >> 15u)) * 0x846ca68bu;
  return v ^ (v >> 16u);
}
// Writes the pattern into bytes begin..end of a block, as the `me`-th of `width`: words, and at both ends bytes.
fn heap_probe_write(block: u32, place: u32, begin: u32, end: u32, me: u32, width: u32) {
  let pattern = heap_probe_mix(place + 1u);
  let first = (begin + 3u) / 4u;
  for (var i = first + me; i < end / 4u; i += width) { ew_store(block + i, pattern); }
  if me != 0u { return; }
  for (var i = begin; i < end; i += 1u) {
    if i >= first * 4u && i < end / 4u * 4u {
      i = end / 4u * 4u - 1u;
      continue;
    }
    ew_store_byte(4u * block + i, (pattern >> (i % 4u * 8u)) & 0xffu);
  }
}
// How many words and bytes of the first `end` bytes differ from the pattern.
fn heap_probe_wrong(block: u32, place: u32, end: u32, me: u32, width: u32) -> u32 {
  let pattern = heap_probe_mix(place + 1u);
  var wrong = 0u;
  for (var i = me; i < end / 4u; i += width) { wrong += select(0u, 1u, ew_load(block + i) != pattern); }
  if me != 0u { return wrong; }
  for (var i = end & ~3u; i < end; i += 1u) {
    wrong += select(0u, 1u, ew_load_byte(4u * block + i) != ((pattern >> (i % 4u * 8u)) & 0xffu));
  }
  return wrong;
}
fn heap_probe_size(value: u32) -> u32 {
  let low = ew_param(DevHeapProbe_low);
  return low + heap_probe_mix(value) % (ew_param(DevHeapProbe_high) - low + 1u);
}
// The block of a place, as an index of words, and its requested size.
fn heap_probe_block_at(place: u32) -> u32 { return ew_pointer(DevHeapProbe_blocks) + 2u * place; }
fn heap_probe_size_at(place: u32) -> u32 { return ew_pointer(DevHeapProbe_sizes) + place; }
fn heap_probe_get(place: u32) -> u32 { return ew_load(heap_probe_block_at(place)) >> 2u; }
fn heap_probe_set(place: u32, block: u32, bytes: u32) {
  ew_store(heap_probe_block_at(place), block << 2u);
  ew_store(heap_probe_size_at(place), bytes);
}

// All functions that an invocation runs for itself. Drivers copy a function wherever it is called, and those of the heap are
// long: here, each is called once.
fn heap_probe_lanes(function: u32) {
  let churns = function == FN_heap_probe_churn;
  let steps = select(1u, ew_hi(), churns);
  for (var i = 0u; i < steps; i += 1u) {
    var place = ew_lo();
    var bytes = ew_hi();
    var owner = ew_owner();
    // The block that gets another size, 0 for a new one; or the block that is freed, and how often.
    var resizes = false;
    var frees = 0u;
    // Whether bytes that are there are looked at, and whether all of a block's bytes are written.
    var looks = false;
    var writes = true;
    var random = 0u;
    if churns {
      random = heap_probe_mix(ew_lo() * 2654435761u + i * 97u + 1u);
      place = ew_lo() * 4u + random % 4u;
      bytes = heap_probe_size(random);
    }
    var block = heap_probe_get(place);
    let had = select(0u, ew_load(heap_probe_size_at(place)), block != 0u);
    switch function {
      case FN_heap_probe_fill: {
        resizes = true;
        block = 0u;
        if bytes == 0u { bytes = heap_probe_size(place); }
        if ew_tag() != 0u { owner = ew_tag(); }
      }
      case FN_heap_probe_check: { looks = block != 0u; }
      case FN_heap_probe_empty: { frees = 1u; }
      case FN_heap_probe_resize: {
        resizes = true;
        looks = true;
      }
      case FN_heap_probe_churn: {
        resizes = block == 0u || (random >> 8u) % 2u == 0u;
        looks = true;
        frees = select(1u, 0u, resizes);
      }
      case FN_heap_probe_until: {
        resizes = true;
        block = 0u;
      }
      default: {
        resizes = place != 2u;
        writes = false;
        block = select(0u, ew_pointer(DevHeapProbe_blocks), place == 2u);
        frees = select(select(1u, 2u, place == 1u), 0u, place == 5u);
      }
    }
    var kept = had;
    if resizes {
      let old = block;
      block = ew_realloc_for(owner, old, bytes);
      if block == 0u {
        switch function {
          case FN_heap_probe_fill: { heap_probe_set(place, 0u, bytes); }
          case FN_heap_probe_until: { ew_spawn(FN_heap_probe_until, 0u, ew_lo(), ew_hi()); }
          case FN_heap_probe_mistake: { ew_fault(place, 0u); }
          default: { ew_report_add(0u, 1u); }
        }
        continue;
      }
      kept = select(0u, min(had, bytes), old != 0u);
    }
    if looks {
      let wrong = heap_probe_wrong(block, place, kept, 0u, 1u);
      if wrong != 0u { ew_report_add(wrong, 0u); }
    }
    if resizes {
      heap_probe_set(place, block, bytes);
      if writes { heap_probe_write(block, place, kept, bytes, 0u, 1u); }
      if function == FN_heap_probe_fill { ew_report_add(1u, 0u); }
      if function == FN_heap_probe_mistake {
        if place >= 4u { ew_store_byte(4u * block + bytes, 0u); }
        if place == 3u { block += 4u; }
      }
    }
    for (var j = 0u; j < frees; j += 1u) { ew_free(block); }
    if frees > 0u && function != FN_heap_probe_mistake { ew_store(heap_probe_block_at(place), 0u); }
  }
}

// All functions that a workgroup runs.
fn heap_probe_wides(function: u32) {
  let task = ew_uniform_arg();
  if function == FN_heap_probe_release || function == FN_heap_probe_sweep {
    let releases = function == FN_heap_probe_release;
    let sum = ew_visit_heap(releases, task.z, task.x, task.y);
    if sum != 0u { ew_report_add(sum, 0u); }
    return;
  }
  // One block for all, which is filled, grown, and checked; then one for each of `width`.
  let width = select(32u, 256u, function == FN_heap_probe_block);
  let place = task.x;
  var block = 0u;
  for (var step = 0u; step < 2u; step += 1u) {
    let had = task.y * step;
    let bytes = task.y << step;
    block = ew_realloc_all(block, bytes);
    if block == 0u {
      if ew_thread == 0u { ew_report_add(0u, 1u); }
      return;
    }
    let wrong = heap_probe_wrong(block, place, had, ew_thread, EW_THREADS);
    if wrong != 0u { ew_report_add(wrong, 0u); }
    storageBarrier();
    workgroupBarrier();
    heap_probe_write(block, place, 0u, bytes, ew_thread, EW_THREADS);
  }
  let odd = place % 2u == 1u;
  if ew_thread == 0u { heap_probe_set(place, select(block, 0u, odd), 2u * task.y); }
  storageBarrier();
  workgroupBarrier();
  for (var me = ew_thread; me < width + EW_THREADS; me += EW_THREADS) {
    var own = select(0u, block, odd && ew_thread == 0u);
    if me < width {
      own = ew_alloc(me + 1u);
      if own == 0u {
        ew_report_add(0u, 1u);
        continue;
      }
      heap_probe_write(own, place + me, 0u, me + 1u, 0u, 1u);
      let wrong = heap_probe_wrong(own, place + me, me + 1u, 0u, 1u);
      if wrong != 0u { ew_report_add(wrong, 0u); }
    }
    ew_free(own);
  }
}
