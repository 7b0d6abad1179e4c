// Mailboxes, and the pools of cells and slots. The promises are those of crates/actor/src/mailbox.rs; the way is another one,
// because only single words mean anything between workgroups within a dispatch.
//
// A message is accepted by one exchange of the receiver's word `mail`, which checks that the actor lives and has room. Then
// its cell becomes the `tail`, and its number is added to the link of the cell before it, or to the slot's `head`. A turn goes
// from the oldest cell along links that were added in earlier dispatches, which say so themselves: `WGPU_LINK_SHIFT`. So it
// never reads a message that is being written.
//
// Links are added and subtracted, not stored: two additions have the same result in any order, and a cell may be linked in the
// dispatch in which it was freed and taken again.
//
// A turn is *near* if its sender found the actor idle and its mailbox empty, and if the last turn, or the launch, was in the same
// workgroup, whose number the word `mail` has. Then all that the turn reads was written in this workgroup or in an earlier
// dispatch: by the same invocation, or before a barrier. Such a turn may run in this dispatch, and handles that message. It does so
// where the workgroup has nothing else to run: on the spot after the turn that made it, or in the next step after a task of the host.

alias EwWords = array<vec2<u32>, MESSAGE_WORDS>;

// The system of the running task, as indices of words.
var<private> act_base: u32;  // the function of the first kind's turns
var<private> act_slots: u32;
var<private> act_cells: u32;
var<private> act_control: u32;
// Turns and other tasks that the running one may still leave behind.
var<private> act_room: u32;

const ACT_NONE = 0xffffffffu;
const ACT_NO_ONE = vec2(0u, 0u);
const ACT_CELL_MASK = (1u << WGPU_LINK_SHIFT) - 1u;
const ACT_SLOT_MASK = (1u << ACTOR_GENERATION_SHIFT) - 1u;

const SENT_DELIVERED = 0u;  // the mailbox has it
const SENT_ACTIVATE = 1u;   // the same, and the caller makes a turn; | kind << 8, and SENT_NEAR
const SENT_FULL = 2u;
const SENT_GONE = 3u;       // the receiver does not live, or ends

const SENT_NEAR = 1u << 31u;  // the turn is near if the message is the first of the mailbox

const SIGNAL_STOP = 0u;
const SIGNAL_KILL = 1u;
const SIGNAL_PAUSE = 2u;

fn act_system(base: u32) {
  act_base = base;
  act_slots = ew_pointer(DevActors_slots);
  act_cells = ew_pointer(DevActors_cells);
  act_control = ew_pointer(DevActors_control);
  act_room = t_info & FUNCTION_SPAWNS;
}

fn act_load2(at: u32) -> vec2<u32> { return vec2(ew_load(at), ew_load(at + 1u)); }
fn act_store2(at: u32, value: vec2<u32>) {
  ew_store(at, value.x);
  ew_store(at + 1u, value.y);
}
fn act_cell_at(number: u32) -> u32 { return act_cells + number * words_of_DevWgpuMessage; }
fn act_slot_at(number: u32) -> u32 { return act_slots + number * words_of_DevWgpuActor; }

// Ids.
fn act_id(number: u32, generation: u32) -> vec2<u32> {
  return vec2(number | (generation << ACTOR_GENERATION_SHIFT), generation >> (32u - ACTOR_GENERATION_SHIFT));
}
fn act_number(id: vec2<u32>) -> u32 { return id.x & ACT_SLOT_MASK; }
fn act_generation(id: vec2<u32>) -> u32 {
  return (id.x >> ACTOR_GENERATION_SHIFT) | ((id.y << (32u - ACTOR_GENERATION_SHIFT)) & ACTOR_GENERATION_MAX);
}
fn act_named(id: vec2<u32>) -> bool {
  return act_number(id) < ew_param(DevActors_slot_limit) && act_generation(id) != 0u && (id.y >> (ACTOR_NODE_SHIFT - 32u)) == 0u;
}

// The word of a mailbox.
fn act_flags(flags: u32) -> u32 { return flags << WGPU_MAIL_FLAGS; }
fn act_has(mail: u32, flags: u32) -> bool { return (mail & act_flags(flags)) != 0u; }
fn act_count(mail: u32) -> u32 { return mail & MAIL_COUNT_MAX; }
fn act_lives(mail: u32, generation: u32) -> bool {
  let differ = (mail >> WGPU_MAIL_GENERATION) ^ generation;
  return act_has(mail, MAIL_LIVE) && (differ & ((1u << (WGPU_MAIL_WORKGROUP - WGPU_MAIL_GENERATION)) - 1u)) == 0u;
}
const ACT_MAIL_MASK = (1u << WGPU_MAIL_WORKGROUP) - 1u;
// The word without its last workgroup, and with this one.
fn act_mine(mail: u32) -> u32 { return (mail & ACT_MAIL_MASK) | (ew_workgroup << WGPU_MAIL_WORKGROUP); }
fn act_free_mail(generation: u32) -> u32 { return act_mine(generation << WGPU_MAIL_GENERATION); }

