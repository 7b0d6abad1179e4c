// Actors of the host, before and after their messages: such an actor has no handler on a GPU. Its turn lends it to the host:
// it writes an event and ends, and the actor stays busy without a turn. The host takes messages (part.cuh), runs the actor's
// closure, and gives the actor back with what the closure has sent, which queues the next turn. So an actor never runs twice
// at once, senders see its mailbox's bound, and what it sends leaves by its outbox, in its order. The host's side is
// crates/actor/src/far.
//
// Rules:
// 1. A lent actor is counted in the group of turns, so that the group ends when the actor is back. The count is in place
//    before the event, and the turn that the host queues takes it over.
// 2. All that the turn has written is in the slot before the event: from then on the actor belongs to the host.
// 3. A message that the host takes stays in the actor's list until the actor comes back, which says how many were handled.
#pragma once
#include "everwarp/actor/actor.cuh"

namespace ew {

// Whether a turn that handles messages has some for the host.
EW_FN bool actor_lends(Actor& a, bool handles, u32 front) {
  return handles && a.room >= a.needs && (front != 0 || (load(&a.slot()->notes, relaxed, gpu) & NOTE_NEWS) != 0);
}

// As `actor_report`, also for a system that ends: then the host still gives back what it is lent.
EW_CALL u32 actor_report_lent(const DevActors* s, u32 at) { return actor_put_event(s, at); }

// Lends the actor to the host. Returns false if the ring of events has no room: then its turn comes back.
EW_FN bool actor_lend(Actor& a, u32 front) {
  DevActor* slot = a.slot();
  store(&slot->front, front, relaxed, gpu);
  store(&slot->outbox_first, a.outbox_first, relaxed, gpu);
  const u64 kind = meta_kind(load(actor_meta(slot), relaxed, gpu));
  const u32 at = a.write(1u << MESSAGE_WORDS_SHIFT | EVENT_LENT << EVENT_SHIFT, a.id(), kind);
  if (at == NONE) return false;
  u32* pending = &everwarp_tables.groups[a.t.task.group].pending;
  add(pending, 1u, relaxed, gpu);
  const u32 group = actor_report_lent(&a.system, at);
  a.free(at);
  if (group == REPORT_FULL) {
    // This task is counted, too, so that the group does not end.
    add(pending, ~0u, relaxed, gpu);
    return false;
  }
  a.give_back();
  if (group != REPORT_DONE) actor_queue(a.t.head(a.builtin(ACTOR_COUNT_EVENTS), 0, priority_of(a.t.task.head)), group, 0);
  return true;
}

}  // namespace ew
