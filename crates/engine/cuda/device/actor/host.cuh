// The functions by which the host reaches actors: crates/actor/src/builtin.rs on a GPU.
#pragma once
#include "everwarp/actor/tell.cuh"

namespace ew {

// Signals or news that one task sends; another one goes on.
constexpr u32 ACTOR_STEP = 8;

// The numbers of the functions after those of the kinds.
constexpr u32 ACTOR_HOST_VALUE = 2;
constexpr u32 ACTOR_HOST_SIGNAL = 4;
constexpr u32 ACTOR_HOST_CLOSE = 7;
constexpr u32 ACTOR_HOST_NEWS = 12;

// The sender of a record.
constexpr u64 SENDER_OF_RECORD = ~0ull;
static_assert(sizeof(DevMessage) == 64, "eight words; the last one is the receiver");

// Copies a message of the host into a cell, but for its link, with more flags and with this sender. Returns the receiver.
// The message is in memory of the host: all loads are on their way over the bus before the first is needed. A call, because
// a task leaves too few registers for a whole message.
EW_CALL u64 actor_copy_in(DevMessage* to, const DevMessage* from, u32 flags, u64 sender) {
  u64 parts[8];
#pragma unroll
  for (u32 i = 0; i < 8; i += 2) load_pair((const u64*)from + i, parts[i], parts[i + 1], relaxed, sys);
  store(&to->head, (u32)(parts[0] >> 32) | flags, relaxed, gpu);
  store(&to->from, sender == SENDER_OF_RECORD ? parts[1] : sender, relaxed, gpu);
#pragma unroll
  for (u32 i = 2; i < 8; i += 2) store_pair((u64*)to + i, parts[i], parts[i + 1], relaxed, gpu);
  return parts[7];
}

struct ActorHost : ActorTask {
  using ActorTask::ActorTask;

  // A message was sent, or a signal.
  __device__ __forceinline__ void sent(u32 sent, u64 to, u32 fresh) {
    if ((sent & 0xff) == SENT_ACTIVATE) activate(world(), sent >> 8, actor_slot(to), fresh);
  }

