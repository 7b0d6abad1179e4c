fn chameneos_mall() {
  let creature = ew_message_from();
  let colour = ew_message_word(0u);
  if ew_message_tag() == 1u {  // OPEN
    ew_set_state64(DevChameneo_meetings, colour);
    return;
  }
  // The creatures that come when all have met wait for ever, and hold nothing.
  let meetings = ew_state64(DevChameneo_meetings);
  if all(meetings == vec2(0u, 0u)) { return; }
  let first = ew_state64(DevChameneo_other);
  if all(first == vec2(0u, 0u)) {
    ew_set_state64(DevChameneo_other, creature);
    ew_set_state64(DevChameneo_colour, colour);
    return;
  }
  ew_set_state64(DevChameneo_other, vec2(0u, 0u));
  ew_set_state64(DevChameneo_meetings, ew_less64by(meetings, 1u));
  ew_tell(first, 3u, 2u, ew_words2(creature, colour));
  ew_tell(creature, 3u, 2u, ew_words2(first, ew_state64(DevChameneo_colour)));
}

fn chameneos_creature() {
  let word = ew_message_word(0u);
  let colour = ew_message_word(1u);
  if ew_message_tag() == 3u {  // MEET
    ew_add_state64(DevChameneo_meetings, vec2(1u, 0u));
    let own = ew_state64(DevChameneo_colour).x;
    if own != colour.x { ew_set_state64(DevChameneo_colour, vec2(3u - own - colour.x, 0u)); }
    if all(word == ew_actor_id()) { ew_add_state64(DevChameneo_errors, vec2(1u, 0u)); }
  } else {
    ew_set_state64(DevChameneo_other, word);
    ew_set_state64(DevChameneo_colour, colour);
  }
  ew_tell(ew_state64(DevChameneo_other), 2u, 1u, ew_words1(ew_state64(DevChameneo_colour)));
}
