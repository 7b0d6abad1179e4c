// The running actor, as its handler sees it: crates/actor/src/context.rs on a GPU. Its turns are in turn.cuh.
#pragma once
#include "everwarp/actor/news.cuh"
#include "everwarp/actor/value.cuh"

namespace ew {

// A message, in registers: words that the handler does not read cost nothing.
struct Message {
  u32 head;
  u64 from_bits;
  u64 words[MESSAGE_WORDS];

  __device__ __forceinline__ u32 tag() const { return head & 0xff; }
  __device__ __forceinline__ u32 count() const { return head >> MESSAGE_WORDS_SHIFT & 0x7f; }
  __device__ __forceinline__ u64 word(u32 i) const { return i < count() ? words[i] : 0; }
  // The sender; 0 if it is the host.
  __device__ __forceinline__ u64 from() const { return head & MESSAGE_HOST ? 0 : from_bits; }
  __device__ __forceinline__ bool is_ask() const { return head & MESSAGE_ASK; }
  __device__ __forceinline__ bool is_reply() const { return head & MESSAGE_REPLY; }
  // The reason why an ask has no reply (DEAD_...), or NONE.
  __device__ __forceinline__ u32 failure() const { return head & MESSAGE_FAILED ? head & 0xff : NONE; }
  // The number that the actor gave to its ask, in a reply.
  __device__ __forceinline__ u64 ask() const { return words[MESSAGE_WORDS - 1]; }
  // The number of the timer that sent it, or 0.
  __device__ __forceinline__ u64 timer() const { return head & MESSAGE_TIMER ? words[MESSAGE_WORDS - 1] : 0; }
  // The value of a channel, in the reply to `receive_on`.
  template <class T>
  __device__ __forceinline__ T value() const {
    return value_of<T>(words);
  }
  // A payload of the host, which ends with the message unless the handler passes it on. It has elements to read and to write here
  // if it is a buffer.
  __device__ __forceinline__ bool has_payload() const { return head & MESSAGE_PAYLOAD; }
  template <class T>
  __device__ __forceinline__ T* data() const {
    return has_payload() ? (T*)words[4] : nullptr;
  }
  // How many elements it has.
  __device__ __forceinline__ u32 length() const { return has_payload() ? (u32)(words[3] >> 32) : 0; }
  // How an actor has ended that the receiver monitors, or NONE. The actor is the sender; word 0 is the monitor's number.
  __device__ __forceinline__ u32 down() const { return head & MESSAGE_DOWN ? tag() : NONE; }
};

// Queues a task with the warp, after what is queued.
EW_CALL void actor_queue(u32 head, u32 group, u64 arg) {
  LocalQueue& queue = shared().queues[threadIdx.x / WARP];
  append(queue, DevTask{head, group, arg});
  if (is_block(fn_of(head))) queue.strays = 1;
}

// Puts a reply into the record of an ask of the host: its words are in a cell.
EW_CALL void actor_answer(DevMessage* record, const DevMessage* cell, u32 head) {
  u64 words[4];
#pragma unroll
  for (u32 i = 0; i < 4; i += 2) load_pair(cell->words + i, words[i], words[i + 1], relaxed, gpu);
#pragma unroll
  for (u32 i = 0; i < 4; i += 2) store_pair(record->words + i, words[i], words[i + 1], relaxed, sys);
  // The words, before the state, which the host looks at before the ask has completed.
  fence(acq_rel, sys);
  // The first word of a record is state and head.
  store((u64*)record, (u64)head << 32 | ASK_ANSWERED, relaxed, sys);
}

// `hi` of the turn that a message to an idle actor causes: the actor has neither messages that it took before nor
// undelivered ones, and there are no others that it has to wake. So nothing but its mailbox needs to be looked at.
constexpr u32 TURN_FRESH = 1;
// The actor has ended, which the host does not know yet; how is in the next byte.
constexpr u32 TURN_REPORTS = 2;
// The actor is to be held, which the host does not know yet; why is in the next byte. See hold.cuh, as for what follows.
constexpr u32 TURN_HOLDS = 4;
// The actor was held, and begins anew.
constexpr u32 TURN_ANEW = 8;
// The actor was held, and ends.
constexpr u32 TURN_OVER = 16;

// What host functions and turns have in common: the task, and the turns that it queues.
struct ActorTask {
  Lane& t;
  const DevActors& system;
  u32 base;  // the function of the first kind's turns
  // Copies that stay in registers: an acquire empties the cache of the multiprocessor, and a parameter would have to be
  // read from the device's memory again.
  DevActor* const slots;
  DevMessage* const cells;
  const u32 slot_limit;

