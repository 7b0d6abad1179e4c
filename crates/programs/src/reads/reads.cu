#include "everwarp/files/files.cuh"

// What the file has as its words.
__device__ __forceinline__ u64 reads_word(u64 number) { return number * 0x9e3779b97f4a7c15ull + 0x5bd1e995ull; }

__device__ __forceinline__ u32 reads_note(const DevReads& p, u32 slot, u32 left) { return slot * (p.steps + 1) + left; }

// A random number below a power of two.
__device__ __forceinline__ u64 reads_choice(const DevReads& p, u32 slot, u32 left, u64 count) {
  return programs_mix((u64)p.seed << 48 ^ (u64)slot << 24 ^ left) & (count - 1);
}

// The page of a step: a random one, or the next one of the slot's part of the file.
__device__ __forceinline__ u64 reads_page(const DevReads& p, u32 slot, u32 left, u32 tag) {
  return (tag & 1) != 0 ? (u64)slot * p.steps + (p.steps - left) : reads_choice(p, slot, left, p.words / READS_WORDS);
}

// Whether a page begins and ends with what the file has there.
__device__ __forceinline__ bool reads_right(const u64* words, u64 page) {
  const u64 first = page * READS_WORDS;
  return __ldcg(words) == reads_word(first) && __ldcg(words + READS_WORDS - 1) == reads_word(first + READS_WORDS - 1);
}

__device__ __forceinline__ void reads_error(ew::Lane& t, u32 error) { t.report_add((u64)error << 48); }

__device__ __forceinline__ u8* reads_piece(const DevReads& p, u32 slot) { return p.bytes + (u64)slot * READS_PAGE; }

__device__ void reads_ask(ew::Lane& t, const DevReads& p) {
  const u32 slot = t.lo(), left = t.hi();
  if (left == 0) return;
  ew::Files files(t, p.files, FN_reads_door);
  files.in_class(t.tag() >> 1);
  ew::store(p.began + slot, ew::clock_ns(), ew::relaxed, ew::gpu);
  const u64 page = reads_page(p, slot, left, t.tag());
  if (!files.read(p.handle, page * READS_PAGE, reads_piece(p, slot), READS_PAGE,
                  {FN_reads_got, t.tag(), reads_note(p, slot, left)})) {
    t.spawn(FN_reads_ask, t.tag(), t.arg());
  }
}

__device__ void reads_got(ew::Lane& t, const DevReads& p) {
  const ew::FileEnd end(t.arg());
  const u64 now = ew::clock_ns();
  const u32 slot = end.note / (p.steps + 1), left = end.note % (p.steps + 1);
  if (end.error != 0) return reads_error(t, end.error);
  ew::store(p.took + (u64)slot * p.steps + (p.steps - left), now - ew::load(p.began + slot, ew::relaxed, ew::gpu),
            ew::relaxed, ew::gpu);
  const u64 page = reads_page(p, slot, left, t.tag());
  if (end.value == READS_PAGE && reads_right((const u64*)reads_piece(p, slot), page)) t.report_add(1);
  t.spawn(FN_reads_ask, t.tag(), t.pack(slot, left - 1));
}

__device__ void reads_visit(ew::Lane& t, const DevReads& p) {
  const u32 slot = t.lo();
  u32 left = t.hi();
  u64 right = 0;
  ew::Files files(t, p.files, FN_reads_door);
  for (u32 step = 0; left != 0 && step < READS_VISITS; step++, left--) {
    const u64 page = reads_page(p, slot, left, t.tag());
    const u64 offset = page * READS_PAGE;
    const ew::Page here = files.acquire(p.cached, offset, {FN_reads_visited, t.tag(), reads_note(p, slot, left)});
    if (here.state == ew::PageState::full) break;
    if (here.state != ew::PageState::here) {
      if (here.state == ew::PageState::failed) reads_error(t, here.error);
      left = 0;
      break;
    }
    right += reads_right((const u64*)here.bytes, page);
    files.release(p.cached, offset);
  }
  if (right != 0) t.report_add(right);
  if (left != 0) t.spawn(FN_reads_visit, t.tag(), t.pack(slot, left));
}

__device__ void reads_visited(ew::Lane& t, const DevReads& p) {
  const ew::FileEnd end(t.arg());
  const u32 slot = end.note / (p.steps + 1), left = end.note % (p.steps + 1);
  if (end.error != 0) return reads_error(t, end.error);
  const u64 page = reads_page(p, slot, left, t.tag());
  const ew::Files files(t, p.files, FN_reads_door);
  if (reads_right((const u64*)files.held(p.cached, page * READS_PAGE), page)) t.report_add(1);
  files.release(p.cached, page * READS_PAGE);
  if (left > 1) t.spawn(FN_reads_visit, t.tag(), t.pack(slot, left - 1));
}

