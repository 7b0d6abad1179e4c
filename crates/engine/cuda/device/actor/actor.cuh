// The running actor, as its handler sees it, and its turns: crates/actor/src/context.rs and turn.rs on a GPU.
#pragma once
#include "everwarp/actor/mailbox.cuh"

namespace ew {

// The most messages that one turn handles.
constexpr u32 ACTOR_BATCH = 32;

// A message, in registers: words that the handler does not read cost nothing.
struct Message {
  u32 head;
  u64 from_bits;
  u64 words[MESSAGE_WORDS];

  __device__ __forceinline__ u32 tag() const { return head & 0xff; }
  __device__ __forceinline__ u32 count() const { return head >> MESSAGE_WORDS_SHIFT & 0xff; }
  __device__ __forceinline__ u64 word(u32 i) const { return i < count() ? words[i] : 0; }
  // The sender; 0 if it is the host.
  __device__ __forceinline__ u64 from() const { return head & MESSAGE_HOST ? 0 : from_bits; }
  __device__ __forceinline__ bool is_ask() const { return head & MESSAGE_ASK; }
  __device__ __forceinline__ bool is_reply() const { return head & MESSAGE_REPLY; }
  // The reason why an ask has no reply (DEAD_...), or NONE.
  __device__ __forceinline__ u32 failure() const { return head & MESSAGE_FAILED ? head & 0xff : NONE; }
  // The number that the actor gave to its ask, in a reply.
  __device__ __forceinline__ u64 ask() const { return words[MESSAGE_WORDS - 1]; }
};

// Queues a task with the warp, after what is queued.
EW_CALL void actor_queue(u32 head, u32 group, u64 arg) {
  append(shared().queues[threadIdx.x / WARP], DevTask{head, group, arg});
}

// What host functions and turns have in common: the task, and the turns that it queues.
struct ActorTask {
  Lane& t;
  const DevActors& system;
  u32 base;  // the function of the first kind's turns

  __device__ __forceinline__ ActorTask(Lane& t, const DevActors& system, u32 base) : t(t), system(system), base(base) {}

  // The group that counts turns. Read anew each time, which is rare where turns queue turns: see `activate`.
  __device__ __forceinline__ u32 world() const { return (u32)load(&system.control->world, relaxed, gpu); }

  // Ends the engine. The task's group stays open, so that nothing completes before the host learns of it.
  __device__ __forceinline__ void fault(u32 detail) {
    t.fault(detail);
    t.delta++;
  }
  __device__ __forceinline__ u32 builtin(u32 number) const { return base + system.kinds + number; }
  __device__ __forceinline__ void queue(u32 fn, u32 group, u64 arg) {
    if (t.delta + t.children >= t.limit) {
      t.broken = FAULT_SPAWN_LIMIT;
      return;
    }
    if (group == t.task.group) t.delta++;
    else t.limit--;
    actor_queue(t.head(fn, 0, priority_of(t.task.head)), group, arg);
  }
  // Queues a turn. The count of another group is in place before another warp can finish the turn.
  __device__ __forceinline__ void activate(u32 kind, u32 number) {
    const u32 group = world();
    if (t.task.group != group) add(&everwarp_tables.groups[group].pending, 1, relaxed, gpu);
    queue(base + kind, group, number);
  }
  __device__ __forceinline__ void activate(u32 number) {
    activate(meta_kind(load(actor_meta(system.slots + number), relaxed, gpu)), number);
  }
  // Queues the task for which a group was held.
  __device__ __forceinline__ void queue_held(u32 fn, u32 group, u64 arg) {
    if (t.delta + t.children >= t.limit) {
      t.broken = FAULT_SPAWN_LIMIT;
      return;
    }
    t.limit--;
    actor_queue(t.head(fn, 0, priority_of(t.task.head)), group, arg);
  }
  __device__ __forceinline__ u64 launch(u32 kind, u64 parent) {
    u32 number = NONE;
    if (load(&system.control->closing, relaxed, gpu) != 0) return 0;
    number = actor_take(&system, ACTOR_SLOTS);
    if (number != NONE) return actor_launch(&system, number, kind, parent);
    add(&system.control->launch_refusals, 1, relaxed, gpu);
    return 0;
  }
};

struct Actor : ActorTask {
  u32 number;
  u32 generation;
  u32 room;   // turns that the task may still queue
  u32 needs;  // turns that one message may cause, with those at the end of a turn
  u32 sends;  // messages and signals that the handler may still send
  u32 outbox_first;
  u32 outbox_last;
  u32 spare_first;  // free cells at hand: the first, plus one
  u32 spare_last;
  u32 asked;  // the cell of the ask that is being handled and has no reply, or NONE
  bool stopping;
  bool failed;
  Message message;

