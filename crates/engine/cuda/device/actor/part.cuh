// What the host does with actors that it is lent or that are held; see lend.cuh and hold.cuh. A region of records belongs to one
// thread of the host.
#pragma once
#include "everwarp/actor/host.cuh"

namespace ew {

// The numbers of the functions after those of the kinds.
constexpr u32 ACTOR_HOST_DO = 14;
constexpr u32 ACTOR_HOST_RETURN = 16;

EW_FN DevMessage* part_region(const DevActors& s, u32 region) { return s.parts + region * PART_RECORDS; }

// Copies the message in a cell to a record of the host, with the cell's number. Returns the next of its list.
EW_CALL u32 part_copy_out(DevMessage* to, const DevMessage* cells, u32 at) {
  const DevMessage* from = cells + at;
  const u32 next = load(&from->next, relaxed, gpu), head = load(&from->head, relaxed, gpu);
  const u64 sender = load(&from->from, relaxed, gpu);
  u64 words[6];
#pragma unroll
  for (u32 i = 0; i < 6; i += 2) load_pair(from->words + i, words[i], words[i + 1], relaxed, gpu);
  store(&to->next, at, relaxed, sys);
  store(&to->head, head, relaxed, sys);
  store(&to->from, sender, relaxed, sys);
#pragma unroll
  for (u32 i = 0; i < 6; i += 2) store_pair(to->words + i, words[i], words[i + 1], relaxed, sys);
  return next;
}

// The host has handled messages of the actor in a slot: their cells are free but those of asks, and there is room for
// others. Returns a waiting sender, whose turn the caller queues, or NONE.
EW_CALL u32 part_handled(const DevActors* s, u32 number, u32 handled) {
  DevActor* slot = s->slots + number;
  u32 at = load(&slot->front, relaxed, gpu), first = 0, last = 0;
  for (u32 i = 0; i < handled; i++) {
    DevMessage* cell = s->cells + (at - 1);
    const u32 next = load(&cell->next, relaxed, gpu);
    if ((load(&cell->head, relaxed, gpu) & MESSAGE_ASK) == 0) {
      if (first == 0) last = at - 1;
      else store(&cell->next, first, relaxed, gpu);
      first = at;
    }
    at = next;
  }
  store(&slot->front, at, relaxed, gpu);
  if (first != 0) actor_put(s, ACTOR_CELLS, first - 1, last);
  add(&slot->handled, (u64)handled, relaxed, gpu);
  u64 seen = load(&slot->mail, relaxed, gpu);
  while (true) {
    const u64 next = (seen - ((u64)handled << MAIL_COUNT_SHIFT)) & ~mail_flag(MAIL_WAIT);
    u64 now = compare_exchange(&slot->mail, seen, next, acq_rel, gpu);
    if (now == seen) break;
    seen = now;
  }
  return mail_has(seen, MAIL_WAIT) ? actor_release(s->slots, slot) : NONE;
}

// Puts the words of a reply into the cell of its ask, whose last word belongs to the asker.
EW_CALL void part_reply_words(DevMessage* cell, const DevMessage* item) {
#pragma unroll
  for (u32 i = 0; i < MESSAGE_WORDS - 1; i += 2) {
    u64 a, b;
    load_pair(item->words + i, a, b, relaxed, sys);
    store_pair(cell->words + i, a, b, relaxed, gpu);
  }
}

// Takes messages of the actor in slot `hi`, which the host is lent, to region `lo`: one of its news, if there are any, and
// the oldest of its mailbox. The header says how many.
EW_FN void actor_host_take(Lane& t, const DevActors& system, u32 base) {
  DevMessage* region = part_region(system, t.lo());
  const u32 number = t.hi();
  DevActor* slot = system.slots + number;
  const u32 generation = meta_generation(load(actor_meta(slot), relaxed, gpu));
  const u32 notes = load(&slot->notes, relaxed, gpu);
  u64 news = 0, count = 0;
  if ((notes & NOTE_NEWS) != 0) {
    const ActorNews taken = actor_take_news(&system, number, generation, RESETS_ARE_NEWS);
    actor_give_cells(&system, taken.strange);
    if (taken.own != 0) {
      const u32 rest = part_copy_out(region + PART_MESSAGE, system.cells, taken.own - 1);
      actor_give<ACTOR_CELLS>(&system, taken.own - 1, taken.own - 1);
      if (rest != 0) actor_return_news(&system, number, rest);
      news = 1;
    }
  }
  for (u32 at = load(&slot->front, relaxed, gpu); at != 0 && count < PART_MESSAGES; count++) {
    at = part_copy_out(region + PART_MESSAGE + 1 + count, system.cells, at - 1);
  }
  store_pair(region->words, news, count, relaxed, sys);
  store_pair(region->words + 2, (u64)(notes & ((1u << NOTE_BITS) - 1)), load(&slot->parent, relaxed, gpu), relaxed, sys);
  store(&region->to, actor_id(number, generation), relaxed, sys);
  // The records, before the completion.
  fence(acq_rel, sys);
}

// Gives an actor back that the host was lent, as the header of region `lo` says: the actor, how many messages of its mailbox
// were handled, and the number of items, which go into its outbox. `hi` items are done.
EW_FN void actor_host_return(Lane& t, const DevActors& system, u32 base) {
  ActorHost h(t, system, base);
  DevMessage* region = part_region(system, t.lo());
  u64 handled, count, flags, counts;
  load_pair(region->words, handled, count, relaxed, sys);
  load_pair(region->words + 2, flags, counts, relaxed, sys);
  const u64 id = load(&region->to, relaxed, sys), fault = load(&region->words[4], relaxed, sys);
  const u32 number = actor_slot(id);
  DevActor* slot = system.slots + number;
  u32 i = t.hi(), queued = 0;
  if (i == 0) {
    if (fault != 0) {
      t.fault(fault);
      t.delta++;
      return;
    }
    const u32 woken = part_handled(&system, number, (u32)handled);
    if (woken != NONE) h.activate(h.world(), meta_kind(load(actor_meta(system.slots + woken), relaxed, gpu)), woken, 0);
  }
  u32 outbox = load(&slot->outbox_first, relaxed, gpu);
#pragma unroll 1
  for (; i < count && queued < ACTOR_STEP; i++) {
    DevMessage* item = region + PART_ITEM + i;
    const u32 what = load(&item->next, relaxed, sys);
    u32 at = (u32)load(&item->from, relaxed, sys);
    u64 to = load(&item->to, relaxed, sys);
    if (what == ITEM_SEND) {
      at = h.cell();
      if (at == NONE) return;
      actor_copy_in(system.cells + at, item, 0, SENDER_OF_RECORD);
    } else if (what == ITEM_REPLY) {
      DevMessage* cell = system.cells + at;
      part_reply_words(cell, item);
      const u32 asked = load(&cell->head, relaxed, gpu) & (MESSAGE_HOST | MESSAGE_DEADLINE);
      const u32 head = load(&item->head, relaxed, sys) | asked;
      to = load(&cell->from, relaxed, gpu);
      if ((asked & MESSAGE_HOST) != 0) {
        actor_answer(system.replies + (u32)(to >> 32), cell, head);
        actor_give<ACTOR_CELLS>(&system, at, at);
        h.queue_held(h.builtin(ACTOR_HOST_VALUE), (u32)to, 0);
        queued++;
        continue;
      }
      // The host knows whether it comes in time.
      store(&cell->head, (asked & MESSAGE_DEADLINE) != 0 ? head | EVENT_ANSWER << EVENT_SHIFT : head, relaxed, gpu);
      store(&cell->from, id, relaxed, gpu);
    }
    outbox = actor_keep(slot, system.cells, outbox, to, at);
  }
  store(&slot->outbox_first, outbox, relaxed, gpu);
  if (i < count) return t.spawn(h.builtin(ACTOR_HOST_RETURN), 0, Lane::pack(t.lo(), i));
  if ((flags & PART_GOES_ON) != 0) {
    const u32 at = h.cell();
    if (at == NONE) return;
    DevMessage* cell = system.cells + at;
    store(&cell->head, MESSAGE_NEWS, relaxed, gpu);
    store(&cell->from, (u64)0, relaxed, gpu);
    store(&cell->to, id, relaxed, gpu);
    // The actor is busy, so that no turn is queued.
    actor_news(&system, id, at);
  }
  DevActorControl* c = system.control;
  add(&c->dead[DEAD_NO_REPLY], counts & 0xffff, relaxed, gpu);
  add(&c->dead[DEAD_FAILED], counts >> 16 & 0xffff, relaxed, gpu);
  add(&c->restarts, counts >> 32, relaxed, gpu);
  if ((flags & PART_FAILED) != 0) fetch_or(&slot->notes, NOTE_FAILED, relaxed, gpu);
  if ((flags & PART_STOPS) != 0) {
    store(&slot->again, ENDS_ITSELF, relaxed, gpu);
    fetch_or(&slot->mail, mail_flag(MAIL_KILL), relaxed, gpu);
  }
  h.queue_held(base + meta_kind(load(actor_meta(slot), relaxed, gpu)), h.world(), Lane::pack(number, 0));
}

// Does items `hi & 0xffff` to `hi >> 16` of region `lo`, in order, and writes what became of each. With a tag it ends with
// the first message that does not fit.
EW_FN void actor_host_do(Lane& t, const DevActors& system, u32 base) {
  ActorHost h(t, system, base);
  u32 i = t.hi() & 0xffff, tries = 0;
  const u32 end = t.hi() >> 16;
#pragma unroll 1
  for (; i < end && tries < ACTOR_STEP; i++, tries++) {
    DevMessage* item = part_region(system, t.lo()) + PART_ITEM + i;
    const u32 what = load(&item->next, relaxed, sys), head = load(&item->head, relaxed, sys);
    u64 to = load(&item->to, relaxed, sys);
    u32 sent = SENT_DELIVERED;
    if (what == ITEM_SEND || what == ITEM_NEWS) {
      const bool news = what == ITEM_NEWS;
      const u32 at = h.cell();
      if (at == NONE) return;
      actor_copy_in(system.cells + at, item, news ? MESSAGE_NEWS : 0, SENDER_OF_RECORD);
      sent = news ? actor_news(&system, to, at) : h.send(to, at);
      h.sent(sent, to, news ? 0 : TURN_FRESH);
      if (sent == SENT_GONE || sent == SENT_FULL) actor_give<ACTOR_CELLS>(&system, at, at);
    } else if (what == ITEM_NOTE) {
      if (!actor_note(&system, to, head)) sent = SENT_GONE;
    } else if (what == ITEM_SIGNAL) {
      sent = actor_signal(&system, to, head);
      if (head == SIGNAL_RESUME && sent == SENT_DELIVERED) sent = actor_look(&system, to);
      h.sent(sent, to, 0);
    } else if (what == ITEM_REVIVE) {
      fetch_and(&system.slots[actor_slot(to)].mail, ~mail_flag(MAIL_STOP | MAIL_KILL), relaxed, gpu);
    } else if (what == ITEM_HELD) {
      DevActor* slot = system.slots + actor_slot(to);
      const u32 turn = (head & HELD_GOES_ON) != 0 ? TURN_ANEW : TURN_OVER;
      h.queue_held(base + meta_kind(load(actor_meta(slot), relaxed, gpu)), h.world(), Lane::pack(actor_slot(to), turn | (head & 0xff) << 8));
    } else if (what == ITEM_LAUNCH) {
      store(&item->to, h.launch(head, load(&item->from, relaxed, sys), true), relaxed, sys);
    } else {
      const u32 at = (u32)load(&item->from, relaxed, sys);
      DevMessage* cell = system.cells + at;
      part_copy_out(item, system.cells, at);
      add(&system.control->dead[head], (u64)1, relaxed, gpu);
      to = load(&cell->from, relaxed, gpu);
      if ((load(&cell->head, relaxed, gpu) & MESSAGE_HOST) != 0) {
        actor_answer(system.replies + (u32)(to >> 32), cell, MESSAGE_HOST | MESSAGE_REPLY | MESSAGE_FAILED | head);
        h.queue_held(h.builtin(ACTOR_HOST_VALUE), (u32)to, 0);
      }
      actor_give<ACTOR_CELLS>(&system, at, at);
    }
    const bool gone = sent == SENT_GONE || sent == NEWS_LOST;
    store(&item->next, gone ? TELL_GONE : sent == SENT_FULL ? TELL_FULL : TELL_DELIVERED, relaxed, sys);
    if (sent == SENT_FULL && t.tag() != 0) i = end - 1;
  }
  if (i < end) return t.spawn(h.builtin(ACTOR_HOST_DO), t.tag(), Lane::pack(t.lo(), end << 16 | i));
  // What became of them, before the completion.
  fence(acq_rel, sys);
}

}  // namespace ew