  __device__ __forceinline__ ActorTask(Lane& t, const DevActors& system, u32 base)
      : t(t), system(system), base(base), slots(system.slots), cells(system.cells), slot_limit(system.slot_limit) {}

  // The group that counts turns.
  __device__ __forceinline__ u32 world() const { return (u32)load(&system.control->world, relaxed, gpu); }
  template <u32 tries = SEND_ALWAYS>
  __device__ __forceinline__ u32 send(u64 to, u32 cell) const {
    return actor_send<tries>(slots, cells, slot_limit, to, cell);
  }

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
  // Queues a turn in a group. The count of another group is in place before another warp can finish the turn.
  __device__ __forceinline__ void activate(u32 group, u32 kind, u32 number, u32 fresh) {
    if (t.task.group != group) add(&everwarp_tables.groups[group].pending, 1, relaxed, gpu);
    queue(base + kind, group, Lane::pack(number, fresh));
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
  // `serves`: the slot may have news for its last actor.
  __device__ __forceinline__ u64 launch(u32 kind, u64 parent, bool serves) {
    u32 number = NONE;
    if (load(&system.control->closing, relaxed, gpu) != 0) return 0;
    number = actor_take<ACTOR_SLOTS>(&system);
    if (number != NONE) return launch_in(number, kind, parent, serves);
    add(&system.control->launch_refusals, 1, relaxed, gpu);
    return 0;
  }
  // The same in a slot that was taken.
  __device__ __forceinline__ u64 launch_in(u32 number, u32 kind, u64 parent, bool serves) {
    if (!serves) store(&slots[number].notes, 0u, relaxed, gpu);
    else if (load(&slots[number].notes, relaxed, gpu) != 0) actor_forget_notes(&system, number);
    return actor_launch(&system, number, kind, parent);
  }
};

// How an actor has ended: the numbers of crates/actor/src/ending.rs.
constexpr u32 ENDING_STOPPED = 0;
constexpr u32 ENDING_FAILED = 1;
constexpr u32 ENDING_KILLED = 2;

// What an actor that stops itself has in `again`, which it does not need any more.
constexpr u64 ENDS_ITSELF = ~0ull;

// Where the outbox stops: the ring of events is full.
constexpr u64 HOST_FULL = ~0ull;
// The function that counts events, among those after the kinds'.
constexpr u32 ACTOR_COUNT_EVENTS = 10;

struct Actor : ActorTask {
  u32 number;
  u8* own;  // its state
  u32 generation;
  u32 room;   // turns that the task may still queue
  u32 needs;  // turns that one message may cause, with those at the end of a turn
  u32 sends;  // messages and signals that the handler may still send
  u32 outbox_first;  // the newest is in the slot
  u32 spare_first;  // free cells at hand: the first, plus one
  u32 spare_last;
  u32 asked;  // the cell of the ask that is being handled and has no reply, or NONE
  bool stopping;
  bool failed;
  Message message;
  // Of an atomic kind; a constant once the turn is compiled, so that other kinds pay nothing for what follows.
  const bool holds;
  // Whether it may be restarted; a constant, too.
  const bool lives_on;
  // Whether the program uses services: news and events. A constant.
  const bool serves;
  // Whether it may keep asks: see kept.cuh. A constant.
  const bool lists;
  // Where its state has the words of their lists. A constant.
  const u32 lists_at;
  bool replied;    // the reply waits until the handler has returned, in the cell of the ask, with its head in `to`
  u32 ask_cell;    // the cell of the ask that is being handled, with a reply or without one, or NONE
  u32 payload_cell;  // the cell of the message that is being handled, if it has a payload
  u32 held_first;  // messages and the reply that wait until the handler has returned: the newest, plus one