  __device__ __forceinline__ Actor(Lane& t, const DevActors& system, u32 base, u32 needs)
      : ActorTask(t, system, base), number(t.lo()), generation(0), room(t.limit), needs(needs), sends(0),
        outbox_first(0), outbox_last(0), spare_first(0), spare_last(0), asked(NONE), stopping(false), failed(false) {}

  // What handlers call; see crates/actor/src/context.rs.

  __device__ __forceinline__ DevActor* slot() const { return system.slots + number; }
  __device__ __forceinline__ u64 id() const { return actor_id(number, generation); }
  __device__ __forceinline__ u64 parent() const { return load(&slot()->parent, relaxed, gpu); }
  template <class S>
  __device__ __forceinline__ S& state() const {
    return *(S*)(system.states + (u64)number * system.state_bytes);
  }
  template <class... W>
  __device__ __forceinline__ void tell(u64 to, u32 tag, W... words) {
    static_assert(sizeof...(W) <= MESSAGE_WORDS, "a message has up to five words");
    if (!spend()) return;
    u32 at = write(tag | (u32)sizeof...(W) << MESSAGE_WORDS_SHIFT, id(), words...);
    if (at != NONE) deliver(to, at);
  }
  template <class... W>
  __device__ __forceinline__ bool try_tell(u64 to, u32 tag, W... words) {
    static_assert(sizeof...(W) <= MESSAGE_WORDS, "a message has up to five words");
    if (!spend() || outbox_first != 0) return false;
    u32 at = write(tag | (u32)sizeof...(W) << MESSAGE_WORDS_SHIFT, id(), words...);
    if (at == NONE) return false;
    u32 sent = actor_send(&system, to, at);
    if ((sent & 0xff) == SENT_ACTIVATE) started(sent >> 8, actor_slot(to));
    if (sent == SENT_GONE) dead_letter(at, DEAD_GONE);
    if (sent == SENT_FULL) free(at);
    return sent != SENT_FULL;
  }
  template <class... W>
  __device__ __forceinline__ void ask(u64 to, u32 tag, u64 number, W... words) {
    static_assert(sizeof...(W) < MESSAGE_WORDS, "an ask has up to four words");
    if (!spend()) return;
    u32 at = write(tag | (u32)sizeof...(W) << MESSAGE_WORDS_SHIFT | MESSAGE_ASK, id(), words...);
    if (at == NONE) return;
    store(&system.cells[at].words[MESSAGE_WORDS - 1], number, relaxed, gpu);
    deliver(to, at);
  }
  template <class... W>
  __device__ __forceinline__ bool reply(u32 tag, W... words) {
    static_assert(sizeof...(W) < MESSAGE_WORDS, "a reply has up to four words");
    if (asked == NONE) return false;
    u32 at = asked;
    asked = NONE;
    const u64 list[] = {(u64)words..., 0, 0, 0, 0};
    u64* to = system.cells[at].words;
    constexpr u32 n = sizeof...(W);
    if constexpr (n > 0) store_pair(to, list[0], list[1], relaxed, gpu);
    if constexpr (n > 2) store_pair(to + 2, list[2], list[3], relaxed, gpu);
    reply_with(at, tag | (u32)sizeof...(W) << MESSAGE_WORDS_SHIFT | MESSAGE_REPLY | (message.head & MESSAGE_HOST),
               message.from_bits);
    return true;
  }
  __device__ __forceinline__ void forward(u64 to) {
    if (!spend()) return;
    u32 at = asked;
    asked = NONE;
    if (at == NONE) {
      const Message& m = message;
      at = write(m.head & 0xffff, m.from_bits, m.words[0], m.words[1], m.words[2], m.words[3], m.words[4]);
    }
    if (at != NONE) deliver(to, at);
  }
  __device__ __forceinline__ u64 launch(u32 kind) { return ActorTask::launch(kind, id()); }
  __device__ __forceinline__ void stop_later(u64 actor) { signal(actor, SIGNAL_STOP); }
  __device__ __forceinline__ void kill(u64 actor) { signal(actor, SIGNAL_KILL); }
  __device__ __forceinline__ void stop() { stopping = true; }
  __device__ __forceinline__ void fail() {
    failed = stopping = true;
    store(&slot()->failed, 1, relaxed, gpu);
  }

