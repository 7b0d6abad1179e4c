fn big_peer() {
  let left = ew_message_word(0u);
  let seed = ew_message_word(1u);
  ew_add_state64(DevPeer_handled, vec2(1u, 0u));
  if all(left == vec2(0u, 0u)) {
    ew_add_state64(DevPeer_ended, vec2(1u, 0u));
    return;
  }
  // There are fewer peers than 2^32.
  let place = ew_mul(seed.y, ew_load(ew_user + DevBig_count)).y;
  let to = (ew_load(ew_user + DevBig_peers) >> 2u) + 2u * place;
  // seed * 6364136223846793005 + 1442695040888963407
  let product = ew_mul(seed.x, 0x4c957f2du);
  let random = vec2(product.x, product.y + seed.x * 0x5851f42du + seed.y * 0x4c957f2du);
  let next = ew_sum64(random, vec2(0xf767814fu, 0x14057b7eu));
  ew_tell(vec2(ew_load(to), ew_load(to + 1u)), 0u, 2u, ew_words2(ew_less64by(left, 1u), next));
}
