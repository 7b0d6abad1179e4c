// Scenarios of `actor_probe`: messages, asks, muting and signals.
#include "world.h"

namespace {

enum : u32 { PROBE_NARROW, PROBE_WIDE };
enum : u32 { ADD = 1, GET, LINK, PASS, BURST, NUMBER, FAIL, STOP, QUIET, FORWARD, LAUNCH, ASK, KILL, STOP_LATER, TOO_MANY, TRY };

DevProbeNode& state(u64 id) { return state_of<DevProbeNode>(id); }

// Everything at once.
void mixture() {
  const u32 n = 2 + random_below(7);
  u64 actors[16];
  for (u32 i = 0; i < n; i++) actors[i] = launch(random_below(3) == 0 ? PROBE_WIDE : PROBE_NARROW, i);
  // Forwarded asks end where there is no circle.
  const bool circles = random_below(2);
  auto next_of = [&](u32 i) { return circles ? actors[random_below(2) ? (i + 1) % n : random_below(n)] : i == 0 ? 0 : actors[random_below(i)]; };
  for (u32 i = 0; i < n; i++) tell(actors[i], LINK, {next_of(i)});
  run_tells();
  for (u32 round = 0; round < 3; round++) {
    for (u32 i = 0; i < 20; i++) {
      const u32 at = random_below(n);
      const u64 to = actors[at];
      switch (random_below(18)) {
        case 0: tell(to, BURST, {random_below(4), 0, 1 + random_below(30)}); break;
        case 1: tell(to, ASK, {}); break;
        case 2: ask(to, random_below(2) ? GET : QUIET, {}); break;
        case 3: if (!circles) ask(to, FORWARD, {1, 2}); break;
        case 4: tell(to, LAUNCH, {random_below(2), 3}); break;
        case 5: if (random_below(3) == 0) tell(to, random_below(2) ? KILL : STOP_LATER, {}); break;
        case 6: if (random_below(4) == 0) tell(to, random_below(2) ? FAIL : STOP, {}); break;
        case 7: if (random_below(3) == 0) signal(random_below(2), at); break;
        case 8: case 9: signal(2, at); break;
        case 10: case 11: signal(3, at); break;
        case 12: tell(to, TRY, {1}); break;
        default: tell(to, PASS, {1, random_below(40)});
      }
    }
    run_all();
    audit(false);
    for (u32 i = 0; i < n; i++) signal(3, i);
    // What did not fit is sent later, or never.
    run_all();
    audit(false);
    // New actors, mostly in slots of others.
    std::vector<u32> ended;
    for (u32 i = 0; i < n; i++) {
      if (!ew::mail_has(slots[ew::actor_slot(actors[i])].mail, MAIL_LIVE)) ended.push_back(i);
    }
    launch_all(PROBE_NARROW, ended.size());
    const std::vector<u64> launched(ids, ids + ended.size());
    for (u32 k = 0; k < ended.size(); k++) {
      if (launched[k] == 0) continue;
      actors[ended[k]] = launched[k];
      tell(launched[k], LINK, {next_of(ended[k])});
    }
    run_tells();
  }
  end_all();
}

// More tokens than all mailboxes of a ring hold: all come through.
void full_ring() {
  const u32 n = 1 + random_below(4), tokens = 12 * n;
  u64 actors[4];
  launch_all(PROBE_NARROW, n);
  memcpy(actors, ids, n * sizeof(u64));
  for (u32 i = 0; i < n; i++) tell(actors[i], LINK, {actors[(i + 1) % n]});
  run_tells();
  for (u32 i = 0; i < tokens; i++) tell(actors[i % n], PASS, {1, 60});
  run_tells();
  u64 arrived = 0;
  for (u32 i = 0; i < n; i++) arrived += state(actors[i]).count;
  CHECK(arrived == tokens, "%llu of %u tokens", arrived, tokens);
  audit();
}

// Senders of numbered messages into a small mailbox: in order, and none is lost.
void numbers() {
  const u32 n = 1 + random_below(4), count = 40;
  u64 actors[5];
  for (u32 i = 0; i <= n; i++) actors[i] = launch(PROBE_NARROW, i);
  for (u32 i = 1; i <= n; i++) tell(actors[i], LINK, {actors[0]});
  run_tells();
  for (u32 i = 1; i <= n; i++) tell(actors[i], BURST, {i - 1, 0, count});
  run_all();
  const DevProbeNode& s = state(actors[0]);
  CHECK(s.errors == 0 && s.count == n * count, "%llu out of order, %llu of %u", s.errors, s.count, n * count);
  audit();
}

// Runs of numbered messages of the host into small mailboxes: what does not fit is sent again, in order; and to some actors that are gone.
void runs() {
  const u32 n = 1 + random_below(6);
  u64 actors[6], sent[6] = {};
  bounds[PROBE_NARROW] = 1 + random_below(12);
  launch_all(PROBE_NARROW, n);
  memcpy(actors, ids, n * sizeof(u64));
  const u64 gone = ew::actor_id(SLOTS - 1, 7);
  for (u32 round = 0; round < 4; round++) {
    std::vector<DevMessage> messages;
    u64 lost = 0;
    for (u32 i = 0; i < n; i++) {
      const u32 length = random_below(4) == 0 ? random_below(90) : random_below(6);
      for (u32 k = 0; k < length; k++) messages.push_back(message(actors[i], NUMBER, {0, sent[i]++}));
      for (u32 k = random_below(5) == 0 ? random_below(12) : 0; k > 0; k--) messages.push_back(message(gone, NUMBER, {1, 2})), lost++;
    }
    if (messages.empty()) continue;
    if (random_below(2) == 0) {
      // None handles anything before all are told.
      for (u32 i = 0; i < n; i++) signal(2, i);
      run_all();
    }
    tell_all(messages);
    if (random_below(2) == 0) run_all();
    for (u32 i = 0; i < n; i++) signal(3, i), run_all();
    u64 said = 0;
    for (u32 i = 0; i < messages.size(); i++) said += all_told[0].statuses[i] == TELL_GONE;
    CHECK(said == lost, "%llu messages to actors that are gone instead of %llu", said, lost);
    run_tells();
  }
  for (u32 i = 0; i < n; i++) {
    const DevProbeNode& s = state(actors[i]);
    CHECK(s.errors == 0 && s.count == sent[i], "%llu out of order, %llu of %llu", s.errors, s.count, sent[i]);
  }
  audit();
}

void scenario(u64 number) {
  bounds[PROBE_NARROW] = 4;
  switch (number % 5) {
    case 0: return full_ring();
    case 1: return numbers();
    case 2: return runs();
    default: mixture();
  }
}

}  // namespace