  __device__ __forceinline__ Actor(Lane& t, const DevActors& system, u32 base, u32 needs, bool holds, bool lives_on, bool serves,
                                   bool lists, u32 lists_at)
      : ActorTask(t, system, base), number(t.lo()), own(system.states + (u64)number * system.state_bytes), generation(0),
        room(t.limit), needs(needs), sends(0), outbox_first(0), spare_first(0), spare_last(0), asked(NONE), stopping(false),
        failed(false), holds(holds), lives_on(lives_on), serves(serves), lists(lists), lists_at(lists_at), replied(false), ask_cell(NONE), payload_cell(NONE), held_first(0) {}

  // What handlers call; see crates/actor/src/context.rs.

  __device__ __forceinline__ DevActor* slot() const { return slots + number; }
  __device__ __forceinline__ u64 id() const { return actor_id(number, generation); }
  __device__ __forceinline__ u32 kind() const { return fn_of(t.task.head) - base; }
  __device__ __forceinline__ u64 parent() const { return load(&slot()->parent, relaxed, gpu); }
  template <class S>
  __device__ __forceinline__ S& state() const {
    return *(S*)own;
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
    u32 sent = send(to, at);
    if ((sent & 0xff) == SENT_ACTIVATE) started(sent >> 8, actor_slot(to));
    if (sent == SENT_GONE) dead_letter(at, DEAD_GONE, to);
    if (sent == SENT_FULL) free(at);
    return sent != SENT_FULL;
  }
  template <class... W>
  __device__ __forceinline__ void ask(u64 to, u32 tag, u64 number, W... words) {
    static_assert(sizeof...(W) < MESSAGE_WORDS, "an ask has up to four words");
    if (!spend()) return;
    u32 at = write(tag | (u32)sizeof...(W) << MESSAGE_WORDS_SHIFT | MESSAGE_ASK, id(), words...);
    if (at == NONE) return;
    store(&cells[at].words[MESSAGE_WORDS - 1], number, relaxed, gpu);
    deliver(to, at);
  }
  template <class... W>
  __device__ __forceinline__ bool reply(u32 tag, W... words) {
    static_assert(sizeof...(W) < MESSAGE_WORDS, "a reply has up to four words");
    if (asked == NONE) return false;
    u32 at = asked;
    asked = NONE;
    const u64 list[] = {(u64)words..., 0, 0, 0, 0};
    u64* to = cells[at].words;
    constexpr u32 n = sizeof...(W);
    if constexpr (n > 0) store_pair(to, list[0], list[1], relaxed, gpu);
    if constexpr (n > 2) store_pair(to + 2, list[2], list[3], relaxed, gpu);
    const u32 flags = message.head & (serves ? MESSAGE_HOST | MESSAGE_DEADLINE : MESSAGE_HOST);
    const u32 head = tag | (u32)sizeof...(W) << MESSAGE_WORDS_SHIFT | MESSAGE_REPLY | flags;
    replied = holds;
    if (holds) hold((u64)head, at);
    else reply_with(at, head, message.from_bits);
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
    passes();
    if (at != NONE) deliver(to, at);
  }
  __device__ __forceinline__ u64 launch(u32 kind) { return ActorTask::launch(kind, id(), serves); }
  __device__ __forceinline__ void stop_later(u64 actor) { signal(actor, SIGNAL_STOP); }
  __device__ __forceinline__ void kill(u64 actor) { signal(actor, SIGNAL_KILL); }
  __device__ __forceinline__ void stop() { stopping = true; }
  __device__ __forceinline__ void fail() {
    failed = true;
    if (!lives_on) end_failed();
  }

  // The same in a program that uses services (`Kind::services`). Each is one of the messages that the handler sends.

