// Scenarios of `actor_groups`: members of supervised groups fail, stop and are killed while the ring of events is short. Each
// message is handled as often as its kind says, a member is held once at a time, it goes on or ends as the host decides, and
// what follows for others comes before.
#define HOLDS
#include "world.h"

namespace {

enum : u32 { MEMBER, CAREFUL, STUBBORN, PATIENT };
// Whether messages are handled up to three times.
bool tries_again(u32 kind) { return kind == STUBBORN || kind == PATIENT; }
enum : u32 { ADD = 1, GET, LINK_TO, FAIL, STOP, FAIL_UP_TO, MONITOR, FAIL_AND_STOP };
enum : u32 { ONE_FOR_ONE, ONE_FOR_ALL, REST_FOR_ONE };
enum : u32 { PERMANENT, TRANSIENT, TEMPORARY };

constexpr u32 MOST = 8;
constexpr u32 EVER = ~0u;

// The host: a group, and what it has decided.
struct Member {
  u64 id;
  u32 kind, policy, number;
  bool held, over;
  u32 ends;
};
Member members[MOST];
u32 n;
struct {
  u32 strategy, most, count;
  bool ended;
} group;
// Decisions whose members begin anew in place of a failure, and resets of others.
u64 anew, resets, revivals;
u64 calls[RECORDS];

void end_group(std::vector<DevMessage>& items) {
  group.ended = true;
  for (u32 i = n; i-- > 0;) if (members[i].ends == 0) items.push_back(item(ITEM_SIGNAL, ew::SIGNAL_KILL, members[i].id));
}
// A member is restarted, with those that the strategy says. Returns false if the group ends.
bool restart(u32 at, std::vector<DevMessage>& items) {
  if (group.ended) return false;
  if (group.count == group.most) {
    end_group(items);
    return false;
  }
  group.count++;
  const u32 first = group.strategy == ONE_FOR_ALL ? 0 : at, last = group.strategy == ONE_FOR_ONE ? at + 1 : n;
  for (u32 i = first; i < last; i++) {
    if (i == at || members[i].ends != 0) continue;
    items.push_back(item(ITEM_NEWS, MESSAGE_RESET, members[i].id));
    resets++;
  }
  return true;
}
void held(const DevMessage& event) {
  u32 at = 0;
  while (at < n && members[at].id != event.from) at++;
  CHECK(at < n, "%llx is no member", event.from);
  Member& member = members[at];
  CHECK(!member.over && member.ends == 0, "member %u is held, and has ended", at);
  const u32 why = (u32)event.words[0];
  CHECK(why <= HELD_FAILS, "it is held because of %u", why);
  std::vector<DevMessage> items;
  bool goes_on;
  if (control.closing != 0) {
    goes_on = false;
  } else if (why == HELD_FAILS) {
    goes_on = member.policy != TEMPORARY && restart(at, items);
    anew += goes_on;
  } else {
    goes_on = !group.ended && (member.policy == PERMANENT || (member.policy == TRANSIENT && why != ew::ENDING_STOPPED));
    if (goes_on) items.push_back(item(ITEM_REVIVE, 0, member.id)), restart(at, items), revivals++;
  }
  member.over = !goes_on;
  items.push_back(item(ITEM_HELD, why | (goes_on ? HELD_GOES_ON : 0), member.id));
  decide(items);
}

void make(u32 strategy, u32 most) {
  n = 2 + random_below(MOST - 1);
  group = {strategy, most, 0, false};
  anew = resets = revivals = 0;
  memset(calls, 0, sizeof calls), memset(replies, 0, sizeof replies);
  bounds[MEMBER] = 1 + random_below(6), bounds[CAREFUL] = 1 + random_below(6), bounds[STUBBORN] = 1 + random_below(6);
  if (KINDS > PATIENT) bounds[PATIENT] = 1 + random_below(6);
  for (u32 i = 0; i < n; i++) {
    members[i] = {};
    members[i].kind = random_below(KINDS);
    members[i].id = launch(members[i].kind, i);
  }
  for (u32 i = 0; i < n; i++) ids[i] = members[i].id;
  submit(HOST_NOTE, NOTE_KNOWN | NOTE_SUPERVISED, 0, n);
  for (u32 i = 0; i < n; i++) tell(members[i].id, LINK_TO, {members[(i + 1) % n].id});
  run_tells();
}
// Whether a call may have several messages, which fail together.
bool several() { return is_wide(FIRST + MEMBER); }
DevMember& state(u32 i) { return state_of<DevMember>(members[i].id); }
void count_ends() {
  for (const DevMessage& event : events) {
    if (event.head >> EVENT_SHIFT != EVENT_ENDED) continue;
    for (u32 i = 0; i < n; i++) members[i].ends += members[i].id == event.to;
  }
}

// A member fails while nothing else runs: which begin anew is what the strategy says.
void strategies() {
  make(random_below(3), EVER);
  submit(HOST_EVENTS, 0, 0, 0);
  run_all();
  for (u32 round = 0; round < 5; round++) {
    for (u32 i = 0; i < n; i++) tell(members[i].id, ADD, {1000}), tell(members[i].id, LINK_TO, {members[i].id});
    run_tells();
    u64 before[MOST];
    for (u32 i = 0; i < n; i++) before[i] = state(i).sum;
    const u32 at = random_below(n);
    const bool careful = members[at].kind == CAREFUL, undoes = careful || members[at].kind == PATIENT;
    // An atomic kind is restarted by itself first, once a day; then its group restarts it, with the state from before.
    u64 mail = 0;
    switch (random_below(4)) {
      case 0: signal(1, at); break;
      case 1: signal(0, at); break;
      case 2: tell(members[at].id, STOP, {}); break;
      default: mail = members[at].id;
    }
    run_tells();
    u64 own = 0;
    if (mail != 0) {
      tell(mail, FAIL, {7});
      const u64 failures = group.count;
      run_tells();
      if (group.count == failures) {
        CHECK(careful, "a failure was not reported");
        tell(mail, FAIL, {7});
        run_tells();
      }
      own = undoes ? before[at] : 0;
    }
    for (u32 i = 0; i < n; i++) {
      const bool anew = group.strategy == ONE_FOR_ALL || (group.strategy == REST_FOR_ONE && i > at);
      const u64 expected = i == at ? own : anew ? 0 : before[i];
      // What a failed handler of another kind told itself comes after its restart. A stubborn one does not know itself then.
      const u64 told = i == at && mail != 0 && !undoes ? 7 : 0;
      CHECK(state(i).sum == expected + told, "member %u of strategy %u has %llu, not %llu, after %u", i, group.strategy, state(i).sum, expected + told, at);
    }
    audit();
  }
  CHECK(control.restarts >= anew + resets, "%llu restarts", control.restarts);
}

// Members that are told to fail, stop and go on, in any order.
void survivors() {
  make(random_below(3), EVER);
  control.letters = random_below(2);
  const bool gentle = random_below(2) == 0;
  u32 places = 0;
  u64 expected[RECORDS], asks = 0, failed = 0;
  // How often a message is handled at the most: as one that is in a call with it may be.
  auto most = [&](u32 i, u64 alone) { return several() && tries_again(members[i].kind) ? 3 : alone; };
  u64 limit[RECORDS];
  if (random_below(2) == 0) {
    // The ring is full before the host takes the first event.
    for (u32 m = 0; m < 30; m++) {
      const u32 i = random_below(n);
      if (random_below(3) != 0) {
        tell(members[i].id, MONITOR, {members[0].id});
        continue;
      }
      limit[places] = expected[places] = tries_again(members[i].kind) ? 3 : 1;
      failed++;
      tell(members[i].id, FAIL_UP_TO, {places++, 9, 0});
    }
  }
  submit(HOST_EVENTS, 0, 0, 0);
  std::vector<u32> asked;
  for (u32 round = 0; round < 3; round++) {
    for (u32 m = 0; m < 30; m++) {
      const u32 i = random_below(n), fails = random_below(3) == 0 ? 1 + random_below(4) : 0;
      const u32 tries = tries_again(members[i].kind) ? 3 : 1;
      switch (random_below(8)) {
        case 0: signal(2, i), signal(3, i); break;
        case 1:
          if (!gentle && random_below(3) == 0) signal(random_below(2), i);
          break;
        case 2:
          if (!gentle && random_below(3) == 0) tell(members[i].id, random_below(2) == 0 ? STOP : FAIL_AND_STOP, {});
          break;
        case 3:
        case 4:
          expected[places] = ew::min(fails + 1, tries), limit[places] = most(i, expected[places]);
          failed += fails >= tries;
          asked.push_back(next_record);
          ask(members[i].id, FAIL_UP_TO, {places++, fails, random_below(2)}), asks++;
          break;
        default:
          expected[places] = ew::min(fails + 1, tries), limit[places] = most(i, expected[places]);
          failed += fails >= tries;
          tell(members[i].id, FAIL_UP_TO, {places++, fails, 0});
      }
      if (random_below(10) == 0) run_all();
    }
    // Members that rest go on.
    run_all();
    for (u32 i = 0; i < n; i++) signal(3, i);
    run_tells();
  }
  audit();
  count_ends();
  u64 unhandled = 0;
  for (u32 i = 0; i < places; i++) {
    const u64 seen = calls[i];
    CHECK(seen <= limit[i], "message %u was handled %llu times, not %llu", i, seen, limit[i]);
    unhandled += seen == 0;
  }
  for (u32 i = 0; i < n; i++) CHECK(members[i].ends == 0, "member %u has ended", i);
  CHECK(!group.ended, "the group has ended");
  // Each ask that was sent has an end.
  u64 refused = 0, open = 0;
  for (u32 record : asked) open += replies[record].next != ASK_ANSWERED;
  for (u32 g = 0; g < next_group; g++) refused += groups[g].value == TELL_GONE || groups[g].value == TELL_FULL;
  CHECK(open <= refused, "%llu asks have no end, and %llu were refused", open, refused);
  if (!gentle) return;
  // Asks of the host may have found a full mailbox.
  CHECK(unhandled <= open, "%llu messages were not handled, and %llu asks were refused", unhandled, open);
  CHECK(control.dead[DEAD_ENDED] == 0 && control.dead[DEAD_GONE] == 0, "%llu and %llu dead letters", control.dead[DEAD_ENDED], control.dead[DEAD_GONE]);
  CHECK(control.dead[DEAD_FAILED] + open >= failed && (several() || control.dead[DEAD_FAILED] <= failed), "%llu of %llu failed", control.dead[DEAD_FAILED], failed);
  if (open == 0) {
    for (u32 i = 0; i < places; i++) {
      CHECK(calls[i] >= expected[i] && calls[i] <= limit[i], "message %u was handled %llu times, not %llu", i, calls[i], expected[i]);
    }
  }
  CHECK(control.restarts >= anew + resets && revivals == 0, "%llu restarts", control.restarts);
}

// A group whose restarts are used up, with all policies: it ends, or what is left of it lives.
void endings() {
  make(random_below(3), random_below(4));
  for (u32 i = 0; i < n; i++) members[i].policy = random_below(3);
  submit(HOST_EVENTS, 0, 0, 0);
  const bool closes = random_below(3) == 0;
  u32 places = 0;
  for (u32 m = 0; m < 60; m++) {
    const u32 i = random_below(n);
    switch (random_below(6)) {
      case 0: tell(members[i].id, random_below(2) == 0 ? FAIL : FAIL_AND_STOP, {1}); break;
      case 1: tell(members[i].id, STOP, {}); break;
      case 2:
        if (random_below(3) == 0) signal(random_below(2), i);
        break;
      default: tell(members[i].id, FAIL_UP_TO, {places++, random_below(4), 0});
    }
    if (random_below(6) == 0) run_all();
    if (closes && m == 40) {
      // The system ends, whatever is held.
      {
        std::lock_guard<std::mutex> held(lock);
        ew::store(&control.closing, (u64)1, relaxed, gpu);
      }
      submit(HOST_CLOSE, 0, 0, SLOTS);
      run_all();
      break;
    }
  }
  run_tells();
  audit();
  CHECK(decisions.empty() && deciding == GROUPS, "decisions are left");
  count_ends();
  for (u32 i = 0; i < n; i++) {
    const DevActor& slot = slots[ew::actor_slot(members[i].id)];
    const bool lives = ew::mail_has(slot.mail, MAIL_LIVE) && slot.generation == ew::actor_generation(members[i].id);
    if (closes) {
      CHECK(!lives && members[i].ends <= 1, "member %u lives", i);
      continue;
    }
    CHECK(members[i].ends == !lives, "member %u %s, and has ended %u times", i, lives ? "lives" : "does not live", members[i].ends);
    CHECK(members[i].over == !lives, "member %u was to %s", i, lives ? "end" : "go on");
    CHECK(!group.ended || !lives, "member %u lives, and its group has ended", i);
    CHECK(lives || group.ended || members[i].policy != PERMANENT, "member %u has ended, which is permanent", i);
  }
}

void scenario(u64 number) {
  parameters[0] = (u64)calls;
  switch (number % 4) {
    case 0: return strategies();
    case 1: return endings();
    default: return survivors();
  }
}

}  // namespace
