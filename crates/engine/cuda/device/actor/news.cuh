// What goes next to the mailboxes: news for actors, and events for the host. Notes are those of crates/actor/src/notes.rs,
// with a list in the same word; the host's side is crates/actor/src/events.rs. All calls are leaves: see EW_CALL.
//
// News overtake the mailbox and have no bound: each stands for something that the program has made. Their list is in the
// word of the notes, the newest first, and the turn takes all of it at once. A sender sets the note with the cell, then
// changes the mailbox's word, and the turn looks at the notes after it has changed that word. So either the turn sees the
// news, or their sender sees that the actor rests, and makes it busy.
//
// An actor may end while news are put into its list. Then they stay in the list of its slot until the next actor is
// launched there, or until that one takes them and sees that they are not for it.
//
// Events are copied to a ring, in the order in which they get their places. A place is free again when the host has taken
// its event. A full ring is an answer: the event stays in the actor's outbox, and the actor handles nothing until it is
// delivered. The host waits with a group that it holds: the bell, which the author of an event takes and completes.
#pragma once
#include "everwarp/actor/mailbox.cuh"

namespace ew {

constexpr u32 NEWS_LOST = 4;  // the actor has ended meanwhile; the caller does not have the cell any more

// Gives an actor the news in a cell, which names the receiver. As `actor_send`, or NEWS_LOST.
EW_CALL u32 actor_news(const DevActors* s, u64 to, u32 cell) {
  if (!actor_named(s->slot_limit, to)) return SENT_GONE;
  DevActor* slot = s->slots + actor_slot(to);
  if (!actor_lives(load(&slot->mail, relaxed, gpu), load(actor_meta(slot), relaxed, gpu), actor_generation(to))) return SENT_GONE;
  trace_sends(s->cells + cell);
  u32 seen = load(&slot->notes, relaxed, gpu);
  while (true) {
    store(&s->cells[cell].next, seen >> NOTE_BITS, relaxed, gpu);
    const u32 next = (cell + 1) << NOTE_BITS | (seen & ((1u << NOTE_BITS) - 1)) | NOTE_NEWS;
    // Release: the message, to the turn that takes it.
    u32 now = compare_exchange(&slot->notes, seen, next, release, gpu);
    if (now == seen) break;
    seen = now;
  }
  // Release: the note, to the change that makes the actor idle, if that comes later. Acquire: the other case.
  const u32 roused = actor_rouse(slot, actor_generation(to), fetch_or(&slot->mail, (u64)0, acq_rel, gpu));
  return roused == SENT_GONE ? NEWS_LOST : roused;
}

// Sets notes that want no turn. Returns whether the actor lives; then its turns see them.
EW_CALL bool actor_note(const DevActors* s, u64 id, u32 notes) {
  if (!actor_named(s->slot_limit, id)) return false;
  DevActor* slot = s->slots + actor_slot(id);
  if (!actor_lives(load(&slot->mail, relaxed, gpu), load(actor_meta(slot), relaxed, gpu), actor_generation(id))) return false;
  fetch_or(&slot->notes, notes, relaxed, gpu);
  // As in `actor_news`.
  const u64 seen = fetch_or(&slot->mail, (u64)0, acq_rel, gpu);
  return actor_lives(seen, load(actor_meta(slot), relaxed, gpu), actor_generation(id));
}

// The first bytes of the state of the actor in a slot are zeros.
EW_FN void actor_clear(const DevActors* s, u32 number, u32 bytes) {
  u64* state = (u64*)(s->states + (u64)number * s->state_bytes);
  for (u32 i = 0; i < bytes / 8; i += 2) store_pair(state + i, 0, 0, relaxed, gpu);
}

constexpr u32 RESETS_ARE_NEWS = NONE;       // the host takes them
constexpr u32 RESETS_CLEAR_NOTHING = NONE - 1;  // the caller begins anew

// The turn: takes all news, the oldest first. Those that are for an actor before this one are in a list of their own, as are
// resets: at the first of them `clears` bytes of the state become zeros, before all news that are taken with them.
struct ActorNews {
  u32 own;
  u32 strange;
  bool resets;
};
EW_CALL ActorNews actor_take_news(const DevActors* s, u32 number, u32 generation, u32 clears) {
  // Acquire: the messages.
  u32 at = fetch_and(&s->slots[number].notes, (1u << NOTE_BITS) - 1 & ~NOTE_NEWS, acquire, gpu) >> NOTE_BITS;
  u32 front = 0, strange = 0;
  bool resets = false;
  while (at != 0) {
    u32* link = &s->cells[at - 1].next;
    const u32 next = load(link, relaxed, gpu);
    bool own = load(&s->cells[at - 1].to, relaxed, gpu) == actor_id(number, generation);
    if (own && clears != RESETS_ARE_NEWS && (load(&s->cells[at - 1].head, relaxed, gpu) & MESSAGE_RESET) != 0) {
      add(&s->control->restarts, (u64)1, relaxed, gpu);
      own = false;
      resets = true;
    }
    store(link, own ? front : strange, relaxed, gpu);
    if (own) front = at;
    else strange = at;
    at = next;
  }
  if (resets && clears != RESETS_CLEAR_NOTHING) actor_clear(s, number, clears);
  return {front, strange, resets};
}

// An actor was activated: as `actor_news`, for news that came while it was deactivated.
EW_CALL u32 actor_look(const DevActors* s, u64 to) {
  DevActor* slot = s->slots + actor_slot(to);
  // Acquire: the change that activated it comes first, as in `actor_news` the note does.
  const u64 seen = fetch_or(&slot->mail, (u64)0, acq_rel, gpu);
  if ((load(&slot->notes, relaxed, gpu) & NOTE_NEWS) == 0) return SENT_DELIVERED;
  return actor_rouse(slot, actor_generation(to), seen);
}

// Copies a message from one cell to another.
EW_CALL void actor_copy(DevMessage* cells, u32 from, u32 to) {
  store(&cells[to].head, load(&cells[from].head, relaxed, gpu), relaxed, gpu);
  store(&cells[to].from, load(&cells[from].from, relaxed, gpu), relaxed, gpu);
  for (u32 i = 0; i < MESSAGE_WORDS; i++) store(&cells[to].words[i], load(&cells[from].words[i], relaxed, gpu), relaxed, gpu);
}

// The message to `to` in a cell becomes an event of the actor in a slot: a dead letter. Returns the first of its outbox.
EW_CALL u32 actor_letter(const DevActors* s, u32 number, u32 outbox_first, u64 to, u32 at, u32 reason) {
  DevMessage* cell = s->cells + at;
  const u32 head = load(&cell->head, relaxed, gpu) & ((1u << EVENT_SHIFT) - 1);
  store(&cell->head, head | (EVENT_LETTER + reason) << EVENT_SHIFT, relaxed, gpu);
  return actor_keep(s->slots + number, s->cells, outbox_first, to, at);
}

// Gives the cells of a list back.
EW_CALL void actor_give_cells(const DevActors* s, u32 list) {
  if (list == 0) return;
  u32 last = list - 1;
  for (u32 at = list; at != 0; at = load(&s->cells[last].next, relaxed, gpu)) last = at - 1;
  actor_put(s, ACTOR_CELLS, list - 1, last);
}

// A new actor has the slot: frees what came when the last one had ended.
EW_CALL void actor_forget_notes(const DevActors* s, u32 number) {
  const u32 list = exchange(&s->slots[number].notes, 0u, acquire, gpu) >> NOTE_BITS;
  if (list == 0) return;
  u32 last = list - 1;
  for (u32 at = list; at != 0; at = load(&s->cells[last].next, relaxed, gpu)) last = at - 1;
  actor_put(s, ACTOR_CELLS, list - 1, last);
}

// The turn: gives news back that it has not handled, the oldest first. They stay older than those that came meanwhile.
EW_CALL void actor_return_news(const DevActors* s, u32 number, u32 news) {
  u32* notes = &s->slots[number].notes;
  u32 list = actor_turn_round(s->cells, news);
  u32 seen = load(notes, relaxed, gpu);
  while (true) {
    if (seen >> NOTE_BITS != 0) {
      // Acquire: their links.
      const u32 newer = fetch_and(notes, (1u << NOTE_BITS) - 1, acquire, gpu) >> NOTE_BITS;
      u32 last = newer - 1;
      for (u32 at = newer; at != 0; at = load(&s->cells[last].next, relaxed, gpu)) last = at - 1;
      store(&s->cells[last].next, list, relaxed, gpu);
      list = newer;
      seen &= (1u << NOTE_BITS) - 1;
    }
    // Release: the messages and their links, to the next turn.
    u32 now = compare_exchange(notes, seen, list << NOTE_BITS | seen | NOTE_NEWS, release, gpu);
    if (now == seen) return;
    seen = now;
  }
}

constexpr u32 REPORT_FULL = NONE;      // the caller keeps the event
constexpr u32 REPORT_DONE = NONE - 1;  // the ring has it; any other value is the held group that the caller completes

// A place in the ring. Returns false if there is none.
EW_FN bool actor_event_place(DevActorControl* c, u64& place) {
  place = load(&c->events_begun, relaxed, gpu);
  while (true) {
    // Acquire: the host has read what was there. It may have taken more than this place, which another one has got.
    if ((long long)(place - load(&c->events_taken, acquire, gpu)) >= (long long)ACTOR_EVENTS) return false;
    u64 now = compare_exchange(&c->events_begun, place, place + 1, relaxed, gpu);
    if (now == place) return true;
    place = now;
  }
}
// The event in this place is complete. Returns REPORT_DONE, or the group that the caller completes.
EW_FN u32 actor_event_done(DevActorControl* c, DevMessage* to, u64 place) {
  // Release: the event, to the task that counts it.
  store(&to->next, (u32)place + 1, release, gpu);
  // The bell changes by read-modify-writes alone: either this one finds it, or the one that hangs it up sees the event.
  const u64 bell = exchange(&c->bell, (u64)0, acq_rel, gpu);
  return bell == 0 ? REPORT_DONE : (u32)bell - 1;
}
// Puts the event in a cell into the ring. The caller keeps the cell.
EW_FN u32 actor_put_event(const DevActors* s, u32 at) {
  DevActorControl* c = s->control;
  u64 place;
  if (!actor_event_place(c, place)) return REPORT_FULL;
  const DevMessage* from = s->cells + at;
  DevMessage* to = s->events + (u32)place % ACTOR_EVENTS;
  store(&to->head, load(&from->head, relaxed, gpu), relaxed, gpu);
  store(&to->from, load(&from->from, relaxed, gpu), relaxed, gpu);
#pragma unroll
  for (u32 i = 2; i < sizeof(DevMessage) / 8; i += 2) {
    u64 a, b;
    load_pair((const u64*)from + i, a, b, relaxed, gpu);
    store_pair((u64*)to + i, a, b, relaxed, gpu);
  }
  return actor_event_done(c, to, place);
}
EW_CALL u32 actor_report(const DevActors* s, u32 at) {
  const u32 group = actor_put_event(s, at);
  // The host that ends the system takes no more.
  return group == REPORT_FULL && load(&s->control->closing, relaxed, gpu) != 0 ? REPORT_DONE : group;
}

// Events that the host can take: those that are complete, in their order, up to a number.
EW_CALL u32 actor_events(const DevActors* s) {
  const u64 taken = load(&s->control->events_taken, relaxed, gpu);
  u32 count = 0;
  while (count < ACTOR_EVENTS_STEP) {
    const u32 place = (u32)taken + count;
    // Acquire: the event. The host reads it when the task that calls this has ended.
    if (load(&s->events[place % ACTOR_EVENTS].next, acquire, gpu) != place + 1) break;
    count++;
  }
  return count;
}

}  // namespace ew