  // Spawns a task for what is left of a range.
  __device__ __forceinline__ void go_on(u32 number, u32 first, u32 left) {
    if (left != 0) t.spawn(builtin(number), t.tag(), Lane::pack(first, left));
  }
  __device__ __forceinline__ u32 cell() {
    u32 at = actor_take<ACTOR_CELLS>(&system);
    if (at == NONE) fault(ACTOR_FAULT_CELLS);
    return at;
  }
  // Whether the actor does not live.
  __device__ __forceinline__ bool signal(u64 to, u32 which) {
    u32 signalled = actor_signal(&system, to, which);
    if (which == SIGNAL_RESUME && signalled == SENT_DELIVERED) signalled = actor_look(&system, to);
    sent(signalled, to, 0);
    return signalled == SENT_GONE;
  }
};

// Messages as records, which the host has for engines without memory that both reach.
EW_FN void actor_host_tell(Lane& t, const DevActors&, u32) { t.fault(0); }

// The ask in record `lo`. Its group stays open until it ends.
EW_FN void actor_host_ask(Lane& t, const DevActors& system, u32 base) {
  ActorHost h(t, system, base);
  const u32 index = t.lo(), group = t.pass_on();
  DevMessage* record = &system.replies[index];
  const u32 at = h.cell();
  if (at == NONE) return;
  const u64 to = actor_copy_in(system.cells + at, record, MESSAGE_ASK | MESSAGE_HOST, (u64)index << 32 | group);
  const u32 sent = h.send(to, at);
  h.sent(sent, to, TURN_FRESH);
  if (sent == SENT_FULL || sent == SENT_GONE) {
    actor_give<ACTOR_CELLS>(&system, at, at);
    h.queue_held(h.builtin(ACTOR_HOST_VALUE), group, sent == SENT_FULL ? TELL_FULL : TELL_GONE);
  }
  // The host may end the group of turns once this has queued its turn.
  fence(acq_rel, gpu);
  add(&system.control->asked, 1, relaxed, gpu);
}

EW_FN void actor_host_value(Lane& t, const DevActors&, u32) { t.report_add(t.arg()); }

// Launches actors of kind `tag`. Their ids are 0 where there is no slot.
EW_FN void actor_host_launch(Lane& t, const DevActors& system, u32 base) {
  ActorHost h(t, system, base);
  const bool closing = load(&system.control->closing, relaxed, gpu) != 0;
  u32 list = 0;
#pragma unroll 1
  for (u32 left = t.hi(); left != 0; left--) {
    u64* id = system.ids + (t.lo() + t.hi() - left);
    if (list == 0 && !closing) list = actor_take_slots(&system, left);
    if (list == 0) {
      if (!closing) add(&system.control->launch_refusals, 1, relaxed, gpu);
      store(id, (u64)0, relaxed, gpu);
      continue;
    }
    const u32 number = list - 1;
    // Before the actor is there, which has the link.
    list = load(actor_link(&system, ACTOR_SLOTS, number), relaxed, gpu);
    store(id, h.launch_in(number, t.tag(), 0, true), relaxed, gpu);
  }
}

// Sends the signal `tag`. Reports how many of the actors did not live.
EW_FN void actor_host_signal(Lane& t, const DevActors& system, u32 base) {
  ActorHost h(t, system, base);
  const u32 first = t.lo(), count = t.hi(), step = min(count, ACTOR_STEP);
  u32 gone = 0;
  for (u32 i = first; i < first + step; i++) gone += h.signal(load(&system.ids[i], relaxed, gpu), t.tag());
  if (gone != 0) t.report_add(gone);
  h.go_on(ACTOR_HOST_SIGNAL, first + step, count - step);
}

EW_FN void actor_host_anchor(Lane& t, const DevActors& system, u32) {
  store(&system.control->world, (u64)t.pass_on(), relaxed, gpu);
}

EW_FN void actor_host_leave(Lane& t, const DevActors& system, u32 base) {
  ActorHost h(t, system, base);
  h.queue_held(h.builtin(ACTOR_HOST_VALUE), h.world(), 0);
}

// Ends the actors in slots. The host has set `closing`, so that no more are launched.
EW_FN void actor_host_close(Lane& t, const DevActors& system, u32 base) {
  ActorHost h(t, system, base);
  const u32 first = t.lo(), count = t.hi(), step = min(count, ACTOR_STEP);
  for (u32 slot = first; slot < first + step; slot++) {
    h.signal(actor_id(slot, meta_generation(load(actor_meta(system.slots + slot), relaxed, gpu))), SIGNAL_KILL);
  }
  h.go_on(ACTOR_HOST_CLOSE, first + step, count - step);
}

// What follows is for programs that use services; see news.cuh.

// The host has taken `arg` events. Ends when there are others, and reports how many.
EW_FN void actor_host_events(Lane& t, const DevActors& system, u32 base) {
  ActorHost h(t, system, base);
  DevActorControl* c = system.control;
  store(&c->events_taken, t.arg(), release, gpu);
  const u32 count = actor_events(&system);
  if (count != 0) return t.report_add(count);
  const u32 group = t.pass_on();
  exchange(&c->bell, (u64)group + 1, acq_rel, gpu);
  // An event that came in between, whose author may have seen no bell. By now the host may have been woken and wait with
  // another bell, which is not this task's.
  if (actor_events(&system) != 0 && compare_exchange(&c->bell, (u64)group + 1, (u64)0, acq_rel, gpu) == (u64)group + 1) {
    h.queue_held(h.builtin(ACTOR_COUNT_EVENTS), group, 0);
  }
}

// There is an event: reports how many.
EW_FN void actor_host_count(Lane& t, const DevActors& system, u32) {
  const u32 count = actor_events(&system);
  if (count != 0) t.report_add(count);
}

// The host does not wait any more.
EW_FN void actor_host_ring(Lane& t, const DevActors& system, u32 base) {
  ActorHost h(t, system, base);
  const u64 bell = exchange(&system.control->bell, (u64)0, acq_rel, gpu);
  if (bell != 0) h.queue_held(h.builtin(ACTOR_HOST_VALUE), (u32)bell - 1, 0);
}

// News, in order. Reports how many of the actors did not live.
EW_FN void actor_host_news(Lane& t, const DevActors& system, u32 base) {
  ActorHost h(t, system, base);
  const u32 first = t.lo(), count = t.hi(), step = min(count, ACTOR_STEP);
  u32 gone = 0;
  for (u32 i = first; i < first + step; i++) {
    DevMessage* told = &system.tells[i];
    const u32 at = h.cell();
    if (at == NONE) return;
    const u64 to = actor_copy_in(system.cells + at, told, MESSAGE_NEWS, SENDER_OF_RECORD);
    const u32 sent = actor_news(&system, to, at);
    h.sent(sent, to, 0);
    if (sent == SENT_GONE) actor_give<ACTOR_CELLS>(&system, at, at);
    const bool lost = sent == SENT_GONE || sent == NEWS_LOST;
    store(&told->next, lost ? TELL_GONE : TELL_DELIVERED, relaxed, sys);
    gone += lost;
  }
  if (gone != 0) {
    fence(acq_rel, sys);
    t.report_add(gone);
  }
  h.go_on(ACTOR_HOST_NEWS, first + step, count - step);
}

// Sets the notes `tag` of actors; their ids become 0 if they do not live.
EW_FN void actor_host_note(Lane& t, const DevActors& system, u32) {
  for (u32 i = t.lo(); i < t.lo() + t.hi(); i++) {
    if (!actor_note(&system, load(&system.ids[i], relaxed, gpu), t.tag())) store(&system.ids[i], (u64)0, relaxed, gpu);
  }
}

}  // namespace ew
