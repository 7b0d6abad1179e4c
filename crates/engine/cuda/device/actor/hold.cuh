// Actors of supervised groups that fail or would end. The host decides what follows, with what decides it on the CPU engine
// (crates/actor/src/side/groups.rs). Until then the actor is held: its turn writes an event and ends, and the actor stays busy
// without a turn. The host first does to the other members what follows for them, and then queues the actor's next turn,
// which begins anew or ends.
//
// Rules:
// 1. A held actor is counted in the group of turns, as a lent one is: see lend.cuh. So the group is open when the host does
//    something to the other members, and ends when all of that is done.
// 2. All that the turn has written is in the slot before the event: from then on the host owns the actor.
// 3. An actor that would have ended has MAIL_STOP or MAIL_KILL, so that it accepts nothing while it is held. The host clears both
//    before it does anything to members, because that may kill this one.
// 4. Where the system ends, actors end without a decision.
#pragma once
#include "everwarp/actor/kept.cuh"

namespace ew {

constexpr u32 HELD_OVER = NONE - 2;  // the system ends

// Reports that an actor is held, which is counted in its group of turns. REPORT_FULL, REPORT_DONE, HELD_OVER, or the group that
// the caller completes.
EW_CALL u32 actor_put_held(const DevActors* s, u32 group, u64 id, u32 why) {
  DevActorControl* c = s->control;
  if (load(&c->closing, relaxed, gpu) != 0) return HELD_OVER;
  // The task that calls this is counted, too, so that the group does not end if there is no place.
  u32* pending = &everwarp_tables.groups[group].pending;
  add(pending, 1u, relaxed, gpu);
  u64 place;
  if (!actor_event_place(c, place)) {
    add(pending, ~0u, relaxed, gpu);
    return REPORT_FULL;
  }
  DevMessage* to = s->events + (u32)place % ACTOR_EVENTS;
  store(&to->head, 1u << MESSAGE_WORDS_SHIFT | EVENT_HELD << EVENT_SHIFT, relaxed, gpu);
  store(&to->from, id, relaxed, gpu);
  store(&to->words[0], (u64)why, relaxed, gpu);
  return actor_event_done(c, to, place);
}

// Holds the actor, whose turn is over but for this. If the ring of events has no room, its turn comes back.
EW_FN void actor_hold(Actor& a, u32 why) {
  const u32 bell = actor_put_held(&a.system, a.t.task.group, a.id(), why);
  if (bell == REPORT_DONE) return;
  if (bell == REPORT_FULL || bell == HELD_OVER) {
    return a.turn(fn_of(a.t.task.head), a.number, (bell == REPORT_FULL ? TURN_HOLDS : TURN_OVER) | why << 8);
  }
  a.room--;
  actor_queue(a.t.head(a.builtin(ACTOR_COUNT_EVENTS), 0, priority_of(a.t.task.head)), bell, 0);
}

// The actor in a slot ends, as it would have when it was held.
EW_CALL void actor_over(const DevActors* s, u32 number, u32 why) {
  DevActor* slot = s->slots + number;
  fetch_and(&slot->notes, ~(u32)NOTE_SUPERVISED, relaxed, gpu);
  // One that was killed ends as killed, and another one as its notes say, or stopped.
  if (why != ENDING_KILLED) store(&slot->again, ENDS_ITSELF, relaxed, gpu);
  fetch_or(&slot->mail, mail_flag(MAIL_KILL), relaxed, gpu);
}

// The actor begins anew because another member of its group does.
template <class K>
EW_FN void actor_begin_anew(Actor& a) {
  const u64 lists = kept_lists(a.list_words());
  actor_clear(&a.system, a.number, K::state);
  kept_lose(a.cells, a.list_words(), lists, KEPT_LOST);
}

// The host has decided that the actor in a slot goes on. `clears` bytes of its state are zeros then.
EW_CALL void actor_goes_on(const DevActors* s, u32 number, bool fails, u32 clears) {
  DevActor* slot = s->slots + number;
  fetch_and(&slot->notes, ~(u32)NOTE_FAILED, relaxed, gpu);
  // One that has stopped itself in the handler that failed still ends.
  if (!fails || load(&slot->again, relaxed, gpu) != ENDS_ITSELF) store(&slot->again, (u64)0, relaxed, gpu);
  if (fails) add(&s->control->restarts, (u64)1, relaxed, gpu);
  actor_clear(s, number, clears);
}

// The first thing that a turn of an actor does that was held, or for which there is no decision because the system ends.
template <class K>
EW_FN void actor_decided(Actor& a) {
  const u32 why = a.t.hi() >> 8 & 0xff;
  if ((a.t.hi() & TURN_OVER) != 0) return actor_over(&a.system, a.number, why);
  const bool fails = why == HELD_FAILS;
  // The state of an atomic kind is as before the message.
  const u32 clears = fails && K::atomic ? 0 : K::state;
  const u64 lists = K::lists ? kept_lists(a.list_words()) : 0;
  actor_goes_on(&a.system, a.number, fails, clears);
  if constexpr (K::lists) {
    if (clears != 0) kept_lose(a.cells, a.list_words(), lists, fails ? KEPT_LOST : KEPT_LOST | KEPT_ENDED);
  }
}

// How often a message may be handled again, of `most`: one that has failed before its actor was held has that in its cell.
EW_FN u32 actor_left(Actor& a, u32 at, u32 most) {
  if ((a.message.head & MESSAGE_AGAIN) == 0) return most;
  a.message.head &= ~(u32)MESSAGE_AGAIN;
  store(&a.cells[at].head, a.message.head, relaxed, gpu);
  return (u32)load(&a.cells[at].to, relaxed, gpu);
}
// The message whose handler has failed is the first of its mailbox again, in the cell of its ask if that has no reply, or in
// `kept`. Returns that list.
EW_FN u32 actor_put_back(Actor& a, u32 front, u32 kept, u32 left) {
  const u32 at = a.asked != NONE ? a.asked : kept;
  if (kept != at) a.free(kept);
  // One that has its reply is no ask any more.
  const u32 head = load(&a.cells[at].head, relaxed, gpu) & (a.asked != NONE ? ~0u : ~(u32)MESSAGE_ASK);
  store(&a.cells[at].head, head | MESSAGE_AGAIN, relaxed, gpu);
  store(&a.cells[at].to, (u64)left, relaxed, gpu);
  store(&a.cells[at].next, front, relaxed, gpu);
  return at + 1;
}

}  // namespace ew
