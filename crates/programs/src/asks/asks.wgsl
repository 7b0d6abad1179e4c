fn asks_asker() {
  if !ew_message_is_reply() {
    ew_set_state64(DevAsker_other, ew_message_word(0u));
    ew_set_state64(DevAsker_left, ew_message_word(1u));
  } else if ew_message_failure() == EW_REPLIED {
    ew_add_state64(DevAsker_count, vec2(1u, 0u));
    ew_add_state64(DevAsker_sum, ew_message_word(0u));
  }
  let left = ew_state64(DevAsker_left);
  if any(left != vec2(0u, 0u)) {
    ew_set_state64(DevAsker_left, ew_less64by(left, 1u));
    ew_ask(ew_state64(DevAsker_other), 0u, 0u, EwWords(), vec2(0u, 0u));
  }
}

fn asks_asked() {
  ew_add_state64(DevAsker_count, vec2(1u, 0u));
  ew_reply(0u, 1u, ew_words1(ew_state64(DevAsker_count)));
}
