// The running actor, as its handler sees it. A handler is a function without parameters, called `PROGRAM_KIND`. It calls the
// `ew_` functions; numbers of 64 bits are two words, the lower one first.
//
// What a handler sends goes to the actor's outbox, and is delivered from there once the handler has returned, so that the code
// that delivers is there once.

// Where its state and the program's parameters are.
var<private> ew_state: u32;
var<private> ew_user: u32;

var<private> act_slot: u32;
var<private> act_self: vec2<u32>;
var<private> act_sends: u32;       // messages and signals that the handler may still send
var<private> act_stopping: bool;
var<private> act_failed: bool;
var<private> act_asked: bool;      // the message is an ask without a reply
var<private> act_answered: bool;   // it is the host's, and its reply is in the record
var<private> act_outbox_first: u32;
var<private> act_outbox_last: u32;
var<private> act_blocked: bool;    // the receiver of its first message has no room
// Its kind is atomic; and the outbox before its handler was called.
var<private> act_atomic: bool;
var<private> act_mark_first: u32;
var<private> act_mark_last: u32;
// The message.
var<private> act_head: u32;
var<private> act_from: vec2<u32>;
var<private> act_words: EwWords;

fn ew_message_tag() -> u32 { return act_head & 0xffu; }
fn ew_message_count() -> u32 { return (act_head >> MESSAGE_WORDS_SHIFT) & 0xffu; }
fn ew_message_word(i: u32) -> vec2<u32> {
  if i >= ew_message_count() { return vec2(0u, 0u); }
  return act_words[i];
}
// The sender; 0 if it is the host.
fn ew_message_from() -> vec2<u32> { return select(act_from, ACT_NO_ONE, (act_head & MESSAGE_HOST) != 0u); }
fn ew_message_is_ask() -> bool { return (act_head & MESSAGE_ASK) != 0u; }
fn ew_message_is_reply() -> bool { return (act_head & MESSAGE_REPLY) != 0u; }
// The reason why an ask has no reply (DEAD_...), or EW_REPLIED.
const EW_REPLIED = ACT_NONE;
fn ew_message_failure() -> u32 { return select(EW_REPLIED, act_head & 0xffu, (act_head & MESSAGE_FAILED) != 0u); }
// The number that the actor gave to its ask, in a reply.
fn ew_message_ask() -> vec2<u32> { return act_words[MESSAGE_WORDS - 1u]; }

fn ew_actor_id() -> vec2<u32> { return act_self; }
fn ew_actor_parent() -> vec2<u32> { return act_load2(act_slot + DevWgpuActor_parent); }

// Numbers of 64 bits of the state, by the word at which they begin.
fn ew_state64(at: u32) -> vec2<u32> { return act_load2(ew_state + at); }
fn ew_set_state64(at: u32, value: vec2<u32>) { act_store2(ew_state + at, value); }
fn ew_add_state64(at: u32, value: vec2<u32>) { ew_set_state64(at, ew_sum64(ew_state64(at), value)); }
fn ew_sum64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn ew_less64by(a: vec2<u32>, less: u32) -> vec2<u32> { return vec2(a.x - less, a.y - select(0u, 1u, a.x < less)); }
// The product modulo 2^64, and the remainder of a division by up to 2^28.
fn ew_product64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = ew_mul(a.x, b.x);
  return vec2(low.x, low.y + a.x * b.y + a.y * b.x);
}
fn ew_remainder64(a: vec2<u32>, by: u32) -> u32 {
  var rest = a.y % by;
  for (var shift = 32u; shift > 0u; shift -= 4u) { rest = ((rest << 4u) | ((a.x >> (shift - 4u)) & 15u)) % by; }
  return rest;
}
// A random number for a number: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
fn ew_mix64(number: vec2<u32>) -> vec2<u32> {
  var z = ew_sum64(number, vec2(0x7f4a7c15u, 0x9e3779b9u));
  z = ew_product64(z ^ vec2((z.x >> 30u) | (z.y << 2u), z.y >> 30u), vec2(0x1ce4e5b9u, 0xbf58476du));
  z = ew_product64(z ^ vec2((z.x >> 27u) | (z.y << 5u), z.y >> 27u), vec2(0x133111ebu, 0x94d049bbu));
  return z ^ vec2((z.x >> 31u) | (z.y << 1u), z.y >> 31u);
}
fn ew_less64(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }

