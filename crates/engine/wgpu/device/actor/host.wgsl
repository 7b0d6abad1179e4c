// The functions by which the host reaches actors: crates/actor/src/builtin.rs on this engine. The image has their numbers
// (ACT_HOST_TELL and so on), which follow those of the turns.
// Messages or signals that one task sends; another one goes on.
const ACT_STEP = 8u;

fn act_host(which: u32) {
  switch which {
    case ACT_HOST_TELL: { act_host_tell(); }
    case ACT_HOST_ASK: { act_host_ask(); }
    case ACT_HOST_VALUE: { ew_report_add(ew_lo(), ew_hi()); }
    case ACT_HOST_LAUNCH: {
      let ids = ew_pointer(DevActors_ids);
      for (var i = ew_lo(); i < ew_lo() + ew_hi(); i += 1u) { act_store2(ids + 2u * i, act_launch(ew_tag(), ACT_NO_ONE)); }
    }
    case ACT_HOST_SIGNAL, ACT_HOST_CLOSE: { act_host_signal(which); }
    case ACT_HOST_ANCHOR: {
      // The group stays open; its tasks will be in many workgroups.
      t_spawned += 1u;
      mark_shared(t_task.y);
      act_store2(act_control + DevActorControl_world, vec2(t_task.y, 0u));
    }
    default: { act_value(ew_load(act_control + DevActorControl_world), 0u); }
  }
}

// Spawns a task for what is left of a range.
fn act_go_on(which: u32, first: u32, left: u32) {
  if left != 0u { ew_spawn(act_base + ew_param(DevActors_kinds) + which, ew_tag(), first, left); }
}

// Sends the message in a record of the host.
fn act_host_send(record: u32, flags: u32, sender: vec2<u32>) -> u32 {
  let to = act_load2(record + DevWgpuMessage_to);
  let sent = act_accept(to);
  if sent == SENT_FULL { return TELL_FULL; }
  if sent == SENT_GONE { return TELL_GONE; }
  let at = act_cell();
  if at == ACT_NONE { return TELL_GONE; }
  var words: EwWords;
  for (var i = 0u; i < MESSAGE_WORDS; i += 1u) { words[i] = act_load2(record + DevWgpuMessage_words + 2u * i); }
  act_write(at, ew_load(record + DevWgpuMessage_head) | flags, sender, words);
  act_link(act_number(to), at, sent);
  return TELL_DELIVERED;
}

// Messages to one actor, in order. The first that does not fit keeps the later ones back.
fn act_host_tell() {
  let first = ew_lo();
  let count = ew_hi();
  let step = min(count, ACT_STEP);
  let records = ew_pointer(DevActors_tells) + first * words_of_DevWgpuMessage;
  var status = TELL_DELIVERED;
  var left = 0u;
  for (var i = 0u; i < count && (i < step || status == TELL_FULL); i += 1u) {
    let record = records + i * words_of_DevWgpuMessage;
    if status != TELL_FULL { status = act_host_send(record, 0u, ACT_NO_ONE); }
    ew_store(record + DevWgpuMessage_next, status);
    left += select(1u, 0u, status == TELL_DELIVERED);
  }
  if status != TELL_FULL { act_go_on(ACT_HOST_TELL, first + step, count - step); }
  if left != 0u { ew_report_add(left, 0u); }
}

// The ask in record `lo`. Its group stays open until act_value ends it, and completes in that dispatch: what follows is the host,
// which sees all that was written.
fn act_host_ask() {
  let index = ew_lo();
  let record = ew_pointer(DevActors_replies) + index * words_of_DevWgpuMessage;
  t_spawned += 1u;
  let status = act_host_send(record, MESSAGE_ASK | MESSAGE_HOST, vec2(t_task.y, index));
  if status != TELL_DELIVERED {
    ew_store(record + DevWgpuMessage_head, MESSAGE_REPLY | MESSAGE_FAILED);
    ew_store(record + DevWgpuMessage_next, status);
    act_value(t_task.y, status);
  }
  // The host may end the group of turns from the end of this dispatch on.
  ew_add64(act_control + DevActorControl_asked, vec2(1u, 0u));
}

// Sends the signal `tag` to actors, or ends those in slots. Reports how many did not live.
fn act_host_signal(which: u32) {
  let first = ew_lo();
  let count = ew_hi();
  let step = min(count, ACT_STEP);
  let close = which == ACT_HOST_CLOSE;
  for (var i = first; i < first + step; i += 1u) {
    var to = act_load2(ew_pointer(DevActors_ids) + 2u * i);
    if close { to = act_id(i, ew_load(act_slot_at(i) + DevWgpuActor_generation)); }
    let sent = act_signal(to, select(ew_tag(), SIGNAL_KILL, close));
    if (sent & 0xffu) == SENT_ACTIVATE { act_turn(sent >> 8u, act_number(to)); }
    if sent == SENT_GONE { ew_report_add(1u, 0u); }
  }
  act_go_on(which, first + step, count - step);
}
