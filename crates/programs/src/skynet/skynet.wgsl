fn skynet_node() {
  let first = ew_message_word(0u);
  // Numbers of leaves have 32 bits.
  let size = ew_message_word(1u).x;
  let tag = ew_message_tag();
  if tag == 1u && size > 1u {
    let parts = min(size, 10u);
    // The children's numbers, before any of them can answer.
    ew_set_state64(DevSkynetNode_pending, vec2(parts, 0u));
    for (var i = 0u; i < parts; i += 1u) {
      // Without a product that is larger than a word.
      let begin = size / parts * i + size % parts * i / parts;
      let end = size / parts * (i + 1u) + size % parts * (i + 1u) / parts;
      ew_tell(ew_launch(0u), 1u, 2u, ew_words2(ew_sum64(first, vec2(begin, 0u)), vec2(end - begin, 0u)));
    }
    return;
  }
  if tag == 2u {
    ew_set_state64(DevSkynetNode_pending, ew_less64by(ew_state64(DevSkynetNode_pending), 1u));
    ew_add_state64(DevSkynetNode_sum, first);
  } else {
    // A leaf; or nothing at all.
    ew_set_state64(DevSkynetNode_sum, select(vec2(0u, 0u), first, size != 0u));
  }
  let parent = ew_actor_parent();
  if all(ew_state64(DevSkynetNode_pending) == vec2(0u, 0u)) && any(parent != vec2(0u, 0u)) {
    ew_tell(parent, 2u, 1u, ew_words1(ew_state64(DevSkynetNode_sum)));
    ew_stop();
  }
}
