// Free numbers: lanes take some, and give them back, when few or none were never used. No number is in two hands, and none
// is lost. There are so many that each lane can have all that it wants.
#define OWN_TASKS
#include "world.h"

namespace {

constexpr u32 MOST = 4;
u32 hands[CELLS];
u32 refused;

void own_task(ew::Lane& t) {
  const u32 pool = t.tag() != 0 ? ACTOR_CELLS : ACTOR_SLOTS, count = t.lo();
  // Some lanes take slots as the host's launches do, several at a time.
  const bool some = pool == ACTOR_SLOTS && (t.hi() & 1) != 0;
  u32 list = 0;
  u32 first = ew::NONE, last = ew::NONE;
  for (u32 i = 0; i < count; i++) {
    u32 number;
    if (some) {
      if (list == 0) list = ew::actor_take_slots(&actors_system, count - i);
      number = list - 1;
      if (list != 0) list = *ew::actor_link(&actors_system, pool, number);
    } else number = pool == ACTOR_CELLS ? ew::actor_take<ACTOR_CELLS>(&actors_system) : ew::actor_take<ACTOR_SLOTS>(&actors_system);
    if (number == ew::NONE) {
      __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
      continue;
    }
    CHECK(number < actors_system.slot_limit, "number %u does not exist", number);
    CHECK(__atomic_fetch_add(&hands[number], 1, __ATOMIC_RELAXED) == 0, "number %u was given twice", number);
    u32* link = ew::actor_link(&actors_system, pool, number);
    if (last == ew::NONE) last = number;
    else ew::store(link, first + 1, relaxed, gpu);
    first = number;
    // Others do something meanwhile.
    for (u32 wait = (t.hi() >> i) % 8; wait != 0; wait--) ew::step();
  }
  CHECK(list == 0, "number %u was taken for nothing", list - 1);
  if (first == ew::NONE) return;
  for (u32 at = first;; at = *ew::actor_link(&actors_system, pool, at) - 1) {
    __atomic_fetch_sub(&hands[at], 1, __ATOMIC_RELAXED);
    if (at == last) break;
  }
  if (pool == ACTOR_CELLS) ew::actor_give<ACTOR_CELLS>(&actors_system, first, last);
  else ew::actor_give<ACTOR_SLOTS>(&actors_system, first, last);
}

void scenario(u64) {
  const bool of_cells = random_below(2) != 0;
  // In two out of three scenarios, not all lanes can have as many as they want at once.
  const u32 limit = LANES * MOST >> random_below(3);
  actors_system.slot_limit = actors_system.cell_limit = limit;
  refused = 0;
  memset(hands, 0, sizeof hands);
  for (u32 i = 0; i < 200; i++) submit(0, of_cells, 1 + random_below(MOST), random_below(1 << 16));
  run_all();
  std::vector<u32> seen(limit);
  const u32 pool = of_cells ? ACTOR_CELLS : ACTOR_SLOTS;
  for (u32 shard = 0; shard < ew::actor_shards(&actors_system, pool); shard++) {
    for (u32 at = (u32)*ew::actor_shard(&actors_system, pool, shard); at != 0; at = *ew::actor_link(&actors_system, pool, at - 1)) {
      CHECK(at <= limit && seen[at - 1]++ == 0, "number %u is free twice", at - 1);
    }
  }
  const u32 fresh = of_cells ? control.fresh_cells : control.fresh_slots;
  for (u32 number = 0; number < limit; number++) CHECK(number >= fresh || seen[number] == 1, "number %u is lost", number);
#ifdef COUNT_REFUSED
  if (limit == LANES * MOST && refused != 0) printf("seed %llu: %u refused of enough\n", seed, refused);
#endif
}

}  // namespace
