fn philosophers_philosopher() {
  var left = ew_state64(DevDiner_left);
  if ew_message_tag() == 1u {  // SIT
    ew_set_state64(DevDiner_first, ew_message_word(0u));
    ew_set_state64(DevDiner_second, ew_message_word(1u));
    left = ew_message_word(2u);
    ew_set_state64(DevDiner_left, left);
    if all(left == vec2(0u, 0u)) { return; }
  } else {
    ew_add_state64(DevDiner_held, vec2(1u, 0u));
  }
  let held = ew_state64(DevDiner_held).x;
  let first = ew_state64(DevDiner_first);
  let second = ew_state64(DevDiner_second);
  // To whom it sends 2, TAKE.
  var take = first;
  if held == 1u { take = second; }
  if held == 2u {
    ew_set_state64(DevDiner_held, vec2(0u, 0u));
    ew_add_state64(DevDiner_count, vec2(1u, 0u));
    left = ew_less64by(left, 1u);
    ew_set_state64(DevDiner_left, left);
    ew_tell(second, 4u, 0u, EwWords());
    ew_tell(first, 4u, 0u, EwWords());
    if all(left == vec2(0u, 0u)) { return; }
  }
  ew_tell(take, 2u, 0u, EwWords());
}

fn philosophers_fork() {
  let philosopher = ew_message_from();
  let none = vec2(0u, 0u);
  var holder = ew_state64(DevDiner_first);
  let waiting = ew_state64(DevDiner_second);
  if ew_message_tag() == 2u {  // TAKE
    if any(holder != none) {
      // Only two philosophers use a fork, so at most one waits.
      if any(waiting != none) || all(holder == philosopher) { ew_add_state64(DevDiner_held, vec2(1u, 0u)); }
      ew_set_state64(DevDiner_second, philosopher);
      return;
    }
    holder = philosopher;
  } else {  // PUT_BACK
    if any(holder != philosopher) { ew_add_state64(DevDiner_held, vec2(1u, 0u)); }
    holder = waiting;
    ew_set_state64(DevDiner_second, none);
  }
  ew_set_state64(DevDiner_first, holder);
  if any(holder != none) {
    ew_add_state64(DevDiner_count, vec2(1u, 0u));
    ew_tell(holder, 3u, 0u, EwWords());
  }
}