  // As `ask`, and it ends with DEAD_TIMEOUT when a time in nanoseconds has passed.
  template <class... W>
  __device__ __forceinline__ void ask_within(u64 to, u32 tag, u64 number, u64 within, W... words) {
    static_assert(sizeof...(W) < MESSAGE_WORDS, "an ask has up to four words");
    if (!spend()) return;
    const u64 counted = count();
    event(EVENT_ASKS, 3, 0, counted, number, within);
    u32 at = write(tag | (u32)sizeof...(W) << MESSAGE_WORDS_SHIFT | MESSAGE_ASK | MESSAGE_DEADLINE, id(), words...);
    if (at == NONE) return;
    store(&cells[at].words[MESSAGE_WORDS - 1], counted, relaxed, gpu);
    deliver(to, at);
  }
  // Sends this actor a message after a time in nanoseconds, or each time that it has passed. Returns the timer's number; 0, and
  // there is no timer, if its kind says `.keeps()` and it has 255.
  template <class... W>
  __device__ __forceinline__ u64 after(u64 time, u32 tag, W... words) { return timer(EVENT_AFTER, time, tag, words...); }
  template <class... W>
  __device__ __forceinline__ u64 every(u64 time, u32 tag, W... words) { return timer(EVENT_EVERY, time, tag, words...); }
  // The timer's message does not come any more, unless it has been sent. That of a kind that says `.keeps()` does not come in any
  // case.
  __device__ __forceinline__ void cancel(u64 timer);
  __device__ __forceinline__ void monitor(u64 actor, u64 number) { request(EVENT_MONITOR, actor, number); }
  __device__ __forceinline__ void demonitor(u64 actor) { request(EVENT_DEMONITOR, actor, 0); }
  __device__ __forceinline__ void link(u64 actor) { request(EVENT_LINK, actor, 0); }
  __device__ __forceinline__ void unlink(u64 actor) { request(EVENT_UNLINK, actor, 0); }


  // Sends a value: a number or a `dev_struct!` of up to 32 bytes. When the channel has it, or is closed, a reply comes whose `ask()`
  // is `number`; `failure()` is DEAD_ENDED of a closed channel, and DEAD_DROPPED if an earlier value of this actor waits for the same
  // channel. While the channel is full, the value waits, also when the actor ends.
  template <class T>
  __device__ __forceinline__ void send_on(u64 channel, const T& value, u64 number) {
    if (!spend()) return;
    const ValueWords w = words_of(value);
    event_to(w.words[3], EVENT_SENDS, 5, 0, typed_channel<T>(channel), number, w.words[0], w.words[1], w.words[2]);
  }
  // Receives a value: the reply whose `ask()` is `number` has it as `value<T>()`, or it fails with DEAD_ENDED when the channel is
  // closed and empty. An actor that sends or receives values of another type than the channel's ends as failed.
  template <class T>
  __device__ __forceinline__ void receive_on(u64 channel, u64 number) {
    request(EVENT_RECEIVES, typed_channel<T>(channel), number);
  }
  // The channel takes no more values; those that it holds are still received.
  __device__ __forceinline__ void close_channel(u64 channel) { request(EVENT_CLOSES, channel, 0); }

  // As `tell`, with up to three words and the payload of the message that is being handled. Without one it is a plain message.
  template <class... W>
  __device__ __forceinline__ void pass_on(u64 to, u32 tag, W... words) {
    static_assert(sizeof...(W) <= 3, "a message with a payload has up to three words");
    if (!spend()) return;
    const u64 list[] = {(u64)words..., 0, 0, 0};
    const u32 head = tag | (u32)sizeof...(W) << MESSAGE_WORDS_SHIFT | message.head & MESSAGE_PAYLOAD;
    const u32 at = write(head, id(), list[0], list[1], list[2], message.words[3], message.words[4]);
    passes();
    if (at != NONE) deliver(to, at);
  }

  // The same of a kind that says `.keeps()`; see kept.cuh.

  // Keeps the ask that is being handled for `reply_kept`, and returns its number. 0 if the message is no ask or has a reply, or if
  // 65,535 are kept. It ends with DEAD_ENDED when the actor ends before, and with DEAD_FAILED when it begins anew or this handler fails.
  __device__ __forceinline__ u64 keep();
  // Replies to an ask that the actor keeps: one of the messages that the handler sends. False if the actor does not keep it.
  template <class... W>
  __device__ __forceinline__ bool reply_kept(u64 number, u32 tag, W... words);
  // How many asks the actor keeps.
  __device__ __forceinline__ u32 kept() const;

