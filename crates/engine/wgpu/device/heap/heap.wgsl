// What tasks do with the heap. Addresses are indices of words in the window, as elsewhere; 0: there is no block.

var<workgroup> heap_shared: vec3<u32>;

// Says that this dispatch has used the heap.
fn heap_touch() {
  let at = round.at_heap + DevWgpuHeap_touched;
  if word(at) != round.number { set_word(at, round.number); }
}

// The block of `bytes` bytes for an owner, in bytes; 0: it is refused.
fn heap_alloc(bytes: u32, owner: u32) -> u32 {
  if round.heap_pages == 0u { return 0u; }
  heap_touch();
  let sane = bytes < round.heap_pages << HEAP_PAGE_SHIFT;
  let whole = select(0u, bytes + heap_guard_bytes(), sane);
  let takes = heap_takes(whole);
  let charged = sane && heap_charge(owner, takes);
  var block = 0u;
  if charged {
    if takes > HEAP_LARGEST_CLASS {
      if takes >> HEAP_PAGE_SHIFT <= round.heap_pages { block = heap_take_run(takes >> HEAP_PAGE_SHIFT); }
    } else {
      block = heap_take(heap_class(whole));
    }
  }
  if block == 0u {
    if charged { heap_discharge(owner, takes); }
    atomicAdd(&state[round.at_heap + DevWgpuHeap_refused], 1u);
    if heap_owned() && owner < round.heap_owners { atomicAdd(&state[heap_account(owner) + DevWgpuOwner_refused], 1u); }
    // What was freed is there in the next dispatch.
    set_word(DevWgpuHeader_ending + (round.number & 3u), 1u);
    return 0u;
  }
  atomicAdd(&state[round.at_heap + DevWgpuHeap_in_use], takes / 16u);
  heap_set_guard(block, bytes, takes);
  if heap_owned() {
    let offset = block - round.heap_base;
    let index = select((offset & (HEAP_PAGE_BYTES - 1u)) / takes, 0u, takes > HEAP_LARGEST_CLASS);
    heap_set_tag(offset >> HEAP_PAGE_SHIFT, index, owner);
  }
  return block;
}

// Marks a block as freed: the first invocation that does so is the one that frees it.
fn heap_mark(place: vec4<u32>) -> bool {
  let bit = 1u << (place.y % 32u);
  if (atomicOr(&state[heap_bits_at(round.at_freed, place.x, place.y)], bit) & bit) != 0u { return false; }
  let dirty = round.at_dirty + place.x / 32u;
  let page = 1u << (place.x % 32u);
  if (word(dirty) & page) == 0u { atomicOr(&state[dirty], page); }
  atomicSub(&state[round.at_heap + DevWgpuHeap_in_use], place.w / 16u);
  return true;
}

// Whether a block is in use, in a heap without tags.
fn heap_is_used(place: vec4<u32>) -> bool {
  let bit = 1u << (place.y % 32u);
  if (word(heap_bits_at(round.at_freed, place.x, place.y)) & bit) != 0u { return false; }
  return place.w > HEAP_LARGEST_CLASS || (word(heap_bits_at(round.at_used, place.x, place.y)) & bit) != 0u;
}

// Frees a block; `by` is the owner whose task frees it.
fn heap_free(block: u32, by: u32) {
  if block == 0u || round.heap_pages == 0u { return; }
  heap_touch();
  let place = heap_place(block);
  var right = place.w != 0u && place.z == 0u;
  var tag = 0u;
  if heap_owned() {
    if right { tag = heap_untag(place.x, place.y); } else if place.w != 0u { tag = heap_tag(place.x, place.y); }
    right = right && (tag & HEAP_TAG_USED) != 0u;
  } else {
    right = right && heap_is_used(place);
  }
  let owner = tag & (HEAP_TAG_USED - 1u);
  if right && heap_checked() && !heap_is_intact(block, place.w) { heap_report(HEAP_ERROR_OVERFLOW, owner, by, block, place.w); }
  right = right && heap_mark(place);
  if !right {
    heap_wrong(place, tag, block, by);
    return;
  }
  heap_discharge(owner, place.w);
  if place.w <= HEAP_LARGEST_CLASS { heap_kept = vec3(place.xy, heap_class(place.w) + 1u); }
}

// Gives a block another size: the block, and the bytes to be copied from the old one, which is to be freed then.
fn heap_resize(old: u32, bytes: u32, by: u32) -> vec2<u32> {
  var place = vec4(0u, 0u, 0u, 0u);
  var owner = by;
  if old != 0u {
    if round.heap_pages == 0u { return vec2(0u, 0u); }
    place = heap_place(old);
    var tag = 0u;
    var right = place.w != 0u && place.z == 0u;
    if heap_owned() {
      if place.w != 0u { tag = heap_tag(place.x, place.y); }
      right = right && (tag & HEAP_TAG_USED) != 0u;
      owner = tag & (HEAP_TAG_USED - 1u);
    } else {
      right = right && heap_is_used(place);
    }
    if !right {
      heap_wrong(place, tag, old, by);
      return vec2(0u, 0u);
    }
    if heap_checked() && !heap_is_intact(old, place.w) { heap_report(HEAP_ERROR_OVERFLOW, owner, by, old, place.w); }
  }
  let had = place.w;
  let sane = bytes < round.heap_pages << HEAP_PAGE_SHIFT;
  let takes = heap_takes(select(0u, bytes + heap_guard_bytes(), sane));
  let smaller = old != 0u && sane && takes < had;
  var stays = old != 0u && sane && (takes == had || (smaller && had <= HEAP_LARGEST_CLASS && takes * 2u > had));
  var block = old;
  if !stays {
    block = heap_alloc(bytes, owner);
    // There is no room even for a smaller block: the old one stays.
    stays = block == 0u && smaller;
  }
  if stays {
    heap_set_guard(old, bytes, had);
    return vec2(old, 0u);
  }
  return vec2(block, select(0u, min(had - heap_guard_bytes(), bytes), old != 0u && block != 0u));
}
// Copies bytes from block to block, as number `me` of `width`.
fn heap_copy(to: u32, source: u32, bytes: u32, me: u32, width: u32) {
  for (var i = me; i < bytes / 4u; i += width) { atomicStore(&memory[to / 4u + i], atomicLoad(&memory[source / 4u + i])); }
  if me == 0u {
    for (var i = bytes & ~3u; i < bytes; i += 1u) { ew_store_byte(to + i, ew_load_byte(source + i)); }
  }
}

