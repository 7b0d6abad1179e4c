fn chat_actor(place: u32) -> vec2<u32> {
  let at = (ew_load(ew_user + DevChat_actors) >> 2u) + 2u * place;
  return vec2(ew_load(at), ew_load(at + 1u));
}

fn chat_client() {
  let w0 = ew_message_word(0u);
  switch ew_message_tag() {
    case 1u: { ew_set_state64(DevChatter_number, w0); }  // NUMBER
    case 2u: {                                           // TURN
      // Numbers of clients, and turns, have 32 bits.
      let random = ew_mix64(vec2(w0.x, ew_state64(DevChatter_number).x));
      let room = ew_remainder64(random, ew_load(ew_user + DevChat_rooms));
      ew_tell(chat_actor(ew_load(ew_user + DevChat_clients) + room), 3u, 1u, ew_words1(ew_mix64(random)));
      if w0.x != 0u { ew_tell(ew_actor_id(), 2u, 1u, ew_words1(vec2(w0.x - 1u, 0u))); }
    }
    default: {                                           // POST
      ew_add_state64(DevChatter_count, vec2(1u, 0u));
      ew_add_state64(DevChatter_sum, w0);
    }
  }
}

fn chat_room() {
  let w0 = ew_message_word(0u);
  if ew_message_tag() == 1u {  // NUMBER
    ew_set_state64(DevChatter_number, w0);
    return;
  }
  let first = ew_state64(DevChatter_number).x * 16u;
  for (var i = 0u; i < 16u; i += 1u) {
    let member = ew_remainder64(ew_mix64(vec2(first + i, 0u)), ew_load(ew_user + DevChat_clients));
    ew_tell(chat_actor(member), 3u, 1u, ew_words1(w0));
  }
}
