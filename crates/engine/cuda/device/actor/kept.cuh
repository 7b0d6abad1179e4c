// What an actor keeps: asks to which it replies later, and its timers. Each is a cell in one of two lists, which begin in two words
// of its state: the first ones if its handler is a module, which cannot write there, and otherwise the ones after the handler's own. So
// a reply, and a timer that is cancelled, need nothing from the host, and the end of the actor finds its asks. All calls are leaves:
// see EW_CALL.
//
// The words:
//   0: not 0 in the first byte once a module's memory has its first content (8), whether asks are lost (8), kept asks (16)
//   1: the newest kept ask, plus one (28), the newest timer, plus one (28), timers (8)
// The cell of an ask is the ask's own, and that of a timer has nothing else; the receiver's place has its number.
//
// A handler of an atomic kind only marks what it takes out of a list: if it fails, the words of the state are as before, and
// so must the links be.
#pragma once
#include "everwarp/actor/actor.cuh"

namespace ew {

constexpr u32 KEPT_ASKS = 0;                // the list of asks: first bit of its newest in word 1
constexpr u32 KEPT_TIMERS = MAIL_CELL_BITS;  // the list of timers
constexpr u32 KEPT_TIMER_COUNT = 2 * MAIL_CELL_BITS;
constexpr u32 KEPT_ASK_COUNT = 16;
constexpr u64 KEPT_HAS_LOST = 1 << 8;

EW_FN u32 kept_first(u64 lists, u32 which) { return (u32)(lists >> which) & ((1u << MAIL_CELL_BITS) - 1); }
EW_FN u64 kept_with(u64 lists, u32 which, u32 first) {
  return lists & ~((u64)((1u << MAIL_CELL_BITS) - 1) << which) | (u64)first << which;
}
EW_FN u64 kept_lists(const u8* own) { return load((const u64*)own + 1, relaxed, gpu); }
EW_FN u32 kept_timers(const u8* own) { return (u32)(kept_lists(own) >> KEPT_TIMER_COUNT); }
EW_FN u32 kept_asks(const u8* own) { return (u32)(load((const u64*)own, relaxed, gpu) >> KEPT_ASK_COUNT) & 0xffff; }
// One more in a list, or, with -1, one less.
EW_FN void kept_count(u8* own, u32 which, int by) {
  u64* word = (u64*)own + (which == KEPT_TIMERS);
  store(word, load(word, relaxed, gpu) + ((u64)(long long)by << (which == KEPT_TIMERS ? KEPT_TIMER_COUNT : KEPT_ASK_COUNT)), relaxed, gpu);
}

EW_CALL void kept_enter(DevMessage* cells, u8* own, u32 which, u32 at, u64 number) {
  const u64 lists = kept_lists(own);
  // A handler of an atomic kind that has failed may have marked the ask, and keeps it again.
  const u32 head = which == KEPT_TIMERS ? 0 : load(&cells[at].head, relaxed, gpu) & ((1u << EVENT_SHIFT) - 1);
  store(&cells[at].head, head, relaxed, gpu);
  store(&cells[at].to, number, relaxed, gpu);
  store(&cells[at].next, kept_first(lists, which), relaxed, gpu);
  store((u64*)own + 1, kept_with(lists, which, at + 1), relaxed, gpu);
  kept_count(own, which, 1);
}

// The cell with a number, plus one; 0 if the actor does not keep it.
EW_CALL u32 kept_find(const DevMessage* cells, const u8* own, u32 which, u64 number) {
  for (u32 at = kept_first(kept_lists(own), which); at != 0; at = load(&cells[at - 1].next, relaxed, gpu)) {
    const bool there = (load(&cells[at - 1].head, relaxed, gpu) & (KEPT_MARKED | KEPT_LOST)) == 0;
    if (there && load(&cells[at - 1].to, relaxed, gpu) == number) return at;
  }
  return 0;
}

// Takes a cell, which is there, out of its list.
EW_FN void kept_unlink(DevMessage* cells, u8* own, u32 which, u32 cell) {
  const u64 lists = kept_lists(own);
  const u32 next = load(&cells[cell - 1].next, relaxed, gpu);
  u32 at = kept_first(lists, which);
  if (at == cell) return store((u64*)own + 1, kept_with(lists, which, next), relaxed, gpu);
  while (load(&cells[at - 1].next, relaxed, gpu) != cell) at = load(&cells[at - 1].next, relaxed, gpu);
  store(&cells[at - 1].next, next, relaxed, gpu);
}
// The same of one that the actor does not keep any more.
EW_CALL void kept_leave(DevMessage* cells, u8* own, u32 which, u32 cell, bool marks) {
  kept_count(own, which, -1);
  if (!marks) return kept_unlink(cells, own, which, cell);
  u32* head = &cells[cell - 1].head;
  store(head, load(head, relaxed, gpu) | KEPT_MARKED, relaxed, gpu);
}

// The handler of an atomic kind has returned: what it has marked is taken out. Returns a list of free cells.
EW_CALL u32 kept_settle(DevMessage* cells, u8* own) {
  u32 free = 0;
  for (u32 which = KEPT_ASKS; which <= KEPT_TIMERS; which += KEPT_TIMERS) {
    u32 at = kept_first(kept_lists(own), which);
    while (at != 0) {
      const u32 next = load(&cells[at - 1].next, relaxed, gpu);
      if ((load(&cells[at - 1].head, relaxed, gpu) & KEPT_MARKED) != 0) {
        kept_unlink(cells, own, which, at);
        store(&cells[at - 1].next, free, relaxed, gpu);
        free = at;
      }
      at = next;
    }
  }
  return free;
}
// It has failed, and the state is as before; `now` was the word of the lists. Returns a list of free cells: new timers.
EW_CALL u32 kept_undo(DevMessage* cells, u8* own, u64 now) {
  const u64 lists = kept_lists(own);
  for (u32 which = KEPT_ASKS; which <= KEPT_TIMERS; which += KEPT_TIMERS) {
    for (u32 at = kept_first(lists, which); at != 0; at = load(&cells[at - 1].next, relaxed, gpu)) {
      u32* head = &cells[at - 1].head;
      store(head, load(head, relaxed, gpu) & ~KEPT_MARKED, relaxed, gpu);
    }
  }
  u32 free = 0;
  const u32 old = kept_first(lists, KEPT_TIMERS);
  for (u32 at = kept_first(now, KEPT_TIMERS); at != old;) {
    const u32 next = load(&cells[at - 1].next, relaxed, gpu);
    store(&cells[at - 1].next, free, relaxed, gpu);
    free = at;
    at = next;
  }
  return free;
}

// A restart: the timers of the actor stay, and its asks are lost. They stay in their list until they are ended. `mark` is
// KEPT_LOST, with KEPT_ENDED if the actor would have ended.
EW_CALL void kept_lose(DevMessage* cells, u8* own, u64 lists, u32 mark) {
  store((u64*)own + 1, lists, relaxed, gpu);
  u32 at = kept_first(lists, KEPT_ASKS);
  if (at != 0) store((u64*)own, KEPT_HAS_LOST, relaxed, gpu);
  for (; at != 0; at = load(&cells[at - 1].next, relaxed, gpu)) {
    u32* head = &cells[at - 1].head;
    const u32 seen = load(head, relaxed, gpu);
    if ((seen & KEPT_LOST) == 0) store(head, seen | mark, relaxed, gpu);
  }
}
// An ask that is to be ended: any, or one that is lost. Plus one; 0 if there is none.
EW_CALL u32 kept_to_end(const DevMessage* cells, const u8* own, bool any) {
  u32 at = kept_first(kept_lists(own), KEPT_ASKS);
  while (!any && at != 0 && (load(&cells[at - 1].head, relaxed, gpu) & KEPT_LOST) == 0) at = load(&cells[at - 1].next, relaxed, gpu);
  return at;
}
// Takes all timers. Returns their list.
EW_CALL u32 kept_clear_timers(u8* own) {
  const u64 lists = kept_lists(own);
  store((u64*)own + 1, (u64)kept_first(lists, KEPT_ASKS), relaxed, gpu);
  return kept_first(lists, KEPT_TIMERS);
}

// A timer's message is about to be handled. Returns whether the actor still has the timer.
EW_FN bool kept_fires(Actor& a) {
  const u64 number = a.message.words[MESSAGE_WORDS - 1];
  // One that the host has set is not in the list.
  if (number >> 63 != 0) return true;
  const u32 found = kept_find(a.cells, a.list_words(), KEPT_TIMERS, number);
  if (found == 0) return false;
  if ((a.message.head & MESSAGE_TICK) == 0) {
    kept_leave(a.cells, a.list_words(), KEPT_TIMERS, found, false);
    a.free(found - 1);
  }
  return true;
}

// The handler has failed: the ask that it handles is not kept.
EW_FN void kept_take_back(Actor& a) {
  const u32 newest = kept_first(kept_lists(a.list_words()), KEPT_ASKS);
  if (a.asked != NONE || a.ask_cell == NONE || newest != a.ask_cell + 1) return;
  kept_leave(a.cells, a.list_words(), KEPT_ASKS, newest, false);
  a.asked = a.ask_cell;
}

// Ends an ask that the actor does not keep any more, in a cell of its list. An asker that is an actor has that as news, which
// have no bound. Returns false, and leaves it, if there is no room for an event.
EW_FN bool kept_end(Actor& a, u32 at) {
  DevMessage* cell = a.cells + at;
  const u32 seen = load(&cell->head, relaxed, gpu);
  const u32 reason = (seen & (KEPT_LOST | KEPT_ENDED)) == KEPT_LOST ? DEAD_FAILED : DEAD_ENDED;
  const u64 from = load(&cell->from, relaxed, gpu);
  const bool letter = (seen & KEPT_SHOWN) == 0 && a.shows();
  if (letter || (seen & (MESSAGE_DEADLINE | MESSAGE_HOST)) == MESSAGE_DEADLINE) {
    // First the one, then the other, each with a copy: the ring may have room for one of them.
    const u32 copy = a.copied(at);
    if (copy == NONE) return false;
    const u32 plain = seen & ((1u << EVENT_SHIFT) - 1);
    const u32 answer = MESSAGE_DEADLINE | MESSAGE_REPLY | MESSAGE_FAILED | reason | EVENT_ANSWER << EVENT_SHIFT;
    store(&a.cells[copy].head, letter ? plain | (EVENT_LETTER + reason) << EVENT_SHIFT : answer, relaxed, gpu);
    if (!letter) store(&a.cells[copy].from, a.id(), relaxed, gpu);
    store(&a.cells[copy].to, letter ? a.id() : from, relaxed, gpu);
    const bool done = a.reported(copy);
    a.free(copy);
    if (!done) return false;
    if (letter) {
      store(&cell->head, seen | KEPT_SHOWN, relaxed, gpu);
      return true;
    }
  }
  a.count_dead(reason);
  kept_unlink(a.cells, a.list_words(), KEPT_ASKS, at + 1);
  const u32 head = MESSAGE_REPLY | MESSAGE_FAILED | reason;
  if ((seen & MESSAGE_HOST) != 0) {
    actor_answer(a.system.replies + (u32)(from >> 32), cell, head | MESSAGE_HOST);
    a.free(at);
    a.room--;
    actor_queue(a.t.head(a.builtin(2), 0, priority_of(a.t.task.head)), (u32)from, 0);
    return true;
  }
  if ((seen & MESSAGE_DEADLINE) != 0) {
    a.free(at);
    return true;
  }
  a.envelope(at, head | MESSAGE_NEWS, a.id());
  store(&cell->to, from, relaxed, gpu);
  const u32 sent = actor_news(&a.system, from, at);
  if ((sent & 0xff) == SENT_ACTIVATE) a.started(sent >> 8, actor_slot(from), 0);
  if (sent == SENT_GONE) a.free(at);
  return true;
}

// Ends the lost asks of an actor, or all of one that has ended. Returns false if some are left: another turn goes on.
EW_FN bool kept_end_all(Actor& a, bool any) {
  while (true) {
    const u32 at = kept_to_end(a.cells, a.list_words(), any);
    if (at == 0) break;
    // What one of them may cause, and the end of the turn.
    if ((int)a.room <= (int)a.needs || !kept_end(a, at - 1)) return false;
  }
  const u64 word = load((const u64*)a.list_words(), relaxed, gpu);
  store((u64*)a.list_words(), word & ~KEPT_HAS_LOST, relaxed, gpu);
  return true;
}

// What handlers call.

__device__ __forceinline__ u32 Actor::kept() const { return lists ? kept_asks(list_words()) : 0; }
__device__ __forceinline__ u64 Actor::keep() {
  if (!lists) {
    fault(ACTOR_FAULT_KEEPS);
    return 0;
  }
  const u32 at = asked;
  if (at == NONE || kept() >= KEPT_ASKS_MOST) return 0;
  asked = NONE;
  // The end of the actor ends the ask.
  fetch_or(&slot()->notes, NOTE_KNOWN, relaxed, gpu);
  const u64 number = count();
  kept_enter(cells, list_words(), KEPT_ASKS, at, number);
  return number;
}
// Replies to the kept ask in cell `found` - 1.
template <class... W>
EW_FN bool kept_reply(Actor& a, u32 found, u32 tag, W... words) {
  static_assert(sizeof...(W) < MESSAGE_WORDS, "a reply has up to four words");
  const u32 seen = load(&a.cells[found - 1].head, relaxed, gpu);
  const u64 from = load(&a.cells[found - 1].from, relaxed, gpu);
  // An atomic kind keeps the ask until the handler has returned, and holds the reply in another cell.
  const u32 at = a.holds ? a.copied(found - 1) : found - 1;
  if (at == NONE) return false;
  kept_leave(a.cells, a.list_words(), KEPT_ASKS, found, a.holds);
  const u64 list[] = {(u64)words..., 0, 0, 0, 0};
  u64* to = a.cells[at].words;
  constexpr u32 n = sizeof...(W);
  if constexpr (n > 0) store_pair(to, list[0], list[1], relaxed, gpu);
  if constexpr (n > 2) store_pair(to + 2, list[2], list[3], relaxed, gpu);
  const u32 head = tag | n << MESSAGE_WORDS_SHIFT | MESSAGE_REPLY | (seen & (MESSAGE_HOST | MESSAGE_DEADLINE));
  if (a.holds) {
    a.envelope(at, head, from);
    a.hold(from, at);
  } else {
    a.reply_with(at, head, from);
  }
  return true;
}
template <class... W>
__device__ __forceinline__ bool Actor::reply_kept(u64 number, u32 tag, W... words) {
  const u32 found = lists ? kept_find(cells, list_words(), KEPT_ASKS, number) : 0;
  return found != 0 && spend() && kept_reply(*this, found, tag, words...);
}
// A timer of an actor that knows its timers.
template <class... W>
EW_FN u64 kept_timer(Actor& a, u32 what, u64 time, u32 tag, W... words) {
  const u32 at = a.cell();
  if (at == NONE) return 0;
  const u64 number = a.count();
  kept_enter(a.cells, a.list_words(), KEPT_TIMERS, at, number);
  a.event_of_timer(what, tag, time, number, words...);
  return number;
}
EW_FN bool kept_cancel(Actor& a, u64 timer) {
  const u32 found = kept_find(a.cells, a.list_words(), KEPT_TIMERS, timer);
  if (found == 0) return false;
  kept_leave(a.cells, a.list_words(), KEPT_TIMERS, found, a.holds);
  if (!a.holds) a.free(found - 1);
  a.event(EVENT_CANCEL, 2, 0, timer, (u64)0);
  return true;
}
template <class... W>
__device__ __forceinline__ u64 Actor::timer(u32 what, u64 time, u32 tag, W... words) {
  static_assert(sizeof...(W) < MESSAGE_WORDS, "the message of a timer has up to four words");
  if (!spend()) return 0;
  if (lists) return kept_timers(list_words()) >= KEPT_TIMERS_MOST ? 0 : kept_timer(*this, what, time, tag, words...);
  const u64 counted = count();
  event_of_timer(what, tag, time, counted, words...);
  return counted;
}
__device__ __forceinline__ void Actor::cancel(u64 timer) {
  if (!lists) return request(EVENT_CANCEL, timer, 0);
  if (spend()) kept_cancel(*this, timer);
}

// What modules import. A reason for the handler to fail goes to `trap`.

EW_FN u64 module_keep(Actor& a, u32& trap) {
  if (a.kept() >= MODULE_KEPT_MOST) {
    trap = MODULE_KEPT;
    return 0;
  }
  return a.keep();
}
template <class... W>
EW_FN u32 module_reply(Actor& a, u32& trap, u64 number, u32 tag, W... words) {
  const u32 found = kept_find(a.cells, a.list_words(), KEPT_ASKS, number);
  if (found == 0) return 0;
  const u32 seen = load(&a.cells[found - 1].head, relaxed, gpu);
  if ((seen & 0xff) != tag) {
    trap = MODULE_REPLY | tag << 8;
    return 0;
  }
  if (a.sends == 0) {
    trap = MODULE_SENDS;
    return 0;
  }
  a.sends--;
  return kept_reply(a, found, tag, words...);
}
template <class... W>
EW_FN u64 module_timer(Actor& a, u32& trap, u32 what, u64 time, u32 tag, W... words) {
  static_assert(sizeof...(W) < MESSAGE_WORDS, "the message of a timer has up to four words");
  if ((long long)time < 0) trap = MODULE_TIME;
  else if (kept_timers(a.list_words()) >= MODULE_TIMERS_MOST) trap = MODULE_TIMERS;
  if (trap != 0) return 0;
  return kept_timer(a, what, time, tag, words...);
}
EW_FN u32 module_cancel(Actor& a, u64 timer) { return kept_cancel(a, timer); }

}  // namespace ew
