// Turns of actors of warp and block shape: turn.cuh for a warp. The first lane does what concerns the mailbox, with the functions
// of other turns, and all lanes together what concerns messages. In a block that is the first warp, and the others run the
// handler only.
//
// A mailbox is a list, whose links are followed one after the other, so a turn follows them once: while it turns the list
// round, it leaves in each cell which one is a warp of messages newer. From then on each lane finds its next message alone.
//
// News, where the program uses services, are handled one in a call, before the mailbox: a failure of one is no failure of others.
#pragma once
#include "everwarp/actor/wide.cuh"

namespace ew {

// The most messages that one turn handles.
constexpr u32 WIDE_BATCH = 1024;

// As `actor_most`: senders that wait are woken while half of a long mailbox is left.
EW_FN u32 wide_most(u64 mail) { return min(max(mail_count(mail) / 2, ACTOR_BATCH), WIDE_BATCH); }

// As `actor_turn_round` for a list that is not empty. Each lane gets one of its oldest messages, in their order: its cell, plus
// one, or 0 where there are fewer. In `to` each cell has the one that is a warp newer, likewise.
EW_FN u32 wide_turn_round(DevMessage* cells, u32 lane, u32 at) {
  u32 own = 0, newer = 0, place = 0;
#pragma unroll 1
  while (at != 0) {
    u32 next = 0;
    if (lane == 0) next = load(&cells[at - 1].next, relaxed, gpu);
    next = __shfl_sync(ALL, next, 0);
    if (place % WARP == lane) {
      store(&cells[at - 1].next, newer, relaxed, gpu);
      store(&cells[at - 1].to, (u64)own, relaxed, gpu);
      own = at;
    }
    newer = at;
    at = next;
    place++;
  }
  // The last place has the oldest.
  own = __shfl_sync(ALL, own, (place - 1 - lane) % WARP);
  // What lanes have written, before others read it.
  __syncwarp(ALL);
  return lane < place ? own : 0;
}

// The same of a list that begins with the oldest and was turned round before.
EW_FN u32 wide_oldest(const DevMessage* cells, u32 lane, u32 at) {
  u32 own = 0;
  for (u32 place = 0; place < WARP && at != 0; place++) {
    if (place == lane) own = at;
    at = load(&cells[at - 1].next, relaxed, gpu);
  }
  return own;
}

// As `actor_remember`, by all lanes.
EW_CALL void wide_remember(const DevActors* s, u32 number, u32 bytes, bool back) {
  u8* own = s->states + (u64)number * s->state_bytes;
  u8* before = own + (u64)s->slot_limit * s->state_bytes;
  u8* to = back ? own : before;
  const u8* from = back ? before : own;
  __syncwarp(ALL);
#pragma unroll 1
  for (u32 i = 16 * lane_id(); i < bytes; i += 16 * WARP) {
    u64 x, y;
    load_pair((const u64*)(from + i), x, y, relaxed, gpu);
    store_pair((u64*)(to + i), x, y, relaxed, gpu);
  }
}

// The lane's message is that in cell `at`, or none.
EW_FN void wide_read(Actor& a, u32 at) {
  a.message = Message{};
  if (at != NONE) a.read(at);
}

// What came of a handler.
constexpr u32 WIDE_FAILS = 1;
constexpr u32 WIDE_STOPS = 2;

// In place of the number of messages, for the other warps of a block: the turn is over.
constexpr u32 BLOCK_OVER = 0;

// Runs the handler for the messages in cells `at`, which the lanes have read. WIDE_...
template <class F>
EW_FN u32 wide_run(Warp&, Actor& a, u32 lane, u32, u32 count, F handle) {
  __syncwarp(ALL);
  WarpActor view{a, lane, count};
  handle(view, a.message);
  __syncwarp(ALL);
  return (__any_sync(ALL, a.failed) ? WIDE_FAILS : 0) | (__any_sync(ALL, a.stopping) ? WIDE_STOPS : 0);
}
EW_FN u32 block_run_ends(const Actor& a) {
  const u32 fails = __syncthreads_or(a.failed) ? WIDE_FAILS : 0;
  return fails | (__syncthreads_or(a.stopping) ? WIDE_STOPS : 0);
}
template <class F>
EW_FN u32 wide_run(Block& t, Actor& a, u32 lane, u32 at, u32 count, F handle) {
  // No task is handed over through this place while the block runs one.
  shared().staging[0][lane].head = at;
  if (lane == 0) shared().staging[0][0].group = count;
  __syncthreads();
  // The other warps read the messages, before a reply takes the place of one.
  __syncthreads();
  BlockActor view(a, t.thread, count);
  handle(view, a.message);
  return block_run_ends(a);
}
// The other warps of a block.
template <class F>
EW_FN void wide_help(Block& t, Actor& a, F handle) {
  a.generation = meta_generation(load(actor_meta(a.slot()), relaxed, gpu));
  while (true) {
    __syncthreads();
    const u32 count = shared().staging[0][0].group;
    if (count == BLOCK_OVER) break;
    wide_read(a, shared().staging[0][t.thread % WARP].head);
    __syncthreads();
    a.failed = a.stopping = false;
    BlockActor view(a, t.thread, count);
    handle(view, a.message);
    block_run_ends(a);
  }
  // The first warp goes on with another task.
  __syncthreads();
}

EW_FN bool wide_helps(const Warp&) { return false; }
EW_FN bool wide_helps(const Block& t) { return t.thread >= WARP; }
template <class F>
EW_FN void wide_help(Warp&, Actor&, F) {}
// The turn calls no handler any more.
EW_FN void wide_over(Warp&, u32) { __syncwarp(ALL); }
EW_FN void wide_over(Block& t, u32 lane) {
  if (lane == 0) shared().staging[0][0].group = BLOCK_OVER;
  __syncthreads();
  __syncthreads();
  // Tasks that a block queues have a priority that no batch of the warp notes.
  if (lane == 0) note_priority(shared().queues[threadIdx.x / WARP], priority_of(t.task.head));
}

// The rule that the task broke, which the engine looks at for a warp alone.
EW_FN void wide_checked(const Warp&) {}
EW_FN void wide_checked(const Block& t) {
  if (t.broken != 0) raise_fault(everwarp_tables, t.broken, fn_of(t.task.head), t.task.head);
}

// The failed messages of a call are the first of their mailbox again, as `actor_put_back` does it: each in the cell of its ask if that
// has no reply, or in `kept`. `newer` is the cell a warp newer, plus one. Returns the lane's cell, plus one.
EW_FN u32 wide_put_back(Actor& a, u32 lane, u32 kept, u32 left, u32 own, u32 newer, u32 count) {
  u32 back = NONE;
  if (lane < count) {
    back = a.asked != NONE ? a.asked : kept;
    // A reply that was undone has changed the words of its ask.
    if (back != kept) actor_copy(a.cells, kept, back);
    const u32 head = load(&a.cells[back].head, relaxed, gpu) & (a.asked != NONE ? ~0u : ~(u32)MESSAGE_ASK);
    store(&a.cells[back].head, head | MESSAGE_AGAIN, relaxed, gpu);
    store(&a.cells[back].to, (u64)left << 32 | newer, relaxed, gpu);
  }
  wide_free(a, lane, back != kept ? kept : NONE);
  const u32 first_left = __shfl_sync(ALL, count < WARP ? own : newer, count % WARP);
  own = lane < count ? back + 1 : own;
  const u32 next = __shfl_sync(ALL, own, (lane + 1) % WARP);
  if (lane < count) store(&a.cells[back].next, lane + 1 < count ? next : first_left, relaxed, gpu);
  return own;
}

// The tries that messages have left which have failed before their actor was held: the first `count` of the lanes, which are those
// of one call. K::retries for others.
template <class K>
EW_FN u32 wide_left(Actor& a, u32 lane, u32 own, u32& count) {
  const u32 head = lane < count ? load(&a.cells[own - 1].head, relaxed, gpu) : 0;
  const u32 again = __ballot_sync(ALL, (head & MESSAGE_AGAIN) != 0);
  if (again == 0) return K::retries;
  count = __popc(again);
  if (lane < count) store(&a.cells[own - 1].head, head & ~(u32)MESSAGE_AGAIN, relaxed, gpu);
  u32 left = 0;
  if (lane == 0) left = (u32)(load(&a.cells[own - 1].to, relaxed, gpu) >> 32);
  return __shfl_sync(ALL, left, 0);
}

// What follows for the turn from a call.
constexpr u32 CALL_GOES_ON = 0;
constexpr u32 CALL_ENDS = 1;  // the actor has failed, and ends unless its group restarts it
constexpr u32 CALL_RETURNS = 2;  // the same, and its messages are to be handled again if it is restarted

// Handles the `count` messages in the lanes' cells, and up to `left` times more if the handler fails and the kind says so. With services
// returns what follows, and of messages that return sets `kept` and the tries that are left.
template <class K, class V, class F>
EW_FN u32 wide_call(V& t, Actor& a, u32 lane, u32 at, u32 count, bool is_news, u32& left, u32& kept, F handle) {
  wide_read(a, at);
  const u32 ask = a.message.is_ask() ? at : NONE;
  // Of an ask that may be handled again, or be shown when it is dead, a copy is kept, because its cell is the reply's, too:
  // registers are too few.
  kept = (K::retries != 0 || (K::services && a.shows())) && ask != NONE ? a.copied(at) : at;
  a.asked = ask;
  if constexpr (K::services) {
    a.payload_cell = kept;
    if (is_news) {
      if (lane == 0 && (a.message.head & (MESSAGE_TICK | MESSAGE_VALUE)) != 0) a.tick();
      a.outbox_first = __shfl_sync(ALL, a.outbox_first, 0);
    }
  }
  bool failed, ends = false;
  // Not the first lane, whose place a block needs.
  if (lane == 1) measure_handler_begins();
  trace_meet(ALL);
  // A message that is handled again was taken before.
  if (at != NONE && !(K::services && left != K::retries)) trace_takes(a.cells + at);
#pragma unroll 1
  while (true) {
    a.sends = K::sends(a.kind());
    a.failed = false;
    a.ask_cell = a.asked;
    if constexpr (K::atomic) wide_remember(&a.system, a.number, K::state, false);
    const u32 came = wide_run(t, a, lane, kept, count, handle);
    failed = (came & WIDE_FAILS) != 0;
    a.stopping = (came & WIDE_STOPS) != 0;
    const bool undone = K::atomic && failed;
    if (undone) wide_remember(&a.system, a.number, K::state, true);
    if (__reduce_add_sync(ALL, K::sends(a.kind()) - a.sends) > K::sends(a.kind())) {
      // The engine ends. There is no room for what was sent.
      if (lane == 0) a.fault(ACTOR_FAULT_SENDS);
      a.held_first = 0;
      a.replied = false;
    }
    wide_let_out(a, lane, undone);
    if (!failed) break;
    __syncwarp(ALL);
    bool goes_on = false;
    if constexpr (K::restarts != 0) {
      if (lane == 0) goes_on = actor_restarts(&a.system, a.number, K::restarts, K::within, K::atomic ? 0 : K::state);
      goes_on = __any_sync(ALL, goes_on);
    }
    if (!goes_on) {
      if (lane == 0) a.end_failed();
      // With services the turn sees to that, because its group may restart it.
      if constexpr (K::services) ends = true;
      else a.stopping = true;
    }
    if (left == 0 || a.stopping || ends) break;
    left--;
    wide_read(a, kept);
  }
  if (lane == 1) measure_handler_ends();
  trace_meet(ALL);
  if (K::services && K::retries != 0 && ends && !is_news && left != 0 && !a.stopping) {
    left--;
    return CALL_RETURNS;
  }
  const u32 dead = __popc(__ballot_sync(ALL, failed ? at != NONE : a.asked != NONE));
  const u32 reason = failed ? DEAD_FAILED : DEAD_NO_REPLY;
  if constexpr (K::services) {
    const u32 own = wide_bury(a, lane, ask == NONE || kept != ask ? kept : NONE, failed || a.asked != NONE ? reason : NONE);
    wide_done(a, lane, own, a.asked, reason, dead);
    wide_flush(a, lane);
  } else {
    wide_done(a, lane, K::retries != 0 || ask == NONE ? kept : NONE, a.asked, reason, dead);
  }
  return ends ? CALL_ENDS : CALL_GOES_ON;
}

// Messages in the lanes' cells are not handled.
EW_FN void wide_dead(Actor& a, u32 lane, u32 at, u32 reason) {
  const bool asks = at != NONE && (load(&a.cells[at].head, relaxed, gpu) & MESSAGE_ASK) != 0;
  const u32 dead = __popc(__ballot_sync(ALL, at != NONE));
  u32 own = asks ? NONE : at;
  if (a.serves) {
    if (asks && a.shows()) own = a.copied(at);
    own = wide_bury(a, lane, own, reason);
  }
  wide_done(a, lane, own, asks ? at : NONE, reason, dead);
  if (a.serves) wide_flush(a, lane);
}

// Runs a turn of the actor in slot `lo`, as `actor_turn` does. V is Warp or Block.
template <class K, class V, class F>
EW_FN void actor_turn_wide(V& t, const DevActors& system, u32 base, F handle) {
  static_assert(!K::lists && !K::lends, "kinds of lane shape have these alone");
  // Handlers hold what they send, and the turn sees to it that an actor ends that has failed.
  Actor a(t, system, base, K::needs(fn_of(t.task.head) - base), true, true, K::services, false, 0);
  if (wide_helps(t)) return wide_help(t, a, handle);
  const u32 lane = lane_id();
  DevActor* slot = a.slot();
  a.room = K::room;
  u64 mail = 0;
  u32 newest = 0, front = 0, news = 0;
  bool muted = false;
  bool full = false;  // the ring of events is
  if constexpr (K::services) {
    if ((t.hi() & ~TURN_FRESH) != 0) {
      if (lane == 0) a.generation = meta_generation(load(actor_meta(slot), relaxed, gpu));
      if ((t.hi() & (TURN_REPORTS | TURN_HOLDS)) != 0) {
        wide_over(t, lane);
        if (lane != 0) return;
        if ((t.hi() & TURN_REPORTS) != 0) actor_report_end<K>(a, t.hi() >> 8);
        else actor_hold(a, t.hi() >> 8);
        return wide_checked(t);
      }
      if (lane == 0) actor_decided<K>(a);
    }
  }
  if (lane == 0) {
    a.generation = meta_generation(load(actor_meta(slot), relaxed, gpu));
    a.stopping = load(&system.control->closing, relaxed, gpu) != 0;
    if ((t.hi() & TURN_FRESH) != 0) {
      mail = actor_take_mail(slot);
      newest = mail_cell(mail);
    } else {
      const ActorBegin begin = actor_begin(&system, a.number);
      mail = begin.mail;
      front = load(&slot->front, relaxed, gpu);
      a.outbox_first = load(&slot->outbox_first, relaxed, gpu);
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
        newest = mail_cell(actor_take_mail(slot));
      }
    }
    if constexpr (K::services) {
      const bool ends = mail_has(mail, MAIL_KILL) || a.stopping;
      if (!muted && !full && (ends || !mail_has(mail, MAIL_PAUSED)) && actor_has_news(slot)) {
        const ActorNews taken = actor_take_news(&system, a.number, a.generation, K::state);
        actor_give_cells(&system, taken.strange);
        if (ends) actor_give_cells(&system, taken.own);
        else news = taken.own;
      }
    }
  }
  // Acquire and release are the first lane's, for all lanes that meet it.
  __syncwarp(ALL);
  a.generation = __shfl_sync(ALL, a.generation, 0);
  a.outbox_first = __shfl_sync(ALL, a.outbox_first, 0);
  a.room = __shfl_sync(ALL, a.room, 0);
  a.stopping = __any_sync(ALL, a.stopping);
  muted = __any_sync(ALL, muted);
  if constexpr (K::services) {
    full = __any_sync(ALL, full);
    news = __shfl_sync(ALL, news, 0);
  }
  mail = __shfl_sync(ALL, mail, 0);
  newest = __shfl_sync(ALL, newest, 0);
  front = __shfl_sync(ALL, front, 0);
  u32 own = newest != 0 ? wide_turn_round(a.cells, lane, newest) : wide_oldest(a.cells, lane, front);
  const bool ends = mail_has(mail, MAIL_KILL);
  const u32 most = wide_most(mail);
  bool open = !muted && !(K::services && full) && (ends || a.stopping || !mail_has(mail, MAIL_PAUSED));
  u32 dropping = 0;
  if constexpr (K::keep != 0) {
    // The list may be longer only where a turn before this one had no room to drop all.
    if (open && !ends && !a.stopping) dropping = max(actor_length(a.cells, __shfl_sync(ALL, own, 0)), K::keep) - K::keep;
  }
  u32 handled = 0, dropped = 0;  // those that are dropped are handled, too
  u32 told = 0;  // news that were handled; without services 0 all the time, as `news` is
  bool failed = false;
#pragma unroll 1
  while (open) {
    u32 count = __popc(__ballot_sync(ALL, own != 0));
    const bool is_news = K::services && news != 0 && dropping == 0 && !a.stopping, any = handled + told != 0;
    if ((count == 0 && !is_news) || (dropping == 0 && handled - dropped + told >= most) || a.room < a.needs ||
        (any && a.outbox_first != 0)) {
      break;
    }
    if (dropping != 0) count = min(count, dropping);
    u32 left = K::retries, kept;
    if constexpr (K::services) {
      if (is_news) {
        const u32 at = lane == 0 ? news - 1 : NONE;
        news = __shfl_sync(ALL, lane == 0 ? load(&a.cells[at].next, relaxed, gpu) : 0, 0);
        told++;
        failed = wide_call<K>(t, a, lane, at, 1, true, left, kept, handle) != CALL_GOES_ON;
        open = !failed && !__any_sync(ALL, lane == 0 && actor_has_news(slot));
        continue;
      }
      if (K::retries != 0 && dropping == 0) left = wide_left<K>(a, lane, own, count);
    }
    // Read before the message's handler, which may use its cell.
    const u32 newer = own != 0 ? (u32)load(&a.cells[own - 1].to, relaxed, gpu) : 0;
    const u32 at = lane < count ? own - 1 : NONE;
    if (dropping != 0) {
      wide_dead(a, lane, at, DEAD_DROPPED);
      dropping -= count;
      dropped += count;
    } else if (ends || a.stopping) {
      wide_dead(a, lane, at, K::services && left != K::retries ? DEAD_FAILED : DEAD_ENDED);
    } else {
      const u32 came = wide_call<K>(t, a, lane, at, count, false, left, kept, handle);
      if constexpr (K::services) {
        failed = came != CALL_GOES_ON;
        // News come before the messages that wait: the next turn takes them.
        open = !failed && !__any_sync(ALL, lane == 0 && actor_has_news(slot));
        if (K::retries != 0 && came == CALL_RETURNS) {
          own = wide_put_back(a, lane, kept, left, own, newer, count);
          wide_flush(a, lane);
          break;
        }
      }
    }
    handled += count;
    const u32 still = __shfl_sync(ALL, own, (lane + count) % WARP), then = __shfl_sync(ALL, newer, (lane + count) % WARP);
    own = lane + count < WARP ? still : then;
  }
  front = __shfl_sync(ALL, own, 0);
  // What all lanes have written, before the first one gives the actor on.
  wide_over(t, lane);
  if (lane != 0) return;
  bool held = false;
  if constexpr (K::services) {
    // The actor has failed. If it is one of a group, the host decides.
    if (failed) {
      held = (load(&slot->notes, relaxed, gpu) & NOTE_SUPERVISED) != 0;
      a.stopping = a.stopping || !held;
    }
    if (news != 0) {
      if (a.stopping) actor_give_cells(&system, news);
      else actor_return_news(&system, a.number, news);
    }
  }
  if (!ends && handled != 0) add(&slot->handled, handled, relaxed, gpu);
  a.give_back();
  if (muted) return;
  // In any case, and the word once more, because there are too few registers to know what was there.
  store(&slot->front, front, relaxed, gpu);
  store(&slot->outbox_first, a.outbox_first, relaxed, gpu);
  if (a.stopping) mail = fetch_or(&slot->mail, mail_flag(MAIL_KILL), relaxed, gpu) | mail_flag(MAIL_KILL);
  else mail = load(&slot->mail, relaxed, gpu);
  if constexpr (K::services) actor_turn_ends_serving<K>(a, slot, handled, mail, false, held);
  else actor_turn_ends(a, handled, mail);
  wide_checked(t);
}

}  // namespace ew
