// The level of a vertex is the upper word of its 64-bit word, the parent the lower one. WGSL has no exchange of 64 bits, so
// each is lowered by itself. Among the vertices that were offered as parents, the one with the lowest level counts, then
// the one with the lowest number. Levels only get lower, and a vertex offers itself again when its level was lowered: so
// the right parent offers itself once its own level is final, and from then on no other one compares as better.

const BFS_PATH_STEPS = 64u;
const BFS_EMPTY = 0xffffffffu;

fn bfs_best(v: u32) -> u32 { return ew_pointer(DevBfs_best) + 2u * v; }
fn bfs_row(v: u32) -> u32 { return ew_load_constant(ew_pointer(DevBfs_rows) + v); }
fn bfs_column(edge: u32) -> u32 { return ew_load_constant(ew_pointer(DevBfs_columns) + edge); }

fn bfs_reset() {
  let part = ew_lo();
  let parts = ew_hi();
  if parts > 1u {
    let left = parts / 2u;
    if ew_thread < 2u {
      ew_spawn(FN_bfs_reset, 0u, select(part + left, part, ew_thread == 0u), select(parts - left, left, ew_thread == 0u));
    }
    return;
  }
  let vertices = ew_param(DevBfs_vertices);
  for (var i = ew_thread; i < BFS_RESET_VERTICES; i += EW_THREADS) {
    let v = part * BFS_RESET_VERTICES + i;
    if v < vertices {
      ew_store(bfs_best(v), BFS_EMPTY);
      ew_store(bfs_best(v) + 1u, BFS_EMPTY);
    }
  }
  let words = ew_param(DevBfs_words);
  for (var i = ew_thread; i < BFS_RESET_VERTICES / 32u; i += EW_THREADS) {
    let at = part * (BFS_RESET_VERTICES / 32u) + i;
    if at < words {
      ew_store(ew_pointer(DevBfs_bits) + at, 0u);
      ew_store(ew_pointer(DevBfs_bits) + words + at, 0u);
    }
  }
}

// Offers a parent to a vertex whose level is at most that of the offer, and was `before` it.
fn bfs_adopt(u: u32, level: u32, before: u32, from_vertex: u32) {
  let at = bfs_best(u);
  var seen = BFS_EMPTY;
  if before != BFS_EMPTY { seen = ew_load(at); }
  loop {
    if seen == from_vertex { break; }
    if seen != BFS_EMPTY {
      // An exchange, unlike a load, sees the last value of all.
      let other = ew_min(bfs_best(seen) + 1u, BFS_EMPTY);
      if other < level - 1u || (other == level - 1u && seen < from_vertex) { break; }
    }
    let result = atomicCompareExchangeWeak(&memory[at], seen, from_vertex);
    if result.exchanged { break; }
    seen = result.old_value;
  }
}
// Offers a level, and `from` as the parent. Returns whether the level got lower.
fn bfs_offer(u: u32, level: u32, from_vertex: u32) -> bool {
  let at = bfs_best(u);
  if ew_load(at + 1u) < level { return false; }
  let before = ew_min(at + 1u, level);
  if before < level { return false; }
  bfs_adopt(u, level, before, from_vertex);
  return before > level;
}

