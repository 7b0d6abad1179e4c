// A turn of an actor. A program's function for them calls act_begin, then the handler as long as act_next says so, each time
// with act_done behind it, and act_end.

// The most messages that one turn handles.
const ACT_BATCH = 32u;

var<private> act_front: u32;
var<private> act_handled: u32;
var<private> act_ends: bool;       // it was killed
var<private> act_looked: bool;
var<private> act_open: bool;       // it handles messages in this turn
var<private> act_gone: bool;       // only the slot is left

fn act_begin() {
  let number = ew_lo();
  act_slot = act_slot_at(number);
  let generation = ew_load(act_slot + DevWgpuActor_generation);
  let mail = ew_load(act_slot + DevWgpuActor_mail);
  act_gone = !act_has(mail, MAIL_LIVE);
  act_handled = 0u;
  act_looked = false;
  act_open = false;
  act_outbox_first = 0u;
  act_muted = false;
  act_taken = ew_load(act_slot + DevWgpuActor_taken);
  act_wake_taken();
  if act_gone {
    // It has ended in an earlier dispatch, so that nothing is written there any more but notes, which are there by now.
    act_take_notes();
    if act_taken != 0u {
      ew_store(act_slot + DevWgpuActor_taken, act_taken);
      act_turn(ew_load(act_slot + DevWgpuActor_kind) & 0xffffu, number);
      return;
    }
    ew_store(act_slot + DevWgpuActor_taken, 0u);
    if generation <= ACTOR_GENERATION_MAX { act_give(true, number, generation); } else {
      ew_add64(act_control + DevActorControl_retired, vec2(1u, 0u));
    }
    return;
  }
  let states = ew_pointer(DevActors_states);
  ew_state = states + number * (ew_param(DevActors_state_bytes) / 4u);
  ew_user = ew_pointer(DevActors_user);
  act_self = act_id(number, generation);
  act_bound = ew_load(act_slot + DevWgpuActor_kind) >> 16u;
  act_front = ew_load(act_slot + DevWgpuActor_front);
  let outbox = ew_load(act_slot + DevWgpuActor_outbox_first);
  act_outbox_first = outbox & ~WGPU_OUTBOX_NOTED;
  act_noted = outbox != act_outbox_first;
  act_outbox_last = ew_load(act_slot + DevWgpuActor_outbox_last);
  act_ends = act_has(mail, MAIL_KILL);
  act_stopping = ew_load(act_control + DevActorControl_closing) != 0u;
}

// Delivers what the handler has sent, and takes the next message. `needs`: the tasks that one message may leave behind.
fn act_next(needs: u32, sends: u32) -> bool {
  if act_gone { return false; }
  act_flush();
  let waits = act_outbox_first != 0u;
  if !act_looked {
    // When the system ends, so do all receivers, and no message waits for long.
    act_looked = true;
    if act_ends || act_stopping { act_take_notes(); }
    let paused = act_has(ew_load(act_slot + DevWgpuActor_mail), MAIL_PAUSED);
    act_open = act_stopping || ((act_ends || !paused) && !waits);
    if act_blocked && !act_stopping { act_open = act_waits(); }
  } else if waits {
    return false;
  }
  if !act_open || act_handled >= ACT_BATCH || act_room < needs || !act_take_message() { return false; }
  act_handled += 1u;
  act_sends = sends;
  act_failed = false;
  act_asked = (act_head & MESSAGE_ASK) != 0u;
  return true;
}
// Whether the message is not for the handler, because the actor ends.
fn act_drops() -> bool { return act_ends || act_stopping; }
// The handler has returned, or was not called.
fn act_done(dropped: bool) {
  let reason = select(select(DEAD_NO_REPLY, DEAD_FAILED, act_failed), DEAD_ENDED, dropped);
  if dropped || act_failed || act_asked { act_dead(select(0u, act_head, act_asked), act_from, act_words, reason); }
}

fn act_is_new(link: u32) -> bool { return (link >> WGPU_LINK_SHIFT) == (round.number & ((1u << (32u - WGPU_LINK_SHIFT)) - 1u)); }

