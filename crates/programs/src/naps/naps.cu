#include "everwarp/files/files.cuh"

__device__ void naps_clock(ew::Lane& t, const DevNaps& p) { t.report_add(ew::clock_ns()); }

__device__ void naps_begin(ew::Lane& t, const DevNaps& p) {
  ew::Files files(t, p.files, FN_naps_door);
  const u32 last = t.lo() + t.hi();
  for (u32 nap = t.lo(); nap < last; nap++) {
    const u64 now = ew::clock_ns();
    const u64 end = ew::load(p.plan, ew::relaxed, ew::gpu) + nap * ew::load(p.plan + 1, ew::relaxed, ew::gpu);
    ew::store(p.asked + nap, now, ew::relaxed, ew::gpu);
    if (!files.sleep(end > now ? end - now : 0, {FN_naps_woken, 0, nap})) {
      return t.spawn(FN_naps_begin, 0, t.pack(nap, last - nap));
    }
  }
}

__device__ void naps_woken(ew::Lane& t, const DevNaps& p) {
  const ew::FileEnd end(t.arg());
  if (end.error != 0) return;
  ew::store(p.woken + end.note, ew::clock_ns(), ew::relaxed, ew::gpu);
  t.report_add(1);
}

__device__ void naps_door(ew::Warp& t, const DevNaps& p) { ew::file_door(t, p.files, FN_naps_door); }
