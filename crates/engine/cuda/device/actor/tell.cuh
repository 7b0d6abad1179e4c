// Messages of the host to actors, which crates/actor/src/near.rs writes as columns (see `DevTells`). A task of warp shape delivers
// some rows, one in each lane; those to one actor are next to each other, and change its word together.
//
// Which rows are a task's, it finds out itself. It leaves rows at its beginning to the task before, as long as they are to the actor of
// the row before, and delivers those behind its end that are to the actor of its last row. So no actor has messages from two tasks.
//
// Columns are read by plain loads: the host has written them before it has submitted the task. Loads with the scope of the system
// would each be a request over the bus, also those of neighbouring lanes.
#pragma once
#include "everwarp/actor/turn.cuh"

namespace ew {

// The number of the function after those of the kinds.
constexpr u32 ACTOR_HOST_TELLS = 8;

// `tag` of a task: it goes on with rows to the actor of the row before.
constexpr u32 TELL_GOES_ON = 1;
// That actor's mailbox was full.
constexpr u32 TELL_STAYS = 2;

static_assert(TELL_ROWS % WARP == 0, "a task begins with a row of the first lane");
static_assert(sizeof(DevTells) == sizeof(DevMessage), "a header has the place of a record");

struct ActorRun {
  u32 sent;   // SENT_DELIVERED or SENT_ACTIVATE | kind << 8 for one or more messages, or what became of the first one
  u32 count;  // how many of the run's messages the mailbox has
};
// Sends messages of lanes, in cells `at`. Of neighbouring lanes whose messages are to one actor, the first has how many they are, and the
// others have a `count` of 0. Each message is linked to the one before it. All lanes call it together.
EW_CALL ActorRun actor_send_runs(const DevActors* s, u64 to, u32 at, u32 count) {
  const u32 lane = lane_id();
  DevActor* slot = s->slots + actor_slot(to);
  ActorRun run{SENT_GONE, 0};
  u64 seen = 0, meta = 0;
  bool tries = count != 0 && actor_named(s->slot_limit, to);
  if (tries) load_pair(&slot->mail, seen, meta, relaxed, gpu);
  // What the lanes have written, before the first one of them sends it.
  __syncwarp(ALL);
#pragma unroll 1
  while (__any_sync(ALL, tries)) {
    run.count = tries ? min(count, actor_room(seen, meta, actor_generation(to))) : run.count;
    const u32 newest = __shfl_sync(ALL, at, lane + run.count - 1);
    if (!tries) continue;
    if (run.count == 0) {
      run.sent = actor_accepts(seen, meta, actor_generation(to)) ? SENT_FULL : SENT_GONE;
      tries = false;
      continue;
    }
    const bool rests = mail_has(seen, MAIL_PAUSED) && !mail_has(seen, MAIL_BUSY);
    u64 next = (seen & ~(u64)((1u << MAIL_CELL_BITS) - 1) | (newest + 1)) + ((u64)run.count << MAIL_COUNT_SHIFT);
    if (!rests) next |= mail_flag(MAIL_BUSY);
    store(&s->cells[at].next, mail_cell(seen), relaxed, gpu);
    // Release: the messages, to the turn that takes them.
    const u64 now = compare_exchange(&slot->mail, seen, next, release, gpu);
    if (now == seen) {
      run.sent = rests || mail_has(seen, MAIL_BUSY) ? SENT_DELIVERED : SENT_ACTIVATE | meta_kind(meta) << 8;
      tries = false;
      continue;
    }
    seen = now;
    meta = load(actor_meta(slot), relaxed, gpu);
  }
  return run;
}

// The message in a row goes into a cell, but for its link. All loads are on their way over the bus before the first is needed.
EW_CALL u32 actor_copy_row(const DevActors* s, const DevTells* told, u32 row) {
  const u32 columns = told->columns, stride = told->stride;
  const u64* const ids = (const u64*)(told + 1);
  u64 words[MESSAGE_WORDS];
#pragma unroll
  for (u32 i = 0; i < MESSAGE_WORDS; i++) {
    const u64 before = __popc(columns & ((1u << i) - 1));
    words[i] = *(columns >> i & 1 ? ids + (before + 1) * stride + row : told->words + i);
  }
  const u32 head = columns >> MESSAGE_WORDS != 0 ? (u32)ids[(u64)__popc(columns) * stride + row] : told->head;
  const u32 at = actor_take<ACTOR_CELLS>(s);
  if (at == NONE) return at;
  DevMessage* to = s->cells + at;
  store(&to->head, head, relaxed, gpu);
  store(&to->from, (u64)0, relaxed, gpu);
  store_pair(to->words, words[0], words[1], relaxed, gpu);
  store_pair(to->words + 2, words[2], words[3], relaxed, gpu);
  store(to->words + 4, words[4], relaxed, gpu);
  trace_sends(to);
  return at;
}

// Writes the status of a row.
EW_CALL void actor_not_delivered(const DevTells* told, u32 row, u32 status) {
  const u32 columns = told->columns, stride = told->stride;
  store((u32*)((u64*)(told + 1) + (u64)(1 + __popc(columns)) * stride) + row, status, relaxed, sys);
  // Before the completion that says how many there are.
  fence(acq_rel, sys);
}

// Delivers rows of the header in record `lo`, from row `hi` on. The first that does not fit keeps the later ones to its actor back.
// Reports how many were not delivered.
EW_FN void actor_host_tells(Warp& t, const DevActors& system, u32 base) {
  ActorTask h(t, system, base);
  const u32 lane = lane_id(), first = t.hi();
  const DevTells* const told = (const DevTells*)(system.tells + t.lo());
  const u64* const ids = (const u64*)(told + 1);
  const bool goes_on = (t.tag() & TELL_GOES_ON) != 0;
  // Whether rows to the actor of the row before are another task's, and whether its mailbox was full.
  bool skips = first != 0 && !goes_on, stays = (t.tag() & TELL_STAYS) != 0;
#pragma unroll 1
  for (u32 row = first;; row += WARP) {
    // How many there are, each time, because registers are too few; and an id before it is known whether there is one.
    const u32 rows = told->rows;
    const u64 id = ids[row + lane];
    const bool behind = goes_on || row - first >= TELL_ROWS;
    if (row >= rows || (behind && skips)) break;
    if (row - first >= (goes_on ? 0 : TELL_ROWS) + TELL_MORE * WARP) {
      // Not by `spawn`, which takes more registers than there are.
      const u32 head = t.head(fn_of(t.task.head), TELL_GOES_ON | (stays ? TELL_STAYS : 0), priority_of(t.task.head));
      if (lane == 0) t.delta++, actor_queue(head, t.task.group, Lane::pack(t.lo(), row));
      break;
    }
    const bool there = row + lane < rows;
    const u64 to = there ? id : 0;
    const u64 last = row != 0 ? ids[row - 1] : 0;
    // Lanes from the first on whose rows are to the actor of the row before.
    const u32 others = ~__ballot_sync(ALL, there && to == last) & ALL;
    const u32 alike = others == 0 ? WARP : __ffs(others) - 1;
    const bool mine = there && (behind ? lane < alike : !skips || lane >= alike);
    skips = skips && alike == WARP;
    const u32 some = __ballot_sync(ALL, mine);
    if (some == 0) {
      if (behind) break;
      continue;
    }
    const bool sends = mine && !(stays && lane < alike);
    const u32 at = sends ? actor_copy_row(&system, told, row + lane) : NONE;
    if (__any_sync(ALL, sends && at == NONE)) {
      if (lane == 0) h.fault(ACTOR_FAULT_CELLS);
      return;
    }
    const u32 sending = __ballot_sync(ALL, sends);
    const u32 before = __shfl_sync(ALL, at, lane - 1);
    const u64 to_before = __shfl_sync(ALL, to, lane - 1);
    const bool begins = sends && (lane == 0 || (sending >> (lane - 1) & 1) == 0 || to_before != to);
    if (sends && !begins) store(&system.cells[at].next, before + 1, relaxed, gpu);
    // The lanes up to this one.
    const u32 up_to = (2u << lane) - 1, beginnings = __ballot_sync(ALL, begins), next = beginnings & ~up_to;
    const u32 end = next != 0 ? __ffs(next) - 1 : WARP - __clz(sending << (32 - WARP));
    const ActorRun run = actor_send_runs(&system, to, at, begins ? end - lane : 0);
    const u32 from = sends ? 31 - __clz(beginnings & up_to) : lane;
    const bool gone = __shfl_sync(ALL, run.sent, from) == SENT_GONE;
    const bool fits = lane - from < __shfl_sync(ALL, run.count, from);
    if (sends && !fits) actor_give<ACTOR_CELLS>(&system, at, at);
    if (mine && !(sends && fits)) {
      actor_not_delivered(told, row + lane, sends && gone ? TELL_GONE : TELL_FULL);
      t.report_add(1);
    }
    const bool starts = begins && (run.sent & 0xff) == SENT_ACTIVATE;
    const u32 turns = __popc(__ballot_sync(ALL, starts));
    if (turns != 0) {
      const u32 world = h.world();
      // The count is in place before another warp can finish a turn.
      if (lane == 0) add(&everwarp_tables.groups[world].pending, turns, relaxed, gpu);
      __syncwarp(ALL);
      if (starts) h.queue(base + (run.sent >> 8), world, Lane::pack(actor_slot(to), TURN_FRESH));
    }
    const u32 latest = 31 - __clz(some);
    stays = __any_sync(ALL, lane == latest && !(sends && (fits || gone)));
    if (behind && some != ALL) break;
  }
}

}  // namespace ew
