fn counting_counter() {
  ew_add_state64(DevCounter_sum, ew_message_word(0u));
  ew_add_state64(DevCounter_count, vec2(1u, 0u));
}

fn counting_producer() {
  var number = ew_message_word(0u);
  let end = ew_message_word(1u);
  let counter = ew_message_word(2u);
  for (var i = 0u; i < 8u && ew_less64(number, end); i += 1u) {
    ew_tell(counter, 0u, 1u, ew_words1(number));
    number = ew_sum64(number, vec2(1u, 0u));
  }
  if ew_less64(number, end) { ew_tell(ew_actor_id(), 0u, 3u, ew_words3(number, end, counter)); }
}
