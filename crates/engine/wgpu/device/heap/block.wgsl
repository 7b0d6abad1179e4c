// The heap: memory that tasks allocate and free, in pages of one size of blocks, or in runs of pages.
//
// Rules:
// 1. Within a dispatch, blocks and pages are only taken. What a task frees is marked, and settle.wgsl gives it back before
//    the next dispatch. So a page keeps its class for a dispatch, a bit that was set stays set, and memory that two
//    workgroups use one after the other has the end of a dispatch between its uses.
// 2. A taker first lowers the count in the page's state, then sets one of the page's bits. There are never fewer clear
//    bits than takers, so one look at each word of the page finds one.
// 3. The state of a page decides whose it is: the exchange of 0, which is "free", for a class takes the page and its first
//    block in one. The bits of free pages only say where to look.
// 4. A party of workgroups fills one page of a class before it takes another. Its slot names that page; an invocation that
//    has found it full exchanges the name for that of a free page, and takes blocks of whatever the slot names then. So
//    thousands of invocations that need a page at once take one. Each of them may do all of it by itself: nothing waits,
//    and an exchange fails only if another invocation has gone on, or for no reason, after which it is tried again, a few
//    times.
// 5. An invocation may take back what it has freed itself.

const HEAP_PAGE_BYTES = 1u << HEAP_PAGE_SHIFT;
const HEAP_COUNT_MASK = (1u << HEAP_KIND_SHIFT) - 1u;
const HEAP_NO_PAGE = 0xffffffffu;
// How often an exchange is tried that fails for no reason, as drivers allow it to.
const HEAP_TRIES = 4u;

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

// Takes a free page: its state goes from 0 to this one. Whether it was free.
fn heap_take_page(page: u32, owned: u32) -> bool {
  for (var i = 0u; i < HEAP_TRIES; i += 1u) {
    let seen = atomicCompareExchangeWeak(&state[round.at_pages + page], 0u, owned);
    if seen.exchanged {
      atomicAnd(&state[round.at_free + page / 32u], ~(1u << (page % 32u)));
      return true;
    }
    if seen.old_value != 0u { break; }
  }
  return false;
}
// Lowers the count of a page of this class, or of a free one, which is of this class then; whether it had a block left.
fn heap_reserve(page: u32, class_: u32) -> bool {
  let at = round.at_pages + page;
  let kind = (class_ + 1u) << HEAP_KIND_SHIFT;
  if word(at) == 0u && heap_take_page(page, kind + HEAP_NO_BLOCKS + HEAP_PAGE_BYTES / heap_class_bytes(class_) - 1u) { return true; }
  let now = word(at);
  if now - (now & HEAP_COUNT_MASK) != kind || (now & HEAP_COUNT_MASK) <= HEAP_NO_BLOCKS { return false; }
  if (atomicSub(&state[at], 1u) & HEAP_COUNT_MASK) > HEAP_NO_BLOCKS { return true; }
  atomicAdd(&state[at], 1u);
  return false;
}
// A free page, from one word of their bits on; HEAP_NO_PAGE: there is none.
fn heap_free_page(first: u32) -> u32 {
  let words = round.heap_pages / 32u;
  for (var i = 0u; i < words; i += 1u) {
    let number = (first + i) % words;
    for (var bits = word(round.at_free + number); bits != 0u; bits &= bits - 1u) {
      let page = 32u * number + firstTrailingBit(bits);
      // The bit of a page that was just taken may still be set.
      if word(round.at_pages + page) == 0u { return page; }
    }
  }
  return HEAP_NO_PAGE;
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
  if heap_kept.z == class_ + 1u {
    heap_kept.z = 0u;
    let at = heap_bits_at(round.at_freed, heap_kept.x, heap_kept.y);
    atomicAnd(&state[at], ~(1u << (heap_kept.y % 32u)));
    return heap_address(heap_kept.x, heap_kept.y, heap_class_bytes(class_));
  }
  let words = round.heap_pages / 32u;
  let party = ew_workgroup % round.heap_parties;
  let slot = round.at_active + party * HEAP_CLASSES + class_;
  // What the slot names, plus one, and where a block was found: the page of the party; pages with room; free pages; and at
  // last the pages of other parties, which are not among those with room yet. The loop has one place that takes a block.
  var named = word(slot);
  var page = named - 1u;
  var step = 0u;
  var found = false;
  var number = 0u;
  var bits = 0u;
  loop {
    if page != HEAP_NO_PAGE {
      found = heap_reserve(page, class_);
      if found { break; }
    }
    page = HEAP_NO_PAGE;
    if step == 0u {
      // Pages with room, a bit each.
      let at = round.at_roomy + class_ * round.heap_words;
      if bits != 0u {
        // The last one has none.
        let bit = bits & (~bits + 1u);
        atomicAnd(&state[at + (number - 1u + party) % words], ~bit);
        bits ^= bit;
      }
      while bits == 0u && number < words {
        bits = word(at + (number + party) % words);
        number += 1u;
      }
      if bits != 0u {
        page = 32u * ((number - 1u + party) % words) + firstTrailingBit(bits);
      } else {
        step = 1u;
        number = 0u;
      }
    } else if step == 1u {
      // Each round, a page is taken, or an exchange fails for no reason.
      let free = heap_free_page(party * words / round.heap_parties);
      if free != HEAP_NO_PAGE && number < HEAP_TRIES * round.heap_pages {
        let seen = atomicCompareExchangeWeak(&state[slot], named, free + 1u);
        named = select(seen.old_value, free + 1u, seen.exchanged);
        page = named - 1u;
        number += 1u;
      } else {
        step = 2u;
        number = 0u;
      }
    } else {
      if number == round.heap_parties { break; }
      page = word(round.at_active + number * HEAP_CLASSES + class_) - 1u;
      number += 1u;
    }
  }
  if !found { return 0u; }
  // A full page makes room in the slot for this one.
  if step == 0u && page + 1u != named { let seen = atomicCompareExchangeWeak(&state[slot], named, page + 1u); }
  return heap_block_of(page, class_);
}
