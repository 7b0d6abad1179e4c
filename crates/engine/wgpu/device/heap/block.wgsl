// The heap: memory that tasks allocate and free, in pages of one size of blocks, or in runs of pages.
//
// Rules:
// 1. Within a dispatch, blocks and pages are only taken. What a task frees is marked, and settle.wgsl gives it back before
//    the next dispatch. So a page keeps its class for a dispatch, a bit that was set stays set, and memory that two
//    workgroups use one after the other has the end of a dispatch between its uses.
// 2. A taker first lowers the count in the page's state, then sets one of the page's bits. There are never fewer clear
//    bits than takers, so one look at each word of the page finds one.
// 3. Nothing waits. A taker that loses a page to another one looks at it a few times, and then goes on.
// 4. An invocation may take back what it has freed itself.

const HEAP_PAGE_BYTES = 1u << HEAP_PAGE_SHIFT;
const HEAP_COUNT_MASK = (1u << HEAP_KIND_SHIFT) - 1u;
const HEAP_NO_PAGE = 0xffffffffu;
// How often a taker looks at a page that it has lost.
const HEAP_LOOKS = 8u;

// The page and the number of the last block that this invocation has freed, and its class plus one.
var<private> heap_kept: vec3<u32>;

fn heap_class_bytes(class_: u32) -> u32 {
  let power = class_ / 2u + 4u;
  if class_ < 2u { return 16u << class_; }
  return select(2u << power, 3u << (power - 1u), class_ % 2u == 0u);
}
// The class of up to HEAP_LARGEST_CLASS bytes.
fn heap_class(bytes: u32) -> u32 {
  if bytes <= 32u { return select(1u, 0u, bytes <= 16u); }
  let power = 32u - countLeadingZeros(bytes - 1u);
  return 2u * (power - 5u) + select(0u, 1u, bytes > 3u << (power - 2u));
}
// The bytes that a request takes: those of a class, or whole pages.
fn heap_takes(bytes: u32) -> u32 {
  if bytes > HEAP_LARGEST_CLASS { return (bytes + HEAP_PAGE_BYTES - 1u) & ~(HEAP_PAGE_BYTES - 1u); }
  return heap_class_bytes(heap_class(bytes));
}

// The block at an address: its page, its number there, the bytes before the address, and its bytes; 0: there is none.
fn heap_place(at: u32) -> vec4<u32> {
  let offset = at - round.heap_base;
  var page = offset >> HEAP_PAGE_SHIFT;
  var within = offset & (HEAP_PAGE_BYTES - 1u);
  if page >= round.heap_pages { return vec4(page, 0u, 0u, 0u); }
  var now = word(round.at_pages + page);
  if now >> HEAP_KIND_SHIFT == HEAP_KIND_REST {
    page -= now & HEAP_COUNT_MASK;
    within += (now & HEAP_COUNT_MASK) << HEAP_PAGE_SHIFT;
    now = word(round.at_pages + page);
  }
  let kind = now >> HEAP_KIND_SHIFT;
  if kind == HEAP_KIND_RUN { return vec4(page, 0u, within, (now & HEAP_COUNT_MASK) << HEAP_PAGE_SHIFT); }
  if kind == 0u || kind > HEAP_CLASSES { return vec4(page, 0u, 0u, 0u); }
  let bytes = heap_class_bytes(kind - 1u);
  let index = within / bytes;
  // The end of a page may be too short for a block.
  return vec4(page, index, within % bytes, select(0u, bytes, index < HEAP_PAGE_BYTES / bytes));
}
fn heap_address(page: u32, index: u32, bytes: u32) -> u32 {
  return round.heap_base + (page << HEAP_PAGE_SHIFT) + index * bytes;
}
fn heap_bits_at(table: u32, page: u32, index: u32) -> u32 { return table + page * HEAP_PAGE_WORDS + index / 32u; }

