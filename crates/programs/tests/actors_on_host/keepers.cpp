// Scenarios of modules that keep asks and have timers: see `modules/keeper.wat`. The host does what it must with events: it
// ends asks with deadlines, and sends the messages of timers, some of them after they were cancelled. Some actors are members of
// groups, which restart them when they would end, and with others.
#define HOLDS
#include "world.h"

#include <map>

namespace {

enum : u32 { PLAIN, ANEW, ATOMIC };

struct Timer {
  u64 owner, number, words[4];
  bool periodic, waits;
};
std::vector<Timer> timers;
std::map<u64, std::pair<u64, u64>> deadlines;  // the asker and its own number
size_t seen;
u64 letters;
// Whether members go on that would end.
bool stays;

void held(const DevMessage& event) {
  CHECK(event.words[0] <= ew::ENDING_KILLED, "the kind of member %llx restarts it", event.from);
  std::vector<DevMessage> items;
  if (stays) items.push_back(item(ITEM_REVIVE, 0, event.from));
  items.push_back(item(ITEM_HELD, (u32)event.words[0] | (stays ? HELD_GOES_ON : 0), event.from));
  decide(items);
}

// Carries out what events ask for. Some messages of timers are on their way when the host learns of anything later.
void pump() {
  for (; seen < events.size(); seen++) {
    const DevMessage event = events[seen];
    const u32 what = event.head >> EVENT_SHIFT;
    switch (what) {
      case EVENT_AFTER:
      case EVENT_EVERY:
        CHECK(event.words[0] == 1000 && (event.head >> MESSAGE_WORDS_SHIFT & 0xff) == 4, "a timer is wrong");
        timers.push_back({event.from, event.words[1], {event.words[2], event.words[3], event.words[4], event.to}, what == EVENT_EVERY, true});
        break;
      case EVENT_CANCEL:
        std::erase_if(timers, [&](const Timer& timer) { return timer.number == event.words[0]; });
        break;
      case EVENT_TICK:
        for (Timer& timer : timers) if (timer.number == event.words[0]) timer.waits = true;
        break;
      case EVENT_ASKS:
        CHECK(deadlines.count(event.words[0]) == 0 && event.words[2] == 5000, "an ask is wrong");
        deadlines[event.words[0]] = {event.from, event.words[1]};
        break;
      case EVENT_ANSWER: {
        const auto found = deadlines.find(event.words[4]);
        CHECK(found != deadlines.end() && found->second.first == event.to, "an answer has no ask");
        DevMessage m = event;
        m.head &= ((1u << EVENT_SHIFT) - 1) & ~MESSAGE_DEADLINE;
        m.words[4] = found->second.second;
        deadlines.erase(found);
        news({m});
        break;
      }
      case EVENT_ENDED:
        std::erase_if(timers, [&](const Timer& timer) { return timer.owner == event.to; });
        break;
      case EVENT_HELD: break;
      default:
        CHECK(what >= EVENT_LETTER && what <= EVENT_LETTER + DEAD_DROPPED, "event %u", what);
        letters++;
    }
  }
}
void settle() {
  do {
    run_all();
    pump();
  } while (unfinished != 0);
}

// The time of some timers comes.
void fire() {
  for (size_t i = 0; i < timers.size(); i++) {
    Timer& timer = timers[i];
    if (!timer.waits || random_below(2) == 0) continue;
    DevMessage m = message(timer.owner, tag_tick, {timer.words[0], timer.words[1], timer.words[2], timer.words[3]});
    m.head |= MESSAGE_TIMER | (timer.periodic ? MESSAGE_TICK : 0);
    m.words[4] = timer.number;
    news({m});
    timer.waits = false;
    if (!timer.periodic) timers.erase(timers.begin() + (long)i--);
  }
}

void scenario(u64) {
  constexpr u32 MOST = 8;
  timers.clear(), deadlines.clear(), seen = 0, letters = 0;
  const u32 n = 3 + random_below(MOST - 2);
  u64 actors[MOST];
  u32 kinds[MOST];
  for (u32 kind = 0; kind < KINDS; kind++) bounds[kind] = 1 + random_below(6);
  control.letters = random_below(2);
  for (u32 i = 0; i < n; i++) {
    // The first ones only ask, and do not fail.
    kinds[i] = i < 2 ? PLAIN : random_below(3);
    actors[i] = launch(kinds[i], i);
  }
  stays = true;
  bool member[MOST] = {};
  for (u32 i = 2; i < n; i++) {
    // The others fail if they have forgotten what they keep.
    member[i] = kinds[i] == ANEW && random_below(2) == 0;
    if (!member[i]) continue;
    ids[i] = actors[i];
    submit(HOST_NOTE, NOTE_KNOWN | NOTE_SUPERVISED, i, 1);
  }
  run_all();
  submit(HOST_EVENTS, 0, 0, 0);
  settle();
  u64 asked = 0, sent = 0;
  for (u32 round = 0; round < 6; round++) {
    for (u32 m = 0; m < 16; m++) {
      const u32 i = 2 + random_below(n - 2), asker = random_below(2);
      // All that a handler can do, mostly some of it.
      u64 what = random_below(128) & random_below(128);
      if (kinds[i] != PLAIN && random_below(4) == 0) what |= 128;
      switch (random_below(6)) {
        case 0: ask(actors[i], tag_enter, {what | 16}), asked++; break;
        case 1: tell(actors[asker], tag_send, {actors[i], what | 16}), sent++; break;
        case 2: tell(actors[asker], tag_send_within, {actors[i], 5000, what | 16}), sent++; break;
        case 3: {
          fire();
          DevMessage reset = message(actors[i], 0, {});
          reset.head = MESSAGE_RESET;
          if (member[i]) news({reset});
          break;
        }
        case 4: tell(actors[asker], tag_go, {what & 127}); break;
        default: tell(actors[i], tag_go, {what});
      }
      if (random_below(3) == 0) {
        run_tells();
        settle();
      }
    }
    run_tells();
    settle();
    const u32 i = 2 + random_below(n - 2);
    if (random_below(4) == 0) {
      ids[0] = actors[i];
      signal(random_below(2), 0);
      settle();
    }
  }
  audit(false);
  stays = false;
  // All but the askers end, and so do their asks.
  for (u32 i = 2; i < n; i++) ids[i - 2] = actors[i];
  for (u32 i = 2; i < n; i++) signal(random_below(2), i - 2);
  settle();
  audit();
  CHECK(deadlines.empty(), "%zu asks with a deadline have no end", deadlines.size());
  u64 dead = control.dropped;
  for (u64 count : control.dead) dead += count;
  CHECK(control.letters == 0 || letters == dead, "%llu dead letters, and %llu were seen", dead, letters);
  u64 all = 0, ended = 0;
  for (u32 i = 0; i < 2; i++) {
    const u64* state = (const u64*)(&state_of<u8>(actors[i]) + 16);
    all += state[13], ended += state[14] + state[15];
  }
  CHECK(all == sent, "%llu asks were sent, not %llu", all, sent);
  CHECK(ended == sent, "%llu asks were sent, and %llu have ended", sent, ended);
  for (u64 i = 0; i < control.failed && i < ACTOR_FAILURES; i++) {
    const u32 why = (u32)control.failures[3 * i + 1] & 0xff;
    CHECK(why == MODULE_FAIL || why == MODULE_TIMERS, "an actor failed because of %u", why);
  }
}

}  // namespace