fn bfs_visit() {
  var v = ew_lo();
  var level = ew_hi();
  // A task that runs alone follows a path, so that no other one waits for it.
  var steps = select(1u, BFS_PATH_STEPS, ew_alone());
  // The vertex before this one on the path: it needs no offer.
  var previous = BFS_EMPTY;
  // Loads are in flight together where they do not depend on each other.
  let now = ew_load(bfs_best(v) + 1u);
  loop {
    let first = bfs_row(v);
    let end = bfs_row(v + 1u);
    if previous == BFS_EMPTY && now != level { return; }  // lowered since, by a task that has spawned another visit
    if end - first > BFS_LANE_EDGES {
      let parts = (end - first + BFS_PART_EDGES - 1u) / BFS_PART_EDGES;
      let power = select(0u, 32u - countLeadingZeros(parts - 1u), parts > 1u);
      ew_spawn(FN_bfs_hub, level, v, power << 26u);
      return;
    }
    if first == end { return; }
    steps -= 1u;
    level += 1u;
    let last = end - 1u;
    let u = vec4(bfs_column(first), bfs_column(min(first + 1u, last)), bfs_column(min(first + 2u, last)), bfs_column(last));
    var offers = vec4(u.x != previous, u.y != previous && first < last, u.z != previous && first + 1u < last,
      u.w != previous && first + 2u < last);
    // On a path the next vertex is most probably new; elsewhere a load is cheaper than an exchange.
    if steps == 0u {
      let had = vec4(ew_load(bfs_best(u.x) + 1u), ew_load(bfs_best(u.y) + 1u), ew_load(bfs_best(u.z) + 1u), ew_load(bfs_best(u.w) + 1u));
      offers = offers & (had >= vec4(level));
    }
    var before = vec4(0u);
    if offers.x { before.x = ew_min(bfs_best(u.x) + 1u, level); }
    if offers.y { before.y = ew_min(bfs_best(u.y) + 1u, level); }
    if offers.z { before.z = ew_min(bfs_best(u.z) + 1u, level); }
    if offers.w { before.w = ew_min(bfs_best(u.w) + 1u, level); }
    var next = BFS_EMPTY;
    var several = false;
    for (var i = 0u; i < BFS_LANE_EDGES; i += 1u) {
      if before[i] < level { continue; }
      bfs_adopt(u[i], level, before[i], v);
      if before[i] == level { continue; }
      if next != BFS_EMPTY {
        ew_spawn(FN_bfs_visit, 0u, next, level);
        several = true;
      }
      next = u[i];
    }
    if next == BFS_EMPTY { return; }
    previous = v;
    v = next;
    if several || steps == 0u { break; }
  }
  ew_spawn(FN_bfs_visit, 0u, v, level);
}

fn bfs_hub() {
  let v = ew_lo();
  let part = ew_hi() & ((1u << 26u) - 1u);
  let parts = ew_hi() >> 26u;
  let level = ew_load(bfs_best(v) + 1u);
  let first = bfs_row(v) + part * BFS_PART_EDGES;
  let end = bfs_row(v + 1u);
  if (level & 0xffu) != ew_tag() || first >= end { return; }
  if parts > 0u {
    if ew_thread < 2u {
      let half = part + (ew_thread << (parts - 1u));
      ew_spawn(FN_bfs_hub, level, v, ((parts - 1u) << 26u) | half);
    }
    return;
  }
  for (var i = ew_thread; i < BFS_PART_EDGES; i += EW_THREADS) {
    if first + i >= end { break; }
    let u = bfs_column(first + i);
    if bfs_offer(u, level + 1u, v) { ew_spawn(FN_bfs_visit, 0u, u, level + 1u); }
  }
}

// The search by levels, for graphs whose vertices have many edges; see levels.rs.

fn bfs_state(word: u32) -> u32 { return ew_pointer(DevBfs_state) + word; }
fn bfs_found(level: u32) -> u32 { return bfs_state(DevBfsState_found + level % 2u); }
fn bfs_queue(level: u32) -> u32 { return ew_pointer(DevBfs_queue) + select(0u, ew_param(DevBfs_vertices), level % 2u != 0u); }
fn bfs_bits(bitmap: u32) -> u32 {
  return ew_pointer(DevBfs_bits) + select(0u, ew_param(DevBfs_words), (bitmap & BFS_BITMAP) != 0u);
}

// Divides `count` units from `first` on among up to BFS_FAN tasks, each with a multiple of `grain` units.
fn bfs_fan(first: u32, count: u32, grain: u32, function: u32, tag: u32, child: bool) {
  let each = ((count + BFS_FAN - 1u) / BFS_FAN + grain - 1u) / grain * grain;
  for (var i = ew_thread; i < BFS_FAN; i += EW_THREADS) {
    let begin = i * each;
    if begin >= count { break; }
    let n = min(each, count - begin);
    if child { ew_spawn_child(function, tag, first + begin, n); } else { ew_spawn(function, tag, first + begin, n); }
  }
}