  // The message has no payload any more: another one has it.
  __device__ __forceinline__ void passes() {
    if (!serves || (message.head & MESSAGE_PAYLOAD) == 0) return;
    message.head &= ~MESSAGE_PAYLOAD;
    store(&cells[payload_cell].head, message.head, relaxed, gpu);
  }
  __device__ __forceinline__ u8* list_words() const { return own + lists_at; }
  template <class... W>
  __device__ __forceinline__ u64 timer(u32 what, u64 time, u32 tag, W... words);
  __device__ __forceinline__ void request(u32 what, u64 a, u64 b) {
    if (spend()) event(what, 2, 0, a, b);
  }
  // A number that no other deadline or timer of the system has.
  __device__ __forceinline__ u64 count() { return fetch_add(&system.control->numbers, (u64)1, relaxed, gpu) + 1; }

  // What turns are made of; see crates/actor/src/turn.rs.

  // The actor has failed, and its kind does not restart it: it ends. With services the turn sees to that, because its group
  // may restart it.
  __device__ __forceinline__ void end_failed() {
    if (serves) {
      fetch_or(&slot()->notes, NOTE_FAILED, relaxed, gpu);
    } else {
      // There are no other notes.
      store(&slot()->notes, NOTE_FAILED, relaxed, gpu);
      stopping = true;
    }
  }
  // An event of this actor, with `words` of its content counted in its head.
  template <class... W>
  __device__ __forceinline__ void event(u32 what, u32 words, u32 tag, W... content) {
    event_to(0, what, words, tag, content...);
  }
  // `to`: what is in the receiver's place.
  template <class... W>
  __device__ __forceinline__ void event_to(u64 to, u32 what, u32 words, u32 tag, W... content) {
    const u32 at = write(tag | words << MESSAGE_WORDS_SHIFT | what << EVENT_SHIFT, id(), content...);
    if (at == NONE) return;
    // So the host learns when the actor ends that it keeps something about.
    fetch_or(&slot()->notes, NOTE_KNOWN, relaxed, gpu);
    if (holds) hold(to, at);
    else report(to, at);
  }
  // The fourth word of a timer's message is in the receiver's place.
  template <class... W>
  __device__ __forceinline__ void event_of_timer(u32 what, u32 tag, u64 time, u64 number, W... words) {
    constexpr u32 n = sizeof...(W);
    if constexpr (n < 4) {
      event_to(0, what, n, tag, time, number, words...);
    } else {
      const u64 list[] = {(u64)words...};
      event_to(list[3], what, n, tag, time, number, list[0], list[1], list[2]);
    }
  }
  // The message of a periodic timer is about to be handled, or a value of a channel.
  __device__ __forceinline__ void tick() {
    const u32 what = (message.head & MESSAGE_VALUE) != 0 ? EVENT_VALUE : EVENT_TICK;
    const u32 at = write(1u << MESSAGE_WORDS_SHIFT | what << EVENT_SHIFT, id(), message.words[MESSAGE_WORDS - 1]);
    if (at != NONE) report(0, at);
  }
  // Events follow what this actor has sent before. The turn flushes them when the message is handled: code for that at
  // each place where there is an event needs more registers than there are.
  __device__ __forceinline__ void report(u64 to, u32 at) { keep(to, at); }
  // Puts an event into the ring. Returns whether there was room.
  __device__ __forceinline__ bool reported(u32 at) {
    const u32 group = actor_report(&system, at);
    if (group == REPORT_FULL) return false;
    if (group != REPORT_DONE) {
      room--;
      actor_queue(t.head(builtin(ACTOR_COUNT_EVENTS), 0, priority_of(t.task.head)), group, 0);
    }
    return true;
  }
  __device__ __forceinline__ static bool is_event(u32 head) { return head >> EVENT_SHIFT != 0; }
  // Whether anyone wants to see dead letters: then they are events, too.
  __device__ __forceinline__ bool shows() const { return serves && load(&system.control->letters, relaxed, gpu) != 0; }
  // The message to `to` in a cell is dead and no ask. The host ends a payload.
  __device__ __forceinline__ void bury(u32 at, u32 reason, u64 to) {
    if (shows() || serves && (load(&cells[at].head, relaxed, gpu) & MESSAGE_PAYLOAD) != 0) outbox_first = actor_letter(&system, number, outbox_first, to, at, reason);
    else free(at);
  }
  // The message in a cell was handled: the cell is free, unless the host is to end its payload.
  __device__ __forceinline__ void done(u32 at) {
    if ((message.head & MESSAGE_PAYLOAD) == 0) return free(at);
    store(&cells[at].head, message.head & 0xffff | EVENT_PAYLOAD << EVENT_SHIFT, relaxed, gpu);
    report(0, at);
  }
  // A copy of the message in a cell, or NONE.
  __device__ __forceinline__ u32 copied(u32 from) {
    const u32 at = cell();
    if (at != NONE) actor_copy(cells, from, at);
    return at;
  }

