// A metronome: it counts the ticks of its timer, cancels it after three, and asks another one within a time.
#include "everwarp_actor.h"

EVERWARP_ACTOR("message begin nanos:u64 weight:u64")
EVERWARP_ACTOR("message once nanos:u64 weight:u64")
EVERWARP_ACTOR("message tick weight:u64")
EVERWARP_ACTOR("message ticks -> value:u32")
EVERWARP_ACTOR("message sum -> value:u64")
EVERWARP_ACTOR("message listen to:actor nanos:u64")
EVERWARP_ACTOR("message heard -> value:u32")

EVERWARP_EVERY(tick) everwarp_timer tick_every(uint64_t nanos, uint64_t weight);
EVERWARP_AFTER(tick) everwarp_timer tick_after(uint64_t nanos, uint64_t weight);
EVERWARP_ASK_WITHIN(ticks) void ask_ticks(everwarp_actor to, uint32_t number, uint64_t nanos);

static uint32_t ticks, heard;
static uint64_t sum;
static everwarp_timer timer;

EVERWARP_ON(begin) void begin(uint64_t nanos, uint64_t weight) { timer = tick_every(nanos, weight); }

EVERWARP_ON(once) void once(uint64_t nanos, uint64_t weight) { tick_after(nanos, weight); }

EVERWARP_ON(tick) void tick(uint64_t weight) {
  sum += weight;
  if (++ticks == 3) everwarp_cancel(timer);
}

EVERWARP_ON(ticks) uint32_t on_ticks(void) { return ticks; }

EVERWARP_ON(sum) uint64_t on_sum(void) { return sum; }

EVERWARP_ON(listen) void listen(everwarp_actor to, uint64_t nanos) { ask_ticks(to, 1, nanos); }

EVERWARP_REPLY(ticks) void on_reply(uint32_t number, uint32_t value) {
  (void)number;
  heard = value;
}

EVERWARP_NOT_REPLIED(ticks) void on_failed(uint32_t number, int32_t reason) {
  (void)number;
  heard = 1000 + (uint32_t)reason;
}

EVERWARP_ON(heard) uint32_t on_heard(void) { return heard; }