// The whole workgroup reads the state before one invocation changes it.
fn bfs_level() {
  if ew_thread == 0u {
    var next = vec4(0u, 1u, 0u, ew_tag());
    if (ew_tag() & BFS_START) != 0u {
      let source = ew_lo();
      next.w = 0u;
      ew_store(ew_pointer(DevBfs_queue), source);
      ew_store(ew_pointer(DevBfs_bits) + source / 32u, 1u << (source % 32u));
    } else {
      next = vec4(ew_lo(), ew_load(bfs_found(ew_lo())), ew_load(bfs_state(DevBfsState_reached)), ew_tag());
    }
    if next.y > 0u {
      next.z += next.y;
      ew_store(bfs_state(DevBfsState_level), next.x);
      ew_store(bfs_state(DevBfsState_reached), next.z);
      ew_store(bfs_found(next.x + 1u), 0u);
    }
    ew_shared = next;
  }
  let now = workgroupUniformLoad(&ew_shared);
  let level = now.x;
  let n = now.y;
  let reached = now.z;
  let tag = now.w;
  if n == 0u { return; }
  let vertices = ew_param(DevBfs_vertices);
  let was_up = (tag & BFS_UPWARDS) != 0u;
  let up = was_up || n > (vertices - reached) / BFS_UP_SHARE;
  if select(!up && level >= BFS_PATIENCE && n <= BFS_NARROW, n <= BFS_TAIL, was_up) {
    bfs_fan(0u, n, BFS_DOWN_ENTRIES, FN_bfs_down, tag | BFS_LEAVE, false);
    return;
  }
  if up {
    ew_fork(FN_bfs_level, (tag ^ BFS_BITMAP) | BFS_UPWARDS, level + 1u, 0u);
    bfs_fan(0u, (vertices + BFS_UP_VERTICES - 1u) / BFS_UP_VERTICES, 1u, FN_bfs_up, tag, true);
    return;
  }
  ew_fork(FN_bfs_level, tag, level + 1u, 0u);
  let source = ew_lo();
  if level == 0u && bfs_row(source + 1u) - bfs_row(source) > BFS_WIDE_EDGES {
    for (var i = ew_thread; i < BFS_FAN; i += EW_THREADS) {
      ew_spawn_child(FN_bfs_wide, tag, source, (6u << 26u) | i);
    }
    return;
  }
  bfs_fan(0u, n, BFS_DOWN_ENTRIES, FN_bfs_down, tag, true);
}

// Offers the next level to a vertex, and queues it if it was unreached.
fn bfs_reach(level: u32, bitmap: u32, u: u32, from_vertex: u32) {
  let at = bfs_best(u);
  if ew_load(at + 1u) < level + 1u { return; }
  let before = ew_min(at + 1u, level + 1u);
  if before < level + 1u { return; }
  ew_min(at, from_vertex);
  if before != BFS_EMPTY { return; }
  ew_store(bfs_queue(level + 1u) + ew_add(bfs_found(level + 1u), 1u), u);
  ew_or(bfs_bits(bitmap) + u / 32u, 1u << (u % 32u));
}

