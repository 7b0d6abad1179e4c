// Scenarios of `actor_faults`: restarts, handlers that are undone, messages that are handled again, and the latest messages.
#include "world.h"

namespace {

enum : u32 { ENDS, CAREFUL, ATOMIC, STUBBORN, PATIENT, LATEST };
enum : u32 { ADD = 1, GET, LINK, FAIL_LATE, FAIL_FORWARD, FAIL_ASK, ASK, PASS, FAIL_UP_TO, FAIL_ONCE };

DevFaulty& state(u64 id) { return state_of<DevFaulty>(id); }

u64 calls[RECORDS];

// Actors that fail, each with another one whose mailbox is short. The sums say what was done, what was undone and what was
// sent, each time.
void pairs() {
  const u32 n = 1 + random_below(6);
  u64 actors[6], others[6], sums[6] = {}, sent[6] = {};
  u32 kinds[6], failures[6] = {}, places = 0;
  bool restarted[6] = {};
  u64 called[RECORDS];
  u64 restarts = 0, failed = 0;
  // Records of asks, with what is replied; 0 for a failure, ANY for what the schedule chooses.
  constexpr u64 ANY = ~0ull;
  std::vector<std::pair<u32, u64>> asked;
  memset(calls, 0, sizeof calls);
  bounds[ENDS] = 1 + random_below(4);
  for (u32 i = 0; i < n; i++) {
    kinds[i] = CAREFUL + random_below(4);
    actors[i] = launch(kinds[i], i);
    others[i] = launch(ENDS, i);
    tell(actors[i], LINK, {others[i]});
  }
  run_tells();
  for (u32 i = 0; i < n; i++) ids[i] = actors[i];
  for (u32 round = 0; round < 3; round++) {
    for (u32 m = 0; m < 25; m++) {
      const u32 i = random_below(n), kind = kinds[i];
      const u64 value = 1 + random_below(1000);
      if (random_below(8) == 0) {
        // Deactivated and activated, in any order with the rest.
        signal(2, i), signal(3, i);
      }
      if (kind == CAREFUL) {
        // It ends at the fourth failure.
        const bool fails = random_below(12) == 0;
        tell(actors[i], fails ? FAIL_LATE : PASS, {value});
        failures[i] += fails;
        continue;
      }
      const u32 tries = kind == ATOMIC ? 1 : 3;
      switch (random_below(5)) {
        case 0:
          tell(actors[i], PASS, {value});
          sums[i] += value, sent[i] += value;
          break;
        case 1:
          // Fails each time.
          tell(actors[i], FAIL_LATE, {value});
          restarts += tries, failed++;
          restarted[i] |= kind == STUBBORN;
          break;
        case 2: {
          const u32 up_to = random_below(5);
          const bool done = up_to < tries;
          // Up to the first time without a failure, or to the last.
          called[places] = ew::min(up_to + 1, tries);
          tell(actors[i], FAIL_UP_TO, {value, places++, up_to});
          restarts += ew::min(up_to, tries), failed += !done;
          sums[i] += done ? value : 0;
          sent[i] += done;
          restarted[i] |= kind == STUBBORN && up_to != 0;
          break;
        }
        case 3:
          if (kind == STUBBORN) continue;
          // What was asked comes through unchanged, or the ask fails.
          called[places] = tries == 1 ? 1 : 2;
          asked.push_back({next_record, kind == ATOMIC ? 0 : value});
          ask(actors[i], FAIL_ONCE, {places++, value});
          restarts++, failed += kind == ATOMIC;
          break;
        default:
          asked.push_back({next_record, ANY});
          ask(actors[i], GET, {});
      }
    }
    run_all();
    for (u32 i = 0; i < n; i++) signal(3, i);
    run_tells();
    audit();
  }
  for (auto [record, value] : asked) {
    const u32 head = replies[record].head, failure = MESSAGE_REPLY | MESSAGE_FAILED | MESSAGE_HOST | DEAD_FAILED;
    CHECK((head & MESSAGE_REPLY) != 0, "an ask has no end");
    if (value == 0) CHECK(head == failure, "an ask ended with %x", head);
    else if (value != ANY) CHECK((head & MESSAGE_FAILED) == 0 && replies[record].words[0] == value, "an ask has %llu instead of %llu", replies[record].words[0], value);
  }
  for (u32 i = 0; i < n; i++) {
    const u64 mail = slots[ew::actor_slot(actors[i])].mail;
    if (kinds[i] == CAREFUL) {
      restarts += ew::min(failures[i], 3), failed += ew::min(failures[i], 4);
      const bool lives = ew::actor_lives(mail, *ew::actor_meta(&slots[ew::actor_slot(actors[i])]), 1);
      CHECK(lives == (failures[i] < 4), "%u failures", failures[i]);
      continue;
    }
    if (kinds[i] == STUBBORN) {
      // It begins anew, at a time that the schedule chooses, and knows no other actor then.
      CHECK((state(actors[i]).other == 0) == restarted[i], "slot %u has a state of another time", ew::actor_slot(actors[i]));
      continue;
    }
    CHECK(state(actors[i]).sum == sums[i], "kind %u: %llu instead of %llu", kinds[i], state(actors[i]).sum, sums[i]);
    CHECK(state(others[i]).sum == sent[i], "kind %u sent %llu instead of %llu", kinds[i], state(others[i]).sum, sent[i]);
  }
  for (u32 i = 0; i < places; i++) CHECK(calls[i] == called[i], "%llu calls instead of %llu", calls[i], called[i]);
  CHECK(control.restarts == restarts, "%llu restarts instead of %llu", control.restarts, restarts);
  CHECK(control.dead[DEAD_FAILED] == failed, "%llu messages failed instead of %llu", control.dead[DEAD_FAILED], failed);
}

// More messages and asks than an actor keeps: the last ones are handled, and every other one is dropped once.
void latest() {
  const u32 n = 10 + random_below(30);
  u64 askers[40];
  const u64 to = launch(LATEST, 0);
  bounds[ENDS] = 4;
  for (u32 i = 0; i < n; i++) askers[i] = launch(ENDS, 1 + i);
  ids[0] = to;
  signal(2, 0);
  run_all();
  u32 asks = 0, tells_sent = 0;
  for (u32 i = 0; i < n; i++) {
    tell(askers[i], LINK, {to});
    run_tells();
    if (random_below(4) == 0) tell(to, ADD, {1}), tells_sent++;
    else tell(askers[i], ASK, {GET}), asks++;
  }
  run_tells();
  signal(3, 0);
  run_all();
  audit();
  u64 replies = 0, none = 0;
  for (u32 i = 0; i < n; i++) replies += state(askers[i]).replies % 1000, none += state(askers[i]).replies / 1000;
  const u64 kept = 4, dropped = asks + tells_sent - kept;
  CHECK(control.dropped == dropped, "%llu dropped instead of %llu", control.dropped, dropped);
  CHECK(replies + none == asks, "%llu + %llu of %u asks ended", replies, none, asks);
  CHECK(state(to).sum + replies == kept, "%llu told, %llu asked", state(to).sum, replies);
}

void scenario(u64 number) {
  parameters[0] = (u64)calls;
  if (number % 4 == 0) latest();
  else pairs();
}

}  // namespace