  __device__ __forceinline__ bool spend() {
    if (sends == 0) {
      fault(ACTOR_FAULT_SENDS);
      return false;
    }
    sends--;
    return true;
  }
  // Queues a turn, which is in the group of turns as this one.
  __device__ __forceinline__ void turn(u32 fn, u32 number, u32 fresh) {
    room--;
    t.delta++;
    actor_queue(t.head(fn, 0, priority_of(t.task.head)), t.task.group, Lane::pack(number, fresh));
  }
  __device__ __forceinline__ void started(u32 kind, u32 number, u32 fresh = TURN_FRESH) { turn(base + kind, number, fresh); }
  // Queues another turn of this actor.
  __device__ __forceinline__ void again() { turn(fn_of(t.task.head), number, 0); }
  // A waiting sender was woken, which wakes the others of its list.
  __device__ __forceinline__ void woke(u32 number) {
    if (number == NONE) return;
    started(meta_kind(load(actor_meta(slots + number), relaxed, gpu)), number, 0);
  }
  // The same at the end of a turn. So are others of its list, if this leaves room; it wakes those that are left.
  __device__ __forceinline__ void woke_some(u32 number) {
    while (number != NONE) {
      const u32 next = room >= needs + 2 ? actor_wake_next(slots, number) : NONE;
      woke(number);
      number = next;
    }
  }
  __device__ __forceinline__ u32 cell() {
    if (spare_first != 0) {
      u32 at = spare_first - 1;
      spare_first = at == spare_last ? 0 : load(&cells[at].next, relaxed, gpu);
      return at;
    }
    u32 at = actor_take<ACTOR_CELLS>(&system);
    if (at == NONE) fault(ACTOR_FAULT_CELLS);
    return at;
  }
  __device__ __forceinline__ void free(u32 at) {
    if (spare_first == 0) spare_last = at;
    else store(&cells[at].next, spare_first, relaxed, gpu);
    spare_first = at + 1;
  }
  __device__ __forceinline__ void give_back() {
    if (spare_first != 0) actor_give<ACTOR_CELLS>(&system, spare_first - 1, spare_last);
    spare_first = 0;
  }
  // The link is written by others of this file, and always as one word of 32 bits.
  __device__ __forceinline__ void envelope(u32 at, u32 head, u64 from) {
    store(&cells[at].head, head, relaxed, gpu);
    store(&cells[at].from, from, relaxed, gpu);
  }
  template <class... W>
  __device__ __forceinline__ u32 write(u32 head, u64 from, W... words) {
    u32 at = cell();
    if (at == NONE) return at;
    u64* to = (u64*)&cells[at];
    envelope(at, head, from);
    const u64 list[] = {(u64)words..., 0, 0, 0, 0, 0};
    constexpr u32 n = sizeof...(W);
    if constexpr (n > 0) store_pair(to + 2, list[0], list[1], relaxed, gpu);
    if constexpr (n > 2) store_pair(to + 4, list[2], list[3], relaxed, gpu);
    if constexpr (n > 4) store(to + 6, list[4], relaxed, gpu);
    return at;
  }
  __device__ __forceinline__ void deliver(u64 to, u32 at) {
    if (holds) hold(to, at);
    else deliver_now(to, at);
  }
  __device__ __forceinline__ void deliver_now(u64 to, u32 at) {
    u32 sent = SENT_FULL;
    if (outbox_first == 0) {
      // With services, where each message is delivered before the next one is handled, few wait in an outbox.
      sent = serves ? send(to, at) : send<SEND_TRIES>(to, at);
      if (sent == SENT_DELIVERED) return;
      if (sent == SENT_GONE) return dead_letter(at, DEAD_GONE, to);
    }
    if (sent == SENT_FULL) return keep(to, at);
    started(sent >> 8, actor_slot(to));
  }
  __device__ __forceinline__ void keep(u64 to, u32 at) { outbox_first = actor_keep(slot(), cells, outbox_first, to, at); }
  // A message of an atomic kind's handler, which may fail yet.
  __device__ __forceinline__ void hold(u64 to, u32 at) {
    store(&cells[at].to, to, relaxed, gpu);
    store(&cells[at].next, held_first, relaxed, gpu);
    held_first = at + 1;
  }
  // The handler has returned: what it sent is sent.
  __device__ __forceinline__ void let_out() {
    u32 list = actor_turn_round(cells, held_first);
    held_first = 0;
    while (list != 0) {
      const u32 at = list - 1;
      list = load(&cells[at].next, relaxed, gpu);
      const u64 to = load(&cells[at].to, relaxed, gpu);
      // The head of a reply is where messages have their receiver.
      if (replied && at == ask_cell) reply_with(at, (u32)to, load(&cells[at].from, relaxed, gpu));
      else if (serves && is_event(load(&cells[at].head, relaxed, gpu))) report(to, at);
      // To an ask that the actor has kept.
      else if (lists && (load(&cells[at].head, relaxed, gpu) & MESSAGE_REPLY) != 0) reply_with(at, load(&cells[at].head, relaxed, gpu), to);
      else deliver_now(to, at);
    }
    replied = false;
  }
  // The handler has failed: nothing was sent, and an ask is an ask again. A reply has changed its words alone, which are
  // of use only if the message is handled again: then they are in cell `kept`.
  __device__ __forceinline__ void take_back(u32 kept) {
    if (kept != NONE && replied) {
      const u64* from = cells[kept].words;
      u64* to = cells[ask_cell].words;
      for (u32 i = 0; i < MESSAGE_WORDS - 1; i++) store(to + i, load(from + i, relaxed, gpu), relaxed, gpu);
    }
    replied = false;
    asked = ask_cell;
    while (held_first != 0) {
      const u32 at = held_first - 1;
      held_first = load(&cells[at].next, relaxed, gpu);
      if (at == ask_cell) continue;
      // The message has its payload again.
      if (serves && (load(&cells[at].head, relaxed, gpu) & MESSAGE_PAYLOAD) != 0) {
        message.head |= MESSAGE_PAYLOAD;
        store(&cells[payload_cell].head, message.head, relaxed, gpu);
      }
      free(at);
    }
  }
  // Delivers what is in the outbox, in order. Returns the receiver that has no room, HOST_FULL, or 0.
  __device__ __forceinline__ u64 flush() {
    if (serves) return flush_each();
    while (outbox_first != 0 && room >= needs) {
      const u32 at = outbox_first - 1;
      const u64 to = load(&cells[at].to, relaxed, gpu);
      const ActorSent sent = actor_send_outbox(slots, cells, slot_limit, to, outbox_first);
      outbox_first = sent.outbox;
      if (sent.sent == SENT_FULL) return to;
      if ((sent.sent & 0xff) == SENT_ACTIVATE) {
        started(sent.sent >> 8, actor_slot(to));
      } else if (sent.sent == SENT_GONE) {
        outbox_first = load(&cells[at].next, relaxed, gpu);
        dead_letter(at, DEAD_GONE, to);
      }
    }
    return 0;
  }
  // The same with services, one at a time: their turns have no registers for more.
  __device__ __forceinline__ u64 flush_each() {
    while (outbox_first != 0 && room >= needs) {
      u32 at = outbox_first - 1, next = load(&cells[at].next, relaxed, gpu);
      u64 to = load(&cells[at].to, relaxed, gpu);
      if (is_event(load(&cells[at].head, relaxed, gpu))) {
        if (!reported(at)) return HOST_FULL;
        outbox_first = next;
        free(at);
        continue;
      }
      u32 sent = send(to, at);
      if (sent == SENT_FULL) {
        store(&cells[at].next, next, relaxed, gpu);
        return to;
      }
      outbox_first = next;
      if ((sent & 0xff) == SENT_ACTIVATE) started(sent >> 8, actor_slot(to));
      else if (sent == SENT_GONE) dead_letter(at, DEAD_GONE, to);
    }
    return 0;
  }
  __device__ __forceinline__ void count_dead(u32 reason) {
    u64* counter = reason == DEAD_DROPPED ? &system.control->dropped : &system.control->dead[reason];
    add(counter, 1, relaxed, gpu);
  }
  // A message will not be handled: it is counted by its reason, and an ask ends.
  __device__ __forceinline__ void dead_letter(u32 at, u32 reason, u64 to) {
    count_dead(reason);
    if ((load(&cells[at].head, relaxed, gpu) & MESSAGE_ASK) == 0) return bury(at, reason, to);
    if (shows()) {
      const u32 copy = copied(at);
      if (copy != NONE) bury(copy, reason, to);
    }
    fail_ask(at, reason);
  }
  __device__ __forceinline__ void fail_ask(u32 at, u32 reason) {
    const u32 flags = load(&cells[at].head, relaxed, gpu) & (serves ? MESSAGE_HOST | MESSAGE_DEADLINE : MESSAGE_HOST);
    reply_with(at, flags | MESSAGE_REPLY | MESSAGE_FAILED | reason, load(&cells[at].from, relaxed, gpu));
  }
  // Sends a reply, whose cell has its words and the last word of the ask.
  __device__ __forceinline__ void reply_with(u32 at, u32 head, u64 from) {
    DevMessage* cell = cells + at;
    if (head & MESSAGE_HOST) {
      actor_answer(system.replies + (u32)(from >> 32), cell, head);
      free(at);
      room--;
      return actor_queue(t.head(builtin(2), 0, priority_of(t.task.head)), (u32)from, 0);
    }
    envelope(at, serves && (head & MESSAGE_DEADLINE) != 0 ? head | EVENT_ANSWER << EVENT_SHIFT : head, id());
    // The host knows whether it comes in time.
    if (serves && (head & MESSAGE_DEADLINE) != 0) return report(from, at);
    // The asker is a live actor, or its reply is a dead letter that is no ask.
    u32 sent = outbox_first == 0 ? send(from, at) : SENT_FULL;
    if (sent == SENT_FULL) return keep(from, at);
    if ((sent & 0xff) == SENT_ACTIVATE) started(sent >> 8, actor_slot(from));
    if (sent == SENT_GONE) {
      count_dead(DEAD_GONE);
      bury(at, DEAD_GONE, from);
    }
  }
  __device__ __forceinline__ void signal(u64 to, u32 which) {
    if (!spend()) return;
    u32 sent = actor_signal(&system, to, which);
    if ((sent & 0xff) == SENT_ACTIVATE) started(sent >> 8, actor_slot(to), 0);
  }
  // Reads the message in a cell. Returns the next of its list.
  __device__ __forceinline__ u32 read(u32 at) {
    const u64* cell = (const u64*)&cells[at];
    const u32 next = load(&cells[at].next, relaxed, gpu);
    message.head = load(&cells[at].head, relaxed, gpu);
    message.from_bits = load(&cells[at].from, relaxed, gpu);
    load_pair(cell + 2, message.words[0], message.words[1], relaxed, gpu);
    message.words[2] = message.words[3] = message.words[4] = 0;
    if (message.count() > 2 || (message.head & (MESSAGE_ASK | MESSAGE_REPLY | MESSAGE_TIMER | MESSAGE_PAYLOAD)) != 0) {
      load_pair(cell + 4, message.words[2], message.words[3], relaxed, gpu);
      message.words[4] = load(cell + 6, relaxed, gpu);
    }
    return next;
  }
};

}  // namespace ew
