// Scenarios of actors of the host, which a GPU lends to the host: each message is handled once and in its order, what a
// closure sends leaves in its order, and no actor is lent twice at once or forgotten.
#define LENDS
#include "world.h"

#include <algorithm>
#include <map>

namespace {

enum : u32 { AGENT, CAREFUL, HOST };
enum : u32 { ADD = 1, GET, LINK_TO, MONITOR, DEMONITOR, LINK, UNLINK, ASK_WITHIN, AFTER, EVERY, CANCEL, TICK, STOP, FAIL, PASS };
// What the closures handle: they send ticks to their agent, reply to asks, and do what this says.
enum : u32 { NUMBER = 20, PAUSES, GOES_ON, STOPS, FAILS, SIGNALS };

constexpr u32 MOST = 6;
u32 hosts;
bool in_order;
u32 resumes;
u64 host_ids[MOST], agents[MOST];

// What the host knows about an actor that it was lent.
struct Model {
  u64 last = 0, handled = 0, news = 0, sent = 0, empty = 0, wanted = 0, replied = 0, forwarded = 0, unanswered = 0, paused = 0;
  bool lent = false, ends = false, fails = false;
};
std::map<u64, Model> models;
enum class Stage { Takes, Pauses, Returns };
struct Loan {
  u64 actor;
  u32 region;
  Stage stage;
  u32 handled, items, flags;
};
std::map<u32, Loan> loans;
std::vector<u32> regions;

void lent(const DevMessage& event) {
  Model& model = models[event.from];
  CHECK(!model.lent && !model.ends, "actor %llx is lent twice, or has ended", event.from);
  CHECK(event.words[0] == HOST, "it is of kind %llu", event.words[0]);
  model.lent = true;
  CHECK(!regions.empty(), "there is a region for each actor");
  const u32 region = regions.back();
  regions.pop_back();
  loans[push(HOST_TAKE, 0, ew::Lane::pack(region, ew::actor_slot(event.from)))] = {event.from, region, Stage::Takes};
}
DevMessage& item(Loan& loan, u32 what, u32 head, u64 from, u64 to) {
  DevMessage& next = parts[loan.region * PART_RECORDS + PART_ITEM + loan.items++];
  next = {};
  next.next = what, next.head = head, next.from = from, next.to = to;
  return next;
}
// The closure: handles a message. `news`: it is no message of the mailbox.
void handle(Loan& loan, Model& model, const DevMessage& m, bool news) {
  const u32 number = (u32)(std::find(host_ids, host_ids + hosts, loan.actor) - host_ids);
  const u32 tag = m.head & 0xff, cell = m.next;
  if (news && tag == 0) model.empty++;
  if (news && tag != 0) CHECK(m.words[0] == model.news++, "news %llu come in place of %llu", m.words[0], model.news - 1);
  if (!news) loan.handled++, model.handled++;
  if (tag >= NUMBER && !news) {
    // Those of the host come in their order, which no dead letter comes between.
    CHECK(m.words[0] > model.last || !in_order, "message %llu comes after %llu", m.words[0], model.last);
    model.last = m.words[0];
  }
  for (u32 i = random_below(16) == 0 ? random_below(40) : random_below(4); i > 0; i--) {
    DevMessage& sent = item(loan, ITEM_SEND, TICK | 1u << MESSAGE_WORDS_SHIFT, loan.actor, agents[number]);
    sent.words[0] = ++model.sent;
  }
  if ((m.head & MESSAGE_ASK) != 0) {
    switch (random_below(3)) {
      case 0: {
        model.replied++;
        DevMessage& reply = item(loan, ITEM_REPLY, 7 | 2u << MESSAGE_WORDS_SHIFT | MESSAGE_REPLY, cell, 0);
        reply.words[0] = 70, reply.words[1] = 71;
        break;
      }
      case 1: model.forwarded++, item(loan, ITEM_FORWARD, 0, cell, agents[number]); break;
      default: model.unanswered++, item(loan, ITEM_REPLY, MESSAGE_REPLY | MESSAGE_FAILED | DEAD_NO_REPLY, cell, 0);
    }
  }
  if (tag == GOES_ON) loan.flags |= PART_GOES_ON, model.wanted++;
  if (tag == STOPS) loan.flags |= PART_STOPS;
  if (tag == FAILS) loan.flags |= PART_STOPS | PART_FAILED;
}
void give_back(Loan loan) {
  DevMessage& header = parts[loan.region * PART_RECORDS];
  Model& model = models[loan.actor];
  header = {};
  header.words[0] = loan.handled, header.words[1] = loan.items, header.words[2] = loan.flags, header.to = loan.actor;
  model.ends = (loan.flags & PART_STOPS) != 0, model.fails = (loan.flags & PART_FAILED) != 0;
  model.lent = false;
  loan.stage = Stage::Returns;
  loans[push(HOST_RETURN, 0, loan.region)] = loan;
}
void lent_ended(u32 group) {
  // The host waits until the turns have ended, and it has caused some before.
  if (group == resumes) push(HOST_LEAVE, 0, 0);
  auto found = loans.find(group);
  if (found == loans.end()) return;
  Loan loan = found->second;
  loans.erase(found);
  DevMessage* region = parts + loan.region * PART_RECORDS;
  if (loan.stage == Stage::Returns) return regions.push_back(loan.region);
  if (loan.stage == Stage::Pauses) return give_back(loan);
  CHECK(region->to == loan.actor, "actor %llx came in place of %llx", region->to, loan.actor);
  const u64 news = region->words[0], count = region->words[1];
  CHECK(news + count != 0 && news <= 1 && count <= PART_MESSAGES, "%llu news and %llu messages", news, count);
  Model& model = models[loan.actor];
  bool pauses = false;
  for (u32 i = news != 0 ? 0 : 1; i <= count && loan.flags == 0; i++) {
    const DevMessage& m = region[PART_MESSAGE + i];
    handle(loan, model, m, i == 0);
    pauses = (m.head & 0xff) == PAUSES;
    // Not more than there is room for; and sometimes fewer.
    if (pauses || loan.items > PART_ITEMS - 48 || random_below(16) == 0) break;
  }
  if (!pauses) return give_back(loan);
  // Before the host lets the actor go on.
  model.paused++;
  parts[loan.region * PART_RECORDS + PART_ITEM + loan.items] = {};
  DevMessage& pause = item(loan, ITEM_SIGNAL, ew::SIGNAL_PAUSE, 0, loan.actor);
  (void)pause;
  loan.stage = Stage::Pauses;
  const u32 at = --loan.items;
  loans[push(HOST_DO, 0, ew::Lane::pack(loan.region, (at + 1) << 16 | at))] = loan;
}

// As `run_tells`, and lets actors go on that have paused themselves, or their receivers.
void deliver() {
  run_tells([] {
    for (u32 k = 0; k < hosts; k++) signal(3, k), signal(3, MOST + k);
    run_all();
  });
}

void actors() {
  hosts = 1 + random_below(3);
  memset(replies, 0, sizeof replies);
  in_order = true, resumes = GROUPS;
  models.clear(), loans.clear(), regions.clear();
  for (u32 region = 0; region < SLOTS; region++) regions.push_back(region);
  bounds[AGENT] = 1 + random_below(4), bounds[HOST] = 1 + random_below(40);
  control.letters = random_below(2);
  u64 next[MOST] = {}, news_sent[MOST] = {};
  for (u32 i = 0; i < hosts; i++) host_ids[i] = launch(HOST, i), agents[i] = launch(AGENT, MOST + i);
  for (u32 i = 0; i < hosts; i++) {
    ids[i] = host_ids[i], ids[MOST + i] = agents[i];
    submit(HOST_NOTE, NOTE_KNOWN, i, 1);
    // An agent asks its own host, so that there are circles of full mailboxes.
    tell(agents[i], LINK_TO, {host_ids[i]});
  }
  run_tells();
  submit(HOST_EVENTS, 0, 0, 0);
  u64 host_asks = 0, agent_asks = 0;
  for (u32 round = 0; round < 3; round++) {
    for (u32 m = 0; m < 30; m++) {
      const u32 i = random_below(hosts);
      switch (random_below(10)) {
        case 0: tell(agents[i], ASK_WITHIN, {1, 5}); agent_asks++; break;
        case 1: ask(host_ids[i], 1, {}); host_asks++; break;
        case 2: news({message(host_ids[i], NUMBER, {news_sent[i]++})}); run_all(); break;
        case 3: signal(2, i), signal(3, i); break;
        case 4:
          if (random_below(4) == 0) signal(2, MOST + i), run_all(), signal(3, MOST + i);
          break;
        default: {
          // In their order, since each is sent when the ones before have been.
          const u32 tags[] = {NUMBER, NUMBER, NUMBER, PAUSES, GOES_ON};
          const u32 tag = tags[random_below(5)];
          tell(host_ids[i], tag, {++next[i]});
          deliver();
        }
      }
      // What has paused itself goes on.
      if (random_below(3) == 0) for (u32 k = 0; k < hosts; k++) signal(3, k);
    }
    for (u32 pass = 0; pass < 40; pass++) {
      deliver();
      for (u32 k = 0; k < hosts; k++) signal(3, k), signal(3, MOST + k);
    }
    deliver();
  }
  audit();
  CHECK(loans.empty() && regions.size() == SLOTS, "%zu actors did not come back", loans.size());
  u64 unanswered = 0;
  for (u32 i = 0; i < hosts; i++) {
    const Model& model = models[host_ids[i]];
    CHECK(model.last == next[i], "%llu of %llu messages", model.last, next[i]);
    CHECK(model.news == news_sent[i], "%llu of %llu news", model.news, news_sent[i]);
    CHECK(model.empty == model.wanted, "%llu of %llu empty messages", model.empty, model.wanted);
    const DevAgent& agent = state_of<DevAgent>(agents[i]);
    CHECK(agent.disorder == 0 && agent.ticks == model.sent, "%llu of %llu ticks, %llu in disorder", agent.ticks, model.sent, agent.disorder);
    unanswered += model.unanswered;
  }
  // Every ask has ended once: that of an agent with an event, since it has a deadline.
  u64 answers = 0, asks = 0;
  for (const DevMessage& event : events) answers += event.head >> EVENT_SHIFT == EVENT_ANSWER, asks += event.head >> EVENT_SHIFT == EVENT_ASKS;
  CHECK(answers == agent_asks && asks == agent_asks, "%llu answers to %llu asks", answers, agent_asks);
  u64 answered = 0;
  for (u32 record = 0; record < next_record; record++) answered += replies[record].next == ASK_ANSWERED;
  CHECK(answered <= host_asks, "%llu answers to %llu asks of the host", answered, host_asks);
  in_order = false;
  if (random_below(2) == 0) {
    // The host waits until it has settled, and so until each actor has come back.
    for (u32 i = 0; i < hosts; i++) signal(2, i);
    run_all();
    for (u32 m = 0; m < 10; m++) {
      const u32 i = random_below(hosts);
      tell(host_ids[i], NUMBER, {++next[i]});
    }
    run_all();
    for (u32 i = 0; i < hosts; i++) ids[i] = host_ids[i];
    leaves = true;
    {
      std::lock_guard<std::mutex> held(lock);
      resumes = push(HOST_SIGNAL, 3, ew::Lane::pack(0, hosts));
    }
    run_all();
    audit();
    for (u32 i = 0; i < hosts; i++) CHECK(!models[host_ids[i]].lent, "an actor has not come back");
    return;
  }
  // They end: some by themselves, some are killed, also while they are lent.
  for (u32 i = 0; i < hosts; i++) {
    for (u32 m = random_below(6); m > 0; m--) tell(host_ids[i], NUMBER, {++next[i]});
    switch (random_below(4)) {
      case 0: tell(host_ids[i], STOPS, {++next[i]}); break;
      case 1: tell(host_ids[i], FAILS, {++next[i]}); break;
      case 2: signal(0, i); break;
      default: signal(1, i);
    }
    if (random_below(2) == 0) run_all();
    signal(1, MOST + i);
  }
  run_all();
  // What has no room is a message of the host to an actor that ends.
  deliver();
  u64 ended[4] = {};
  for (const DevMessage& event : events) {
    if (event.head >> EVENT_SHIFT != EVENT_ENDED) continue;
    for (u32 i = 0; i < hosts; i++) {
      if (event.to != host_ids[i]) continue;
      const Model& model = models[host_ids[i]];
      ended[0]++;
      CHECK(!model.fails || event.words[0] == 1, "it has failed, and ended with %llu", event.words[0]);
      CHECK(!model.ends || model.fails || event.words[0] == 0, "it has stopped, and ended with %llu", event.words[0]);
    }
  }
  CHECK(ended[0] == hosts, "%llu of %u ends", ended[0], hosts);
  audit();
}

void scenario(u64) { actors(); }

}  // namespace