// Lowers the count of a page of this class; whether it had a block left.
fn heap_reserve(page: u32, class_: u32) -> bool {
  let at = round.at_pages + page;
  let now = word(at);
  if now >> HEAP_KIND_SHIFT != class_ + 1u || (now & HEAP_COUNT_MASK) <= HEAP_NO_BLOCKS { return false; }
  if (atomicSub(&state[at], 1u) & HEAP_COUNT_MASK) > HEAP_NO_BLOCKS { return true; }
  atomicAdd(&state[at], 1u);
  return false;
}

// A block of a page whose count was lowered for it.
fn heap_block_of(page: u32, class_: u32) -> u32 {
  let bytes = heap_class_bytes(class_);
  let blocks = HEAP_PAGE_BYTES / bytes;
  let words = (blocks + 31u) / 32u;
  // Invocations begin at different words, and at different bits.
  let seed = (ew_thread + 37u * ew_workgroup) % EW_THREADS;
  let first = seed * words / EW_THREADS;
  for (var i = 0u; i < words; i += 1u) {
    let number = (first + i) % words;
    let at = heap_bits_at(round.at_used, page, 32u * number);
    let last = blocks - 32u * number;
    let valid = select((1u << (last % 32u)) - 1u, 0xffffffffu, last >= 32u);
    var left = ~word(at) & valid;
    while left != 0u {
      let above = left & (0xffffffffu << (seed % 32u));
      let bit = firstTrailingBit(select(left, above, above != 0u));
      let before = atomicOr(&state[at], 1u << bit);
      if (before & (1u << bit)) == 0u { return heap_address(page, 32u * number + bit, bytes); }
      left = ~before & valid;
    }
  }
  raise(FAULT_INTERNAL, 0u, vec2(5u, page));
  return 0u;
}

// Takes a block of a class; 0: there is none.
fn heap_take(class_: u32) -> u32 {
  let none = HEAP_NO_PAGE;
  if heap_kept.z == class_ + 1u {
    heap_kept.z = 0u;
    let at = heap_bits_at(round.at_freed, heap_kept.x, heap_kept.y);
    atomicAnd(&state[at], ~(1u << (heap_kept.y % 32u)));
    return heap_address(heap_kept.x, heap_kept.y, heap_class_bytes(class_));
  }
  let words = round.heap_pages / 32u;
  let party = ew_workgroup % round.heap_parties;
  let own_slot = round.at_active + party * HEAP_CLASSES + class_;
  let current = word(own_slot) - 1u;
  var page = none;
  if current != none && heap_reserve(current, class_) { page = current; }
  // Pages with room.
  for (var i = 0u; i < words && page == none; i += 1u) {
    let number = (i + party) % words;
    let at = round.at_roomy + class_ * round.heap_words + number;
    for (var bits = word(at); bits != 0u && page == none; bits &= bits - 1u) {
      let bit = firstTrailingBit(bits);
      if heap_reserve(32u * number + bit, class_) { page = 32u * number + bit; } else { atomicAnd(&state[at], ~(1u << bit)); }
    }
  }
  // Free pages. One that another invocation was faster to take may be of this class now.
  for (var i = 0u; i < words && page == none; i += 1u) {
    let at = round.at_free + i;
    var bits = word(at);
    while bits != 0u && page == none {
      let bit = firstTrailingBit(bits);
      let before = atomicAnd(&state[at], ~(1u << bit));
      let found = 32u * i + bit;
      if (before & (1u << bit)) != 0u {
        let blocks = HEAP_PAGE_BYTES / heap_class_bytes(class_);
        set_word(round.at_pages + found, ((class_ + 1u) << HEAP_KIND_SHIFT) + HEAP_NO_BLOCKS + blocks - 1u);
        page = found;
      }
      for (var look = 0u; look < HEAP_LOOKS && page == none; look += 1u) {
        if heap_reserve(found, class_) { page = found; }
      }
      bits = before & ~(1u << bit);
    }
  }
  // The pages of others, which are not among those with room yet.
  for (var i = 0u; i < round.heap_parties && page == none; i += 1u) {
    let other = word(round.at_active + i * HEAP_CLASSES + class_) - 1u;
    if other != none && heap_reserve(other, class_) { page = other; }
  }
  if page == none { return 0u; }
  if page != current { set_word(own_slot, page + 1u); }
  return heap_block_of(page, class_);
}
