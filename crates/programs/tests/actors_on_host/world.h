// The world in which scenarios run the device code of actors: tables, lanes, a host, and an audit, which looks whether every
// message, cell and slot is where it belongs. Lanes are fibers that a random schedule interleaves at each access to shared
// memory. Those of a warp run tasks of one function at a time, as in the engine, and need not stay together. Compiled with
// THREADS, each lane is a thread and a warp of its own; with TRACED, what a trace has about messages is audited, too. The unit
// defines FIRST, KINDS, STATE_BYTES and BOUNDS, and KEEPS where kinds keep asks or know their timers: where their states have the
// words of both, or NONE.
#pragma once
#include <cassert>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>
#ifndef THREADS
#include <ucontext.h>
#endif

#define CHECK(holds, ...)                                              \
  do {                                                                 \
    if (!(holds)) {                                                    \
      fprintf(stderr, "seed %llu: %s: ", (unsigned long long)seed, #holds); \
      fprintf(stderr, __VA_ARGS__);                                    \
      fputc('\n', stderr);                                             \
      show();                                                          \
      abort();                                                         \
    }                                                                  \
  } while (0)

namespace {

using ew::gpu;
using ew::relaxed;

constexpr u32 WIDTH = ew::WARP, WARPS = WIDTH == 1 ? 5 : 3;
constexpr u32 LANES = WARPS * WIDTH, GROUPS = 1 << 16, SLOTS = 64, CELLS = 4096, RECORDS = 1 << 14;
enum : u32 { HOST_TELL = KINDS, HOST_ASK, HOST_VALUE, HOST_LAUNCH, HOST_SIGNAL, HOST_ANCHOR, HOST_LEAVE, HOST_CLOSE, HOST_TELLS, HOST_EVENTS, HOST_COUNT,
             HOST_RING, HOST_NEWS, HOST_NOTE, HOST_DO, HOST_TAKE, HOST_RETURN };

void show();
u64 seed, state_of_random;
u32 random_below(u32 n) {
  state_of_random ^= state_of_random << 13, state_of_random ^= state_of_random >> 7, state_of_random ^= state_of_random << 17;
  return (u32)(state_of_random >> 11) % n;
}

DevActor slots[SLOTS];
DevMessage cells[CELLS], tells[RECORDS], replies[RECORDS];
// States, and those before a message.
alignas(16) u8 states[2 * SLOTS * STATE_BYTES];
alignas(16) u64 shards[2 * ACTOR_SHARDS * ACTOR_SHARD_STRIDE];
DevActorControl control;
DevMessage ring[ACTOR_EVENTS], parts[SLOTS * PART_RECORDS];
u64 ids[SLOTS], parameters[2];
u16 bounds[] = BOUNDS;
#ifdef KEEPS
const u32 keeps[] = KEEPS;
#endif
DevActors actors_system;
DevGroup groups[GROUPS];
u32 next_group, next_record;
u64 steps, all_steps;

// Writes what is where.
void show() {
  for (u32 number = 0; number < control.fresh_slots && number < SLOTS; number++) {
    const DevActor& slot = slots[number];
    const u32 flags = (u32)(slot.mail >> MAIL_FLAG_SHIFT) & 0xff, waits = slot.outbox_first;
    fprintf(stderr, "slot %u:", number);
    for (u32 flag = 0; flag < 8; flag++) {
      static const char* const names[] = {"live", "busy", "stop", "kill", "wait", "paused", "muted", "listed"};
      if (flags >> flag & 1) fprintf(stderr, " %s", names[flag]);
    }
    fprintf(stderr, ", %u messages, newest %u, front %u, waiters %u, next waiter %u", ew::mail_count(slot.mail),
            ew::mail_cell(slot.mail), slot.front, slot.waiters, slot.wait_next);
    if (waits != 0) fprintf(stderr, ", waits for slot %u", ew::actor_slot(cells[waits - 1].to));
    fputc('\n', stderr);
  }
}

// Tasks that may run, and how many have been queued and have not ended.
std::mutex lock;
std::vector<DevTask> tasks;
u32 unfinished;

// Of the running warp: what its lanes have queued, which runs once the batch has ended.
thread_local std::vector<DevTask> queued;
// Of the running warp as a thread, or of each.
thread_local ew::Shared memories[WARPS];

// The host's wait for events, and what it has taken.
u32 events_group;
std::vector<DevMessage> events;

#ifdef LENDS
// The host is lent an actor; a submission of the host has ended that is about one.
void lent(const DevMessage& event);
void lent_ended(u32 group);
#endif
#ifdef HOLDS
// An actor is held until the host has decided.
void held(const DevMessage& event);
// The host's decisions, as items; one is carried out after the other.
std::deque<std::vector<DevMessage>> decisions;
u32 deciding;
#endif

// With the lock. Returns the group of the submission.
u32 push(u32 fn, u32 tag, u64 argument) {
  const u32 group = next_group++;
  assert(group < GROUPS);
  groups[group].pending = 1;
  if (fn == HOST_EVENTS) events_group = group;
  tasks.push_back({FIRST + fn | tag << TASK_TAG_SHIFT, group, argument});
  unfinished++;
  return group;
}
void submit(u32 fn, u32 tag, u32 lo, u32 hi) {
  std::lock_guard<std::mutex> held(lock);
  push(fn, tag, ew::Lane::pack(lo, hi));
}
#ifdef HOLDS
// With the lock.
void next_decision() {
  if (deciding != GROUPS || decisions.empty()) return;
  const std::vector<DevMessage>& items = decisions.front();
  for (u32 i = 0; i < items.size(); i++) parts[PART_ITEM + i] = items[i];
  deciding = push(HOST_DO, 0, ew::Lane::pack(0, (u32)items.size() << 16));
  decisions.pop_front();
}
void decide(const std::vector<DevMessage>& items) {
  decisions.push_back(items);
  next_decision();
}
DevMessage item(u32 what, u32 head, u64 to) {
  DevMessage made{};
  made.next = what, made.head = head, made.to = to;
  return made;
}
#endif
// A submission has ended. If there are events, the host takes them and waits again.
void ended(u32 group) {
#ifdef LENDS
  if (group != events_group) lent_ended(group);
#endif
#ifdef HOLDS
  if (group == deciding) {
    deciding = GROUPS;
    next_decision();
  }
#endif
  if (group != events_group) return;
  const u64 count = groups[group].value;
  for (u64 i = 0; i < count; i++) {
    const DevMessage& event = ring[events.size() % ACTOR_EVENTS];
    CHECK(event.next == (u32)events.size() + 1, "event %zu is not complete", events.size());
    events.push_back(event);
#ifdef LENDS
    if (event.head >> EVENT_SHIFT == EVENT_LENT) lent(event);
#endif
#ifdef HOLDS
    if (event.head >> EVENT_SHIFT == EVENT_HELD) held(event);
#endif
  }
  push(HOST_EVENTS, 0, events.size());
}

#ifdef OWN_TASKS
// The scenario has tasks of its own, and no host.
void own_task(ew::Lane& t);
#endif

// What a task leaves to be counted.
struct Outcome {
  u32 group, delta;
};
Outcome run(const DevTask& task) {
  ew::Lane t{task};
#ifdef OWN_TASKS
  own_task(t);
#else
  dispatch(ew::fn_of(task.head), t, actors_system);
#endif
  CHECK(t.broken == 0, "function %u broke rule %u", ew::fn_of(task.head) - FIRST, t.broken);
  return {task.group, t.delta};
}
// Groups that have ended; and whether that of the turns may.
std::vector<bool> over(GROUPS);
bool leaves;
// What a batch of the engine does at its end.
void finish(const std::vector<Outcome>& batch) {
  for (const Outcome& done : batch) {
    const u32 left = ew::fetch_add(&groups[done.group].pending, done.delta - 1, ew::acq_rel, gpu) + done.delta - 1;
    CHECK(left < 1u << 30, "group %u has ended twice", done.group);
    std::lock_guard<std::mutex> held(lock);
    // A task that holds its group does not change the count.
    if (left != 0 || done.delta == 1) continue;
    CHECK(!over[done.group], "group %u has ended twice", done.group);
    over[done.group] = true;
    ended(done.group);
  }
  std::lock_guard<std::mutex> held(lock);
  unfinished += (u32)queued.size() - (u32)batch.size();
  tasks.insert(tasks.end(), queued.begin(), queued.end());
  queued.clear();
}

bool take(DevTask& task, u32 at) {
  std::lock_guard<std::mutex> held(lock);
  if (tasks.empty()) return false;
  at %= tasks.size();
  task = tasks[at];
  tasks.erase(tasks.begin() + at);
  return true;
}

#ifdef THREADS

void run_all() {
  std::vector<std::thread> lanes;
  for (u32 lane = 0; lane < LANES; lane++) {
    lanes.emplace_back([lane] {
      threadIdx.x = lane;
      DevTask task;
      while (true) {
        if (take(task, 0)) { finish({run(task)}); continue; }
        std::lock_guard<std::mutex> held(lock);
        if (unfinished == 0) return;
      }
    });
  }
  for (auto& lane : lanes) lane.join();
}

#else

ucontext_t scheduler;
enum class At { End, Runs, Mask, Sync };
struct LaneState {
  ucontext_t context;
  std::vector<char> stack;
  At at = At::End;
  DevTask task;
  Outcome outcome;
  const char* site;
  u32 mask;
  u64 value;
  ew::Values all;
};
LaneState lanes[LANES];
struct Warp {
  u32 width = 0;  // lanes of its batch; the fibers of others rest
  bool together = false;  // its lanes run one task
  std::vector<DevTask> queued;
  u64 weight;
};
Warp warps[WARPS];
u32 running;

void lane_main() {
  while (true) {
    LaneState& own = lanes[running];
    own.outcome = run(own.task);
    own.at = At::End;
    swapcontext(&own.context, &scheduler);
  }
}

// Takes a batch: tasks of one function, mostly the oldest.
void take_batch(Warp& warp, LaneState* own) {
  std::lock_guard<std::mutex> held(lock);
  if (tasks.empty()) return;
  u32 at = random_below(4) == 0 ? random_below((u32)tasks.size()) : 0;
  const u32 head = tasks[at].head, most = 1 + random_below(WIDTH);
  warp.together = is_wide(ew::fn_of(head));
  if (warp.together) {
    for (; warp.width < WIDTH; warp.width++) own[warp.width].task = tasks[at], own[warp.width].at = At::Runs;
    tasks.erase(tasks.begin() + at);
    return;
  }
  while (warp.width < most && at < tasks.size()) {
    if (tasks[at].head != head) { at++; continue; }
    own[warp.width].task = tasks[at];
    own[warp.width].at = At::Runs;
    warp.width++;
    tasks.erase(tasks.begin() + at);
  }
}

// Lets lanes go on that are at one site and ask which lanes are together: with the chosen one some of the others, or all.
void part(LaneState* own, u32 width, u32 chosen) {
  u32 mask = 1u << chosen;
  const bool all = random_below(4) != 0;
  for (u32 i = 0; i < width; i++) {
    if (own[i].at == At::Mask && own[i].site == own[chosen].site && (all || random_below(2) == 0)) mask |= 1u << i;
  }
  for (u32 i = 0; i < width; i++) if (mask >> i & 1) own[i].mask = mask, own[i].at = At::Runs;
}

// Lets a lane of the warp go on, if there is one.
void step_warp(u32 number) {
  Warp& warp = warps[number];
  LaneState* own = lanes + number * WIDTH;
  if (warp.width == 0) take_batch(warp, own);
  if (warp.width == 0) return;
  u32 ready[WIDTH], count = 0, masks[WIDTH], asking = 0;
  for (u32 i = 0; i < warp.width; i++) {
    if (own[i].at == At::Runs) ready[count++] = i;
    if (own[i].at == At::Mask) masks[asking++] = i;
  }
  // Mostly once no other lane can come there.
  if (asking != 0 && (count == 0 || random_below(16) == 0)) part(own, warp.width, masks[random_below(asking)]);
  else {
    CHECK(count != 0, "the lanes of a warp wait for each other");
    const u32 chosen = ready[random_below(count)];
    running = number * WIDTH + chosen;
    threadIdx.x = number * ew::WARP + chosen;
    queued.swap(warp.queued);
    swapcontext(&scheduler, &own[chosen].context);
    queued.swap(warp.queued);
  }
  for (u32 i = 0; i < warp.width; i++) if (own[i].at != At::End) return;
  std::vector<Outcome> batch;
  for (u32 i = 0; i < warp.width; i++) {
    if (i == 0 || !warp.together) batch.push_back(own[i].outcome);
    else batch[0].delta += own[i].outcome.delta;
  }
  warp.width = 0;
  queued.swap(warp.queued);
  finish(batch);
  queued.swap(warp.queued);
}

void run_all() {
  for (u64 begin = steps; unfinished != 0; steps++) {
    CHECK(steps - begin < 4'000'000, "it does not end: %u tasks", unfinished);
    // Now and then some warps become slow and others fast, so that one stands still while others do much.
    if (steps % 64 == 0) for (Warp& warp : warps) warp.weight = random_below(4) == 0 ? 1 : random_below(3) == 0 ? 60 : 8;
    u64 all = 0;
    for (const Warp& warp : warps) all += warp.weight;
    u64 at = random_below((u32)all), number = 0;
    while (at >= warps[number].weight) at -= warps[number++].weight;
    step_warp((u32)number);
  }
}

void prepare_lanes() {
  for (LaneState& lane : lanes) {
    lane.stack.resize(1 << 16);
    getcontext(&lane.context);
    lane.context.uc_stack.ss_sp = lane.stack.data();
    lane.context.uc_stack.ss_size = lane.stack.size();
    makecontext(&lane.context, lane_main, 0);
  }
}

#endif

// The host.

u64 launch(u32 kind, u32 at) {
  submit(HOST_LAUNCH, kind, at, 1);
  run_all();
  return ids[at];
}
// Launches some at a time. Their ids are the first ones, 0 where there is no slot.
void launch_all(u32 kind, u32 count) {
  for (u32 at = 0; at < count;) {
    const u32 some = 1 + random_below(count - at);
    submit(HOST_LAUNCH, kind, at, some);
    at += some;
  }
  run_all();
}
DevMessage message(u64 to, u32 tag, std::initializer_list<u64> words) {
  DevMessage m{};
  m.head = tag | (u32)words.size() << MESSAGE_WORDS_SHIFT;
  m.to = to;
  u32 i = 0;
  for (u64 word : words) m.words[i++] = word;
  return m;
}
// Messages that were told together, and where their statuses are.
struct Told {
  std::vector<DevMessage> messages;
  const u32* statuses;
};
std::vector<Told> all_told;

// The host's messages, in their order: those to one actor are next to each other. Parts that all have in common have a column now and then.
void tell_all(const std::vector<DevMessage>& messages) {
  const u32 rows = (u32)messages.size();
  DevTells* const header = (DevTells*)&tells[next_record];
  *header = {rows, messages[0].head, 0, (rows + 1) / 2 * 2, {}, 0};
  u64* column = (u64*)(header + 1);
  for (u32 i = 0; i < rows; i++) column[i] = messages[i].to;
  column += header->stride;
  for (u32 part = 0; part <= MESSAGE_WORDS; part++) {
    auto value = [&](u32 i) { return part == MESSAGE_WORDS ? messages[i].head : messages[i].words[part]; };
    bool same = true;
    for (u32 i = 0; i < rows; i++) same &= value(i) == value(0);
    if (same && random_below(2) == 0) {
      if (part < MESSAGE_WORDS) header->words[part] = value(0);
      continue;
    }
    header->columns |= 1u << part;
    for (u32 i = 0; i < rows; i++) column[i] = value(i);
    column += header->stride;
  }
  memset(column, 0, header->stride * sizeof(u32));
  all_told.push_back({messages, (const u32*)column});
  for (u32 row = 0; row < rows; row += TELL_ROWS) submit(HOST_TELLS, 0, next_record, row);
  next_record += 1 + (u32)(((u8*)(column + header->stride / 2) - (u8*)(header + 1) + sizeof(DevMessage) - 1) / sizeof(DevMessage));
  assert(next_record < RECORDS);
}
void tell(u64 to, u32 tag, std::initializer_list<u64> words) { tell_all({message(to, tag, words)}); }
// Sends again what did not fit, until all has been sent. `let_in` is called before each time.
template <class F>
void run_tells(F let_in) {
  run_all();
  for (u32 told = 0; told < all_told.size(); told++) {
    std::vector<DevMessage> full;
    for (u32 i = 0; i < all_told[told].messages.size(); i++) {
      if (all_told[told].statuses[i] == TELL_FULL) full.push_back(all_told[told].messages[i]);
    }
    if (full.empty()) continue;
    let_in();
    tell_all(full);
    run_all();
  }
  all_told.clear();
}
void run_tells() { run_tells([] {}); }
void ask(u64 to, u32 tag, std::initializer_list<u64> words) {
  replies[next_record] = message(to, tag, words);
  submit(HOST_ASK, 0, next_record++, 0);
}
// News, in their order.
void news(std::initializer_list<DevMessage> messages) {
  const u32 first = next_record;
  for (const DevMessage& message : messages) tells[next_record++] = message;
  submit(HOST_NEWS, 0, first, (u32)messages.size());
}
void signal(u32 which, u32 slot) { submit(HOST_SIGNAL, which, slot, 1); }

template <class S>
S& state_of(u64 id) { return *(S*)(states + ew::actor_slot(id) * STATE_BYTES); }

#ifdef TRACED
// What a trace has about the messages of each cell, in their order: whether one was sent there or taken.
std::vector<bool> traced[CELLS];
u64 all_taken;

// A message that was taken is the one that was sent in its cell last. One that was sent and not taken is a dead letter, the host
// has it, or it waits.
void audit_trace() {
  for (u32 cell = 0; cell < CELLS; cell++) {
    bool sent = false;
    for (bool taken : traced[cell]) {
      CHECK(!taken || sent, "the message that was taken from cell %u was not sent there", cell);
      sent = !taken;
      all_taken += taken;
    }
    traced[cell].clear();
  }
}
#endif

// Nothing runs: every cell and every slot is in exactly one place. `over`: nothing waits either.
void audit(bool over = true) {
  std::vector<u32> cell_seen(CELLS), slot_seen(SLOTS);
  const u32 fresh_cells = ew::min(control.fresh_cells, CELLS), fresh_slots = ew::min(control.fresh_slots, SLOTS);
  for (u32 shard = 0; shard < ew::actor_shards(&actors_system, ACTOR_CELLS); shard++) {
    for (u32 at = (u32)*ew::actor_shard(&actors_system, ACTOR_CELLS, shard), n = 0; at != 0; at = cells[at - 1].next) {
      CHECK(n++ <= CELLS, "the free cells are a circle");
      CHECK(cell_seen[at - 1]++ == 0, "cell %u is free twice", at - 1);
    }
  }
  for (u32 shard = 0; shard < ACTOR_SHARDS; shard++) {
    for (u32 at = (u32)*ew::actor_shard(&actors_system, ACTOR_SLOTS, shard), n = 0; at != 0; at = slots[at - 1].wait_next) {
      CHECK(n++ <= SLOTS, "the free slots are a circle");
      CHECK(slot_seen[at - 1]++ == 0, "slot %u is free twice", at - 1);
      CHECK(!ew::mail_has(slots[at - 1].mail, MAIL_LIVE), "the actor in slot %u lives, and the slot is free", at - 1);
    }
  }
  for (u32 number = 0; number < fresh_slots; number++) {
    const DevActor& slot = slots[number];
    const bool lives = ew::mail_has(slot.mail, MAIL_LIVE);
    bool has_news = false;
    for (u32 at = slot.notes >> NOTE_BITS; at != 0; at = cells[at - 1].next) {
      CHECK(cell_seen[at - 1]++ == 0, "cell %u is in two places, now with the news of slot %u", at - 1, number);
      has_news |= cells[at - 1].to == ew::actor_id(number, slot.generation);
    }
    const bool rests = ew::mail_has(slot.mail, MAIL_PAUSED | MAIL_MUTED);
    CHECK(!lives || !has_news || rests, "slot %u does not handle its news", number);
    CHECK(lives + slot_seen[number] == 1, "slot %u is lost", number);
    if (!lives) continue;
    u32 waiting = 0;
    for (u32 list : {ew::mail_cell(slot.mail), slot.front, slot.outbox_first}) {
      for (u32 at = list; at != 0; at = cells[at - 1].next) {
        CHECK(cell_seen[at - 1]++ == 0, "cell %u is in two places, now with slot %u", at - 1, number);
        if (list != slot.outbox_first) waiting++;
      }
    }
#ifdef KEEPS
    // What the actor keeps.
    if (keeps[slot.kind] != ew::NONE) {
      const u8* own = states + number * STATE_BYTES + keeps[slot.kind];
      u32 asks = 0, timers = 0;
      for (u32 which = ew::KEPT_ASKS; which <= ew::KEPT_TIMERS; which += ew::KEPT_TIMERS) {
        for (u32 at = ew::kept_first(ew::kept_lists(own), which); at != 0; at = cells[at - 1].next) {
          CHECK(cell_seen[at - 1]++ == 0, "cell %u is in two places, now kept by slot %u", at - 1, number);
          CHECK((cells[at - 1].head & (KEPT_MARKED | KEPT_LOST)) == 0, "cell %u of slot %u is marked: %x", at - 1, number, cells[at - 1].head);
          (which == ew::KEPT_ASKS ? asks : timers)++;
        }
      }
      CHECK(asks == ew::kept_asks(own) && timers == ew::kept_timers(own), "slot %u keeps %u asks and %u timers", number, asks, timers);
    }
#endif
    CHECK(waiting == ew::mail_count(slot.mail), "slot %u holds %u messages and counts %u", number, waiting, ew::mail_count(slot.mail));
    const bool muted = ew::mail_has(slot.mail, MAIL_MUTED);
    CHECK(muted == (slot.outbox_first != 0) && muted == ew::mail_has(slot.mail, MAIL_BUSY), "slot %u rests with mail %llx", number, slot.mail);
    CHECK(waiting == 0 || muted || ew::mail_has(slot.mail, MAIL_PAUSED), "slot %u does not handle its messages", number);
  }
  for (u32 cell = 0; cell < fresh_cells; cell++) CHECK(cell_seen[cell] == 1, "cell %u is lost", cell);
  const u32 world = (u32)control.world;
  CHECK(groups[world].pending == !leaves, "%u turns are counted, and none runs", groups[world].pending - !leaves);
  for (u32 group = 0; over && group < next_group; group++) {
    const bool waits = group == world || group == events_group;
    CHECK(waits || groups[group].pending == 0, "a submission has not ended");
  }
}

// Kills every actor, which leaves none.
void end_all() {
  for (u32 i = 0; i < control.fresh_slots && i < SLOTS; i++) {
    ids[0] = ew::actor_id(i, ew::meta_generation(*ew::actor_meta(&slots[i])));
    signal(1, 0);
    run_all();
  }
  audit();
  for (u32 i = 0; i < control.fresh_slots && i < SLOTS; i++) {
    CHECK(!ew::mail_has(slots[i].mail, MAIL_LIVE), "slot %u was killed and lives", i);
  }
}

void begin(u64 number) {
  seed = number;
  state_of_random = number * 0x9e3779b97f4a7c15 + 1;
  memset(slots, 0, sizeof slots), memset(states, 0, sizeof states), memset(shards, 0, sizeof shards);
  memset(&control, 0, sizeof control), memset(groups, 0, sizeof(DevGroup) * (next_group + 1));
  next_group = next_record = 0, leaves = false;
  all_told.clear();
  std::fill(over.begin(), over.end(), false);
#ifdef HOLDS
  decisions.clear(), deciding = GROUPS;
#endif
  events.clear(), events_group = GROUPS, memset(ring, 0, sizeof ring);
  all_steps += steps, steps = 0;
  // Whatever a cell held before.
  memset(cells, 0xa5, sizeof cells);
#ifndef OWN_TASKS
  submit(HOST_ANCHOR, 0, 0, 0);
  run_all();
#endif
}

void scenario(u64 number);

}  // namespace

thread_local ew::Index ew::threadIdx;
ew::Tables ew::everwarp_tables{groups};
ew::Shared& ew::shared() { return memories[threadIdx.x / WARP]; }
void ew::append(LocalQueue&, const DevTask& task) { queued.push_back(task); }
#ifdef TRACED
void ew::trace_sends(const DevMessage* cell) { traced[cell - cells].push_back(false); }
void ew::trace_takes(const DevMessage* cell) {
  if (cell != nullptr) traced[cell - cells].push_back(true);
}
#endif
#ifdef THREADS
u32 ew::lanes_room(u32, u32 most) { return most; }
void ew::step() {}
u32 ew::lane_id() { return 0; }
u32 ew::lanes_together(const char*) { return 1; }
ew::Values ew::lanes_exchange(const char*, u32, u64 value) { return {{value}}; }
#else
// A warp's queue may have less room than for all that a call spawns; one place of it is for a continuation.
u32 ew::lanes_room(u32 least, u32 most) {
  return least == 0 || least > most ? most : least - 1 + random_below(most - least + 2);
}
// Outside of `run_all` the host reads what lanes have written.
static bool in_lane() { return lanes[running].at != At::End; }
static void rest() { swapcontext(&lanes[running].context, &scheduler); }
void ew::step() {
  if (in_lane()) rest();
}
u32 ew::lane_id() { return running % WIDTH; }
u32 ew::lanes_together(const char* site) {
  LaneState& own = lanes[running];
  own.site = site, own.at = At::Mask;
  rest();
  return own.mask;
}
ew::Values ew::lanes_exchange(const char* site, u32 mask, u64 value) {
  const u32 first = running / WIDTH * WIDTH;
  LaneState& own = lanes[running];
  CHECK(mask >> lane_id() & 1, "a lane at %s is not in its own mask", site);
  own.site = site, own.mask = mask, own.value = value, own.at = At::Sync;
  bool all = true;
  for (u32 i = 0; i < WIDTH; i++) {
    const LaneState& other = lanes[first + i];
    if ((mask >> i & 1) == 0) continue;
    CHECK(other.at != At::End, "at %s a lane waits for one that has ended", site);
    all &= other.at == At::Sync && other.site == site && other.mask == mask;
  }
  if (!all) rest();
  else {
    Values values{};
    for (u32 i = 0; i < WIDTH; i++) if (mask >> i & 1) values.of[i] = lanes[first + i].value;
    for (u32 i = 0; i < WIDTH; i++) if (mask >> i & 1) lanes[first + i].all = values, lanes[first + i].at = At::Runs;
  }
  return own.all;
}
#endif

// `lanes SEED COUNT`
int main(int, char** arguments) {
  actors_system = {slots, cells, states, shards, &control, tells, replies, ids, parameters, SLOTS, CELLS, STATE_BYTES, KINDS, bounds, 0, ring, parts, 0};
#ifndef THREADS
  prepare_lanes();
#endif
  const u64 first = strtoull(arguments[1], nullptr, 10), count = strtoull(arguments[2], nullptr, 10);
  for (u64 number = first; number < first + count; number++) {
    begin(number);
    scenario(number);
#ifdef TRACED
    audit_trace();
#endif
  }
#ifdef TRACED
  CHECK(all_taken > count, "%llu messages were taken in %llu scenarios", all_taken, (unsigned long long)count);
#endif
#ifndef THREADS
  printf("%llu scenarios, %llu steps\n", (unsigned long long)count, (unsigned long long)(all_steps + steps));
#else
  printf("%llu scenarios\n", (unsigned long long)count);
#endif
}
