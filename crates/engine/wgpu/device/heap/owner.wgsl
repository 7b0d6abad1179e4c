// Owners of blocks: a tag for each block, an account for each owner; and guards, which show writes past an end.
//
// A tag says that its block is in use, and who owns it; the owner stays in it when the block is freed. The invocation that
// changes it to "not in use" frees the block, so no block is freed twice.
//
// A guard is the last 8 bytes of a block: a word that follows from the address and the second one, and the number of bytes
// between the requested size and the guard. The first of those bytes hold a pattern, so that one byte too many shows.

fn heap_owned() -> bool { return (round.heap_mode & HEAP_OWNED) != 0u; }
fn heap_checked() -> bool { return (round.heap_mode & HEAP_CHECKED) != 0u; }
fn heap_guard_bytes() -> u32 { return select(0u, HEAP_GUARD_BYTES, heap_checked()); }

fn heap_tag_at(page: u32, index: u32) -> u32 { return round.at_tags + page * (HEAP_PAGE_TAGS / 2u) + index / 2u; }
fn heap_tag(page: u32, index: u32) -> u32 { return (word(heap_tag_at(page, index)) >> (index % 2u * 16u)) & 0xffffu; }
// Says that a block is not in use; its tag before.
fn heap_untag(page: u32, index: u32) -> u32 {
  let shift = index % 2u * 16u;
  return (atomicAnd(&state[heap_tag_at(page, index)], ~(HEAP_TAG_USED << shift)) >> shift) & 0xffffu;
}
fn heap_set_tag(page: u32, index: u32, owner: u32) {
  let shift = index % 2u * 16u;
  let at = heap_tag_at(page, index);
  atomicAnd(&state[at], ~((HEAP_TAG_USED - 1u) << shift));
  atomicOr(&state[at], (HEAP_TAG_USED | owner) << shift);
}

fn heap_account(owner: u32) -> u32 { return round.at_owners + owner * words_of_DevWgpuOwner; }
// Adds to the bytes of an owner, unless its quota refuses.
fn heap_charge(owner: u32, bytes: u32) -> bool {
  if !heap_owned() { return true; }
  if owner >= round.heap_owners { return false; }
  let at = heap_account(owner);
  let quota = word(at + DevWgpuOwner_quota);
  if quota == 0u {
    atomicAdd(&state[at + DevWgpuOwner_in_use], bytes);
    return true;
  }
  // A failed exchange means that another request was counted, which may be the last one that fits.
  var now = word(at + DevWgpuOwner_in_use);
  while now <= quota && bytes <= quota - now {
    let seen = atomicCompareExchangeWeak(&state[at + DevWgpuOwner_in_use], now, now + bytes);
    if seen.exchanged { return true; }
    now = seen.old_value;
  }
  return false;
}
fn heap_discharge(owner: u32, bytes: u32) {
  if heap_owned() && owner < round.heap_owners { atomicSub(&state[heap_account(owner) + DevWgpuOwner_in_use], bytes); }
}

fn heap_guard_word(block: u32, slack: u32) -> u32 { return HEAP_GUARD_MAGIC ^ slack ^ (block >> 4u); }
// Writes the guard of a block of `takes` bytes for `bytes` that were asked for.
fn heap_set_guard(block: u32, bytes: u32, takes: u32) {
  if !heap_checked() { return; }
  let end = takes - HEAP_GUARD_BYTES;
  let slack = end - bytes;
  for (var i = 0u; i < min(slack, HEAP_FENCE_BYTES); i += 1u) { ew_store_byte(block + bytes + i, HEAP_FENCE); }
  atomicStore(&memory[(block + end) / 4u], heap_guard_word(block, slack));
  atomicStore(&memory[(block + end) / 4u + 1u], slack);
}
// Whether no write has gone beyond the end of a block.
fn heap_is_intact(block: u32, takes: u32) -> bool {
  let end = takes - HEAP_GUARD_BYTES;
  let slack = atomicLoad(&memory[(block + end) / 4u + 1u]);
  if slack > end || atomicLoad(&memory[(block + end) / 4u]) != heap_guard_word(block, slack) { return false; }
  var intact = true;
  for (var i = 0u; i < min(slack, HEAP_FENCE_BYTES); i += 1u) {
    intact = intact && ew_load_byte(block + end - slack + i) == HEAP_FENCE;
  }
  return intact;
}

// Records an error for the host: the first ones are kept, all are counted.
fn heap_report(kind: u32, owner: u32, by: u32, block: u32, bytes: u32) {
  let number = atomicAdd(&state[round.at_heap + DevWgpuHeap_errors], 1u);
  if number >= HEAP_ERRORS { return; }
  let at = round.at_errors + number * words_of_DevHeapError;
  set_word(at + DevHeapError_address, block);
  set_word(at + DevHeapError_bytes, bytes);
  set_word(at + DevHeapError_owner, owner);
  set_word(at + DevHeapError_by, by);
  set_word(at + DevHeapError_kind, kind);
}
// Counts and reports a free of an address without a block.
fn heap_wrong(place: vec4<u32>, tag: u32, block: u32, by: u32) {
  atomicAdd(&state[round.at_heap + DevWgpuHeap_wrong_frees], 1u);
  if !heap_checked() { return; }
  let owner = tag & (HEAP_TAG_USED - 1u);
  var kind = HEAP_ERROR_TWICE;
  if place.z != 0u && (tag & HEAP_TAG_USED) != 0u { kind = HEAP_ERROR_MIDDLE; }
  else if place.w == 0u || place.z != 0u || tag == 0u { kind = HEAP_ERROR_FOREIGN; }
  let there = kind != HEAP_ERROR_FOREIGN;
  heap_report(kind, select(HEAP_OWNER_NONE, owner, there), by, block, select(0u, place.w, there));
}