// Free cells and slots are bits: who clears one has the number. Cells come first.
fn act_bits(slots: bool) -> u32 {
  return ew_pointer(DevActors_shards) + select(0u, (ew_param(DevActors_cell_limit) + 63u) / 64u * 2u, slots);
}
// Where the last searches of this invocation for a cell and for a slot have ended, plus one.
var<private> act_hints: vec2<u32>;
// Takes one number; ACT_NONE if there is none. Each invocation begins elsewhere, and goes on where it has found one.
fn act_take(slots: bool) -> u32 {
  let first = act_bits(slots);
  let words = (ew_param(select(DevActors_cell_limit, DevActors_slot_limit, slots)) + 31u) / 32u;
  let all = round.workgroups * EW_THREADS;
  let pool = select(0u, 1u, slots);
  let home = (ew_workgroup * EW_THREADS + ew_thread) * max(words / all, 1u);
  var at = select(act_hints[pool] - 1u, home, act_hints[pool] == 0u) % words;
  for (var i = 0u; i < words; i += 1u) {
    var seen = ew_load(first + at);
    // Each round, one bit less: another invocation has taken it.
    while seen != 0u {
      let place = firstTrailingBit(seen);
      seen = atomicAnd(&memory[first + at], ~(1u << place));
      if ((seen >> place) & 1u) != 0u {
        act_hints[pool] = at + 1u;
        return at * 32u + place;
      }
    }
    at = select(at + 1u, 0u, at + 1u == words);
  }
  return ACT_NONE;
}
// Gives a number back. `seen` is made of all that was read under it last: the next owner may write there at once, so the bit
// must not be set before these words have arrived. WGSL orders nothing here; that the bit depends on them does.
fn act_give(slots: bool, number: u32, seen: u32) {
  atomicOr(&memory[act_bits(slots) + number / 32u], (1u << (number % 32u)) | (seen & round.zero));
}
// A value that depends on all words of a cell that this workgroup may have written in this dispatch, as exchanges have seen them.
fn act_arrived(number: u32) -> u32 {
  var seen = 0u;
  for (var i = 0u; i < words_of_DevWgpuMessage; i += 1u) { seen |= atomicOr(&memory[act_cell_at(number) + i], 0u); }
  return seen;
}
// Gives such a cell back.
fn act_give_written(number: u32) { act_give(false, number, act_arrived(number)); }
// A cell; without one, the engine ends.
fn act_cell() -> u32 {
  let at = act_take(false);
  if at == ACT_NONE { ew_fault(ACTOR_FAULT_CELLS, 0u); }
  return at;
}

// Accepts a message for an actor: SENT_...; then act_link links it.
fn act_accept(to: vec2<u32>) -> u32 {
  if !act_named(to) { return SENT_GONE; }
  let slot = act_slot_at(act_number(to));
  // A slot has another generation in each dispatch at most. So where this one's is right, the lower bits are enough.
  let generation = act_generation(to);
  if ew_load(slot + DevWgpuActor_generation) != generation { return SENT_GONE; }
  let kind = ew_load(slot + DevWgpuActor_kind);
  var seen = ew_load(slot + DevWgpuActor_mail);
  loop {
    if !act_lives(seen, generation) || act_has(seen, MAIL_STOP | MAIL_KILL) { return SENT_GONE; }
    if act_count(seen) >= (kind >> 16u) { return SENT_FULL; }
    let quiet = act_has(seen, MAIL_BUSY | MAIL_PAUSED);
    let now = atomicCompareExchangeWeak(
      &memory[slot + DevWgpuActor_mail], seen, (seen + 1u) | select(act_flags(MAIL_BUSY), 0u, quiet));
    if now.exchanged {
      if quiet { return SENT_DELIVERED; }
      let near = act_count(seen) == 0u && act_mine(seen) == seen;
      return SENT_ACTIVATE | ((kind & 0xffffu) << 8u) | select(0u, SENT_NEAR, near);
    }
    seen = now.old_value;
  }
  return SENT_GONE;
}
// Puts an accepted message at the end of a mailbox, and makes the turn that `sent` asks for. The link of its cell is 0.
fn act_link(number: u32, cell: u32, sent: u32) {
  let slot = act_slot_at(number);
  let before = atomicExchange(&memory[slot + DevWgpuActor_tail], cell + 1u);
  var link = slot + DevWgpuActor_head;
  if before != 0u { link = act_cell_at(before - 1u) + DevWgpuMessage_next; }
  ew_add(link, (round.number << WGPU_LINK_SHIFT) | (cell + 1u));
  if sent == SENT_DELIVERED { return; }
  let near = (sent & SENT_NEAR) != 0u && before == 0u;
  act_turn_of((sent >> 8u) & 0xffffu, number, select(turn_later(), TURN_NEAR, near));
}

