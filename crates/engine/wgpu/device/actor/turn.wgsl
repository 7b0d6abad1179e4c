// A turn of an actor. The image's function for them sets the numbers of the kind and calls act_begin. Then it calls act_next as
// long as that returns true, each time with the handler behind it if act_handles says so, and act_done. At last it calls act_end.

// The most messages that one turn handles, next to others and alone, and those that it may drop in addition.
const ACT_BATCH = 32u;
const ACT_BATCH_ALONE = 128u;
const ACT_DROPS = 256u;
const ACT_HANDLED = ACT_NONE;

// The numbers of the kind: the tasks that one message may leave behind, the messages that a handler sends, the most restarts
// within a time in milliseconds, how often a message is handled again, the messages that a mailbox keeps (0: all), and the words
// of its state. `act_atomic` is among them, too.
var<private> act_needs: u32;
var<private> act_may_send: u32;
var<private> act_restarts: u32;
var<private> act_within: u32;
var<private> act_retries: u32;
var<private> act_keep: u32;
var<private> act_state_words: u32;

var<private> act_near: bool;       // the first message was linked by this workgroup
var<private> act_front: u32;
var<private> act_handled: u32;     // messages that have left the mailbox
var<private> act_last: u32;        // the turn ends when it has handled this number
var<private> act_excess: u32;      // messages to drop
var<private> act_reason: u32;      // why the message is not handled, or ACT_HANDLED
var<private> act_left: u32;        // how often it may be handled again
var<private> act_repeats: bool;    // it is
var<private> act_was_asked: bool;
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
  act_near = ew_hi() == TURN_NEAR;
  act_handled = 0u;
  act_last = select(ACT_BATCH, ACT_BATCH_ALONE, t_alone);
  act_excess = 0u;
  act_repeats = false;
  act_answered = false;
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
    // By an exchange, because the slot's next actor may have a turn in this dispatch.
    let seen = generation | atomicExchange(&memory[act_slot + DevWgpuActor_taken], 0u);
    if generation <= ACTOR_GENERATION_MAX { act_give(true, number, seen); } else {
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

// Delivers what the handler has sent, and takes the next message.
fn act_next() -> bool {
  if act_gone { return false; }
  act_flush();
  if !act_repeats && !act_next_message() { return false; }
  act_repeats = false;
  act_sends = act_may_send;
  act_failed = false;
  act_was_asked = act_asked;
  act_mark_first = act_outbox_first;
  act_mark_last = act_outbox_last;
  if act_atomic { act_remember(false); }
  return true;
}
fn act_next_message() -> bool {
  let waits = act_outbox_first != 0u;
  if !act_looked {
    // When the system ends, so do all receivers, and no message waits for long.
    act_looked = true;
    if act_ends || act_stopping { act_take_notes(); }
    let mail = ew_load(act_slot + DevWgpuActor_mail);
    act_open = act_stopping || ((act_ends || !act_has(mail, MAIL_PAUSED)) && !waits);
    if act_blocked && !act_stopping { act_open = act_waits(); }
    if act_keep != 0u && !act_ends && !act_stopping {
      act_excess = max(act_count(mail), act_keep) - act_keep;
      act_last = min(act_excess, ACT_DROPS) + select(act_last, 0u, act_excess > ACT_DROPS);
    }
  } else if waits {
    return false;
  }
  if !act_open || act_handled >= act_last || act_room < act_needs || !act_take_message() { return false; }
  act_handled += 1u;
  act_left = act_retries;
  act_asked = (act_head & MESSAGE_ASK) != 0u;
  act_reason = ACT_HANDLED;
  if act_excess > 0u {
    act_excess -= 1u;
    act_reason = DEAD_DROPPED;
  }
  // The actor ends.
  if act_ends || act_stopping { act_reason = DEAD_ENDED; }
  return true;
}
// Whether the message is for the handler.
fn act_handles() -> bool { return act_reason == ACT_HANDLED; }
// The handler has returned, or was not called.
fn act_done() {
  if act_reason == ACT_HANDLED {
    if act_failed {
      if act_atomic { act_undo(); }
      if !act_restart() {
        act_stopping = true;
      } else if act_left != 0u && !act_stopping {
        act_left -= 1u;
        act_repeats = true;
      }
      act_reason = select(DEAD_FAILED, ACT_HANDLED, act_repeats);
    } else if act_asked {
      act_reason = DEAD_NO_REPLY;
    }
  }
  if act_answered {
    act_answered = false;
    act_value(act_from.x, 0u);
  }
  if act_reason != ACT_HANDLED { act_dead(select(0u, act_head, act_asked), act_from, act_words, act_reason); }
}

// Copies the state to where the states before a message are, which follow all states, or back.
fn act_remember(back: bool) {
  let before = ew_state + ew_param(DevActors_slot_limit) * (ew_param(DevActors_state_bytes) / 4u);
  let to = select(before, ew_state, back);
  let source = select(ew_state, before, back);
  for (var i = 0u; i < act_state_words; i += 1u) { ew_store(to + i, ew_load(source + i)); }
}
// The handler of an atomic kind has failed: its state is as it was, what it sent is not sent, and an ask is an ask again.
fn act_undo() {
  act_remember(true);
  var first = act_outbox_first;
  if act_mark_first != 0u { first = atomicExchange(&memory[act_cell_at(act_mark_last) + DevWgpuMessage_next], 0u); }
  while first != 0u {
    let at = first - 1u;
    first = atomicExchange(&memory[act_cell_at(at) + DevWgpuMessage_next], 0u);
    act_give_written(at);
  }
  act_outbox_first = act_mark_first;
  act_outbox_last = act_mark_last;
  act_asked = act_was_asked;
  act_answered = false;
}
// Whether the actor, which has failed, is restarted: up to `act_restarts` times within a time. Its state is zeros then, unless
// its kind is atomic.
fn act_restart() -> bool {
  if act_restarts == 0u { return false; }
  let at = act_slot + DevWgpuActor_again;
  var again = act_load2(at);
  if again.x == 0u || round.milliseconds - again.y > act_within { again = vec2(0u, round.milliseconds); }
  if again.x >= act_restarts { return false; }
  act_store2(at, vec2(again.x + 1u, again.y));
  ew_add64(act_control + DevActorControl_restarts, vec2(1u, 0u));
  if !act_atomic {
    for (var i = 0u; i < act_state_words; i += 1u) { ew_store(ew_state + i, 0u); }
  }
  return true;
}

fn act_is_new(link: u32) -> bool { return (link >> WGPU_LINK_SHIFT) == (round.number & ((1u << (32u - WGPU_LINK_SHIFT)) - 1u)); }

// Takes the oldest message that was linked in an earlier dispatch, or in this workgroup.
fn act_take_message() -> bool {
  // The cell was written in this dispatch.
  var written = false;
  if act_front == 0u {
    let link = ew_load(act_slot + DevWgpuActor_head);
    if link == 0u || (act_is_new(link) && !act_near) { return false; }
    written = act_is_new(link);
    act_front = link & ACT_CELL_MASK;
    atomicSub(&memory[act_slot + DevWgpuActor_head], link);
  }
  act_near = false;
  if (act_front & WGPU_FRONT_SPENT) != 0u {
    let spent = (act_front & ~WGPU_FRONT_SPENT) - 1u;
    let next = ew_load(act_cell_at(spent) + DevWgpuMessage_next);
    if next == 0u || act_is_new(next) { return false; }
    act_front = next & ACT_CELL_MASK;
    act_give(false, spent, atomicSub(&memory[act_cell_at(spent) + DevWgpuMessage_next], next));
  }
  let at = act_front - 1u;
  let cell = act_cell_at(at);
  var seen = 0u;
  // All words that are written there have arrived before the cell is given back.
  if written { seen = act_arrived(at); }
  act_head = ew_load(cell + DevWgpuMessage_head);
  act_from = act_load2(cell + DevWgpuMessage_sender);
  seen |= act_head | act_from.x | act_from.y;
  for (var i = 0u; i < MESSAGE_WORDS; i += 1u) {
    act_words[i] = act_load2(cell + DevWgpuMessage_words + 2u * i);
    seen |= act_words[i].x | act_words[i].y;
  }
  var link = ew_load(cell + DevWgpuMessage_next);
  if link == 0u {
    loop {
      let now = atomicCompareExchangeWeak(&memory[act_slot + DevWgpuActor_tail], at + 1u, 0u);
      if now.exchanged {
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
    if ended { next = act_free_mail(generation + 1u); } else if !again { next = act_mine(next & ~act_flags(MAIL_BUSY)); }
    let now = atomicCompareExchangeWeak(&memory[mail], seen, next);
    if now.exchanged { break; }
    seen = now.old_value;
  }
  if ended { ew_store(act_slot + DevWgpuActor_generation, generation + 1u); }
  // The last turn gives the slot back.
  if again || ended { act_turn(kind, act_number(act_self)); }
}
