// Scenarios of `actor_broker`: values of channels as news and events, asks and timers that actors of native kinds keep, and payloads.
// The host is the channels: what is received comes with a delay, or fails, and some actors end before. Each payload ends once.
#include "world.h"

#include <map>
#include <set>

namespace {

enum : u32 { WORKER, BROKER, CAREFUL, CARRIER, STEADY };
enum : u32 { RECEIVE = 1, SEND, CLOSE, WRONG, PIPE };
enum : u32 { WAIT = 1, SERVE, COUNT, WAIT_AND_FAIL, SERVE_AND_FAIL, AFTER, CANCEL, TICK };
enum : u32 { NEXT = 1, FRAME, FORWARD, FORWARD_AND_FAIL, FAIL, TWICE };
constexpr u64 CHANNEL = 5;

struct Receiver {
  u64 actor, number;
};
struct Timer {
  u64 owner, number;
};
std::vector<Receiver> receivers;
std::vector<Timer> timers;
std::map<u64, u64> given, handled, wanted;  // values of each actor, and what it wanted from channels
std::set<u64> payloads;  // those that have not ended
size_t seen;
u64 next_value;

void payload_ends(const DevMessage& event) {
  if ((event.head & MESSAGE_PAYLOAD) == 0) return;
  CHECK(payloads.erase(event.words[3]) == 1, "payload %llu ends twice", event.words[3]);
}

DevMessage reply(u64 to, u64 number, u32 flags) {
  DevMessage m = message(to, 0, {});
  m.head = MESSAGE_REPLY | flags;
  m.words[4] = number;
  return m;
}

void pump() {
  for (; seen < events.size(); seen++) {
    const DevMessage event = events[seen];
    const u64 typed = CHANNEL | (u64)DevJob::type_number << 32;
    switch (event.head >> EVENT_SHIFT) {
      case EVENT_RECEIVES:
        CHECK(event.words[0] == typed && event.words[1] % 2 == 0, "received from %llx with %llu", event.words[0], event.words[1]);
        wanted[event.from]++;
        receivers.push_back({event.from, event.words[1]});
        break;
      case EVENT_SENDS: {
        const u64 number = event.words[1];
        wanted[event.from]++;
        CHECK(event.words[0] == typed && number % 2 == 1, "sent to %llx with %llu", event.words[0], number);
        CHECK(event.words[2] == 3 * number && event.words[4] == 7, "the value %llu of %llu is wrong", event.words[2], number);
        CHECK(event.words[3] == 1000 + number, "the weight %llu of %llu is wrong", event.words[3], number);
        const u32 ends[] = {0, 0, MESSAGE_FAILED | DEAD_ENDED, MESSAGE_FAILED | DEAD_DROPPED};
        news({reply(event.from, number, ends[random_below(4)])});
        break;
      }
      case EVENT_VALUE: handled[event.from]++; break;
      case EVENT_PAYLOAD:
        CHECK((event.head & MESSAGE_PAYLOAD) != 0, "a message has no payload");
        payload_ends(event);
        break;
      case EVENT_CLOSES: CHECK(event.words[0] == CHANNEL, "channel %llu is closed", event.words[0]); break;
      case EVENT_AFTER:
        CHECK(event.words[0] == 1000, "a timer is wrong");
        timers.push_back({event.from, event.words[1]});
        break;
      // What was cancelled may be on its way: some timers fire all the same.
      case EVENT_CANCEL:
        std::erase_if(timers, [&](const Timer& timer) { return timer.number == event.words[0] && random_below(2) == 0; });
        break;
      case EVENT_ENDED:
        std::erase_if(timers, [&](const Timer& timer) { return timer.owner == event.to; });
        std::erase_if(receivers, [&](const Receiver& receiver) { return receiver.actor == event.to; });
        break;
      default:
        CHECK(event.head >> EVENT_SHIFT >= EVENT_LETTER && event.head >> EVENT_SHIFT <= EVENT_LETTER + DEAD_DROPPED, "event %u", event.head >> EVENT_SHIFT);
        payload_ends(event);
    }
  }
}
void settle() {
  do {
    run_all();
    pump();
  } while (unfinished != 0);
}
// Some receivers get a value, and some learn that there is none, in one list, so that values come in their order.
void give() {
  const u32 first = next_record;
  for (size_t i = 0; i < receivers.size(); i++) {
    if (random_below(2) == 0) continue;
    const Receiver receiver = receivers[i];
    receivers.erase(receivers.begin() + (long)i--);
    if (random_below(4) == 0) {
      tells[next_record++] = reply(receiver.actor, receiver.number, MESSAGE_FAILED | DEAD_ENDED);
      continue;
    }
    DevMessage m = reply(receiver.actor, receiver.number, MESSAGE_VALUE | 3u << MESSAGE_WORDS_SHIFT);
    m.words[0] = next_value++;
    given[receiver.actor]++;
    tells[next_record++] = m;
  }
  for (size_t i = 0; i < timers.size(); i++) {
    if (random_below(2) == 0) continue;
    DevMessage m = message(timers[i].owner, TICK, {});
    m.head |= MESSAGE_TIMER;
    m.words[4] = timers[i].number;
    timers.erase(timers.begin() + (long)i--);
    tells[next_record++] = m;
  }
  if (next_record != first) submit(HOST_NEWS, 0, first, next_record - first);
}

void scenario(u64) {
  constexpr u32 MOST = 8;
  receivers.clear(), timers.clear(), given.clear(), handled.clear(), wanted.clear(), payloads.clear(), seen = 0, next_value = 1;
  const u32 n = 2 + random_below(MOST - 1);
  u64 actors[MOST], told[MOST] = {};
  u32 kinds[MOST];
  bool ends[MOST] = {};
  for (u32 kind = 0; kind < KINDS; kind++) bounds[kind] = 1 + random_below(6);
  control.letters = random_below(2);
  for (u32 i = 0; i < n; i++) kinds[i] = random_below(KINDS), actors[i] = launch(kinds[i], i);
  submit(HOST_EVENTS, 0, 0, 0);
  // Payloads are passed on to later carriers, or to none.
  for (u32 i = 0; i + 1 < n; i++) {
    const u32 next = i + 1 + random_below(n - i - 1);
    if (kinds[i] >= CARRIER && kinds[next] >= CARRIER) tell(actors[i], NEXT, {actors[next]});
  }
  run_tells();
  u64 number = 0;
  for (u32 round = 0; round < 6; round++) {
    for (u32 m = 0; m < 16; m++) {
      const u32 i = random_below(n);
      const u64 actor = actors[i];
      number += 2;
      if (ends[i]) continue;
      if (kinds[i] == WORKER) {
        switch (random_below(4)) {
          case 0:
          case 1: tell(actor, RECEIVE, {CHANNEL, number}), told[i]++; break;
          case 2: tell(actor, SEND, {CHANNEL, number + 1, 3 * (number + 1), 1000 + number + 1}), told[i]++; break;
          default: tell(actor, CLOSE, {CHANNEL});
        }
      } else if (kinds[i] >= CARRIER) {
        DevMessage frame = message(actor, FRAME + random_below(5), {number});
        if (random_below(4) != 0) {
          frame.head |= MESSAGE_PAYLOAD;
          frame.words[3] = number;
          payloads.insert(number);
        }
        tell_all({frame});
      } else {
        switch (random_below(8)) {
          case 0:
          case 1:
          case 2: ask(actor, WAIT, {}); break;
          case 3: tell(actor, SERVE, {random_below(4), 100}); break;
          case 4: random_below(2) == 0 ? ask(actor, WAIT_AND_FAIL, {}) : tell(actor, SERVE_AND_FAIL, {2, 900}); break;
          case 5: tell(actor, AFTER, {1000}); break;
          case 6: tell(actor, CANCEL, {}); break;
          default: ask(actor, COUNT, {});
        }
      }
      if (random_below(3) == 0) {
        run_tells();
        settle();
        give();
      }
    }
    run_tells();
    settle();
    const u32 i = random_below(n);
    ids[0] = actors[i];
    // Values come while it rests, and some of those that rest end.
    const bool rests = !ends[i] && random_below(4) == 0;
    if (rests) {
      signal(2, 0);
      settle();
      give();
      settle();
    }
    // Its values go back: the host, not this, sees to that.
    if (!ends[i] && random_below(8) == 0) {
      ends[i] = true;
      give();
      signal(1, 0);
      settle();
    } else if (rests) {
      signal(3, 0);
      settle();
    }
  }
  audit(false);
  for (u32 i = 0; i < n; i++) {
    const u64 actor = actors[i];
    CHECK(handled[actor] <= given[actor], "actor %u has handled %llu values of %llu", i, handled[actor], given[actor]);
    if (ends[i]) continue;
    if (kinds[i] == WORKER) {
      const DevPorter& state = state_of<DevPorter>(actor);
      CHECK(state.received == given[actor] && handled[actor] == given[actor], "actor %u was given %llu values, has %llu and told of %llu", i,
            given[actor], state.received, handled[actor]);
      CHECK(wanted[actor] == told[i] && state.disorder == 0, "actor %u wanted %llu times, not %llu", i, wanted[actor], told[i]);
    } else if (kinds[i] < CARRIER) {
      const DevBroker& state = state_of<DevBroker>(actor);
      CHECK(kinds[i] != CAREFUL || state.count <= ew::kept_asks(&state_of<u8>(actor) + keeps[kinds[i]]), "actor %u keeps %llu asks", i, state.count);
    }
  }
  for (u32 i = 0; i < n; i++) {
    if (ends[i]) continue;
    ids[0] = actors[i];
    signal(random_below(2), 0);
    settle();
  }
  audit();
  CHECK(payloads.empty(), "%zu payloads have not ended", payloads.size());
}

}  // namespace
