// Scenarios of `actor_shapes`: calls of several messages by the lanes of a warp.
#include "world.h"

namespace {

enum : u32 { PAIR, BLOCK, NARROW, ATOMIC, STUBBORN, PATIENT, LATEST, SENDER };
enum : u32 { ADD = 1, GET, LINK, NUMBER, PASS, FORWARD, ASK, FAIL_UP_TO, STOP, KILL, LAUNCH, FOUR, BURST };

DevShape& state(u64 id) { return state_of<DevShape>(id); }
bool lives(u64 id) {
  DevActor* slot = &slots[ew::actor_slot(id)];
  return ew::actor_lives(slot->mail, *ew::actor_meta(slot), ew::actor_generation(id));
}

u64 calls[RECORDS];

// A kind that ends when it fails.
u32 plain() { return random_below(3); }

// Deactivates and activates an actor now and then while others run.
void disturb(u32 at) {
  if (random_below(2) == 0) signal(2, at), signal(3, at);
}

// Many send to one, whose mailbox is mostly full: all of it arrives, and what one sends in its order.
void senders() {
  const u32 n = 1 + random_below(8), count = 30;
  bounds[NARROW] = 1 + random_below(6);
  const u64 to = launch(plain(), 0);
  u64 from[8];
  for (u32 i = 0; i < n; i++) from[i] = launch(SENDER, 1 + i), tell(from[i], LINK, {to});
  run_tells();
  ids[0] = to;
  for (u32 i = 0; i < n; i++) tell(from[i], BURST, {i, 0, count}), disturb(0);
  run_all();
  signal(3, 0);
  run_tells();
  const DevShape& s = state(to);
  CHECK(s.errors == 0 && s.count == n * count, "%llu out of order, %llu of %u", s.errors, s.count, n * count);
  CHECK(s.seen[0] == s.count, "%llu of %llu were seen", s.seen[0], s.count);
  CHECK(control.dead[DEAD_GONE] + control.dead[DEAD_ENDED] + control.dead[DEAD_FAILED] == 0, "messages are dead");
  audit();
}

// What calls send to one actor arrives in the order of their messages, also where that is full.
void passed() {
  const u32 n = 1 + random_below(4), count = 30, ones = 1 + random_below(3);
  const u64 other = launch(random_below(2) ? SENDER : NARROW, 0);
  u64 sums[3] = {}, one[3], sent = 0;
  bounds[NARROW] = bounds[SENDER] = 1 + random_below(3);
  for (u32 a = 0; a < ones; a++) {
    one[a] = launch(random_below(3) == 0 ? ATOMIC : random_below(2), 1 + a);
    tell(one[a], LINK, {other});
    run_tells();
    // All are there before the first turn, so that each call but the last is full.
    signal(2, 1 + a);
    run_all();
    // Several for each message, where the messages of a call have senders of their own, or one.
    const bool several = random_below(3) != 0;
    std::vector<DevMessage> all;
    u64 next[4] = {};
    for (u32 i = 0; i < n * count; i++) {
      const u32 from = several ? i % ew::WARP : random_below(n), each = several ? 4 : 1;
      all.push_back(message(one[a], several ? FOUR : PASS, {4 * a + from, next[from]}));
      next[from] += each, sent += each, sums[a] += several ? 0 : 4 * a + from;
    }
    tell_all(all);
    run_all();
  }
  for (u32 a = 0; a < ones; a++) signal(3, 1 + a), disturb(0);
  run_all();
  signal(3, 0);
  run_tells();
  const DevShape& s = state(other);
  CHECK(s.errors == 0 && s.count == sent, "%llu out of order, %llu of %llu", s.errors, s.count, sent);
  for (u32 a = 0; a < ones; a++) CHECK(state(one[a]).sum == sums[a], "%llu added instead of %llu", state(one[a]).sum, sums[a]);
  audit();
}

// Calls that fail: the messages are there before the actor runs, so which of them are a call is known.
void failing() {
  const u32 kind = ATOMIC + random_below(3), tries = kind == ATOMIC ? 1 : 3, n = 10 + random_below(30);
  const u64 one = launch(kind, 0), other = launch(SENDER, 1);
  tell(one, LINK, {other});
  run_tells();
  memset(calls, 0, sizeof calls);
  signal(2, 0);
  run_all();
  struct Part { u32 tag; u64 word, up_to; u32 record; };
  std::vector<Part> parts;
  u64 numbers = 0;
  for (u32 i = 0; i < n; i++) {
    Part part{random_below(3) == 0 ? PASS : ADD, 1 + random_below(100), 0, 0};
    if (random_below(6) == 0) part.tag = FAIL_UP_TO, part.up_to = random_below(4);
    if (random_below(4) == 0) part.tag = random_below(3) ? GET : NUMBER;
    part.record = next_record;
    const u32 tag = part.tag;
    // One after the other, so that they are in their order.
    if (tag == GET) ask(one, GET, {});
    else if (tag == NUMBER) ask(one, ADD, {part.word});
    else if (tag == FAIL_UP_TO) tell(one, tag, {part.word, i, part.up_to});
    else tell(one, tag, {tag == PASS ? 0 : part.word, numbers});
    // A number that is not sent would be missed.
    run_tells();
    parts.push_back(part);
  }
  signal(3, 0);
  run_all();
  u64 sum = 0, failed = 0, no_reply = 0, restarts = 0, passed = 0;
  for (u32 first = 0; first < n; first += ew::WARP) {
    const u32 end = ew::min(first + ew::WARP, n);
    u32 at = 1;
    bool done = false;
    for (; !done && at <= tries; at++) {
      done = true;
      for (u32 i = first; i < end; i++) done &= parts[i].tag != FAIL_UP_TO || parts[i].up_to < at;
      restarts += !done;
    }
    at--;
    for (u32 i = first; i < end; i++) {
      const Part& part = parts[i];
      if (part.tag == FAIL_UP_TO) CHECK(calls[i] == at, "%llu calls instead of %u", calls[i], at);
      if (part.tag == PASS) passed += done;
      if (done && (part.tag == ADD || part.tag == FAIL_UP_TO || part.tag == NUMBER)) sum += part.word;
      failed += !done;
      no_reply += done && part.tag == NUMBER;
    }
    // A reply says what was added when its call was done.
    for (u32 i = first; i < end; i++) {
      if (parts[i].tag != GET && parts[i].tag != NUMBER) continue;
      const u32 head = replies[parts[i].record].head;
      const bool has_reply = done && parts[i].tag == GET;
      // A kind that is not atomic may have replied before it failed.
      if (kind == STUBBORN && parts[i].tag == GET) continue;
      CHECK((head & MESSAGE_FAILED) == (has_reply ? 0 : MESSAGE_FAILED), "an ask ended with %x", head);
      if (has_reply) CHECK(replies[parts[i].record].words[0] == sum, "%llu instead of %llu", replies[parts[i].record].words[0], sum);
      else CHECK((head & 0xff) == (done ? DEAD_NO_REPLY : DEAD_FAILED), "an ask ended with %x", head);
    }
  }
  CHECK(control.restarts == restarts, "%llu restarts instead of %llu", control.restarts, restarts);
  CHECK(control.dead[DEAD_FAILED] == failed, "%llu messages failed instead of %llu", control.dead[DEAD_FAILED], failed);
  CHECK(control.dead[DEAD_NO_REPLY] == no_reply, "%llu asks without a reply instead of %llu", control.dead[DEAD_NO_REPLY], no_reply);
  if (kind != STUBBORN) {
    CHECK(state(one).sum == sum, "%llu added instead of %llu", state(one).sum, sum);
    CHECK(state(other).count == passed, "%llu sent instead of %llu", state(other).count, passed);
  }
  audit();
}

// The last messages are handled, and every other one is dropped once.
void latest() {
  const u32 n = 4 + random_below(40);
  const u64 to = launch(LATEST, 0);
  signal(2, 0);
  run_all();
  u32 asked = 0;
  // The records of asks.
  std::vector<u32> asks;
  for (u32 i = 0; i < n; i++) {
    asks.push_back(random_below(3) == 0 ? next_record : ew::NONE);
    if (asks.back() != ew::NONE) ask(to, GET, {}), asked++;
    else tell(to, ADD, {1});
    run_tells();
  }
  signal(3, 0);
  run_all();
  const u32 kept = ew::min(n, 6);
  CHECK(control.dropped == n - kept, "%llu dropped instead of %u", control.dropped, n - kept);
  CHECK(state(to).count == kept, "%llu handled instead of %u", state(to).count, kept);
  for (u32 i = 0; i < n; i++) {
    if (asks[i] == ew::NONE) continue;
    const u32 head = replies[asks[i]].head;
    const bool dropped = i < n - kept;
    CHECK((head & MESSAGE_REPLY) != 0 && ((head & MESSAGE_FAILED) != 0) == dropped, "ask %u ended with %x", i, head);
  }
  audit();
}

// Everything at once.
void mixture() {
  const u32 n = 2 + random_below(7);
  u64 actors[8];
  auto kind = [] { return random_below(8); };
  bounds[NARROW] = 1 + random_below(6);
  for (u32 i = 0; i < n; i++) actors[i] = launch(kind(), i);
  // Forwarded asks end where there is no circle.
  const bool circles = random_below(2);
  auto next_of = [&](u32 i) { return circles ? actors[random_below(n)] : i == 0 ? 0 : actors[random_below(i)]; };
  for (u32 i = 0; i < n; i++) tell(actors[i], LINK, {next_of(i)});
  run_tells();
  memset(calls, 0, sizeof calls);
  for (u32 round = 0; round < 3; round++) {
    for (u32 i = 0; i < 25; i++) {
      const u32 at = random_below(n);
      const u64 to = actors[at];
      switch (random_below(18)) {
        case 0: tell(to, FOUR, {}); break;
        case 1: tell(to, ASK, {random_below(2) ? GET : ADD}); break;
        case 2: ask(to, random_below(2) ? GET : ADD, {}); break;
        case 3: if (!circles) ask(to, FORWARD, {5}); break;
        case 4: tell(to, LAUNCH, {3}); break;
        case 5: if (random_below(3) == 0) tell(to, random_below(2) ? KILL : STOP, {}); break;
        case 6: tell(to, FAIL_UP_TO, {1, 25 * round + i, random_below(3)}); break;
        case 7: if (random_below(3) == 0) signal(random_below(2), at); break;
        case 8: case 9: signal(2, at); break;
        case 10: case 11: signal(3, at); break;
        case 12: tell(to, BURST, {random_below(4), 0, 1 + random_below(20)}); break;
        default: tell(to, PASS, {1, 0});
      }
    }
    run_all();
    audit(false);
    for (u32 i = 0; i < n; i++) signal(3, i);
    run_all();
    audit(false);
    for (u32 i = 0; i < n; i++) {
      if (lives(actors[i])) continue;
      const u64 id = launch(kind(), i);
      if (id == 0) continue;
      actors[i] = id;
      tell(id, LINK, {next_of(i)});
    }
    run_tells();
  }
  end_all();
}

void scenario(u64 number) {
  parameters[0] = (u64)calls;
  bounds[NARROW] = 6, bounds[SENDER] = 8;
  switch (number % 6) {
    case 0: return senders();
    case 1: return passed();
    case 2: return failing();
    case 3: return latest();
    default: mixture();
  }
}

}  // namespace
