// Handlers of actors that are WebAssembly modules: what they use of their actor's system.
#pragma once
#include "everwarp/actor/turn.cuh"
#include "everwarp/wasm/guest.cuh"

namespace ew {
namespace wasm {

// SplitMix64 (Steele, Lea and Flood, 2014).
EW_FN u64 mixed(u64 z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}
// Calls at the same time have different numbers, and runs have different times.
EW_CALL u64 random(const DevActors* s) {
  const u64 number = fetch_add(&s->control->numbers, (u64)1, relaxed, gpu);
  return mixed(mixed(clock_ns()) + number * 0x9e3779b97f4a7c15ull);
}

// Keeps the reason of a failure for the host: the last ones of a system.
EW_CALL void failed(const DevActors* s, u64 actor, u32 kind, u32 tag, u32 trap, u32 where) {
  const u64 number = fetch_add(&s->control->failed, (u64)1, relaxed, gpu);
  u64* record = s->control->failures + 3 * (number % ACTOR_FAILURES);
  ew::store(record, actor, relaxed, gpu);
  ew::store(record + 1, (u64)kind << 32 | (trap >> 8) << 16 | tag << 8 | (trap & 0xff), relaxed, gpu);
  // Release: the record is complete. The host reads it when nothing moves, or skips one that it finds unfinished.
  ew::store(record + 2, (u64)(u32)(number + 1) << 32 | where, release, gpu);
}

}  // namespace wasm
}  // namespace ew
