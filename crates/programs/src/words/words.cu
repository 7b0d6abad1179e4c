#include "everwarp/files/files.cuh"

__device__ __forceinline__ bool words_space(u32 byte) { return byte == ' ' || byte - '\t' < 5u; }

// Where a piece begins, and how many bytes it and the byte before it have. False if it is after the file's end.
__device__ __forceinline__ bool words_range(const DevWordCount& p, u64 piece, u64& first, u32& before, u32& len) {
  first = piece * p.piece;
  if (first >= p.size) return false;
  before = first != 0;
  len = (u32)min(p.size - first, (u64)p.piece);
  return true;
}

__device__ __forceinline__ void words_ask(ew::Lane& t, const DevWordCount& p, u32 buffer, u64 piece) {
  u64 first;
  u32 before, len;
  if (!words_range(p, piece, first, before, len)) return;
  ew::Files files(t, p.files, FN_words_door);
  u8* to = p.bytes + (u64)buffer * p.stride;
  if (!files.read(p.handle, first - before, to, before + len, {FN_words_count, 0, buffer})) {
    t.spawn(FN_words_again, 0, buffer);
  }
}

__device__ __forceinline__ void words_go_on(ew::Lane& t, const DevWordCount& p, u32 buffer) {
  const u64 piece = ew::fetch_add(p.control, (u64)1, ew::relaxed, ew::gpu);
  ew::store(p.pieces + buffer, piece, ew::relaxed, ew::gpu);
  words_ask(t, p, buffer, piece);
}

__device__ void words_next(ew::Lane& t, const DevWordCount& p) { words_go_on(t, p, t.lo()); }

__device__ void words_again(ew::Lane& t, const DevWordCount& p) {
  words_ask(t, p, t.lo(), ew::load(p.pieces + t.lo(), ew::relaxed, ew::gpu));
}

__device__ void words_count(ew::Warp& t, const DevWordCount& p) {
  const ew::FileEnd end(t.arg());
  const u64 piece = ew::load(p.pieces + end.note, ew::relaxed, ew::gpu);
  u64 first;
  u32 before, len;
  if (!words_range(p, piece, first, before, len)) return t.fault(piece);
  if (end.error != 0 || end.value != before + len) {
    const u64 wrong = end.error != 0 ? end.error : (1ull << 32) + piece;
    if (t.lane == 0) ew::compare_exchange(p.control + 1, (u64)0, wrong, ew::relaxed, ew::gpu);
    return;
  }
  // What the host has written is read past the first-level cache.
  const u8* bytes = p.bytes + (u64)end.note * p.stride;
  u32 words = 0;
  for (u32 i = t.lane; i < len; i += 32) {
    const u32 at = i + before;
    const bool after_space = at == 0 || words_space(__ldcg(bytes + at - 1));
    words += after_space && !words_space(__ldcg(bytes + at));
  }
  words = __reduce_add_sync(0xffffffffu, words);
  if (t.lane == 0) {
    t.report_add(words);
    words_go_on(t, p, end.note);
  }
}

__device__ void words_door(ew::Warp& t, const DevWordCount& p) { ew::file_door(t, p.files, FN_words_door); }
