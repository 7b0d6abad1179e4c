// The mailbox protocol. Its rules are in crates/actor/src/mailbox.rs, which is the same function by function and is
// checked by models; the free numbers are those of crates/actor/src/pool.rs. All calls are leaves: see EW_CALL.
#pragma once
#include "everwarp/block/block.cuh"
#include "everwarp/warp/trace.cuh"

namespace ew {

EW_FN u64 mail_flag(u32 flags) { return (u64)flags << MAIL_FLAG_SHIFT; }
EW_FN bool mail_has(u64 mail, u32 flags) { return (mail & mail_flag(flags)) != 0; }
EW_FN u32 mail_cell(u64 mail) { return (u32)mail & ((1u << MAIL_CELL_BITS) - 1); }
EW_FN u32 mail_count(u64 mail) { return (u32)(mail >> MAIL_COUNT_SHIFT) & MAIL_COUNT_MAX; }
EW_FN u64 mail_free(u32 generation) { return (u64)(generation & 0xffff) << MAIL_GENERATION_SHIFT; }

EW_FN u32 actor_slot(u64 id) { return (u32)id & ((1u << ACTOR_GENERATION_SHIFT) - 1); }
EW_FN u32 actor_generation(u64 id) { return (u32)(id >> ACTOR_GENERATION_SHIFT) & ACTOR_GENERATION_MAX; }
EW_FN u64 actor_id(u32 slot, u32 generation) { return (u64)generation << ACTOR_GENERATION_SHIFT | slot; }

// Kind (16), bound (16), generation (32).
EW_FN u64* actor_meta(DevActor* slot) { return (u64*)&slot->kind; }
EW_FN u32 meta_kind(u64 meta) { return (u32)meta & 0xffff; }
EW_FN u32 meta_bound(u64 meta) { return (u32)meta >> 16; }
EW_FN u32 meta_generation(u64 meta) { return (u32)(meta >> 32); }

// Whether the word is that of the actor with this generation.
EW_FN bool actor_lives(u64 mail, u64 meta, u32 generation) {
  return mail_has(mail, MAIL_LIVE) && mail >> MAIL_GENERATION_SHIFT == (generation & 0xffff) &&
         meta_generation(meta) == generation;
}
EW_FN bool actor_named(u32 slot_limit, u64 id) {
  return actor_slot(id) < slot_limit && actor_generation(id) != 0 && id >> ACTOR_NODE_SHIFT == 0;
}

// Free cells and slots.

// Cells for each stack of a pool that has few.
constexpr u32 ACTOR_SHARD_CELLS = 128;

// How many stacks a pool has, a power of two. A pool with few cells has fewer: a lane that looks for one would find most stacks empty.
EW_FN u32 actor_shards(const DevActors* s, u32 pool) {
  if (pool == ACTOR_SLOTS) return ACTOR_SHARDS;
  return min(1u << (31 - __clz(max(s->cell_limit / ACTOR_SHARD_CELLS, 1u))), ACTOR_SHARDS);
}
EW_FN u64* actor_shard(const DevActors* s, u32 pool, u32 shard) {
  return s->shards + (pool * ACTOR_SHARDS + (shard & (actor_shards(s, pool) - 1))) * ACTOR_SHARD_STRIDE;
}
EW_FN u32* actor_link(const DevActors* s, u32 pool, u32 number) {
  return pool == ACTOR_CELLS ? &s->cells[number].next : &s->slots[number].wait_next;
}
// The calling lane's shard.
EW_FN u32 actor_own_shard() { return blockIdx.x * BLOCK_THREADS + threadIdx.x; }

// A shard that is as good as any other.
EW_FN u32 actor_some_shard() { return (clock_cycles() ^ actor_own_shard() << 12) * 2654435761u >> 16; }

// Gives back a list of numbers from `first` to `last`, whose links are set. To any shard: an actor that many send to
// frees the cells that other lanes take, which would search all shards for the one that has them.
EW_FN void actor_put(const DevActors* s, u32 pool, u32 first, u32 last) {
  u64* head = actor_shard(s, pool, actor_some_shard());
  u32* link = actor_link(s, pool, last);
  u64 seen = load(head, relaxed, gpu);
  while (true) {
    store(link, (u32)seen, relaxed, gpu);
    // Release: the taker sees the links, and what the giver wrote.
    u64 now = compare_exchange(head, seen, ((seen >> 32) + 1) << 32 | (first + 1), release, gpu);
    if (now == seen) return;
    seen = now;
  }
}

template <u32 pool>
EW_CALL void actor_give(const DevActors* s, u32 first, u32 last) { actor_put(s, pool, first, last); }

EW_FN u32 actor_pop(const DevActors* s, u32 pool, u32 shard) {
  u64* head = actor_shard(s, pool, shard);
  u64 seen = load(head, acquire, gpu);
  while ((u32)seen != 0) {
    u32 number = (u32)seen - 1, link = load(actor_link(s, pool, number), relaxed, gpu);
    u64 now = compare_exchange(head, seen, ((seen >> 32) + 1) << 32 | link, acq_rel, gpu);
    if (now == seen) return number;
    seen = now;
  }
  return NONE;
}

// Takes one number; NONE when the pool is exhausted. A function for each pool, because with the pool as a parameter the
// turns that call it need more registers than there are.
template <u32 pool>
EW_CALL u32 actor_take(const DevActors* s) {
  u32 number = actor_pop(s, pool, actor_own_shard());
  if (number != NONE) return number;
  u32* fresh = pool == ACTOR_CELLS ? &s->control->fresh_cells : &s->control->fresh_slots;
  const u32 limit = pool == ACTOR_CELLS ? s->cell_limit : s->slot_limit;
  if (load(fresh, relaxed, gpu) < limit) {
    number = fetch_add(fresh, 1, relaxed, gpu);
    if (number < limit) return number;
  }
  const u32 start = actor_some_shard();
#pragma unroll 1
  for (u32 i = 0; i < actor_shards(s, pool); i++) {
    number = actor_pop(s, pool, start + i * ACTOR_SHARD_STEP);
    if (number != NONE) return number;
  }
  return NONE;
}

// Free slots, some at a time, because the host launches many: to search the stacks for each takes longer than to launch. A list is its
// first slot, plus one, and ends with a link of 0; 0: there is none.

// Up to `most` from one stack.
EW_FN u32 actor_pop_slots(const DevActors* s, u32 shard, u32 most) {
  u64* head = actor_shard(s, ACTOR_SLOTS, shard);
  u64 seen = load(head, acquire, gpu);
  while ((u32)seen != 0) {
    u32 last = 0, rest = (u32)seen;
    // The links may be others' meanwhile. Then the head has changed as well.
    for (u32 count = 0; count < most && rest - 1 < s->slot_limit; count++) {
      last = rest;
      rest = load(actor_link(s, ACTOR_SLOTS, rest - 1), relaxed, gpu);
    }
    u64 now = compare_exchange(head, seen, ((seen >> 32) + 1) << 32 | rest, acq_rel, gpu);
    if (now == seen) {
      store(actor_link(s, ACTOR_SLOTS, last - 1), 0u, relaxed, gpu);
      return (u32)seen;
    }
    seen = now;
  }
  return 0;
}
// Up to `most`: from the own stack; or such as were never used; or from another stack. It looks at some stacks at once, because nearly
// all are empty when the last slots are taken.
EW_CALL u32 actor_take_slots(const DevActors* s, u32 most) {
  constexpr u32 AT_ONCE = 8;
  u32 list = actor_pop_slots(s, actor_own_shard(), most);
  if (list != 0) return list;
  u32* fresh = &s->control->fresh_slots;
  if (load(fresh, relaxed, gpu) < s->slot_limit) {
    const u32 first = fetch_add(fresh, most, relaxed, gpu), end = min(first + most, s->slot_limit);
    for (u32 i = first; i < end; i++) store(actor_link(s, ACTOR_SLOTS, i), i + 1 < end ? i + 2 : 0, relaxed, gpu);
    if (first < end) return first + 1;
  }
  const u32 start = actor_some_shard();
#pragma unroll 1
  for (u32 i = 0; i < ACTOR_SHARDS && list == 0;) {
    u64 heads[AT_ONCE];
    u32 found = NONE;
#pragma unroll
    for (u32 j = 0; j < AT_ONCE; j++) heads[j] = load(actor_shard(s, ACTOR_SLOTS, start + (i + j) * ACTOR_SHARD_STEP), relaxed, gpu);
#pragma unroll
    for (u32 j = 0; j < AT_ONCE; j++) {
      if ((u32)heads[j] != 0) found = j;
    }
    // Where another lane was faster, it looks again.
    if (found != NONE) list = actor_pop_slots(s, start + (i + found) * ACTOR_SHARD_STEP, most);
    else i += AT_ONCE;
  }
  return list;
}

// Messages.

constexpr u32 SENT_DELIVERED = 0;  // the mailbox has it
constexpr u32 SENT_ACTIVATE = 1;   // the same, and the caller queues a turn; | kind << 8
constexpr u32 SENT_FULL = 2;       // the caller keeps the message, for which there is no room, or other senders were faster
constexpr u32 SENT_GONE = 3;       // the receiver does not live, or ends; the caller keeps the message

// Whether the word is that of the actor with this generation, and it accepts messages.
EW_FN bool actor_accepts(u64 mail, u64 meta, u32 generation) {
  return actor_lives(mail, meta, generation) && !mail_has(mail, MAIL_STOP | MAIL_KILL);
}
// How many messages it accepts.
EW_FN u32 actor_room(u64 mail, u64 meta, u32 generation) {
  return actor_accepts(mail, meta, generation) ? meta_bound(meta) - min(meta_bound(meta), mail_count(mail)) : 0;
}

// The tries of a sender that tries until the mailbox has the message, or is full.
constexpr u32 SEND_ALWAYS = 0;
// Those of a sender that has an outbox: what it sends later goes with this message then, in one change of the word. (Of senders that
// change one word at the same time, one is successful.)
constexpr u32 SEND_TRIES = 3;

// Takes what a turn has in registers: the parameters would have to be read again after each atomic.
template <u32 tries>
EW_CALL u32 actor_send(DevActor* slots, DevMessage* cells, u32 slot_limit, u64 to, u32 cell) {
  if (!actor_named(slot_limit, to)) return SENT_GONE;
  DevActor* slot = slots + actor_slot(to);
  u32* link = &cells[cell].next;
  trace_sends(cells + cell);
  u64 seen, meta;
  load_pair(&slot->mail, seen, meta, relaxed, gpu);
  u32 left = tries;
  while (true) {
    if (!actor_accepts(seen, meta, actor_generation(to))) return SENT_GONE;
    if (mail_count(seen) >= meta_bound(meta)) return SENT_FULL;
    const bool rests = mail_has(seen, MAIL_PAUSED) && !mail_has(seen, MAIL_BUSY);
    u64 next = (seen & ~(u64)((1u << MAIL_CELL_BITS) - 1) | (cell + 1)) + (1ull << MAIL_COUNT_SHIFT);
    if (!rests) next |= mail_flag(MAIL_BUSY);
    store(link, mail_cell(seen), relaxed, gpu);
    // Release: the message, to the turn that takes it.
    u64 now = compare_exchange(&slot->mail, seen, next, release, gpu);
    if (now == seen) return rests || mail_has(seen, MAIL_BUSY) ? SENT_DELIVERED : SENT_ACTIVATE | meta_kind(meta) << 8;
    if (tries != SEND_ALWAYS && --left == 0) return SENT_FULL;
    seen = now;
    meta = load(actor_meta(slot), relaxed, gpu);
  }
}

// The most messages that leave an outbox with one change of the receiver's word.
constexpr u32 SENT_TOGETHER = 32;

struct ActorSent {
  u32 sent;    // SENT_DELIVERED or SENT_ACTIVATE for one or more messages, or what became of the first one
  u32 outbox;  // the outbox without those that are delivered
};
// Sends the first messages of an outbox without events, which are to actor `to`, as many of them as there is room for.
EW_CALL ActorSent actor_send_outbox(DevActor* slots, DevMessage* cells, u32 slot_limit, u64 to, u32 outbox) {
  if (!actor_named(slot_limit, to)) return {SENT_GONE, outbox};
  DevActor* slot = slots + actor_slot(to);
  // An outbox begins with the oldest message, and a mailbox with the newest.
  const u32 oldest = outbox - 1;
  u64 seen, meta;
  load_pair(&slot->mail, seen, meta, relaxed, gpu);
  const u32 most = min(actor_room(seen, meta, actor_generation(to)), SENT_TOGETHER);
  u32 newest = 0, count = 0;
  do {
    DevMessage* cell = cells + (outbox - 1);
    trace_sends(cell);
    const u32 next = load(&cell->next, relaxed, gpu);
    store(&cell->next, newest, relaxed, gpu);
    newest = outbox;
    outbox = next;
    count++;
  } while (outbox != 0 && count < most && load(&cells[outbox - 1].to, relaxed, gpu) == to);
  while (true) {
    const u32 room = actor_room(seen, meta, actor_generation(to));
    // The newest of those for which there is no room go back.
    for (; count > room; count--) {
      const u32 at = newest;
      newest = load(&cells[at - 1].next, relaxed, gpu);
      store(&cells[at - 1].next, outbox, relaxed, gpu);
      outbox = at;
    }
    if (count == 0) return {actor_accepts(seen, meta, actor_generation(to)) ? SENT_FULL : SENT_GONE, outbox};
    const bool rests = mail_has(seen, MAIL_PAUSED) && !mail_has(seen, MAIL_BUSY);
    u64 next = (seen & ~(u64)((1u << MAIL_CELL_BITS) - 1) | newest) + ((u64)count << MAIL_COUNT_SHIFT);
    if (!rests) next |= mail_flag(MAIL_BUSY);
    store(&cells[oldest].next, mail_cell(seen), relaxed, gpu);
    // Release: the messages, to the turn that takes them.
    u64 now = compare_exchange(&slot->mail, seen, next, release, gpu);
    if (now == seen) {
      return {rests || mail_has(seen, MAIL_BUSY) ? SENT_DELIVERED : SENT_ACTIVATE | meta_kind(meta) << 8, outbox};
    }
    seen = now;
    meta = load(actor_meta(slot), relaxed, gpu);
  }
}

// The turn: takes the messages that have arrived; the word is then without them. Returns the word.
EW_FN u64 actor_take_mail(DevActor* slot) {
  // Acquire: the messages, and what the last turn wrote.
  return fetch_and(&slot->mail, ~(u64)((1u << MAIL_CELL_BITS) - 1), acquire, gpu);
}
// Turns the list of messages round that begins with cell `at` - 1. Returns the oldest, plus one.
EW_FN u32 actor_turn_round(DevMessage* cells, u32 at) {
  u32 front = 0;
  while (at != 0) {
    u32* link = &cells[at - 1].next;
    u32 next = load(link, relaxed, gpu);
    if (front != 0 || next != 0) store(link, front, relaxed, gpu);
    front = at;
    at = next;
  }
  return front;
}

// Puts a message into the outbox of an actor, whose first is at hand. Returns the first.
EW_FN u32 actor_keep(DevActor* slot, DevMessage* cells, u32 outbox_first, u64 to, u32 at) {
  store(&cells[at].to, to, relaxed, gpu);
  store(&cells[at].next, 0, relaxed, gpu);
  if (outbox_first != 0) store(&cells[load(&slot->outbox_last, relaxed, gpu)].next, at + 1, relaxed, gpu);
  store(&slot->outbox_last, at, relaxed, gpu);
  return outbox_first != 0 ? outbox_first : at + 1;
}

// Waiting senders.

// Wakes a list. Returns one sender; the caller queues its turn, and wakes the next one with `actor_wake_next`, or leaves the others
// to that turn. NONE: no turn.
EW_FN u32 actor_wake(DevActor* slots, u32 list) {
  while (list != 0) {
    DevActor* sender = slots + (list - 1);
    u32 rest = load(&sender->wait_next, relaxed, gpu);
    store(&sender->wait_next, 0, relaxed, gpu);
    u64 old = fetch_and(&sender->mail, ~mail_flag(MAIL_MUTED | MAIL_LISTED), acq_rel, gpu);
    if (mail_has(old, MAIL_MUTED)) {
      store(&sender->wait_next, rest, relaxed, gpu);
      return list - 1;
    }
    list = rest;
  }
  return NONE;
}
// Wakes the next of those that a woken sender would wake, whose turn is not queued yet.
EW_CALL u32 actor_wake_next(DevActor* slots, u32 woken) {
  u32* link = &slots[woken].wait_next;
  const u32 rest = load(link, relaxed, gpu);
  if (rest == 0) return NONE;
  store(link, 0, relaxed, gpu);
  return actor_wake(slots, rest);
}
EW_FN u32 actor_release(DevActor* slots, DevActor* slot) { return actor_wake(slots, exchange(&slot->waiters, 0, acq_rel, gpu)); }

// A turn begins: its word, and an actor or NONE; the caller queues that actor's turn.
struct ActorBegin {
  u64 mail;
  u32 woken;
};
EW_CALL ActorBegin actor_begin(const DevActors* s, u32 number) {
  DevActor* slot = s->slots + number;
  // Acquire: the state, and what the last turn wrote.
  u64 mail = load(&slot->mail, acquire, gpu);
  if (mail_has(mail, MAIL_LISTED)) return {mail, NONE};
  u32 rest = load(&slot->wait_next, relaxed, gpu);
  if (rest == 0) return {mail, NONE};
  store(&slot->wait_next, 0, relaxed, gpu);
  return {mail, actor_wake(s->slots, rest)};
}

constexpr u32 MUTING_GOES_ON = 0;  // the sender is itself full, or waited for
constexpr u32 MUTING_MUTED = 1;    // its turn is over

struct ActorMuting {
  u32 muting;
  u32 woken;
};
EW_CALL ActorMuting actor_mute(const DevActors* s, u32 sender, u64 to) {
  DevActor* own = s->slots + sender;
  u64 seen, meta;
  load_pair(&own->mail, seen, meta, relaxed, gpu);
  while (true) {
    const bool handles = !mail_has(seen, MAIL_PAUSED) || mail_has(seen, MAIL_KILL);
    if (handles && (mail_count(seen) >= meta_bound(meta) || mail_has(seen, MAIL_WAIT))) return {MUTING_GOES_ON, NONE};
    // Release: all that the turn has written, to the one that wakes it.
    u64 now = compare_exchange(&own->mail, seen, seen | mail_flag(MAIL_MUTED | MAIL_LISTED), release, gpu);
    if (now == seen) break;
    seen = now;
  }
  // It was woken because another actor waits for it, and is still in the list.
  if (mail_has(seen, MAIL_LISTED)) return {MUTING_MUTED, NONE};
  DevActor* slot = s->slots + actor_slot(to);
  u32 first = load(&slot->waiters, relaxed, gpu);
  while (true) {
    store(&own->wait_next, first, relaxed, gpu);
    u32 now = compare_exchange(&slot->waiters, first, sender + 1, acq_rel, gpu);
    if (now == first) break;
    first = now;
  }
  load_pair(&slot->mail, seen, meta, relaxed, gpu);
  while (true) {
    if (mail_count(seen) < meta_bound(meta) || !actor_lives(seen, meta, actor_generation(to))) {
      return {MUTING_MUTED, actor_release(s->slots, slot)};
    }
    // Others wait already: the turn that clears this flag takes the list afterwards, and so this sender, too.
    if (mail_has(seen, MAIL_WAIT) && !mail_has(seen, MAIL_MUTED)) return {MUTING_MUTED, NONE};
    // Release: the link, to the turn that takes the list.
    u64 now = compare_exchange(&slot->mail, seen, (seen | mail_flag(MAIL_WAIT)) & ~mail_flag(MAIL_MUTED), release, gpu);
    if (now == seen) return {MUTING_MUTED, mail_has(seen, MAIL_MUTED) ? actor_slot(to) : NONE};
    seen = now;
    meta = load(actor_meta(slot), relaxed, gpu);
  }
}

constexpr u32 FINISHED_IDLE = 0;   // the caller must not touch the actor any more
constexpr u32 FINISHED_AGAIN = 1;  // the caller queues another turn
constexpr u32 FINISHED_LATER = 2;  // it ends when it has left the list that it is in
constexpr u32 FINISHED_ENDED = 3;  // the caller gives the slot back
constexpr u32 FINISHED_KILLED = 4;  // the same of an actor that was told to end now
constexpr u32 FINISHED_HELD = 5;   // it would have ended, and the host decides: it stays busy, and accepts nothing
constexpr u32 FINISHED_HELD_KILLED = 6;  // the same of an actor that was told to end now

// The turn is over: `handled` messages are done, and `outbox` says whether some could not be delivered.
struct ActorFinish {
  u32 finished;
  u32 woken;
};
// `seen` is the word as the turn has seen it last.
// `order` is release, or acq_rel for a turn that looks at its notes afterwards. `serves`: the actor may belong to a group.
template <bool serves, class O>
EW_CALL ActorFinish actor_finish(DevActor* slots, u32 number, u32 handled, bool outbox, u64 seen, u32 generation, O order) {
  DevActor* slot = slots + number;
  const bool paused = mail_has(seen, MAIL_PAUSED) && !mail_has(seen, MAIL_KILL);
  if (outbox || (mail_count(seen) > handled && !paused)) {
    // Another turn follows, whatever others do meanwhile, so nothing is compared: many that send at once would be faster
    // time and again. That turn finds out if the actor has been deactivated meanwhile.
    seen = fetch_add(&slot->mail, (u64)0 - ((u64)handled << MAIL_COUNT_SHIFT), order, gpu);
    if (!mail_has(seen, MAIL_WAIT)) return {FINISHED_AGAIN, NONE};
    fetch_and(&slot->mail, ~mail_flag(MAIL_WAIT), acq_rel, gpu);
    return {FINISHED_AGAIN, actor_release(slots, slot)};
  }
  while (true) {
    u64 next = (seen - ((u64)handled << MAIL_COUNT_SHIFT)) & ~mail_flag(MAIL_WAIT);
    const bool empty = mail_count(next) == 0;
    u32 finished;
    if (outbox || (!empty && (!mail_has(seen, MAIL_PAUSED) || mail_has(seen, MAIL_KILL)))) {
      finished = FINISHED_AGAIN;
    } else if (!empty || !mail_has(seen, MAIL_STOP | MAIL_KILL)) {
      next &= ~mail_flag(MAIL_BUSY);
      finished = FINISHED_IDLE;
    } else if (serves && (load(&slot->notes, relaxed, gpu) & NOTE_SUPERVISED) != 0) {
      finished = mail_has(seen, MAIL_KILL) ? FINISHED_HELD_KILLED : FINISHED_HELD;
    } else if (mail_has(seen, MAIL_LISTED)) {
      next |= mail_flag(MAIL_MUTED);
      finished = FINISHED_LATER;
    } else {
      next = mail_free(generation + 1);
      finished = mail_has(seen, MAIL_KILL) ? FINISHED_KILLED : FINISHED_ENDED;
    }
    // Release: the state, to the next turn.
    u64 now = compare_exchange(&slot->mail, seen, next, order, gpu);
    if (now == seen) return {finished, mail_has(seen, MAIL_WAIT) ? actor_release(slots, slot) : NONE};
    seen = now;
  }
}

// Signals: Stop, Kill, Pause, Resume.
constexpr u32 SIGNAL_STOP = 0;
constexpr u32 SIGNAL_KILL = 1;
constexpr u32 SIGNAL_PAUSE = 2;
constexpr u32 SIGNAL_RESUME = 3;

// Makes an actor busy that rests and handles messages. Returns what `actor_send` returns.
EW_FN u32 actor_rouse(DevActor* slot, u32 generation, u64 seen) {
  while (true) {
    const u64 meta = load(actor_meta(slot), relaxed, gpu);
    if (!actor_lives(seen, meta, generation)) return SENT_GONE;
    const bool rests = mail_has(seen, MAIL_PAUSED) && !mail_has(seen, MAIL_KILL);
    if (rests || mail_has(seen, MAIL_BUSY)) return SENT_DELIVERED;
    u64 now = compare_exchange(&slot->mail, seen, seen | mail_flag(MAIL_BUSY), acq_rel, gpu);
    if (now == seen) return SENT_ACTIVATE | meta_kind(meta) << 8;
    seen = now;
  }
}

// As `actor_send`: SENT_DELIVERED, SENT_ACTIVATE | kind << 8, SENT_GONE.
EW_CALL u32 actor_signal(const DevActors* s, u64 to, u32 signal) {
  if (!actor_named(s->slot_limit, to)) return SENT_GONE;
  DevActor* slot = s->slots + actor_slot(to);
  u64 seen, meta;
  load_pair(&slot->mail, seen, meta, relaxed, gpu);
  while (true) {
    if (!actor_lives(seen, meta, actor_generation(to))) return SENT_GONE;
    u64 next = seen;
    bool runs = true;
    if (signal == SIGNAL_STOP) next |= mail_flag(MAIL_STOP);
    else if (signal == SIGNAL_KILL) next |= mail_flag(MAIL_KILL);
    else if (signal == SIGNAL_PAUSE) next |= mail_flag(MAIL_PAUSED), runs = false;
    else next &= ~mail_flag(MAIL_PAUSED), runs = mail_count(seen) != 0;
    bool activates = runs && !mail_has(seen, MAIL_BUSY);
    // From here on it handles messages, so that others may wait for it.
    if ((signal == SIGNAL_KILL || signal == SIGNAL_RESUME) && mail_has(seen, MAIL_MUTED)) {
      next &= ~mail_flag(MAIL_MUTED);
      activates = true;
    }
    if (activates) next |= mail_flag(MAIL_BUSY);
    u64 now = compare_exchange(&slot->mail, seen, next, acq_rel, gpu);
    if (now == seen) return activates ? SENT_ACTIVATE | meta_kind(meta) << 8 : SENT_DELIVERED;
    seen = now;
    meta = load(actor_meta(slot), relaxed, gpu);
  }
}

// Launches an actor with an empty mailbox and a state of zeros in a slot without notes. Its id.
EW_CALL u64 actor_launch(const DevActors* s, u32 number, u32 kind, u64 parent) {
  u64* state = (u64*)(s->states + (u64)number * s->state_bytes);
  for (u32 i = 0; i < s->state_bytes / 8; i += 2) store_pair(state + i, 0, 0, relaxed, gpu);
  DevActor* slot = s->slots + number;
  const u32 generation = max(meta_generation(load(actor_meta(slot), relaxed, gpu)), 1u);
  store(actor_meta(slot), (u64)generation << 32 | (u32)s->bounds[kind] << 16 | kind, relaxed, gpu);
  // A sender may still be linking itself to the slot's last actor, so the list of waiters stays: that sender takes it.
  store(&slot->front, 0, relaxed, gpu);
  store(&slot->outbox_first, 0, relaxed, gpu);
  store(&slot->wait_next, 0, relaxed, gpu);
  store(&slot->handled, (u64)0, relaxed, gpu);
  store_pair(&slot->parent, parent, 0, relaxed, gpu);  // and `again`
  store(&slot->mail, mail_free(generation) | mail_flag(MAIL_LIVE), release, gpu);
  return actor_id(number, generation);
}

}  // namespace ew
