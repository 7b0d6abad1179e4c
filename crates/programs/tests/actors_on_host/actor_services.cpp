// Scenarios of `actor_services`: news, events, and what follows when their ring is full.
#include "world.h"

#include <algorithm>
#include <map>

namespace {

enum : u32 { AGENT, CAREFUL };
enum : u32 { ADD = 1, GET, LINK_TO, MONITOR, DEMONITOR, LINK, UNLINK, ASK_WITHIN, AFTER, EVERY, CANCEL, TICK, STOP, FAIL, PASS };

DevAgent& state(u64 id) { return state_of<DevAgent>(id); }
u32 what(const DevMessage& event) { return event.head >> EVENT_SHIFT; }
// Whether a call may have several messages, which fail and are undone together.
bool calls_have_several(u32 kind) { return is_wide(FIRST + kind); }
// What one actor has monitored to pass messages on: all numbers from 0. A call of several messages monitors for each of them once, and
// then for each of them again.
void check_order(const std::vector<u64>& numbers, bool several) {
  std::vector<u64> next = {0, several};
  for (u64 number : numbers) {
    u64& own = next[several ? number % 2 : 0];
    CHECK(number == own, "event %llu comes in place of %llu", (unsigned long long)number, (unsigned long long)own);
    own += several ? 2 : 1;
  }
  CHECK(!several || next[0] == next[1] + 1 || next[0] + 1 == next[1], "%llu and %llu", (unsigned long long)next[0], (unsigned long long)next[1]);
}

// Actors that ask for monitors and timers and tell others, while some fail, are killed, stop, or rest. Each accepted request
// is one event, those of one actor come in their order, and each end and each dead letter is one event, too.
void agents() {
  constexpr u32 MOST = 8;
  const u32 n = 2 + random_below(MOST - 1);
  u64 actors[MOST];
  u32 kinds[MOST];
  bool known[MOST] = {}, ends[MOST] = {}, fails[MOST] = {};
  bounds[AGENT] = 1 + random_below(6), bounds[CAREFUL] = 1 + random_below(6);
  control.letters = 1;
  for (u32 i = 0; i < n; i++) {
    kinds[i] = random_below(2) == 0 ? AGENT : CAREFUL;
    actors[i] = launch(kinds[i], i);
  }
  for (u32 i = 0; i < n; i++) {
    ids[i] = actors[i];
    if (random_below(2) == 0) {
      known[i] = true;
      submit(HOST_NOTE, NOTE_KNOWN, i, 1);
    }
    tell(actors[i], LINK_TO, {actors[(i + 1) % n]});
  }
  run_tells();
  submit(HOST_EVENTS, 0, 0, 0);
  // What each actor was told to request, and ticks that the host sends.
  std::map<u64, std::vector<u64>> asked, monitored, periodic;
  std::map<u64, u64> ticks, passed;
  for (u32 round = 0; round < 4; round++) {
    for (u32 m = 0; m < 20; m++) {
      const u32 i = random_below(n);
      const u64 actor = actors[i], number = 1000 + round * 100 + m;
      switch (random_below(9)) {
        case 0: tell(actor, MONITOR, {actors[random_below(n)], number}); monitored[actor].push_back(number); break;
        case 1: tell(actor, ASK_WITHIN, {number, 5}); asked[actor].push_back(number); break;
        case 2: tell(actor, PASS, {number}); passed[actor] += 2; break;
        case 3: signal(2, i), signal(3, i); break;
        case 4:
        case 5: {
          // In their order, since each is sent when the ones before have been.
          const u64 first = ticks[actor];
          // Some are a periodic timer's, whose number comes back as an event when the message is handled.
          DevMessage sent[3];
          for (u64 k = 0; k < 3; k++) {
            sent[k] = message(actor, TICK, {first + k});
            if (random_below(2) == 0) continue;
            sent[k].head |= MESSAGE_TIMER | MESSAGE_TICK;
            sent[k].words[MESSAGE_WORDS - 1] = 1 + first + k;
            periodic[actor].push_back(1 + first + k);
          }
          news({sent[0], sent[1], sent[2]});
          ticks[actor] = first + 3;
          if (random_below(2) == 0) signal(3, i);
          run_all();
          break;
        }
        case 6:
          if (kinds[i] == CAREFUL) tell(actor, FAIL, {}), fails[i] = true;
          break;
        case 7: tell(actor, AFTER, {1000, number}); break;
        default: tell(actor, ADD, {1});
      }
    }
    run_all();
    for (u32 i = 0; i < n; i++) signal(3, i);
    run_tells();
    // Some end.
    const u32 i = random_below(n);
    if (!ends[i] && random_below(2) == 0) {
      ends[i] = true;
      if (kinds[i] == AGENT && random_below(2) == 0) tell(actors[i], random_below(2) == 0 ? FAIL : STOP, {});
      else signal(random_below(2), i);
      run_tells();
    }
  }
  audit();
  // Dead letters were seen, all of them.
  u64 dead = control.dropped, letters = 0;
  for (u64 count : control.dead) dead += count;
  std::map<u64, u32> ended;
  std::map<u64, std::pair<u64, u32>> asks;  // the asker and its number, and how many ends
  std::map<u64, std::vector<u64>> seen_asks, seen_monitors, seen_periodic;
  std::map<u64, bool> wants;
  for (const DevMessage& event : events) {
    if (what(event) != EVENT_ENDED && what(event) != EVENT_ANSWER && what(event) < EVENT_LETTER && what(event) != EVENT_TICK) wants[event.from] = true;
    switch (what(event)) {
      case EVENT_ENDED: ended[event.to]++; break;
      case EVENT_ASKS:
        CHECK(asks.count(event.words[0]) == 0, "two asks have one number");
        asks[event.words[0]] = {event.from, 0};
        seen_asks[event.from].push_back(event.words[1]);
        CHECK(event.words[2] == 5, "the time of an ask is wrong");
        break;
      case EVENT_ANSWER:
        CHECK(asks.count(event.words[4]) == 1 && asks[event.words[4]].first == event.to, "an answer has no ask");
        CHECK(asks[event.words[4]].second++ == 0, "an ask has two answers");
        break;
      case EVENT_MONITOR: seen_monitors[event.from].push_back(event.words[1]); break;
      case EVENT_TICK: seen_periodic[event.from].push_back(event.words[0]); break;
      case EVENT_AFTER: CHECK(event.words[0] == 1000, "the time of a timer is wrong"); break;
      default: CHECK(what(event) >= EVENT_LETTER && what(event) <= EVENT_LETTER + DEAD_DROPPED, "event %u", what(event)); letters++;
    }
  }
  CHECK(letters == dead, "%llu dead letters, and %llu were seen", (unsigned long long)dead, (unsigned long long)letters);
  for (auto& [number, ask] : asks) CHECK(ask.second == 1, "ask %llu has no answer", (unsigned long long)number);
  for (u32 i = 0; i < n; i++) {
    const u64 actor = actors[i];
    const bool lives = ew::mail_has(slots[i].mail, MAIL_LIVE) && slots[i].generation == ew::actor_generation(actor);
    // What a failed handler of an atomic kind wanted makes its actor known all the same.
    CHECK(ended[actor] <= !lives && (lives || ended[actor] == 1 || !(known[i] || wants[actor])), "%u ends of an actor that %s", ended[actor], lives ? "lives" : "has ended");
    // All while it lived. What one actor passes on comes in its order, without what failed handlers did.
    std::vector<u64> others, own;
    for (u64 number : seen_monitors[actor]) (number >= 1000 ? others : own).push_back(number);
    const bool several = calls_have_several(kinds[i]);
    // The call in which an actor of another kind fails monitors once for that message.
    if (!several || kinds[i] == CAREFUL || lives) check_order(own, several);
    const u64 order = own.size();
    if (kinds[i] == CAREFUL || lives) CHECK(order <= passed[actor], "%llu of %llu", (unsigned long long)order, (unsigned long long)passed[actor]);
    if (!lives) continue;
    std::sort(others.begin(), others.end());
    auto& seen = seen_asks[actor];
    std::sort(seen.begin(), seen.end());
    // What other messages of a call wanted is undone with the one that fails.
    if (!several || !fails[i]) {
      CHECK(order == passed[actor], "%llu of %llu were passed on", (unsigned long long)order, (unsigned long long)passed[actor]);
      CHECK(others == monitored[actor], "%zu of %zu monitors", others.size(), monitored[actor].size());
      CHECK(seen == asked[actor], "%zu of %zu asks", seen.size(), asked[actor].size());
    }
    CHECK(seen_periodic[actor] == periodic[actor], "%zu of %zu ticks of periodic timers", seen_periodic[actor].size(), periodic[actor].size());
    CHECK(state(actor).ticks == ticks[actor], "%llu of %llu news", (unsigned long long)state(actor).ticks, (unsigned long long)ticks[actor]);
    CHECK(state(actor).disorder == 0, "news are out of order");
  }
}

// The ring is full before the host takes the first event: actors that have some wait, and so do those that have ended.
void full_ring() {
  constexpr u32 MOST = 12;
  const u32 n = 1 + random_below(MOST);
  u64 actors[MOST];
  for (u32 i = 0; i < n; i++) ids[i] = actors[i] = launch(AGENT, i);
  submit(HOST_NOTE, NOTE_KNOWN, 0, n);
  for (u32 i = 0; i < n; i++) tell(actors[i], LINK_TO, {actors[(i + 1) % n]});
  run_tells();
  for (u32 i = 0; i < n; i++) ids[i] = actors[i];
  const u32 each = 1 + random_below(6);
  for (u32 i = 0; i < each; i++) {
    for (u32 k = 0; k < n; k++) tell(actors[k], PASS, {1});
  }
  submit(HOST_EVENTS, 0, 0, 0);
  run_tells();
  u64 sum = 0;
  for (u32 i = 0; i < n; i++) sum += state(actors[i]).sum;
  CHECK(sum == n * each, "%llu of %u messages", (unsigned long long)sum, n * each);
  CHECK(events.size() == 2 * n * each, "%zu of %u events", events.size(), 2 * n * each);
  std::map<u64, std::vector<u64>> order;
  for (const DevMessage& event : events) {
    CHECK(what(event) == EVENT_MONITOR, "event %u", what(event));
    order[event.from].push_back(event.words[1]);
  }
  for (auto& [actor, numbers] : order) check_order(numbers, calls_have_several(AGENT));
  audit();
  for (u32 k = 0; k < n; k++) tell(actors[k], PASS, {1});
  for (u32 i = 0; i < n; i++) signal(1, i);
  run_all();
  std::map<u64, u32> ends;
  for (const DevMessage& event : events) {
    if (what(event) != EVENT_ENDED) continue;
    ends[event.to]++;
    CHECK(event.words[0] == 2, "it was killed, not %llu", (unsigned long long)event.words[0]);
  }
  for (u32 i = 0; i < n; i++) CHECK(ends[actors[i]] == 1, "%u ends", ends[actors[i]]);
  audit();
}

// News come to an actor that handles messages, rests, or goes idle, and each is handled.
void many_news() {
  const u64 actor = launch(AGENT, 0);
  ids[0] = actor;
  u64 count = 0;
  for (u32 round = 0; round < 30; round++) {
    for (u32 i = random_below(4); i > 0; i--) tell(actor, ADD, {1});
    for (u32 i = random_below(6); i > 0; i--) news({message(actor, TICK, {0})}), count++;
    switch (random_below(4)) {
      case 0:
        // It rests, and gets nothing but news.
        run_all();
        signal(2, 0);
        run_all();
        news({message(actor, TICK, {0}), message(actor, TICK, {0})});
        count += 2;
        run_all();
        signal(3, 0);
        break;
      case 1: run_all(); break;
      default: break;
    }
  }
  run_tells();
  audit();
  // More than one turn handles, in their order.
  for (u32 first = next_record, round = 0; round < 3; round++, first = next_record) {
    signal(2, 0);
    run_all();
    for (u32 i = 0; i < 70; i++) tells[next_record++] = message(actor, TICK, {1 + count + i});
    count += 70;
    submit(HOST_NEWS, 0, first, 70);
    for (u32 i = random_below(4); i > 0; i--) tell(actor, ADD, {1});
    run_all();
    signal(3, 0);
    run_all();
  }
  run_tells();
  CHECK(state(actor).disorder == 0, "news are out of order");
  CHECK(state(actor).ticks == count, "%llu of %llu news", (unsigned long long)state(actor).ticks, (unsigned long long)count);
}

// News for an actor that ends, and for the one that takes its slot: none reaches the wrong one.
void strangers() {
  u64 actor = launch(AGENT, 0);
  ids[0] = actor;
  u64 taken = 0;
  for (u32 round = 0; round < 30; round++) {
    // The next one sums what it gets.
    news({message(actor, TICK, {1})});
    signal(1, 0);
    for (u32 i = 0; i < 4; i++) news({message(actor, TICK, {2})});
    submit(HOST_LAUNCH, AGENT, 1, 1);
    for (u32 i = 0; i < 4; i++) news({message(actor, TICK, {3})});
    run_all();
    const u64 next = ids[1];
    if (ew::actor_slot(next) == ew::actor_slot(actor)) taken++;
    CHECK(next == actor || state(next).ticks == 0, "%llu news have reached another actor", (unsigned long long)state(next).ticks);
    // A turn of the new one, which looks at what is in its list.
    tell(next, ADD, {1});
    run_tells();
    news({message(next, TICK, {1})});
    run_all();
    CHECK(state(next).ticks == 1, "%llu news in place of one", (unsigned long long)state(next).ticks);
    actor = ids[0] = next;
    audit();
  }
}

void scenario(u64 number) {
  switch (number % 5) {
    case 0: return full_ring();
    case 1: return strangers();
    case 2: return many_news();
    default: return agents();
  }
}

}  // namespace
