// Runs of pages: blocks that are larger than a page's largest class.

// Bits of pages of one word, from `first` up to before `end`.
fn heap_page_mask(first: u32, end: u32) -> u32 {
  let count = end - first;
  return select((1u << count) - 1u, 0xffffffffu, count >= 32u) << (first % 32u);
}
// Marks pages as free.
fn heap_set_free(first: u32, end: u32) {
  for (var page = first; page < end; ) {
    let next = min(end, (page / 32u + 1u) * 32u);
    atomicOr(&state[round.at_free + page / 32u], heap_page_mask(page, next));
    page = next;
  }
}
// Takes all of these pages, or none. Their states decide, as for pages of blocks.
fn heap_claim(first: u32, end: u32) -> bool {
  var got = first;
  while got < end {
    let owned = select((HEAP_KIND_REST << HEAP_KIND_SHIFT) + got - first, (HEAP_KIND_RUN << HEAP_KIND_SHIFT) + end - first, got == first);
    if !heap_take_page(got, owned) { break; }
    got += 1u;
  }
  if got == end { return true; }
  // The bits come first: another invocation may take a page as soon as its state is 0, and clears its bit then.
  heap_set_free(first, got);
  for (var page = first; page < got; page += 1u) { set_word(round.at_pages + page, 0u); }
  return false;
}

// Takes a run of `n` pages; 0: there is none. Searches begin where the one before has ended.
fn heap_take_run(n: u32) -> u32 {
  let pages = round.heap_pages;
  let start = atomicAdd(&state[round.at_heap + DevWgpuHeap_run_next], n) % pages;
  var length = 0u;
  for (var i = 0u; i < pages + n; ) {
    let at = (start + i) % pages;
    // Runs do not go on at the beginning.
    if at == 0u { length = 0u; }
    let bits = word(round.at_free + at / 32u) >> (at % 32u);
    let rest = 32u - at % 32u;
    if (bits & 1u) == 0u {
      length = 0u;
      i += min(firstTrailingBit(bits), rest);
      continue;
    }
    let more = min(min(firstTrailingBit(~bits), rest), n - length);
    length += more;
    i += more;
    if length == n {
      let end = at + more;
      if heap_claim(end - n, end) { return heap_address(end - n, 0u, 0u); }
      length = 0u;
    }
  }
  return 0u;
}