// SENT_DELIVERED, SENT_ACTIVATE | kind << 8, or SENT_GONE.
fn act_signal(to: vec2<u32>, signal: u32) -> u32 {
  if !act_named(to) { return SENT_GONE; }
  let slot = act_slot_at(act_number(to));
  let generation = act_generation(to);
  if ew_load(slot + DevWgpuActor_generation) != generation { return SENT_GONE; }
  let kind = ew_load(slot + DevWgpuActor_kind) & 0xffffu;
  var seen = ew_load(slot + DevWgpuActor_mail);
  loop {
    if !act_lives(seen, generation) { return SENT_GONE; }
    var next = seen;
    var runs = true;
    switch signal {
      case SIGNAL_STOP: { next |= act_flags(MAIL_STOP); }
      case SIGNAL_KILL: { next |= act_flags(MAIL_KILL); }
      case SIGNAL_PAUSE: {
        next |= act_flags(MAIL_PAUSED);
        runs = false;
      }
      default: {
        next &= ~act_flags(MAIL_PAUSED);
        runs = act_count(seen) != 0u;
      }
    }
    var activates = runs && !act_has(seen, MAIL_BUSY);
    if act_has(seen, MAIL_MUTED) && (signal == SIGNAL_KILL || signal > SIGNAL_PAUSE) {
      next &= ~act_flags(MAIL_MUTED);
      activates = true;
    }
    if activates { next |= act_flags(MAIL_BUSY); }
    let now = atomicCompareExchangeWeak(&memory[slot + DevWgpuActor_mail], seen, next);
    if now.exchanged { return select(SENT_DELIVERED, SENT_ACTIVATE | (kind << 8u), activates); }
    seen = now.old_value;
  }
  return SENT_GONE;
}

// Launches an actor with an empty mailbox and a state of zeros. Its id; 0 when there is no slot.
fn act_launch(kind: u32, parent: vec2<u32>) -> vec2<u32> {
  if ew_load(act_control + DevActorControl_closing) != 0u { return ACT_NO_ONE; }
  let number = act_take(true);
  if number == ACT_NONE {
    ew_add64(act_control + DevActorControl_launch_refusals, vec2(1u, 0u));
    return ACT_NO_ONE;
  }
  atomicMax(&memory[act_control + DevActorControl_fresh_slots], number + 1u);
  let words = ew_param(DevActors_state_bytes) / 4u;
  let state = ew_pointer(DevActors_states) + number * words;
  for (var i = 0u; i < words; i += 1u) { ew_store(state + i, 0u); }
  let slot = act_slot_at(number);
  let generation = max(ew_load(slot + DevWgpuActor_generation), 1u);
  let bounds = ew_load(ew_pointer(DevActors_bounds) + kind / 2u);
  ew_store(slot + DevWgpuActor_kind, kind | ((bounds >> (kind % 2u * 16u)) << 16u));
  ew_store(slot + DevWgpuActor_generation, generation);
  ew_store(slot + DevWgpuActor_front, 0u);
  ew_store(slot + DevWgpuActor_outbox_first, 0u);
  act_store2(slot + DevWgpuActor_handled, vec2(0u, 0u));
  act_store2(slot + DevWgpuActor_parent, parent);
  act_store2(slot + DevWgpuActor_again, vec2(0u, 0u));
  ew_store(slot + DevWgpuActor_mail, act_free_mail(generation) | act_flags(MAIL_LIVE));
  return act_id(number, generation);
}

// Makes a turn for the next dispatch.
fn act_turn(kind: u32, number: u32) { act_turn_of(kind, number, turn_later()); }
// Makes a turn in the group that counts turns, which is the running task's or not. One that is near may follow on the spot, or after
// a task of the host; next to other tasks it is one for the next dispatch, which takes more messages at a time.
fn act_turn_of(kind: u32, number: u32, when: u32) {
  let world = ew_load(act_control + DevActorControl_world);
  let near = when == TURN_NEAR && t_alone;
  let host = world != t_task.y;
  let keeps = near && !host && t_keeps && !t_kept;
  if host {
    atomicAdd(&groups[world * words_of_DevWgpuGroup + DevWgpuGroup_pending], 1u);
    t_children += 1u;
  } else {
    t_spawned += 1u;
  }
  act_room -= 1u;
  let task = vec4(t_head(act_base + kind, 0u), world, number, select(turn_later(), TURN_NEAR, keeps || (near && host)));
  if keeps {
    t_kept = true;
    t_next = task;
  } else {
    t_put(task);
  }
}
// Makes the task that reports a value to a group that was held open for it.
fn act_value(group: u32, value: u32) {
  t_children += 1u;
  act_room -= 1u;
  t_put(vec4(t_head(act_base + ew_param(DevActors_kinds) + ACT_HOST_VALUE, 0u), group, value, 0u));
}