  // What turns are made of; see crates/actor/src/turn.rs.

  __device__ __forceinline__ bool spend() {
    if (sends == 0) {
      fault(ACTOR_FAULT_SENDS);
      return false;
    }
    sends--;
    return true;
  }
  __device__ __forceinline__ void started(u32 kind, u32 number) {
    room--;
    activate(kind, number);
  }
  __device__ __forceinline__ void woke(u32 number) {
    if (number == NONE) return;
    room--;
    activate(number);
  }
  __device__ __forceinline__ u32 cell() {
    if (spare_first != 0) {
      u32 at = spare_first - 1;
      spare_first = at == spare_last ? 0 : load(&system.cells[at].next, relaxed, gpu);
      return at;
    }
    u32 at = actor_take(&system, ACTOR_CELLS);
    if (at == NONE) fault(ACTOR_FAULT_CELLS);
    return at;
  }
  __device__ __forceinline__ void free(u32 at) {
    if (spare_first == 0) spare_last = at;
    else store(&system.cells[at].next, spare_first, relaxed, gpu);
    spare_first = at + 1;
  }
  __device__ __forceinline__ void give_back() {
    if (spare_first != 0) actor_give(&system, ACTOR_CELLS, spare_first - 1, spare_last);
    spare_first = 0;
  }
  // The link is written by others of this file, and always as one word of 32 bits.
  __device__ __forceinline__ void envelope(u32 at, u32 head, u64 from) {
    store(&system.cells[at].head, head, relaxed, gpu);
    store(&system.cells[at].from, from, relaxed, gpu);
  }
  template <class... W>
  __device__ __forceinline__ u32 write(u32 head, u64 from, W... words) {
    u32 at = cell();
    if (at == NONE) return at;
    u64* to = (u64*)&system.cells[at];
    envelope(at, head, from);
    const u64 list[] = {(u64)words..., 0, 0, 0, 0, 0};
    constexpr u32 n = sizeof...(W);
    if constexpr (n > 0) store_pair(to + 2, list[0], list[1], relaxed, gpu);
    if constexpr (n > 2) store_pair(to + 4, list[2], list[3], relaxed, gpu);
    if constexpr (n > 4) store(to + 6, list[4], relaxed, gpu);
    return at;
  }
  __device__ __forceinline__ void deliver(u64 to, u32 at) {
    u32 sent = SENT_FULL;
    if (outbox_first == 0) {
      sent = actor_send(&system, to, at);
      if (sent == SENT_DELIVERED) return;
      if (sent == SENT_GONE) return dead_letter(at, DEAD_GONE);
    }
    if (sent == SENT_FULL) return keep(to, at);
    started(sent >> 8, actor_slot(to));
  }
  __device__ __forceinline__ void keep(u64 to, u32 at) {
    store(&system.cells[at].to, to, relaxed, gpu);
    store(&system.cells[at].next, 0, relaxed, gpu);
    if (outbox_first != 0) store(&system.cells[outbox_last].next, at + 1, relaxed, gpu);
    else outbox_first = at + 1;
    outbox_last = at;
  }
  // Delivers what is in the outbox, in order. Returns the receiver that has no room, or 0.
  __device__ __forceinline__ u64 flush() {
    while (outbox_first != 0 && room >= needs) {
      u32 at = outbox_first - 1, next = load(&system.cells[at].next, relaxed, gpu);
      u64 to = load(&system.cells[at].to, relaxed, gpu);
      u32 sent = actor_send(&system, to, at);
      if (sent == SENT_FULL) {
        store(&system.cells[at].next, next, relaxed, gpu);
        return to;
      }
      outbox_first = next;
      if ((sent & 0xff) == SENT_ACTIVATE) started(sent >> 8, actor_slot(to));
      else if (sent == SENT_GONE) dead_letter(at, DEAD_GONE);
    }
    return 0;
  }
  __device__ __forceinline__ void count_dead(u32 reason) { add(&system.control->dead[reason], 1, relaxed, gpu); }
  // A message will not be handled: it is counted by its reason, and an ask ends.
  __device__ __forceinline__ void dead_letter(u32 at, u32 reason) {
    count_dead(reason);
    u32 head = load(&system.cells[at].head, relaxed, gpu);
    if ((head & MESSAGE_ASK) == 0) return free(at);
    reply_with(at, (head & MESSAGE_HOST) | MESSAGE_REPLY | MESSAGE_FAILED | reason, load(&system.cells[at].from, relaxed, gpu));
  }
  // Sends a reply, whose cell has its words and the last word of the ask.
  __device__ __forceinline__ void reply_with(u32 at, u32 head, u64 from) {
    DevMessage* cell = system.cells + at;
    if (head & MESSAGE_HOST) {
      u64* record = (u64*)&system.replies[(u32)(from >> 32)];
      store(&system.replies[(u32)(from >> 32)].head, head, relaxed, gpu);
#pragma unroll
      for (u32 i = 0; i + 1 < MESSAGE_WORDS; i++) store(record + 2 + i, load(&cell->words[i], relaxed, gpu), relaxed, gpu);
      free(at);
      room--;
      return queue_held(builtin(2), (u32)from, 0);
    }
    envelope(at, head, id());
    // The asker is a live actor, or its reply is a dead letter that is no ask.
    u32 sent = outbox_first == 0 ? actor_send(&system, from, at) : SENT_FULL;
    if (sent == SENT_FULL) return keep(from, at);
    if ((sent & 0xff) == SENT_ACTIVATE) started(sent >> 8, actor_slot(from));
    if (sent == SENT_GONE) {
      count_dead(DEAD_GONE);
      free(at);
    }
  }
  __device__ __forceinline__ void signal(u64 to, u32 which) {
    if (!spend()) return;
    u32 sent = actor_signal(&system, to, which);
    if ((sent & 0xff) == SENT_ACTIVATE) started(sent >> 8, actor_slot(to));
  }
  // Reads the message in a cell. Returns the next of its list.
  __device__ __forceinline__ u32 read(u32 at) {
    const u64* cell = (const u64*)&system.cells[at];
    const u32 next = load(&system.cells[at].next, relaxed, gpu);
    message.head = load(&system.cells[at].head, relaxed, gpu);
    message.from_bits = load(&system.cells[at].from, relaxed, gpu);
    load_pair(cell + 2, message.words[0], message.words[1], relaxed, gpu);
    message.words[2] = message.words[3] = message.words[4] = 0;
    if (message.count() > 2 || (message.head & (MESSAGE_ASK | MESSAGE_REPLY)) != 0) {
      load_pair(cell + 4, message.words[2], message.words[3], relaxed, gpu);
      message.words[4] = load(cell + 6, relaxed, gpu);
    }
    return next;
  }
};

// Runs a turn of the actor in slot `lo`.
template <class F>
EW_FN void actor_turn(Lane& t, const DevActors& system, u32 base, u32 sends, u32 needs, F handle) {
  Actor a(t, system, base, needs);
  const ActorBegin begin = actor_begin(&system, a.number);
  u64 meta, boxes;
  u32 front;
  {
    meta = load(actor_meta(a.slot()), relaxed, gpu);
    front = load(&a.slot()->front, relaxed, gpu);
    boxes = load((const u64*)&a.slot()->outbox_first, relaxed, gpu);
  }
  const u32 had_front = front, had_outbox = (u32)boxes;
  a.generation = meta_generation(meta);
  a.outbox_first = (u32)boxes;
  a.outbox_last = (u32)(boxes >> 32);
  a.woke(begin.woken);
  a.stopping = load(&system.control->closing, relaxed, gpu) != 0;
  bool muted = false;
  if (a.outbox_first != 0) {
    const u64 blocks = a.flush();
    // Written before it may be muted: from then on the actor may run elsewhere.
    store((u64*)&a.slot()->outbox_first, (u64)a.outbox_last << 32 | a.outbox_first, relaxed, gpu);
    if (blocks != 0) {
      const ActorMuting m = actor_mute(&system, a.number, blocks);
      muted = m.muting == MUTING_MUTED;
      a.woke(m.woken);
      if (muted) add(&system.control->mutes, 1, relaxed, gpu);
    }
  }
  u32 handled = 0;
  const bool ends = mail_has(begin.mail, MAIL_KILL);
  if (!muted && (ends || a.stopping || !mail_has(begin.mail, MAIL_PAUSED))) {
    if (front == 0) front = actor_refill(&system, a.number);
    while (front != 0 && handled < ACTOR_BATCH && a.room >= a.needs) {
      const u32 at = front - 1;
      front = a.read(at);
      handled++;
      if (ends || a.stopping) {
        a.dead_letter(at, DEAD_ENDED);
      } else {
        a.sends = sends;
        a.asked = NONE;
        if (a.message.is_ask()) a.asked = at;
        else a.free(at);
        handle(a, a.message);
        if (a.asked != NONE) a.dead_letter(a.asked, a.failed ? DEAD_FAILED : DEAD_NO_REPLY);
        else if (a.failed) a.count_dead(DEAD_FAILED);
      }
      if (a.outbox_first != 0) break;
    }
    if (!ends && handled != 0) add(&a.slot()->handled, handled, relaxed, gpu);
  }
  a.give_back();
  if (muted) return;
  if (front != had_front) store(&a.slot()->front, front, relaxed, gpu);
  if ((a.outbox_first | had_outbox) != 0) {
    store((u64*)&a.slot()->outbox_first, (u64)a.outbox_last << 32 | a.outbox_first, relaxed, gpu);
  }
  if (a.stopping) fetch_or(&a.slot()->mail, mail_flag(MAIL_KILL), relaxed, gpu);
  const ActorFinish f = actor_finish(&system, a.number, handled, a.outbox_first != 0);
  a.woke(f.woken);
  if (f.finished == FINISHED_AGAIN) a.started(meta_kind(meta), a.number);
  if (f.finished == FINISHED_ENDED) {
    store(actor_meta(a.slot()), meta + (1ull << 32), relaxed, gpu);
    if (meta_generation(meta) < ACTOR_GENERATION_MAX) actor_give(&system, ACTOR_SLOTS, a.number, a.number);
    else add(&system.control->retired, 1, relaxed, gpu);
  }
}

}  // namespace ew