__device__ void reads_get(ew::Lane& t, const DevReads& p) {
  const u32 slot = t.lo();
  u64 right = 0;
  ew::Files files(t, p.files, FN_reads_door);
  for (u32 left = t.hi(); left != 0; left--) {
    const u64 number = reads_choice(p, slot, left, p.words);
    const ew::Got<u64> got = files.get<u64>(p.cached, 8 * number, {FN_reads_taken, 0, reads_note(p, slot, left)});
    if (got.state != ew::PageState::here) {
      if (got.state == ew::PageState::full) t.spawn(FN_reads_get, 0, t.pack(slot, left));
      if (got.state == ew::PageState::failed) reads_error(t, got.error);
      break;
    }
    right += got.value == reads_word(number);
  }
  if (right != 0) t.report_add(right);
}

__device__ void reads_taken(ew::Lane& t, const DevReads& p) {
  const ew::FileEnd end(t.arg());
  const u32 slot = end.note / (p.steps + 1), left = end.note % (p.steps + 1);
  if (end.error != 0) return reads_error(t, end.error);
  const u64 number = reads_choice(p, slot, left, p.words);
  const ew::Files files(t, p.files, FN_reads_door);
  if (files.take<u64>(p.cached, 8 * number) == reads_word(number)) t.report_add(1);
  if (left > 1) t.spawn(FN_reads_get, 0, t.pack(slot, left - 1));
}

__device__ void reads_plain(ew::Lane& t, const DevReads& p) {
  u64 right = 0;
  for (u32 left = t.hi(); left != 0; left--) {
    const u64 number = reads_choice(p, t.lo(), left, p.words);
    right += __ldcg(p.plain + number) == reads_word(number);
  }
  t.report_add(right);
}

// The warp reads a whole page: the sum of its words has to be that of the file's.
__device__ __forceinline__ bool reads_sums(ew::Warp& t, const u64* words, u64 page) {
  u64 sum = 0;
  for (u32 i = t.lane; i < READS_WORDS; i += 32) sum += __ldcg(words + i) - reads_word(page * READS_WORDS + i);
  return __all_sync(0xffffffffu, sum == 0);
}

__device__ void reads_hit(ew::Warp& t, const DevReads& p) {
  const u32 slot = t.lo();
  u64 right = 0;
  for (u32 left = t.hi(); left != 0; left--) {
    const u64 page = reads_choice(p, slot, left, p.words / READS_WORDS);
    u64 here = 0;
    if (t.lane == 0) {
      ew::Files files(t, p.files, FN_reads_door);
      const ew::Page got = files.acquire(p.cached, page * READS_PAGE, {FN_reads_held, 0, reads_note(p, slot, left)});
      if (got.state == ew::PageState::here) here = (u64)got.bytes;
      if (got.state == ew::PageState::full) t.spawn(FN_reads_hit, 0, t.pack(slot, left));
      if (got.state == ew::PageState::failed) reads_error(t, got.error);
    }
    here = __shfl_sync(0xffffffffu, here, 0);
    if (here == 0) break;
    right += reads_sums(t, (const u64*)here, page);
    if (t.lane == 0) ew::Files(t, p.files, FN_reads_door).release(p.cached, page * READS_PAGE);
  }
  if (t.lane == 0 && right != 0) t.report_add(right);
}

__device__ void reads_held(ew::Warp& t, const DevReads& p) {
  const ew::FileEnd end(t.arg());
  const u32 slot = end.note / (p.steps + 1), left = end.note % (p.steps + 1);
  if (end.error != 0) {
    if (t.lane == 0) reads_error(t, end.error);
    return;
  }
  const u64 page = reads_choice(p, slot, left, p.words / READS_WORDS);
  const ew::Files files(t, p.files, FN_reads_door);
  const bool right = reads_sums(t, (const u64*)files.held(p.cached, page * READS_PAGE), page);
  if (t.lane != 0) return;
  files.release(p.cached, page * READS_PAGE);
  if (right) t.report_add(1);
  if (left > 1) t.spawn(FN_reads_hit, 0, t.pack(slot, left - 1));
}

__device__ void reads_flat(ew::Warp& t, const DevReads& p) {
  u64 right = 0;
  for (u32 left = t.hi(); left != 0; left--) {
    const u64 page = reads_choice(p, t.lo(), left, p.words / READS_WORDS);
    right += reads_sums(t, p.plain + page * READS_WORDS, page);
  }
  if (t.lane == 0) t.report_add(right);
}

__device__ void reads_door(ew::Warp& t, const DevReads& p) { ew::file_door(t, p.files, FN_reads_door); }
