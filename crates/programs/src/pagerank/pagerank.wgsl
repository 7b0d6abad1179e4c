// Ranks are 64-bit floating-point numbers in memory. WGSL has none, so they are computed as fixed-point numbers with 62
// bits after the point, in two words with the lower one first: 2^-62 is 2e-19, far below the last digit of a rank.

const PAGERANK_RANGE = 128u;
// 0.15 with 62 bits after the point, and 0.85 with 64.
const PAGERANK_REST = vec2(0x9999999au, 0x09999999u);
const PAGERANK_DAMPING = vec2(0x9999999au, 0xd9999999u);

fn pagerank_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn pagerank_left(a: vec2<u32>, by: u32) -> vec2<u32> {
  if by == 0u { return a; }
  if by >= 32u { return vec2(0u, a.x << (by - 32u)); }
  return vec2(a.x << by, (a.y << by) | (a.x >> (32u - by)));
}
fn pagerank_right(a: vec2<u32>, by: u32) -> vec2<u32> {
  if by == 0u { return a; }
  if by >= 64u { return vec2(0u, 0u); }
  if by >= 32u { return vec2(a.y >> (by - 32u), 0u); }
  return vec2((a.x >> by) | (a.y << (32u - by)), a.y >> by);
}
// The upper half of the product.
fn pagerank_times(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = ew_mul(a.x, b.x);
  let one = ew_mul(a.x, b.y);
  let two = ew_mul(a.y, b.x);
  let middle = pagerank_add(vec2(low.y, 0u), vec2(one.x, 0u));
  let carry = pagerank_add(middle, vec2(two.x, 0u)).y;
  return pagerank_add(pagerank_add(ew_mul(a.y, b.y), vec2(one.y, 0u)), pagerank_add(vec2(two.y, 0u), vec2(carry, 0u)));
}
fn pagerank_divide(a: vec2<u32>, by: u32) -> vec2<u32> {
  var rest = 0u;
  var result = vec2(0u, 0u);
  if by < 65536u {
    // Digits of 16 bits.
    for (var i = 0u; i < 4u; i += 1u) {
      let digit = (select(a.x, a.y, i < 2u) >> select(16u, 0u, i % 2u == 1u)) & 0xffffu;
      let current = (rest << 16u) | digit;
      let quotient = current / by;
      rest = current - quotient * by;
      result = pagerank_left(result, 16u) | vec2(quotient, 0u);
    }
    return result;
  }
  for (var i = 0u; i < 64u; i += 1u) {
    let bit = (select(a.x, a.y, i < 32u) >> (31u - i % 32u)) & 1u;
    let carry = rest >> 31u;
    rest = (rest << 1u) | bit;
    result = pagerank_left(result, 1u);
    if carry != 0u || rest >= by {
      rest -= by;
      result.x |= 1u;
    }
  }
  return result;
}
fn pagerank_load(at: u32) -> vec2<u32> {
  let bits = vec2(ew_load(at), ew_load(at + 1u));
  let exponent = (bits.y >> 20u) & 0x7ffu;
  if exponent == 0u { return vec2(0u, 0u); }
  let digits = vec2(bits.x, (bits.y & 0xfffffu) | 0x100000u);
  if exponent >= 1013u { return pagerank_left(digits, exponent - 1013u); }
  return pagerank_right(digits, 1013u - exponent);
}
fn pagerank_store(at: u32, value: vec2<u32>) {
  var bits = vec2(0u, 0u);
  if (value.x | value.y) != 0u {
    let top = select(firstLeadingBit(value.x), 32u + firstLeadingBit(value.y), value.y != 0u);
    var digits = value;
    if top > 52u { digits = pagerank_right(value, top - 52u); } else { digits = pagerank_left(value, 52u - top); }
    bits = vec2(digits.x, (digits.y & 0xfffffu) | ((top + 961u) << 20u));
  }
  ew_store(at, bits.x);
  ew_store(at + 1u, bits.y);
}

fn pagerank_dangling(iteration: u32) -> u32 { return ew_pointer(DevPageRank_dangling) + 2u * iteration; }

fn pagerank_step() {
  let iteration = ew_lo();
  if iteration > 0u {
    // The iteration before has added fixed-point numbers.
    let at = pagerank_dangling(iteration);
    pagerank_store(at, vec2(ew_load(at), ew_load(at + 1u)));
  }
  if iteration == ew_param(DevPageRank_iterations) { return; }
  ew_fork(FN_pagerank_step, 0u, iteration + 1u, 0u);
  ew_spawn_child(FN_pagerank_split, iteration, 0u, ew_param(DevPageRank_vertices));
}

fn pagerank_split() {
  let first = ew_lo();
  let count = ew_hi();
  if count <= PAGERANK_RANGE {
    ew_spawn(FN_pagerank_gather, ew_tag(), first, count);
    return;
  }
  let half = (count / 2u + PAGERANK_RANGE - 1u) / PAGERANK_RANGE * PAGERANK_RANGE;
  ew_spawn(FN_pagerank_split, ew_tag(), first, half);
  ew_spawn(FN_pagerank_split, ew_tag(), first + half, count - half);
}

fn pagerank_gather() {
  let n = ew_param(DevPageRank_vertices);
  let iteration = ew_tag();
  let ranks = ew_pointer(DevPageRank_ranks);
  let old = ranks + 2u * n * (iteration % 2u);
  let next = ranks + 2u * n * (1u - iteration % 2u);
  let rows = ew_pointer(DevPageRank_rows);
  let columns = ew_pointer(DevPageRank_columns);
  let degrees = ew_pointer(DevPageRank_degrees);
  let spread = pagerank_times(pagerank_load(pagerank_dangling(iteration)), PAGERANK_DAMPING);
  let base = pagerank_divide(pagerank_add(PAGERANK_REST, spread), n);
  var dangling = vec2(0u, 0u);
  for (var v = ew_lo() + ew_thread; v < ew_lo() + ew_hi(); v += EW_THREADS) {
    var sum = vec2(0u, 0u);
    let end = ew_load_constant(rows + v + 1u);
    for (var e = ew_load_constant(rows + v); e < end; e += 1u) {
      let u = ew_load_constant(columns + e);
      sum = pagerank_add(sum, pagerank_divide(pagerank_load(old + 2u * u), ew_load_constant(degrees + u)));
    }
    let rank = pagerank_add(base, pagerank_times(sum, PAGERANK_DAMPING));
    pagerank_store(next + 2u * v, rank);
    if ew_load_constant(degrees + v) == 0u { dangling = pagerank_add(dangling, rank); }
  }
  if (dangling.x | dangling.y) != 0u { ew_add64(pagerank_dangling(iteration + 1u), dangling); }
}
