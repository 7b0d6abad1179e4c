// Turns: crates/actor/src/turn.rs on a GPU, with what follows when a handler fails (restarts.rs and undo.rs).
#pragma once
#include "everwarp/actor/hold.cuh"
#include "everwarp/actor/lend.cuh"
#include "everwarp/warp/measure.cuh"

namespace ew {

// The most messages that one turn handles, and of a long mailbox, up to half of it.
constexpr u32 ACTOR_BATCH = 32;
constexpr u32 ACTOR_LONG_BATCH = 256;

// The most messages that a turn handles which finds this word. A long mailbox has senders that wait, and each turn wakes all
// of them. (With services, ptxas spills registers then.)
EW_FN u32 actor_most(u64 mail) { return min(max(mail_count(mail) / 2, ACTOR_BATCH), ACTOR_LONG_BATCH); }

// Messages in a list.
EW_CALL u32 actor_length(const DevMessage* cells, u32 at) {
  u32 length = 0;
  for (; at != 0; at = load(&cells[at - 1].next, relaxed, gpu)) length++;
  return length;
}

// Copies the state of an actor to where the states before a message are, which follow all states, or back.
EW_CALL void actor_remember(const DevActors* s, u32 number, u32 bytes, bool back) {
  u8* own = s->states + (u64)number * s->state_bytes;
  u8* before = own + (u64)s->slot_limit * s->state_bytes;
  u8* to = back ? own : before;
  const u8* from = back ? before : own;
  for (u32 i = 0; i < bytes; i += 16) {
    u64 a, b;
    load_pair((const u64*)(from + i), a, b, relaxed, gpu);
    store_pair((u64*)(to + i), a, b, relaxed, gpu);
  }
}

// Whether the actor in a slot, which has failed, is restarted: up to `most` times within a time in milliseconds. `clears`
// bytes of its state are zeros then.
EW_CALL bool actor_restarts(const DevActors* s, u32 number, u32 most, u32 within, u32 clears) {
  DevActor* slot = s->slots + number;
  const u64 again = load(&slot->again, relaxed, gpu);
  const u32 now = (u32)(clock_ns() / 1000000);
  u32 begin = (u32)(again >> 32), count = (u32)again;
  if (count == 0 || now - begin > within) begin = now, count = 0;
  if (count >= most) return false;
  store(&slot->again, (u64)begin << 32 | (count + 1), relaxed, gpu);
  add(&s->control->restarts, 1, relaxed, gpu);
  actor_clear(s, number, clears);
  return true;
}

// Handles the message in `a`, which cell `kept` has, too, and up to `left` times more if the handler fails and the kind says so.
// Afterwards `a.failed` is about the last time. Returns 0 if the actor goes on. If it ends, and its group does not restart it,
// returns 1, and how often the message may be handled again if its group does.
template <class K, class F>
EW_FN u32 actor_handle(Actor& a, u32 kept, u32 left, F handle) {
#pragma unroll 1
  while (true) {
    a.sends = K::sends(a.kind());
    a.failed = false;
    if constexpr (K::atomic) actor_remember(&a.system, a.number, K::state, false);
    handle(a, a.message);
    if constexpr (K::atomic) {
      if (a.failed) {
        const u64 lists = K::lists ? kept_lists(a.list_words()) : 0;
        actor_remember(&a.system, a.number, K::state, true);
        if constexpr (K::lists) actor_give_cells(&a.system, kept_undo(a.cells, a.list_words(), lists));
        a.take_back(kept);
      } else {
        if constexpr (K::lists) actor_give_cells(&a.system, kept_settle(a.cells, a.list_words()));
        a.let_out();
      }
    } else if constexpr (K::lists) {
      if (a.failed) kept_take_back(a);
    }
    if (!a.failed) break;
    const u64 lists = K::lists && !K::atomic ? kept_lists(a.list_words()) : 0;
    if (K::restarts == 0 || !actor_restarts(&a.system, a.number, K::restarts, K::within, K::atomic ? 0 : K::state)) {
      a.end_failed();
      return 1 + (kept != NONE && !a.stopping ? left : 0);
    }
    if constexpr (K::lists && !K::atomic) kept_lose(a.cells, a.list_words(), lists, KEPT_LOST);
    if (left == 0 || a.stopping || kept == NONE) break;
    left--;
    a.read(kept);
  }
  return 0;
}

// Whether there are news that the turn has not taken.
EW_FN bool actor_has_news(const DevActor* slot) { return (load(&slot->notes, relaxed, gpu) & NOTE_NEWS) != 0; }

// The slot of an actor that has ended is free.
EW_FN void actor_retire(Actor& a) {
  store(actor_meta(a.slot()), load(actor_meta(a.slot()), relaxed, gpu) + (1ull << 32), relaxed, gpu);
  if (a.generation < ACTOR_GENERATION_MAX) actor_give<ACTOR_SLOTS>(&a.system, a.number, a.number);
  else add(&a.system.control->retired, 1, relaxed, gpu);
}

// An actor has ended that is known to the host. If the ring has no room, its turn comes back: no other actor has the slot.
template <class K>
EW_FN void actor_report_end(Actor& a, u32 ending) {
  if constexpr (K::lists) {
    actor_give_cells(&a.system, kept_clear_timers(a.list_words()));
    if (!kept_end_all(a, true)) {
      a.give_back();
      return a.turn(fn_of(a.t.task.head), a.number, TURN_REPORTS | ending << 8);
    }
  }
  const u32 at = a.write(1u << MESSAGE_WORDS_SHIFT | EVENT_ENDED << EVENT_SHIFT, 0, (u64)ending);
  if (at == NONE) return;
  store(&a.cells[at].to, a.id(), relaxed, gpu);
  const bool done = a.reported(at);
  a.free(at);
  a.give_back();
  if (done) actor_retire(a);
  else a.turn(fn_of(a.t.task.head), a.number, TURN_REPORTS | ending << 8);
}

// The end of a turn without services, which has handled some messages and has seen this word last.
EW_FN void actor_turn_ends(Actor& a, u32 handled, u64 mail) {
  const ActorFinish f = actor_finish<false>(a.slots, a.number, handled, a.outbox_first != 0, mail, a.generation, release);
  a.woke_some(f.woken);
  if (f.finished == FINISHED_AGAIN) a.again();
  // `needs` sees to it that there is room.
  if ((int)a.room < 0) a.t.broken = FAULT_SPAWN_LIMIT;
  if (f.finished >= FINISHED_ENDED) actor_retire(a);
}

// The same with services. `owes`: asks that were kept are to be ended. `held`: the host decides about the actor, which has failed.
template <class K>
EW_FN void actor_turn_ends_serving(Actor& a, DevActor* slot, u32 handled, u64 mail, bool owes, bool held) {
  if (a.stopping) store(&slot->again, ENDS_ITSELF, relaxed, gpu);
  const bool more = a.outbox_first != 0 || owes || held;
  const ActorFinish f = actor_finish<true>(a.slots, a.number, handled, more, mail, a.generation, acq_rel);
  a.woke(f.woken);
  if (f.finished == FINISHED_AGAIN && !held) a.again();
  if (f.finished == FINISHED_IDLE && (load(&slot->notes, relaxed, gpu) & NOTE_NEWS) != 0) {
    const u32 roused = actor_rouse(slot, a.generation, load(&slot->mail, acquire, gpu));
    if ((roused & 0xff) == SENT_ACTIVATE) a.again();
  }
  if (f.finished >= FINISHED_ENDED || held) {
    const bool holds = f.finished >= FINISHED_HELD || held;
    const u32 notes = holds ? load(&slot->notes, relaxed, gpu) : exchange(&slot->notes, 0u, acquire, gpu);
    const bool killed = f.finished == FINISHED_KILLED || f.finished == FINISHED_HELD_KILLED;
    u32 ending = ENDING_STOPPED;
    if ((notes & NOTE_FAILED) != 0) ending = ENDING_FAILED;
    else if (killed && load(&slot->again, relaxed, gpu) != ENDS_ITSELF) ending = ENDING_KILLED;
    if (holds) {
      actor_hold(a, held ? HELD_FAILS : ending);
    } else {
      actor_give_cells(&a.system, notes >> NOTE_BITS);
      if ((notes & NOTE_KNOWN) != 0) actor_report_end<K>(a, ending);
      else actor_retire(a);
    }
  }
  if ((int)a.room < 0) a.t.broken = FAULT_SPAWN_LIMIT;
}

// Runs a turn of the actor in slot `lo`. K is a struct with the numbers of its kind, or of several kinds that share this code
// and differ in two of them; crates/actor/src/program.rs writes it.
template <class K, class F>
EW_FN void actor_turn(Lane& t, const DevActors& system, u32 base, F handle) {
  Actor a(t, system, base, K::needs(fn_of(t.task.head) - base), K::atomic, K::restarts != 0, K::services, K::lists, K::lists_at);
  DevActor* slot = a.slot();
  if constexpr (K::services) {
    if ((t.hi() & ~TURN_FRESH) != 0) {
      a.generation = meta_generation(load(actor_meta(slot), relaxed, gpu));
      if ((t.hi() & TURN_REPORTS) != 0) return actor_report_end<K>(a, t.hi() >> 8);
      if ((t.hi() & TURN_HOLDS) != 0) return actor_hold(a, t.hi() >> 8);
      actor_decided<K>(a);
    }
  }
  // The lanes that run turns together: they handle one message each, and then look how many go on.
  const u32 members = __activemask();
  a.generation = meta_generation(load(actor_meta(slot), relaxed, gpu));
  a.stopping = load(&system.control->closing, relaxed, gpu) != 0;
  u32 front = 0, news = 0;
  bool full = false;  // the ring of events is
  bool muted = false, had_front = false, had_outbox = false;
  u64 mail;
  if (t.hi() & TURN_FRESH) {
    mail = actor_take_mail(slot);
    front = actor_turn_round(a.cells, mail_cell(mail));
  } else {
    const ActorBegin begin = actor_begin(&system, a.number);
    mail = begin.mail;
    front = load(&slot->front, relaxed, gpu);
    had_front = front != 0;
    a.outbox_first = load(&slot->outbox_first, relaxed, gpu);
    had_outbox = a.outbox_first != 0;
    a.woke(begin.woken);
    if (a.outbox_first != 0) {
      const u64 blocks = a.flush();
      // Written before it may be muted: from then on the actor may run elsewhere.
      store(&slot->outbox_first, a.outbox_first, relaxed, gpu);
      if (K::services && blocks == HOST_FULL) {
        // The turn comes back: no actor is muted for the host, which goes on whatever actors do.
        full = true;
      } else if (blocks != 0) {
        const ActorMuting m = actor_mute(&system, a.number, blocks);
        muted = m.muting == MUTING_MUTED;
        a.woke(m.woken);
        if (muted) add(&system.control->mutes, 1, relaxed, gpu);
      }
    }
    if (!muted && front == 0 && (mail_has(mail, MAIL_KILL) || a.stopping || !mail_has(mail, MAIL_PAUSED))) {
      const u64 taken = actor_take_mail(slot);
      front = actor_turn_round(a.cells, mail_cell(taken));
    }
  }
  const bool ends = mail_has(mail, MAIL_KILL);
  bool open = !muted && !(K::services && full) && (ends || a.stopping || !mail_has(mail, MAIL_PAUSED));
  u32 handled = 0;
  bool lent = false;
  if constexpr (K::lends) {
    lent = actor_lends(a, open && !ends && !a.stopping, front);
    // Those of an actor that ends are dead letters.
    open = open && (ends || a.stopping);
  }
  if constexpr (K::services) {
    if (open && (load(&slot->notes, relaxed, gpu) & NOTE_NEWS) != 0) {
      const ActorNews taken = actor_take_news(&system, a.number, a.generation, K::lists ? RESETS_CLEAR_NOTHING : K::state);
      if constexpr (K::lists) {
        if (taken.resets) actor_begin_anew<K>(a);
      }
      actor_give_cells(&system, taken.strange);
      news = taken.own;
      if (ends || a.stopping) {
        actor_give_cells(&system, news);
        news = 0;
      }
    }
  }
  if constexpr (K::keep != 0) {
    // The list may be longer only where a turn before this one had no room to drop all.
    u32 waiting = 0;
    if (open && !ends && !a.stopping) waiting = actor_length(a.cells, front);
    for (; waiting > K::keep && a.room >= a.needs; waiting--, handled++) {
      const u32 at = front - 1;
      front = load(&a.cells[at].next, relaxed, gpu);
      a.dead_letter(at, DEAD_DROPPED, a.id());
    }
    open = open && waiting <= K::keep;
  }
  constexpr bool LONG = K::keep == 0 && !K::services;
  const u32 last = K::keep == 0 ? ACTOR_BATCH : handled + ACTOR_BATCH;
  u32 told = 0;  // news that were handled
  // Whether a message that has failed may be handled again when the host has decided that the actor goes on.
  constexpr bool RETURNS = K::services && K::retries != 0;
  while (true) {
    // Without services, `told` and `news` are 0 all the time and take no registers.
    const u32 done = K::services ? handled + told : handled;
    const bool more = open && (K::services ? front | news : front) != 0 && done < (LONG ? actor_most(mail) : last) &&
                      a.room >= a.needs && (done == 0 || a.outbox_first == 0);
    const u32 going = __ballot_sync(members, more);
    if (going == 0) break;
    // The few with more messages go on in another turn, together with others. But not those with long mailboxes.
    const bool goes_on = LONG && more && mail_count(mail) >= 2 * ACTOR_BATCH;
    if (__any_sync(members, done != 0) && 2 * __popc(going) < __popc(members) && !__any_sync(members, goes_on)) break;
    trace_meet(members);
    if (!more) continue;
    u32 at = front - 1, left = K::retries;
    const bool is_news = K::services && news != 0;
    if (is_news) {
      at = news - 1;
      news = a.read(at);
      told++;
      if (ends || a.stopping) {
        a.free(at);
        continue;
      }
      if constexpr (K::lists) {
        // It was cancelled while its message was on its way.
        if ((a.message.head & MESSAGE_TIMER) != 0 && !kept_fires(a)) {
          a.free(at);
          continue;
        }
      }
      if ((a.message.head & (MESSAGE_TICK | MESSAGE_VALUE)) != 0) a.tick();
    } else {
      front = a.read(at);
      handled++;
      if constexpr (RETURNS) left = actor_left(a, at, K::retries);
    }
    // Of a message that may be handled again, or be shown when it is dead, a cell is kept: registers are too few. The cell
    // of an ask is the reply's, too.
    constexpr bool keeps = K::retries != 0 || K::services;
    u32 dead = at, reason = RETURNS && left != K::retries ? DEAD_FAILED : DEAD_ENDED, kept = at;
    if constexpr (keeps) {
      if (a.message.is_ask()) kept = K::retries != 0 || a.shows() ? a.copied(at) : NONE;
    }
    if (!ends && !a.stopping) {
      // A message that is handled again was taken before.
      trace_takes(left != K::retries ? nullptr : a.cells + at);
      a.sends = K::sends(a.kind());
      a.asked = NONE;
      if constexpr (K::services) a.payload_cell = kept;
      if (a.message.is_ask()) a.asked = at;
      else if constexpr (!keeps) a.free(at);
      measure_handler_begins();
      if constexpr (K::restarts == 0 && K::retries == 0 && !K::atomic && !K::lists) {
        // Not through `actor_handle`: with it, ptxas spills registers for sm_100. `fail` has ended the actor.
        handle(a, a.message);
        measure_handler_ends();
        if constexpr (K::services) open = open && !a.failed;
      } else {
        a.ask_cell = a.asked;
        left = actor_handle<K>(a, kept, left, handle);
        measure_handler_ends();
        // What is left to do about the failure comes after the loop.
        if constexpr (K::services) open = open && left == 0;
        if constexpr (RETURNS) {
          if (left > 1 && !is_news) {
            front = actor_put_back(a, front, kept, left - 2);
            handled--;
            continue;
          }
        }
      }
      dead = a.asked;
      reason = a.failed ? DEAD_FAILED : DEAD_NO_REPLY;
      if constexpr (keeps) {
        if (!a.failed && dead == NONE) reason = NONE;
      } else if (a.failed && dead == NONE) {
        a.count_dead(DEAD_FAILED);
      }
    } else if (keeps && dead == kept) {
      dead = NONE;
    }
    if constexpr (keeps) {
      if (reason != NONE) a.count_dead(reason);
      if (kept != NONE && reason != NONE) a.bury(kept, reason, a.id());
      else if (kept != NONE) K::services ? a.done(kept) : a.free(kept);
      if (dead != NONE) a.fail_ask(dead, reason);
    } else if (dead != NONE) {
      a.dead_letter(dead, reason, a.id());
    }
    if constexpr (K::services) {
      a.flush();
      // News come before the messages that wait: the next turn takes them.
      if (actor_has_news(slot)) told = ACTOR_BATCH;
    }
  }
  trace_meet(members);
  if (K::lends && lent && actor_lend(a, front)) return;
  bool held = false;
  if constexpr (K::services) {
    // The actor has failed. If it is one of a group, the host decides.
    if (a.failed && !open) {
      held = (load(&slot->notes, relaxed, gpu) & NOTE_SUPERVISED) != 0;
      a.stopping = a.stopping || !held;
    }
  }
  if (!ends && handled != 0) add(&slot->handled, handled, relaxed, gpu);
  if (K::services && news != 0) {
    if (a.stopping) actor_give_cells(&system, news);
    else actor_return_news(&system, a.number, news);
  }
  bool owes = false;  // asks that were kept are to be ended
  if constexpr (K::lists) {
    if (!muted && (load((const u64*)a.list_words(), relaxed, gpu) & KEPT_HAS_LOST) != 0) owes = !kept_end_all(a, false);
  }
  a.give_back();
  if (muted) return;
  // With services in any case, because there are too few registers to know what was there.
  if (K::services || had_front || front != 0) store(&slot->front, front, relaxed, gpu);
  if (K::services || had_outbox || a.outbox_first != 0) store(&slot->outbox_first, a.outbox_first, relaxed, gpu);
  if (a.stopping) mail = fetch_or(&slot->mail, mail_flag(MAIL_KILL), relaxed, gpu) | mail_flag(MAIL_KILL);
  else mail &= ~(u64)((1u << MAIL_CELL_BITS) - 1);
  if constexpr (K::services) {
    actor_turn_ends_serving<K>(a, slot, handled, mail, owes, held);
  } else {
    actor_turn_ends(a, handled, mail);
  }
}

}  // namespace ew
