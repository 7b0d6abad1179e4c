// Actors of warp and block shape: what a handler sees that all lanes of a warp, or all threads of a block, call together for up
// to a warp of messages of one actor. Its turns are in wide_turn.cuh.
//
// Rules:
// 1. Each lane of the warp (in a block, of its first warp) has one message: the lane's number is the message's place.
// 2. What the handler sends waits in the lane that sends it, and leaves when the handler has returned: first what each lane has
//    sent first, in the order of lanes, then what each has sent second, and so on.
// 3. The first lane has the outbox and the free cells at hand. `room`, `outbox_first` and `stopping` are the same in all
//    lanes between the calls of this file.
// 4. With services, what concerns the host (events, and dead letters that may be shown) goes by way of the outbox, and so does what
//    lanes send after that. The first lane delivers all of it when the call is over, as the turn of an actor of lane shape does.
#pragma once
#include "everwarp/actor/host.cuh"

namespace ew {

// A signal that a handler sends is held like an event, with a number that no event has.
constexpr u32 WIDE_SIGNAL = 128;

// The actor, as its handler sees it: crates/actor/src/context.rs. A lane may do what the method says for its own message, so
// any set of lanes may call one. A call fails as a whole.
struct WarpActor {
  Actor& own;
  const u32 lane;   // the place of the lane's message
  const u32 count;  // messages of this call, 1 to 32

  // Whether the lane has a message. The others have one without words, of tag 0.
  __device__ __forceinline__ bool has_message() const { return lane < count; }
  __device__ __forceinline__ u64 id() const { return own.id(); }
  __device__ __forceinline__ u32 kind() const { return own.kind(); }
  __device__ __forceinline__ u64 parent() const { return own.parent(); }
  // The state, which all lanes share: after one of them has written, sync() comes before another one reads.
  template <class S>
  __device__ __forceinline__ S& state() const {
    return own.template state<S>();
  }
  __device__ __forceinline__ void sync() const { __syncwarp(ALL); }
  template <class... W>
  __device__ __forceinline__ void tell(u64 to, u32 tag, W... words) {
    own.tell(to, tag, words...);
  }
  template <class... W>
  __device__ __forceinline__ void ask(u64 to, u32 tag, u64 number, W... words) {
    own.ask(to, tag, number, words...);
  }
  // Replies to the lane's message, as `reply_to(place, ...)` does on the CPU engine. Returns false if it is no ask or has a
  // reply already.
  template <class... W>
  __device__ __forceinline__ bool reply(u32 tag, W... words) {
    return own.reply(tag, words...);
  }
  // Passes the lane's message on, with its sender.
  __device__ __forceinline__ void forward(u64 to) { own.forward(to); }
  __device__ __forceinline__ u64 launch(u32 kind) { return own.launch(kind); }
  __device__ __forceinline__ void stop_later(u64 actor) { signal(actor, SIGNAL_STOP); }
  __device__ __forceinline__ void kill(u64 actor) { signal(actor, SIGNAL_KILL); }
  __device__ __forceinline__ void stop() { own.stop(); }
  __device__ __forceinline__ void fail() { own.fail(); }

  // The same in a program that uses services; see `Actor`.
  template <class... W>
  __device__ __forceinline__ void ask_within(u64 to, u32 tag, u64 number, u64 within, W... words) {
    own.ask_within(to, tag, number, within, words...);
  }
  template <class... W>
  __device__ __forceinline__ u64 after(u64 time, u32 tag, W... words) {
    return own.after(time, tag, words...);
  }
  template <class... W>
  __device__ __forceinline__ u64 every(u64 time, u32 tag, W... words) {
    return own.every(time, tag, words...);
  }
  __device__ __forceinline__ void cancel(u64 timer) { own.cancel(timer); }
  __device__ __forceinline__ void monitor(u64 actor, u64 number) { own.monitor(actor, number); }
  __device__ __forceinline__ void demonitor(u64 actor) { own.demonitor(actor); }
  __device__ __forceinline__ void link(u64 actor) { own.link(actor); }
  __device__ __forceinline__ void unlink(u64 actor) { own.unlink(actor); }
  template <class T>
  __device__ __forceinline__ void send_on(u64 channel, const T& value, u64 number) {
    own.send_on(channel, value, number);
  }
  template <class T>
  __device__ __forceinline__ void receive_on(u64 channel, u64 number) {
    own.template receive_on<T>(channel, number);
  }
  __device__ __forceinline__ void close_channel(u64 channel) { own.close_channel(channel); }
  // With the payload of the lane's message.
  template <class... W>
  __device__ __forceinline__ void pass_on(u64 to, u32 tag, W... words) {
    own.pass_on(to, tag, words...);
  }

