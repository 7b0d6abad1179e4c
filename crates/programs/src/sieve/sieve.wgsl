const SIEVE_KEPT = 26u;

fn sieve_filter() {
  let number = ew_message_word(0u).x;
  let count = ew_load(ew_state + DevSieve_count);
  for (var i = 0u; i < count; i += 1u) {
    if number % ew_load(ew_state + DevSieve_primes + i) == 0u { return; }
  }
  if count < SIEVE_KEPT {
    ew_store(ew_state + DevSieve_primes + count, number);
    ew_store(ew_state + DevSieve_count, count + 1u);
    return;
  }
  var next = ew_state64(DevSieve_next);
  if all(next == vec2(0u, 0u)) {
    next = ew_launch(0u);
    ew_set_state64(DevSieve_next, next);
  }
  ew_tell(next, 0u, 1u, ew_words1(vec2(number, 0u)));
}

fn sieve_source() {
  var number = ew_message_word(0u);
  let end = ew_message_word(1u);
  let to = ew_message_word(2u);
  for (var i = 0u; i < 8u && ew_less64(number, end); i += 1u) {
    ew_tell(to, 0u, 1u, ew_words1(number));
    number = ew_sum64(number, vec2(2u, 0u));
  }
  if ew_less64(number, end) { ew_tell(ew_actor_id(), 0u, 3u, ew_words3(number, end, to)); }
}
