fn pairs_one(i: u32) {
  if i >= ew_param(DevPairs_pairs) { return; }
  // i * 0x9e3779b97f4a7c15 + 1
  let low = ew_mul(i, 0x7f4a7c15u);
  let high = low.y + i * 0x9e3779b9u;
  let at = ew_pointer(DevPairs_firsts) + 2u * i;
  ew_store(at, low.x + 1u);
  ew_store(at + 1u, high + select(0u, 1u, low.x == 0xffffffffu));
}
fn pairs_two(i: u32) {
  if i >= ew_param(DevPairs_pairs) { return; }
  let at = ew_pointer(DevPairs_firsts) + 2u * i;
  let v = vec2(ew_load(at), ew_load(at + 1u));
  // v ^ v >> 29
  let shifted = vec2((v.x >> 29u) | (v.y << 3u), v.y >> 29u);
  ew_add64(ew_pointer(DevPairs_seconds) + 2u * i, v ^ shifted);
}

fn pairs_first() { pairs_one(ew_lo()); }
fn pairs_second() { pairs_two(ew_lo()); }

fn pairs_pair() {
  pairs_one(ew_lo());
  ew_spawn(FN_pairs_second, 0u, ew_lo(), 0u);
}

fn pairs_joined() {
  ew_fork(FN_pairs_second, 0u, ew_lo(), 0u);
  ew_spawn_child(FN_pairs_first, 0u, ew_lo(), 0u);
}

fn pairs_spread() {
  let leaf = select(FN_pairs_joined, FN_pairs_pair, ew_tag() == 0u);
  let first = ew_lo();
  let n = ew_hi();
  let left = n / 2u;
  for (var i = 0u; i < 2u; i += 1u) {
    let begin = select(first + left, first, i == 0u);
    let count = select(n - left, left, i == 0u);
    if count == 0u { continue; }
    let ends = count == 1u;
    ew_spawn(select(FN_pairs_spread, leaf, ends), ew_tag(), begin, select(count, 0u, ends));
  }
}

fn pairs_chain() {
  pairs_one(ew_lo());
  ew_spawn(FN_pairs_link, 0u, ew_lo(), ew_hi());
}

fn pairs_link() {
  pairs_two(ew_lo());
  if ew_hi() > 0u { ew_spawn(FN_pairs_chain, 0u, ew_lo() + 1u, ew_hi() - 1u); }
}
