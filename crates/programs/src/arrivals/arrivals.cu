#include "everwarp/files/files.cuh"

// Waits for the next batch. Without room for the request, a task of the same function tries again.
__device__ __forceinline__ bool arrivals_next(ew::Files& files, const DevArrivals& p) {
  return files.events(p.handle, p.batch, p.most, {FN_arrivals_arrived, 0, 0});
}

__device__ void arrivals_begin(ew::Lane& t, const DevArrivals& p) {
  ew::Files files(t, p.files, FN_arrivals_door);
  if (!files.watch(p.handle, p.sources, p.signals, {FN_arrivals_watched, 0, 0})) t.spawn(FN_arrivals_begin, 0, t.arg());
}

__device__ void arrivals_watched(ew::Lane& t, const DevArrivals& p) {
  ew::Files files(t, p.files, FN_arrivals_door);
  if (ew::FileEnd(t.arg()).error == 0 && !arrivals_next(files, p)) t.spawn(FN_arrivals_watched, 0, t.arg());
}

// Its argument is that of a request's end at first. When it tries again, the batch has been noted, and the note is 1.
__device__ void arrivals_arrived(ew::Lane& t, const DevArrivals& p) {
  const ew::FileEnd end(t.arg());
  bool last = end.error != 0 || end.value == 0;
  u64 noted = ew::load(p.count, ew::relaxed, ew::gpu);
  for (u32 i = 0; i < end.value; i++) {
    const u64* event = (const u64*)(p.batch + i);
    const u64 head = __ldcg(event);
    const u32 kind = (u32)(head & 0xffff), id = (u32)(head >> 32);
    if (end.note == 0) {
      u64* to = (u64*)(p.log + (noted + i) % p.room);
      for (u32 word = 0; word < sizeof(DevEvent) / 8; word++) ew::store(to + word, __ldcg(event + word), ew::relaxed, ew::gpu);
    }
    // The program ends with this key, and when its sources have ended.
    last = last || (kind == EVENT_KEY && id == p.last_key) || kind == EVENT_END;
  }
  if (end.note == 0) {
    ew::store(p.count, noted + end.value, ew::release, ew::sys);
    t.report_add(end.value);
  }
  ew::Files files(t, p.files, FN_arrivals_door);
  const bool taken = last ? files.close(p.handle, {FN_arrivals_closed, 0, 0}) : arrivals_next(files, p);
  if (!taken) t.spawn(FN_arrivals_arrived, 0, t.arg() | 1);
}

__device__ void arrivals_closed(ew::Lane& t, const DevArrivals& p) {}

__device__ void arrivals_door(ew::Warp& t, const DevArrivals& p) { ew::file_door(t, p.files, FN_arrivals_door); }