// Takes the oldest message that was linked in an earlier dispatch.
fn act_take_message() -> bool {
  if act_front == 0u {
    if ew_load(act_slot + DevWgpuActor_tail) == 0u { return false; }
    // The mailbox was emptied, and filled again. An older `head` is of the time before.
    let head_at = ew_load(act_slot + DevWgpuActor_head_at);
    let emptied = ew_load(act_slot + DevWgpuActor_emptied);
    if head_at == round.number || i32(head_at - emptied) < 0 { return false; }
    act_front = ew_load(act_slot + DevWgpuActor_head);
  }
  if (act_front & WGPU_FRONT_SPENT) != 0u {
    let spent = (act_front & ~WGPU_FRONT_SPENT) - 1u;
    let next = ew_load(act_cell_at(spent) + DevWgpuMessage_next);
    if next == 0u || act_is_new(next) { return false; }
    act_front = next & ACT_CELL_MASK;
    act_give(false, spent, atomicSub(&memory[act_cell_at(spent) + DevWgpuMessage_next], next));
  }
  let at = act_front - 1u;
  let cell = act_cell_at(at);
  act_head = ew_load(cell + DevWgpuMessage_head);
  act_from = act_load2(cell + DevWgpuMessage_sender);
  var seen = act_head | act_from.x | act_from.y;
  for (var i = 0u; i < MESSAGE_WORDS; i += 1u) {
    act_words[i] = act_load2(cell + DevWgpuMessage_words + 2u * i);
    seen |= act_words[i].x | act_words[i].y;
  }
  var link = ew_load(cell + DevWgpuMessage_next);
  if link == 0u {
    loop {
      let now = atomicCompareExchangeWeak(&memory[act_slot + DevWgpuActor_tail], at + 1u, 0u);
      if now.exchanged {
        ew_store(act_slot + DevWgpuActor_emptied, round.number);
        act_front = 0u;
        act_give(false, at, seen);
        return true;
      }
      // An exchange may also fail without a reason.
      if now.old_value != at + 1u { break; }
    }
  } else if !act_is_new(link) {
    act_front = link & ACT_CELL_MASK;
    act_give(false, at, seen | atomicSub(&memory[cell + DevWgpuMessage_next], link));
    return true;
  }
  // A message is being linked behind it: the cell is kept until the link can be read.
  act_front |= WGPU_FRONT_SPENT;
  return true;
}

fn act_end() {
  if act_gone { return; }
  let mail = act_slot + DevWgpuActor_mail;
  ew_store(act_slot + DevWgpuActor_front, act_front);
  if act_handled > 0u { act_take_notes(); }
  ew_store(act_slot + DevWgpuActor_taken, act_taken);
  ew_store(act_slot + DevWgpuActor_outbox_first, act_outbox_first | select(0u, WGPU_OUTBOX_NOTED, act_noted));
  ew_store(act_slot + DevWgpuActor_outbox_last, act_outbox_last);
  if act_muted { return; }
  if !act_ends {
    let handled = act_load2(act_slot + DevWgpuActor_handled);
    act_store2(act_slot + DevWgpuActor_handled, ew_sum64(handled, vec2(act_handled, 0u)));
  }
  if act_stopping { atomicOr(&memory[mail], act_flags(MAIL_KILL)); }
  let generation = act_generation(act_self);
  let kind = ew_load(act_slot + DevWgpuActor_kind) & 0xffffu;
  var seen = ew_load(mail);
  var again = false;
  var ended = false;
  loop {
    var next = seen - act_handled;
    let empty = act_count(next) == 0u;
    again = act_outbox_first != 0u || act_taken != 0u || (!empty && (!act_has(seen, MAIL_PAUSED) || act_has(seen, MAIL_KILL)));
    ended = !again && empty && act_has(seen, MAIL_STOP | MAIL_KILL);
    if ended { next = act_free_mail(generation + 1u); } else if !again { next &= ~act_flags(MAIL_BUSY); }
    let now = atomicCompareExchangeWeak(&memory[mail], seen, next);
    if now.exchanged { break; }
    seen = now.old_value;
  }
  if ended { ew_store(act_slot + DevWgpuActor_generation, generation + 1u); }
  // The last turn gives the slot back.
  if again || ended { act_turn(kind, act_number(act_self)); }
}