 private:
  // A cell without words, whose head says which.
  __device__ __forceinline__ void signal(u64 actor, u32 which) {
    if (!own.spend()) return;
    const u32 at = own.write((WIDE_SIGNAL + which) << EVENT_SHIFT, own.id());
    if (at != NONE) own.hold(actor, at);
  }
};

// The same of a block. Each of its warps sees all messages: thread t has message t % 32. The first warp's threads own them:
// others may read and compute, launch, fail and stop, but `reply` returns false there, and a message that they send is one
// too many.
struct BlockActor : WarpActor {
  const u32 thread;

  __device__ __forceinline__ BlockActor(Actor& own, u32 thread, u32 count) : WarpActor{own, thread % WARP, count}, thread(thread) {}
  __device__ __forceinline__ bool owns_message() const { return thread < count; }
  __device__ __forceinline__ void sync() const { __syncthreads(); }
};

// The lanes' cells are free, where a lane has one.
EW_FN void wide_free(Actor& a, u32 lane, u32 at) {
  const u32 some = __ballot_sync(ALL, at != NONE);
  if (some == 0) return;
  // The first lane's list follows that of the lanes.
  const u32 above = some >> lane >> 1, last = 31 - __clz(some);
  const u32 next = __shfl_sync(ALL, at, above != 0 ? lane + __ffs(above) : lane);
  const u32 first_cell = __shfl_sync(ALL, at, __ffs(some) - 1), last_cell = __shfl_sync(ALL, at, last);
  const u32 rest = __shfl_sync(ALL, a.spare_first, 0);
  if (at != NONE && (above != 0 || rest != 0)) store(&a.cells[at].next, above != 0 ? next + 1 : rest, relaxed, gpu);
  if (lane == 0) {
    if (rest == 0) a.spare_last = last_cell;
    a.spare_first = first_cell + 1;
  }
  // The links, before the first lane follows them.
  __syncwarp(ALL);
}

// Messages of lanes go into the outbox, in the order of lanes.
EW_FN void wide_keep(Actor& a, u32 lane, u32 at, u64 to) {
  // A lane that has tried to send its message has written its link.
  __syncwarp(ALL);
  for (u32 left = __ballot_sync(ALL, at != NONE); left != 0; left &= left - 1) {
    const u32 from = __ffs(left) - 1;
    const u32 cell = __shfl_sync(ALL, at, from);
    const u64 receiver = __shfl_sync(ALL, to, from);
    if (lane == 0) a.keep(receiver, cell);
  }
  a.outbox_first = __shfl_sync(ALL, a.outbox_first, 0);
}

// Queues a turn of another actor. The caller counts it off the room.
EW_FN void wide_started(Actor& a, u32 kind, u64 actor, u32 fresh) {
  a.t.delta++;
  actor_queue(a.t.head(a.base + kind, 0, priority_of(a.t.task.head)), a.t.task.group, Lane::pack(actor_slot(actor), fresh));
}

// Answers an ask of the host, whose reply is in a cell. The caller counts the task off the room, and frees the cell.
EW_FN void wide_answer(Actor& a, u32 at, u64 from, u32 head) {
  actor_answer(a.system.replies + (u32)(from >> 32), a.cells + at, head);
  actor_queue(a.t.head(a.builtin(ACTOR_HOST_VALUE), 0, priority_of(a.t.task.head)), (u32)from, 0);
}

// `wide_send` of a program that uses services. What finds no room or no receiver, and what is an event, goes into the outbox,
// and so does all that is left then.
EW_FN void wide_send_or_keep(Actor& a, u32 lane, u32 at, u64 to, u32 reply) {
  const bool answers = at != NONE && (reply & MESSAGE_HOST) != 0;
  if (answers) wide_answer(a, at, to, reply);
  // The host knows whether it comes in time.
  else if (at != NONE && reply != 0) a.envelope(at, (reply & MESSAGE_DEADLINE) != 0 ? reply | EVENT_ANSWER << EVENT_SHIFT : reply, a.id());
  a.room -= __popc(__ballot_sync(ALL, answers));
  wide_free(a, lane, answers ? at : NONE);
  if (answers) at = NONE;
  const bool is_event = at != NONE && Actor::is_event(load(&a.cells[at].head, relaxed, gpu));
  bool blocked = __any_sync(ALL, is_event) || a.outbox_first != 0;
#pragma unroll 1
  while (!blocked && __any_sync(ALL, at != NONE)) {
    bool queued = false, stays = false;
    const u32 waiting = __ballot_sync(ALL, at != NONE);
    if ((__match_any_sync(ALL, to) & waiting & ((1u << lane) - 1)) == 0 && at != NONE) {
      const u32 sent = a.send(to, at);
      queued = (sent & 0xff) == SENT_ACTIVATE;
      stays = sent == SENT_FULL || sent == SENT_GONE;
      if (queued) wide_started(a, sent >> 8, to, TURN_FRESH);
      if (!stays) at = NONE;
    }
    a.room -= __popc(__ballot_sync(ALL, queued));
    blocked = __any_sync(ALL, stays);
  }
  if (blocked) wide_keep(a, lane, at, to);
}

// Sends what lanes have: the message in cell `at` to `to`; or, with the head of a reply, that to the one that has asked. Those
// to one receiver arrive in the order of lanes; those to others leave side by side.
EW_FN void wide_send(Actor& a, u32 lane, u32 at, u64 to, u32 reply) {
  if (a.serves) return wide_send_or_keep(a, lane, at, to, reply);
  u32 freed = NONE;
  // A reply that reaches no actor is no ask.
  bool is_reply = reply != 0, blocked = a.outbox_first != 0;
#pragma unroll 1
  while (__any_sync(ALL, at != NONE)) {
    bool queued = false, full = false;
    if (at != NONE && reply != 0) {
      if ((reply & MESSAGE_HOST) != 0) {
        wide_answer(a, at, to, reply);
        queued = true;
        freed = at;
        at = NONE;
      } else {
        a.envelope(at, reply, a.id());
      }
      reply = 0;
    }
    const u32 waiting = __ballot_sync(ALL, at != NONE);
    if (blocked) {
      wide_keep(a, lane, at, to);
      at = NONE;
    } else if ((__match_any_sync(ALL, to) & waiting & ((1u << lane) - 1)) == 0 && at != NONE) {
      const u32 sent = a.send(to, at);
      full = sent == SENT_FULL;
      if (sent == SENT_GONE) {
        a.count_dead(DEAD_GONE);
        const u32 head = is_reply ? 0 : load(&a.cells[at].head, relaxed, gpu);
        if ((head & MESSAGE_ASK) != 0) {
          reply = (head & MESSAGE_HOST) | MESSAGE_REPLY | MESSAGE_FAILED | DEAD_GONE;
          to = load(&a.cells[at].from, relaxed, gpu);
          is_reply = true;
        } else {
          freed = at;
        }
      } else if ((sent & 0xff) == SENT_ACTIVATE) {
        wide_started(a, sent >> 8, to, TURN_FRESH);
        queued = true;
      }
      if (!full && reply == 0) at = NONE;
    }
    a.room -= __popc(__ballot_sync(ALL, queued));
    // What is left waits with the one that does not fit.
    blocked = __any_sync(ALL, full);
  }
  wide_free(a, lane, freed);
}

// The handler has returned: what it has sent leaves. If it is undone, signals do alone, and asks are asks again: a reply has
// changed nothing but their words. There is a copy of them if they are needed. A payload is its message's again.
EW_FN void wide_let_out(Actor& a, u32 lane, bool undone) {
  u32 list = actor_turn_round(a.cells, a.held_first);
  a.held_first = 0;
#pragma unroll 1
  while (__any_sync(ALL, list != 0)) {
    u32 at = NONE, freed = NONE, reply = 0;
    u64 to = 0;
    bool queued = false;
    if (list != 0) {
      at = list - 1;
      list = load(&a.cells[at].next, relaxed, gpu);
      to = load(&a.cells[at].to, relaxed, gpu);
      const u32 head = load(&a.cells[at].head, relaxed, gpu);
      if (a.replied && at == a.ask_cell) {
        // The head of a reply is where messages have their receiver.
        reply = (u32)to;
        to = load(&a.cells[at].from, relaxed, gpu);
        if (undone) at = NONE;
      } else if (head >> EVENT_SHIFT >= WIDE_SIGNAL) {
        const u32 sent = actor_signal(&a.system, to, (head >> EVENT_SHIFT) - WIDE_SIGNAL);
        if ((sent & 0xff) == SENT_ACTIVATE) {
          wide_started(a, sent >> 8, to, 0);
          queued = true;
        }
        freed = at;
        at = NONE;
      } else if (undone) {
        if (at != a.ask_cell) freed = at;
        at = NONE;
        if (a.serves && (head & MESSAGE_PAYLOAD) != 0) {
          a.message.head |= MESSAGE_PAYLOAD;
          store(&a.cells[a.payload_cell].head, a.message.head, relaxed, gpu);
        }
      }
    }
    a.room -= __popc(__ballot_sync(ALL, queued));
    wide_free(a, lane, freed);
    wide_send(a, lane, at, to, reply);
  }
  if (undone) a.asked = a.ask_cell;
  a.replied = false;
}

// Messages are done: cells `at` are free, asks in cells `asked` end with `reason`, for which this many dead letters are counted.
EW_FN void wide_done(Actor& a, u32 lane, u32 at, u32 asked, u32 reason, u32 dead) {
  if (dead != 0 && lane == 0) {
    add(reason == DEAD_DROPPED ? &a.system.control->dropped : &a.system.control->dead[reason], (u64)dead, relaxed, gpu);
  }
  wide_free(a, lane, at);
  if (!__any_sync(ALL, asked != NONE)) return;
  u32 head = 0;
  u64 from = 0;
  if (asked != NONE) {
    head = load(&a.cells[asked].head, relaxed, gpu) & (a.serves ? MESSAGE_HOST | MESSAGE_DEADLINE : MESSAGE_HOST);
    from = load(&a.cells[asked].from, relaxed, gpu);
  }
  wide_send(a, lane, asked, from, head | MESSAGE_REPLY | MESSAGE_FAILED | reason);
}

// What is left of messages that are done, with services: a dead letter that is to be shown, or has a payload, becomes an event, and so
// does the payload of a message that was handled, whose `reason` is NONE. Returns the lane's cell if it is free.
EW_FN u32 wide_bury(Actor& a, u32 lane, u32 at, u32 reason) {
  u32 event = NONE;
  if (at != NONE) {
    const u32 head = load(&a.cells[at].head, relaxed, gpu);
    if ((head & MESSAGE_PAYLOAD) != 0 || (reason != NONE && a.shows())) {
      const u32 what = reason == NONE ? EVENT_PAYLOAD : EVENT_LETTER + reason;
      store(&a.cells[at].head, head & ((1u << EVENT_SHIFT) - 1) | what << EVENT_SHIFT, relaxed, gpu);
      event = at;
    }
  }
  if (__any_sync(ALL, event != NONE)) wide_keep(a, lane, event, a.id());
  return event == NONE ? at : NONE;
}

// The first lane delivers what is in the outbox, with services.
EW_FN void wide_flush(Actor& a, u32 lane) {
  if (a.outbox_first == 0) return;
  if (lane == 0) a.flush();
  a.outbox_first = __shfl_sync(ALL, a.outbox_first, 0);
  a.room = __shfl_sync(ALL, a.room, 0);
}

}  // namespace ew
