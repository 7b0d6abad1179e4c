#include "everwarp/files/files.cuh"

__device__ __forceinline__ void page_probe_error(ew::Lane& t, u32 error) { t.report_add((u64)error << 32); }

// The offset of a walker's next number. False if it has no steps left.
__device__ __forceinline__ bool page_probe_next(const DevPageProbe& p, u32 walker, u64& offset) {
  const u64 left = ew::load(p.left + walker, ew::relaxed, ew::gpu);
  if (left == 0) return false;
  offset = 8 * (programs_mix((u64)p.seed << 48 ^ (u64)walker << 32 ^ left) % p.count);
  return true;
}

// Adds 1 to a number in a page that the walker holds, and releases the page.
__device__ __forceinline__ void page_probe_add(ew::Lane& t, const DevPageProbe& p, u32 walker, u64 offset) {
  ew::Files files(t, p.files, FN_page_probe_door);
  ew::add((u64*)files.held(p.handle, offset), (u64)1, ew::relaxed, ew::gpu);
  const bool written = files.wrote(p.handle, offset, 8);
  files.release(p.handle, offset);
  ew::fetch_add(p.left + walker, (u64)0 - 1, ew::relaxed, ew::gpu);
  if (written) t.report_add(1);
  else page_probe_error(t, ERRNO_BADF);
}

__device__ void page_probe_bump(ew::Lane& t, const DevPageProbe& p) {
  const u32 walker = t.lo();
  for (u32 step = 0; step < 8; step++) {
    u64 offset;
    if (!page_probe_next(p, walker, offset)) return;
    ew::Files files(t, p.files, FN_page_probe_door);
    const ew::Page page = files.acquire(p.handle, offset, {FN_page_probe_bumped, 0, walker});
    if (page.state == ew::PageState::later) return;
    if (page.state == ew::PageState::failed) return page_probe_error(t, page.error);
    if (page.state == ew::PageState::full) break;
    page_probe_add(t, p, walker, offset);
  }
  t.spawn(FN_page_probe_bump, 0, walker);
}

__device__ void page_probe_bumped(ew::Lane& t, const DevPageProbe& p) {
  const ew::FileEnd end(t.arg());
  if (end.error != 0) return page_probe_error(t, end.error);
  u64 offset;
  if (!page_probe_next(p, end.note, offset)) return;
  page_probe_add(t, p, end.note, offset);
  t.spawn(FN_page_probe_bump, 0, end.note);
}

__device__ __forceinline__ u64 page_probe_page(const DevPageProbe& p, u32 page) {
  return (u64)page << p.files.pages.page_bits;
}

__device__ void page_probe_hold(ew::Lane& t, const DevPageProbe& p) {
  ew::Files files(t, p.files, FN_page_probe_door);
  const ew::Page page = files.acquire(p.handle, page_probe_page(p, t.lo()), {FN_page_probe_holding, 0, t.lo()});
  switch (page.state) {
    case ew::PageState::here: t.report_add(1); break;
    case ew::PageState::later: break;
    case ew::PageState::full: t.spawn(FN_page_probe_hold, 0, t.lo()); break;
    case ew::PageState::failed: page_probe_error(t, page.error); break;
  }
}

__device__ void page_probe_holding(ew::Lane& t, const DevPageProbe&) {
  const ew::FileEnd end(t.arg());
  if (end.error == 0) t.report_add(1);
  else page_probe_error(t, end.error);
}

__device__ void page_probe_let_go(ew::Lane& t, const DevPageProbe& p) {
  ew::Files files(t, p.files, FN_page_probe_door);
  files.release(p.handle, page_probe_page(p, t.lo()));
}

__device__ void page_probe_sum(ew::Lane& t, const DevPageProbe& p) {
  ew::Files files(t, p.files, FN_page_probe_door);
  const ew::Got<u64> got = files.get<u64>(p.handle, 8ull * t.lo(), {FN_page_probe_read, 0, t.lo()});
  switch (got.state) {
    case ew::PageState::here: t.report_add(got.value); break;
    case ew::PageState::later: break;
    case ew::PageState::full: t.spawn(FN_page_probe_sum, 0, t.lo()); break;
    case ew::PageState::failed: page_probe_error(t, got.error); break;
  }
}

__device__ void page_probe_read(ew::Lane& t, const DevPageProbe& p) {
  const ew::FileEnd end(t.arg());
  if (end.error != 0) return page_probe_error(t, end.error);
  ew::Files files(t, p.files, FN_page_probe_door);
  t.report_add(files.take<u64>(p.handle, 8ull * end.note));
}

__device__ void page_probe_ask(ew::Lane& t, const DevPageProbe& p) {
  ew::Files files(t, p.files, FN_page_probe_door);
  const ew::Then then{FN_page_probe_holding, 0, 0};
  bool asked;
  switch (t.tag()) {
    case 0: asked = files.sync(t.lo(), then); break;
    case 1: asked = files.close(t.lo(), then); break;
    default: asked = files.truncate(t.lo(), t.hi(), then);
  }
  if (!asked) t.spawn(FN_page_probe_ask, t.tag(), t.arg());
}

__device__ void page_probe_door(ew::Warp& t, const DevPageProbe& p) { ew::file_door(t, p.files, FN_page_probe_door); }