// The words of a message.
fn ew_words1(a: vec2<u32>) -> EwWords { return ew_words3(a, vec2(0u, 0u), vec2(0u, 0u)); }
fn ew_words2(a: vec2<u32>, b: vec2<u32>) -> EwWords { return ew_words3(a, b, vec2(0u, 0u)); }
fn ew_words3(a: vec2<u32>, b: vec2<u32>, c: vec2<u32>) -> EwWords { return EwWords(a, b, c, vec2(0u, 0u), vec2(0u, 0u)); }

fn act_spend() -> bool {
  if act_sends == 0u {
    ew_fault(ACTOR_FAULT_SENDS, 0u);
    return false;
  }
  act_sends -= 1u;
  return true;
}
fn act_write(at: u32, head: u32, sender: vec2<u32>, words: EwWords) {
  let cell = act_cell_at(at);
  var all = words;
  ew_store(cell + DevWgpuMessage_head, head);
  act_store2(cell + DevWgpuMessage_sender, sender);
  for (var i = 0u; i < MESSAGE_WORDS; i += 1u) { act_store2(cell + DevWgpuMessage_words + 2u * i, all[i]); }
}
// Puts a message into the outbox.
fn act_post(to: vec2<u32>, head: u32, sender: vec2<u32>, words: EwWords) {
  let at = act_cell();
  if at == ACT_NONE { return; }
  act_write(at, head, sender, words);
  act_store2(act_cell_at(at) + DevWgpuMessage_to, to);
  if act_outbox_first == 0u { act_outbox_first = at + 1u; } else { ew_add(act_cell_at(act_outbox_last) + DevWgpuMessage_next, at + 1u); }
  act_outbox_last = at;
}

// Sends a message of `count` words.
fn ew_tell(to: vec2<u32>, tag: u32, count: u32, words: EwWords) {
  if act_spend() { act_post(to, tag | (count << MESSAGE_WORDS_SHIFT), act_self, words); }
}
// Sends a message, if there is room for it now. Returns whether there was, or the receiver does not live.
fn ew_try_tell(to: vec2<u32>, tag: u32, count: u32, words: EwWords) -> bool {
  if !act_spend() { return false; }
  // What a handler of an atomic kind has sent before stays in the outbox, because it may fail yet.
  if !act_atomic { act_flush(); }
  if act_outbox_first != 0u && (!act_atomic || act_mark_first != 0u) { return false; }
  let sent = act_accept(to);
  if sent == SENT_FULL { return false; }
  if sent == SENT_GONE {
    act_count_dead(DEAD_GONE);
    return true;
  }
  let at = act_cell();
  if at == ACT_NONE { return false; }
  act_write(at, tag | (count << MESSAGE_WORDS_SHIFT), act_self, words);
  act_link(act_number(to), at, sent);
  return true;
}
// Sends an ask of up to four words; the reply has the number.
fn ew_ask(to: vec2<u32>, tag: u32, count: u32, words: EwWords, number: vec2<u32>) {
  var all = words;
  all[MESSAGE_WORDS - 1u] = number;
  if act_spend() { act_post(to, tag | (count << MESSAGE_WORDS_SHIFT) | MESSAGE_ASK, act_self, all); }
}
// Replies to an ask with up to four words. Returns whether the message is an ask without a reply.
fn ew_reply(tag: u32, count: u32, words: EwWords) -> bool {
  if !act_asked { return false; }
  act_asked = false;
  var all = words;
  all[MESSAGE_WORDS - 1u] = act_words[MESSAGE_WORDS - 1u];
  let head = tag | (count << MESSAGE_WORDS_SHIFT) | MESSAGE_REPLY;
  // The ask of the host ends when the handler has returned, and has not failed.
  act_answered = (act_head & MESSAGE_HOST) != 0u;
  if act_answered { act_record(act_from.y, head, all); } else { act_post(act_from, head, act_self, all); }
  return true;
}
// Sends the message on as it is; an ask is the receiver's to reply to.
fn ew_forward(to: vec2<u32>) {
  if !act_spend() { return; }
  let ask = act_asked;
  act_asked = false;
  act_post(to, (act_head & 0xffffu) | select(0u, act_head & (MESSAGE_ASK | MESSAGE_HOST), ask), act_from, act_words);
}
fn ew_launch(kind: u32) -> vec2<u32> { return act_launch(kind, act_self); }
fn ew_stop_later(actor: vec2<u32>) { act_send_signal(actor, SIGNAL_STOP); }
fn ew_kill(actor: vec2<u32>) { act_send_signal(actor, SIGNAL_KILL); }
fn ew_stop() { act_stopping = true; }
fn ew_fail() { act_failed = true; }

