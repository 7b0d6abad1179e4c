// Numbers of agents and wards, and days, have 32 bits.
fn epidemic_id(table: u32, place: u32) -> vec2<u32> {
  let at = (ew_load(ew_user + table) >> 2u) + 2u * place;
  return vec2(ew_load(at), ew_load(at + 1u));
}
fn epidemic_below(random: u32) -> bool {
  let risk = ew_user + DevEpidemic_risk;
  return ew_load(risk + 1u) != 0u || random < ew_load(risk);
}

fn epidemic_agent() {
  let day = ew_message_word(0u);
  if ew_message_tag() == 3u {  // MEET
    let number = ew_message_word(1u);
    let random = ew_mix64(vec2((number.x << 20u) | day.x, number.x >> 12u));
    for (var i = 0u; i < 10u; i += 1u) {
      let met = ew_mix64(ew_sum64(random, vec2(i, 0u)));
      let other = ew_remainder64(met, ew_load(ew_user + DevEpidemic_count));
      ew_tell(epidemic_id(DevEpidemic_agents, other), 4u, 3u, ew_words3(day, number, vec2(other, 0u)));
    }
    return;
  }
  // MET
  if any(ew_state64(DevAgent_since) != vec2(0u, 0u)) { return; }
  let by = ew_message_word(1u);
  let number = ew_message_word(2u);
  let outside = all(by == vec2(0xffffffffu, 0xffffffffu));
  if outside || epidemic_below(ew_mix64(ew_sum64(ew_mix64(vec2(number.x, by.x)), day)).y) {
    ew_set_state64(DevAgent_since, vec2(day.x + 1u, 0u));
    ew_tell(epidemic_id(DevEpidemic_wards, number.x % 64u), 5u, 2u, ew_words2(number, day));
  }
}

fn epidemic_ward() {
  let capacity = ew_load(ew_user + DevEpidemic_capacity);
  let list = (ew_load(ew_user + DevEpidemic_lists) >> 2u) + 2u * capacity * ew_state64(DevAgent_since).x;
  let tag = ew_message_tag();
  let day = ew_message_word(0u);
  if tag == 1u {  // NUMBER
    ew_set_state64(DevAgent_since, day);
    return;
  }
  let listed = ew_state64(DevAgent_listed).x;
  if tag == 5u {  // INFECTED
    ew_store(list + 2u * listed, day.x);
    ew_store(list + 2u * listed + 1u, ew_message_word(1u).x);
    ew_set_state64(DevAgent_listed, vec2(listed + 1u, 0u));
    return;
  }
  // DAY
  var at = ew_message_word(1u).x;
  if ew_message_word(1u).y != 0u {  // BEGIN
    at = ew_state64(DevAgent_first).x;
    // The list is in the order of days.
    while at < listed && ew_load(list + 2u * at + 1u) + 5u < day.x { at += 1u; }
    ew_set_state64(DevAgent_first, vec2(at, 0u));
  }
  for (var i = 0u; i < 17u; i += 1u) {
    // The others were infected today.
    if at >= listed || ew_load(list + 2u * at + 1u) >= day.x { return; }
    // After 16 agents, a message to itself goes on.
    let more = i == 16u;
    let number = select(ew_load(list + 2u * at), at, more);
    var to = ew_actor_id();
    if !more { to = epidemic_id(DevEpidemic_agents, number); }
    ew_tell(to, select(3u, 2u, more), 2u, ew_words2(day, vec2(number, 0u)));
    at += 1u;
  }
}
