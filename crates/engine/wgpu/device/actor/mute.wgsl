// Senders that wait for room. A sender whose message does not fit leaves a note with the receiver: a cell in the list `waiters`.
// In a later turn, when the mailbox is still full, it sets MUTED in its own word and has no turn any more. A turn of the receiver
// that has made room takes the notes, and in the next dispatch, where it can read them, wakes their senders. A wake is one
// exchange of the sender's word: it clears MUTED, and sets WAIT, which keeps a sender that is not muted yet from it. So a
// sender is never muted without a note that is still there.
//
// An actor whose own mailbox is full is not muted. A sender that finds the mailbox of a muted actor full wakes that actor. So no
// circle of muted actors waits for each other.

var<private> act_bound: u32;
var<private> act_muted: bool;
var<private> act_noted: bool;
var<private> act_taken: u32;

// Wakes a sender, or tells it that its note is gone.
fn act_wake(id: vec2<u32>) {
  let slot = act_slot_at(act_number(id));
  let generation = act_generation(id);
  if ew_load(slot + DevWgpuActor_generation) != generation { return; }
  var seen = ew_load(slot + DevWgpuActor_mail);
  while act_lives(seen, generation) {
    let next = (seen | act_flags(MAIL_WAIT)) & ~act_flags(MAIL_MUTED);
    let now = atomicCompareExchangeWeak(&memory[slot + DevWgpuActor_mail], seen, next);
    if now.exchanged {
      if act_has(seen, MAIL_MUTED) { act_turn(ew_load(slot + DevWgpuActor_kind) & 0xffffu, act_number(id)); }
      return;
    }
    seen = now.old_value;
  }
}
// Makes a muted actor run that is full, and handles messages.
fn act_press(id: vec2<u32>) {
  let slot = act_slot_at(act_number(id));
  let kind = ew_load(slot + DevWgpuActor_kind);
  var seen = ew_load(slot + DevWgpuActor_mail);
  while act_lives(seen, act_generation(id)) && act_has(seen, MAIL_MUTED) && act_count(seen) >= (kind >> 16u)
    && (!act_has(seen, MAIL_PAUSED) || act_has(seen, MAIL_KILL)) {
    let now = atomicCompareExchangeWeak(&memory[slot + DevWgpuActor_mail], seen, seen & ~act_flags(MAIL_MUTED));
    if now.exchanged {
      act_turn(kind & 0xffffu, act_number(id));
      return;
    }
    seen = now.old_value;
  }
}

// The first message of the outbox has no room. Returns whether the actor goes on all the same. Otherwise it has left a note, and
// looks again in the next dispatch; or it is muted, and its turn is over.
fn act_waits() -> bool {
  let to = act_load2(act_cell_at(act_outbox_first - 1u) + DevWgpuMessage_to);
  let mail = act_slot + DevWgpuActor_mail;
  var seen = ew_load(mail);
  loop {
    let handles = !act_has(seen, MAIL_PAUSED) || act_has(seen, MAIL_KILL);
    if handles && act_count(seen) >= act_bound { return true; }
    // Senders that wait for this actor come first.
    if act_taken != 0u { return false; }
    let noted = act_noted && !act_has(seen, MAIL_WAIT);
    let next = select(seen & ~act_flags(MAIL_WAIT), seen | act_flags(MAIL_MUTED), noted);
    let now = atomicCompareExchangeWeak(&memory[mail], seen, next);
    if now.exchanged {
      act_muted = noted;
      break;
    }
    seen = now.old_value;
  }
  if act_muted {
    ew_add64(act_control + DevActorControl_mutes, vec2(1u, 0u));
    act_press(to);
    return false;
  }
  let note = act_cell();
  if note == ACT_NONE { return false; }
  act_store2(act_cell_at(note) + DevWgpuMessage_sender, act_self);
  let before = atomicExchange(&memory[act_slot_at(act_number(to)) + DevWgpuActor_waiters], note + 1u);
  ew_add(act_cell_at(note) + DevWgpuMessage_next, before);
  act_noted = true;
  return false;
}

// Wakes the senders of the notes that were taken in an earlier dispatch, as many as there is room for.
fn act_wake_taken() {
  while act_taken != 0u && act_room > 2u {
    let note = act_taken - 1u;
    let cell = act_cell_at(note);
    let sender = act_load2(cell + DevWgpuMessage_sender);
    act_taken = ew_load(cell + DevWgpuMessage_next);
    let before = atomicSub(&memory[cell + DevWgpuMessage_next], act_taken);
    act_give(false, note, before | sender.x | sender.y);
    act_wake(sender);
  }
}
// Takes the notes of waiting senders. The next turn wakes them.
fn act_take_notes() {
  let at = act_slot + DevWgpuActor_waiters;
  if act_taken == 0u && ew_load(at) != 0u { act_taken = atomicExchange(&memory[at], 0u); }
}