fn act_send_signal(to: vec2<u32>, signal: u32) {
  if !act_spend() { return; }
  let sent = act_signal(to, signal);
  if (sent & 0xffu) == SENT_ACTIVATE { act_turn(sent >> 8u, act_number(to)); }
}

// Writes the reply to an ask of the host.
fn act_record(index: u32, head: u32, words: EwWords) {
  let record = ew_pointer(DevActors_replies) + index * words_of_DevWgpuMessage;
  ew_store(record + DevWgpuMessage_head, head | MESSAGE_HOST);
  var all = words;
  for (var i = 0u; i + 1u < MESSAGE_WORDS; i += 1u) { act_store2(record + DevWgpuMessage_words + 2u * i, all[i]); }
}

fn act_count_dead(reason: u32) {
  let counter = select(DevActorControl_dead + 2u * reason, DevActorControl_dropped, reason == DEAD_DROPPED);
  ew_add64(act_control + counter, vec2(1u, 0u));
}
// A message with this head will not be handled; an ask ends.
fn act_dead(head: u32, sender: vec2<u32>, words: EwWords, reason: u32) {
  act_count_dead(reason);
  if (head & MESSAGE_ASK) == 0u { return; }
  let reply = MESSAGE_REPLY | MESSAGE_FAILED | reason;
  if (head & MESSAGE_HOST) == 0u {
    act_post(sender, reply, act_self, words);
  } else {
    act_record(sender.y, reply, words);
    act_value(sender.x, 0u);
  }
}

// Delivers what is in the outbox, in order, until a receiver has no room. Leaves room for another turn of this actor.
fn act_flush() {
  act_blocked = false;
  while act_outbox_first != 0u && act_room > 1u {
    let at = act_outbox_first - 1u;
    let cell = act_cell_at(at);
    let to = act_load2(cell + DevWgpuMessage_to);
    let sent = act_accept(to);
    if sent == SENT_FULL {
      act_blocked = true;
      return;
    }
    // By an exchange, because the cell may have had a link of another owner when this dispatch began. No one else adds to it.
    let next = atomicExchange(&memory[cell + DevWgpuMessage_next], 0u);
    act_outbox_first = next;
    act_noted = false;
    if sent == SENT_GONE {
      let head = ew_load(cell + DevWgpuMessage_head);
      let sender = act_load2(cell + DevWgpuMessage_sender);
      var words: EwWords;
      for (var i = 0u; i < MESSAGE_WORDS; i += 1u) { words[i] = act_load2(cell + DevWgpuMessage_words + 2u * i); }
      act_give_written(at);
      act_dead(head, sender, words, DEAD_GONE);
    } else {
      act_link(act_number(to), at, sent);
    }
  }
}
