fn actor_probe_error(count: u32) { ew_add_state64(DevProbeNode_errors, vec2(count, 0u)); }
fn actor_probe_report() {
  let words = ew_words3(ew_state64(DevProbeNode_sum), ew_state64(DevProbeNode_count), ew_state64(DevProbeNode_errors));
  ew_reply(2u, 3u, words);
}

// The handler of both kinds.
fn actor_probe_kinds() {
  let w0 = ew_message_word(0u);
  let w1 = ew_message_word(1u);
  let end = ew_message_word(2u);
  let next = ew_state64(DevProbeNode_next);
  let one = vec2(1u, 0u);
  if ew_message_is_reply() {
    let failure = ew_message_failure();
    if failure != EW_REPLIED { actor_probe_error(1000u + failure); }
    else if all(ew_message_ask() == vec2(77u, 0u)) { ew_add_state64(DevProbeNode_sum, w0); }
    else { actor_probe_error(1u); }
    return;
  }
  let tag = ew_message_tag();
  // What is added, and what is sent to the next actor; each is there once.
  var adds = tag == 1u;   // ADD
  var sends = 0u;
  var sent = 1u;
  var count = 1u;
  var words = ew_words1(w0);
  switch tag {
    case 1u: {}
    case 4u: {              // PASS
      if any(w1 != vec2(0u, 0u)) {
        sends = 1u;
        sent = 4u;
        count = 2u;
        words = ew_words2(w0, ew_sum64(w1, vec2(0xffffffffu, 0xffffffffu)));
      } else {
        adds = true;
      }
    }
    case 2u: { actor_probe_report(); }
    case 10u: {             // FORWARD
      if all(next == vec2(0u, 0u)) { actor_probe_report(); } else { ew_forward(next); }
    }
    case 3u: { ew_set_state64(DevProbeNode_next, w0); }
    case 5u: {              // BURST
      var at = w1;
      for (var i = 0u; i < 3u && ew_less64(at, end); i += 1u) {
        ew_tell(next, 6u, 2u, ew_words2(w0, at));
        at = ew_sum64(at, one);
      }
      if ew_less64(at, end) { ew_tell(ew_actor_id(), 5u, 3u, ew_words3(w0, at, end)); }
    }
    case 6u: {              // NUMBER
      let expected = DevProbeNode_expected + 2u * (w0.x & 3u);
      if any(ew_state64(expected) != w1) { actor_probe_error(1u); }
      ew_set_state64(expected, ew_sum64(w1, one));
      ew_add_state64(DevProbeNode_count, one);
    }
    case 7u: { ew_fail(); }
    case 8u: { ew_stop(); }
    case 9u: {}
    case 11u: {             // LAUNCH
      let child = ew_launch(w0.x);
      ew_tell(child, 1u, 1u, ew_words1(w1));
      ew_set_state64(DevProbeNode_next, child);
    }
    case 12u: { ew_ask(next, 2u, 0u, EwWords(), vec2(77u, 0u)); }
    case 13u: { ew_kill(next); }
    case 14u: { ew_stop_later(next); }
    case 15u: {             // TOO_MANY
      sends = 5u;
    }
    case 16u: {             // TRY
      if !ew_try_tell(next, 1u, 1u, ew_words1(w0)) { actor_probe_error(1u); }
    }
    default: { actor_probe_error(1000000u); }
  }
  for (var i = 0u; i < sends; i += 1u) { ew_tell(next, sent, count, words); }
  if adds {
    ew_add_state64(DevProbeNode_sum, w0);
    ew_add_state64(DevProbeNode_count, one);
  }
}