// Allocates a block of at least `bytes` bytes, aligned to 16; 0: there is no room, or the owner's quota refuses.
fn ew_alloc(bytes: u32) -> u32 { return heap_alloc(bytes, ew_owner()) >> 2u; }
// As ew_alloc, for another owner.
fn ew_alloc_for(owner: u32, bytes: u32) -> u32 { return heap_alloc(bytes, owner) >> 2u; }
// Frees a block. An address without a block is counted and changes nothing.
fn ew_free(at: u32) { heap_free(at << 2u, ew_owner()); }
// Gives a block another size: a block with the contents of the old one, which is gone then; 0: the old one stays as it is.
fn ew_realloc(at: u32, bytes: u32) -> u32 { return ew_realloc_for(ew_owner(), at, bytes); }
// As ew_realloc; a block that did not exist belongs to this owner.
fn ew_realloc_for(owner: u32, at: u32, bytes: u32) -> u32 {
  let old = at << 2u;
  let found = heap_resize(old, bytes, owner);
  if found.y > 0u { heap_copy(found.x, old, found.y, 0u, 1u); }
  if old != 0u && found.x != 0u && found.x != old { heap_free(old, ew_owner()); }
  return found.x >> 2u;
}

// The same by a whole workgroup, in uniform control flow: one block for all, which all invocations get.
fn ew_alloc_all(bytes: u32) -> u32 {
  if ew_thread == 0u { heap_shared = vec3(heap_alloc(bytes, ew_owner()), 0u, 0u); }
  return workgroupUniformLoad(&heap_shared).x >> 2u;
}
fn ew_free_all(at: u32) {
  // What the others do with the block comes before.
  storageBarrier();
  workgroupBarrier();
  if ew_thread == 0u { heap_free(at << 2u, ew_owner()); }
}
fn ew_realloc_all(at: u32, bytes: u32) -> u32 {
  storageBarrier();
  workgroupBarrier();
  let old = at << 2u;
  if ew_thread == 0u { heap_shared = vec3(heap_resize(old, bytes, ew_owner()), 0u); }
  let found = workgroupUniformLoad(&heap_shared);
  if found.y > 0u { heap_copy(found.x, old, found.y, ew_thread, EW_THREADS); }
  storageBarrier();
  workgroupBarrier();
  if ew_thread == 0u && old != 0u && found.x != 0u && found.x != old { heap_free(old, ew_owner()); }
  return found.x >> 2u;
}

// A whole workgroup, as part number `part` of `parts`: frees every block of an owner. Returns to each invocation the bytes
// of the blocks that it has freed. Nothing else allocates or frees for this owner meanwhile.
fn ew_release_owner(owner: u32, part: u32, parts: u32) -> u32 { return ew_visit_heap(true, owner, part, parts); }
// A whole workgroup, likewise: looks at the guards of all blocks and reports those that were overwritten. Returns to each
// invocation how many it has found. The heap must be at rest.
fn ew_check_heap(part: u32, parts: u32) -> u32 { return ew_visit_heap(false, 0u, part, parts); }
// One of both.
fn ew_visit_heap(releases: bool, owner: u32, part: u32, parts: u32) -> u32 {
  if parts == 0u || !select(heap_checked(), heap_owned() && owner < round.heap_owners, releases) { return 0u; }
  heap_touch();
  var sum = 0u;
  for (var page = part; page < round.heap_pages; page += parts) {
    let place = heap_place(round.heap_base + (page << HEAP_PAGE_SHIFT));
    if place.w == 0u || place.x != page { continue; }
    let blocks = select(HEAP_PAGE_BYTES / place.w, 1u, place.w > HEAP_LARGEST_CLASS);
    for (var index = ew_thread; index < blocks; index += EW_THREADS) {
      let tag = heap_tag(page, index);
      if (tag & HEAP_TAG_USED) == 0u { continue; }
      if releases {
        if tag != (HEAP_TAG_USED | owner) || (heap_untag(page, index) & HEAP_TAG_USED) == 0u { continue; }
        if heap_mark(vec4(page, index, 0u, place.w)) { sum += place.w; }
      } else {
        let block = heap_address(page, index, place.w);
        if heap_is_intact(block, place.w) { continue; }
        let whose = tag & (HEAP_TAG_USED - 1u);
        heap_report(HEAP_ERROR_OVERFLOW, whose, whose, block, place.w);
        sum += 1u;
      }
    }
  }
  if releases && sum > 0u { heap_discharge(owner, sum); }
  return sum;
}
