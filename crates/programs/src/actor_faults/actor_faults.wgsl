// Counts a call for a place. There are fewer than 2^32.
fn actor_faults_call(place: vec2<u32>) -> u32 {
  let at = (ew_load(ew_user + DevFaults_calls) >> 2u) + 2u * place.x;
  let calls = ew_load(at) + 1u;
  ew_store(at, calls);
  return calls;
}

// The handler of all kinds.
fn actor_faults_kinds() {
  let one = vec2(1u, 0u);
  if ew_message_is_reply() {
    ew_add_state64(DevFaulty_replies, select(vec2(1000u, 0u), one, ew_message_failure() == EW_REPLIED));
    return;
  }
  let tag = ew_message_tag();
  let w0 = ew_message_word(0u);
  let w1 = ew_message_word(1u);
  let other = ew_state64(DevFaulty_other);
  // What follows is there once.
  var adds = false;
  var tells = false;
  var told = w0;
  var replies = false;
  var reply = ew_words1(one);
  var count = 1u;
  var forwards = false;
  var asks = false;
  var asked = 2u;
  var words = EwWords();
  var fails = false;
  switch tag {
    case 1u: { adds = true; }                     // ADD
    case 2u: {                                    // GET
      replies = true;
      reply = ew_words2(ew_state64(DevFaulty_sum), ew_state64(DevFaulty_replies));
      count = 2u;
    }
    case 3u: { ew_set_state64(DevFaulty_other, w0); }  // LINK
    case 4u, 8u: {                                // FAIL_LATE, PASS
      adds = true;
      tells = true;
      replies = true;
      fails = tag == 4u;
    }
    case 5u: {                                    // FAIL_FORWARD
      adds = true;
      forwards = true;
      fails = true;
    }
    case 6u: {                                    // FAIL_ASK
      adds = true;
      asks = true;
      fails = true;
    }
    case 7u: {                                    // ASK
      asks = true;
      asked = w0.x;
      words = ew_words1(vec2(7u, 0u));
    }
    case 9u: {                                    // FAIL_UP_TO
      let call = actor_faults_call(w1);
      adds = true;
      tells = true;
      told = one;
      replies = true;
      reply = ew_words1(vec2(call, 0u));
      fails = call <= ew_message_word(2u).x;
    }
    case 10u: {                                   // FAIL_ONCE
      if all(other == vec2(0u, 0u)) {
        replies = true;
        reply = ew_words1(w1);
      } else if actor_faults_call(w0) == 1u {
        replies = true;
        reply = ew_words2(vec2(77u, 0u), vec2(78u, 0u));
        count = 2u;
        fails = true;
      } else {
        forwards = true;
      }
    }
    default: {}
  }
  if adds { ew_add_state64(DevFaulty_sum, w0); }
  if tells { ew_tell(other, 1u, 1u, ew_words1(told)); }
  if replies { ew_reply(tag, count, reply); }
  if forwards { ew_forward(other); }
  if asks { ew_ask(other, asked, select(0u, 1u, tag == 7u), words, vec2(0u, 0u)); }
  if fails { ew_fail(); }
}
