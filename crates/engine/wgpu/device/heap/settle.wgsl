// The heap between two dispatches: what the tasks of the one have freed can be taken in the other. A dispatch of its own, so
// that all of it has ended before any task runs. Each workgroup has 64 pages, whose state only it changes, except that
// a run's pages are those of the workgroup with the run's first page.

const SETTLE_PAGES = EW_THREADS;
const SETTLE_BITS = 2u * HEAP_CLASSES;

var<workgroup> settle_bits: array<atomic<u32>, SETTLE_BITS>;
var<workgroup> settle_count: atomic<u32>;
// Whether the heap was used, and the pages with freed blocks.
var<workgroup> settle_plan: vec3<u32>;
// The state of a page; then whether all of its blocks are free.
var<workgroup> settle_now: u32;
var<workgroup> settle_empty: u32;

// The workgroup: a page with freed blocks.
fn settle_page(page: u32) {
  let at = round.at_pages + page;
  if ew_thread == 0u { settle_now = word(at); }
  let now = workgroupUniformLoad(&settle_now);
  let kind = now >> HEAP_KIND_SHIFT;
  let used = round.at_used + page * HEAP_PAGE_WORDS;
  let freed = round.at_freed + page * HEAP_PAGE_WORDS;
  if kind == HEAP_KIND_RUN {
    let pages = now & HEAP_COUNT_MASK;
    if ew_thread == 0u { settle_empty = atomicExchange(&state[freed], 0u); }
    if workgroupUniformLoad(&settle_empty) == 0u { return; }
    for (var i = ew_thread; i < pages; i += EW_THREADS) { set_word(at + i, 0u); }
    storageBarrier();
    workgroupBarrier();
    if ew_thread == 0u {
      if heap_owned() { set_word(heap_tag_at(page, 0u), 0u); }
      heap_set_free(page, page + pages);
    }
    return;
  }
  if kind == 0u || kind > HEAP_CLASSES { return; }
  var count = 0u;
  for (var i = ew_thread; i < HEAP_PAGE_WORDS; i += EW_THREADS) {
    if word(freed + i) == 0u { continue; }
    let bits = atomicExchange(&state[freed + i], 0u);
    atomicAnd(&state[used + i], ~bits);
    count += countOneBits(bits);
  }
  if count > 0u { atomicAdd(&settle_count, count); }
  workgroupBarrier();
  if ew_thread == 0u {
    let sum = now + atomicExchange(&settle_count, 0u);
    let blocks = HEAP_PAGE_BYTES / heap_class_bytes(kind - 1u);
    settle_empty = select(0u, 1u, (sum & HEAP_COUNT_MASK) == HEAP_NO_BLOCKS + blocks);
    set_word(at, select(sum, 0u, settle_empty != 0u));
  }
  if workgroupUniformLoad(&settle_empty) == 0u { return; }
  if heap_owned() {
    for (var i = ew_thread; i < HEAP_PAGE_TAGS / 2u; i += EW_THREADS) {
      set_word(round.at_tags + page * (HEAP_PAGE_TAGS / 2u) + i, 0u);
    }
  }
  if ew_thread == 0u { heap_set_free(page, page + 1u); }
}

@compute @workgroup_size(WGPU_THREADS)
fn settle_heap(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  ew_thread = thread;
  let first = workgroup.x * SETTLE_PAGES;
  let dirty = round.at_dirty + first / 32u;
  if thread == 0u {
    let used = word(round.at_heap + DevWgpuHeap_touched) + 1u == round.number;
    settle_plan = vec3(select(0u, 1u, used), word(dirty), word(dirty + 1u));
    atomicStore(&settle_count, 0u);
  }
  for (var i = thread; i < SETTLE_BITS; i += EW_THREADS) { atomicStore(&settle_bits[i], 0u); }
  let plan = workgroupUniformLoad(&settle_plan);
  if plan.x == 0u { return; }
  for (var half = 0u; half < 2u; half += 1u) {
    for (var left = select(plan.y, plan.z, half != 0u); left != 0u; left &= left - 1u) {
      settle_page(first + 32u * half + firstTrailingBit(left));
      workgroupBarrier();
    }
  }
  if thread < 2u { set_word(dirty + thread, 0u); }
  storageBarrier();
  workgroupBarrier();
  // Pages with room, by class.
  let now = word(round.at_pages + first + thread);
  let kind = now >> HEAP_KIND_SHIFT;
  if kind > 0u && kind <= HEAP_CLASSES && (now & HEAP_COUNT_MASK) > HEAP_NO_BLOCKS {
    atomicOr(&settle_bits[2u * (kind - 1u) + thread / 32u], 1u << (thread % 32u));
  }
  workgroupBarrier();
  for (var i = thread; i < SETTLE_BITS; i += EW_THREADS) {
    set_word(round.at_roomy + i / 2u * round.heap_words + first / 32u + i % 2u, atomicLoad(&settle_bits[i]));
  }
}
