fn ring_member() {
  let word = ew_message_word(0u);
  if ew_message_tag() == 1u { ew_set_state64(DevRingMember_next, word); }
  else if all(word == vec2(0u, 0u)) { ew_add_state64(DevRingMember_ended, vec2(1u, 0u)); }
  else { ew_tell(ew_state64(DevRingMember_next), 2u, 1u, ew_words1(ew_less64by(word, 1u))); }
}