fn bfs_down() {
  let arg = ew_uniform_arg();
  let first = arg.x;
  let count = arg.y;
  let tag = arg.z;
  if count > BFS_DOWN_ENTRIES {
    bfs_fan(first, count, BFS_DOWN_ENTRIES, FN_bfs_down, tag, false);
    return;
  }
  let level = ew_load(bfs_state(DevBfsState_level));
  if (tag & BFS_LEAVE) != 0u {
    if ew_thread < count { ew_spawn(FN_bfs_visit, 0u, ew_load(bfs_queue(level) + first + ew_thread), level); }
    return;
  }
  // The edges of all these vertices are numbered one after the other. In the scratch memory: vertices, then the numbers
  // of their first edges, then the places of these.
  if ew_thread < BFS_DOWN_ENTRIES {
    var v = BFS_EMPTY;
    var row = 0u;
    var edges = 0u;
    if ew_thread < count {
      v = ew_load(bfs_queue(level) + first + ew_thread);
      row = bfs_row(v);
      edges = bfs_row(v + 1u) - row;
      if edges > BFS_WIDE_EDGES {
        ew_spawn(FN_bfs_wide, tag, v, 0u);
        edges = 0u;
      }
    }
    ew_scratch[ew_thread] = v;
    ew_scratch[64u + ew_thread] = edges;
    ew_scratch[128u + ew_thread] = row;
  }
  workgroupBarrier();
  var before = 0u;
  var total = 0u;
  for (var i = 0u; i < BFS_DOWN_ENTRIES; i += 1u) {
    if i == ew_thread { before = total; }
    total += ew_scratch[64u + i];
  }
  workgroupBarrier();
  if ew_thread < BFS_DOWN_ENTRIES { ew_scratch[64u + ew_thread] = before; }
  workgroupBarrier();
  for (var i = ew_thread; i < total; i += EW_THREADS) {
    var owner = 0u;
    for (var step = BFS_DOWN_ENTRIES / 2u; step > 0u; step /= 2u) {
      if ew_scratch[64u + owner + step] <= i { owner += step; }
    }
    let u = bfs_column(ew_scratch[128u + owner] + i - ew_scratch[64u + owner]);
    bfs_reach(level, tag, u, ew_scratch[owner]);
  }
}

// degree * part / 2^power
fn bfs_place(degree: u32, part: u32, power: u32) -> u32 {
  let product = ew_mul(degree, part);
  if power == 0u { return product.x; }
  return (product.x >> power) | (product.y << (32u - power));
}

fn bfs_wide() {
  let v = ew_lo();
  let part = ew_hi() & ((1u << 26u) - 1u);
  let power = ew_hi() >> 26u;
  let tag = ew_tag();
  let row = bfs_row(v);
  let degree = bfs_row(v + 1u) - row;
  let begin = row + bfs_place(degree, part, power);
  let end = row + bfs_place(degree, part + 1u, power);
  if end - begin > BFS_WIDE_EDGES && power <= 18u {
    for (var i = ew_thread; i < BFS_FAN; i += EW_THREADS) {
      ew_spawn(FN_bfs_wide, tag, v, ((power + 6u) << 26u) | (part << 6u) | i);
    }
    return;
  }
  let level = ew_load(bfs_state(DevBfsState_level));
  for (var edge = begin + ew_thread; edge < end; edge += EW_THREADS) { bfs_reach(level, tag, bfs_column(edge), v); }
}

fn bfs_up() {
  let first = ew_lo();
  let count = ew_hi();
  let tag = ew_tag();
  if count > 1u {
    bfs_fan(first, count, 1u, FN_bfs_up, tag, false);
    return;
  }
  let level = ew_load(bfs_state(DevBfsState_level));
  let old = bfs_bits(tag);
  let now = bfs_bits(tag ^ BFS_BITMAP);
  for (var i = ew_thread; i < BFS_UP_VERTICES; i += EW_THREADS) {
    let v = first * BFS_UP_VERTICES + i;
    if v >= ew_param(DevBfs_vertices) { break; }
    let reached = ew_load(old + v / 32u);
    if i % 32u == 0u { ew_or(now + v / 32u, reached); }
    if ((reached >> (v % 32u)) & 1u) != 0u { continue; }
    let end = ew_load_constant(ew_pointer(DevBfs_in_rows) + v + 1u);
    for (var edge = ew_load_constant(ew_pointer(DevBfs_in_rows) + v); edge < end; edge += 1u) {
      // Columns ascend, so the first reached one is the smallest.
      let u = ew_load_constant(ew_pointer(DevBfs_in_columns) + edge);
      if ((ew_load(old + u / 32u) >> (u % 32u)) & 1u) == 0u { continue; }
      ew_store(bfs_best(v), u);
      ew_store(bfs_best(v) + 1u, level + 1u);
      ew_or(now + v / 32u, 1u << (v % 32u));
      // The first vertices are queued too: if the queue holds all of them, the search goes on from it.
      let to = ew_add(bfs_found(level + 1u), 1u);
      if to < BFS_TAIL { ew_store(bfs_queue(level + 1u) + to, v); }
      break;
    }
  }
}
