#include "everwarp/files/files.cuh"

__device__ __forceinline__ bool file_probe_linger(ew::Lane& t, const DevFileProbe& p, u32 index) {
  // A warp's own requests reach the host when its task has ended if the host waits for them: a few looks must do.
  const u64* ended = p.results + p.steps[index].offset;
  for (u32 looks = 0; looks < 1 << 10 && ew::load(ended, ew::relaxed, ew::gpu) == 0; looks++) {
  }
  ew::fetch_add(p.results + index, 1ull << 32, ew::relaxed, ew::gpu);
  t.report_add(1);
  return true;
}

// Asks for a step. False if there was no room.
__device__ __forceinline__ bool file_probe_one(ew::Lane& t, const DevFileProbe& p, u32 index) {
  const DevFileStep& s = p.steps[index];
  const u32 handle = s.handle_of == 0 ? s.handle : (u32)ew::load(p.results + s.handle_of - 1, ew::relaxed, ew::gpu);
  ew::Files files(t, p.files, FN_file_probe_door);
  files.in_class(s.klass).within(1000ull * s.within);
  const ew::Then then{FN_file_probe_done, 0, index};
  switch (s.op) {
    case 1: return files.open(handle, (const u8*)s.address, s.len, (u32)s.offset, then);
    case 2: return files.read(handle, s.offset, (u8*)s.address, s.len, then);
    case 3: return files.write(handle, s.offset, (const u8*)s.address, s.len, then);
    case 4: return files.append(handle, (const u8*)s.address, s.len, then);
    case 5: return files.truncate(handle, s.offset, then);
    case 6: return files.stat(handle, (DevFileStat*)s.address, then);
    case 7: return files.sync(handle, then);
    case 8: return files.close(handle, then);
    case 10: return files.sleep(s.offset, then);
    case 11: return files.timer(s.offset, s.address, then);
    case 12: return files.tick(handle, then);
    case 13: return files.listen(*(const DevNetAddress*)s.address, then);
    case 14: return files.connect(*(const DevNetAddress*)s.address, then);
    case 15: return files.datagrams(*(const DevNetAddress*)s.address, then);
    case 16: return files.accept(handle, (DevNetAddress*)s.address, then);
    case 17: return files.receive(handle, (u8*)s.address, s.len, then);
    case 18: return files.send(handle, (const u8*)s.address, s.len, then);
    case 19: return files.receive_from(handle, (u8*)s.address, s.len, (DevNetAddress*)s.offset, then);
    case 20: return files.send_to(handle, (const u8*)s.address, s.len, *(const DevNetAddress*)s.offset, then);
    case 21: return files.shut(handle, (u32)s.offset, then);
    case 22: return files.address(handle, (DevNetAddress*)s.address, then);
    case 23: return files.peer(handle, (DevNetAddress*)s.address, then);
    case 24: return files.set_option(handle, (u32)s.offset, s.address, then);
    case 25: return files.option(handle, (u32)s.offset, then);
    case 26: return files.cancel(handle, (u32)s.offset, then);
    case 27: return files.connect_within(*(const DevNetAddress*)s.address, s.offset, then);
    case 28: return files.accept_within(handle, (DevNetAddress*)s.address, s.offset, then);
    case 29: return files.receive_within(handle, (u8*)s.address, s.len, s.offset, then);
    case 30: return files.send_within(handle, (const u8*)s.address, s.len, s.offset, then);
    case 31: return files.watch(handle, (u32)s.offset, s.address, then);
    case 32: return files.events(handle, (DevEvent*)s.address, s.len, then);
    case 33: return file_probe_linger(t, p, index);
    default: return files.list(handle, (const u8*)s.address, s.len, (u8*)s.offset, s.room, then);
  }
}

__device__ void file_probe_ask(ew::Lane& t, const DevFileProbe& p) {
  const u32 end = t.lo() + t.hi();
  for (u32 index = t.lo(); index < end; index++) {
    if (!file_probe_one(t, p, index)) return t.spawn(FN_file_probe_ask, 0, t.pack(index, end - index));
  }
}

__device__ void file_probe_done(ew::Lane& t, const DevFileProbe& p) {
  const ew::FileEnd end(t.arg());
  const u32 value = end.error == 0 ? end.value : 0 - end.error;
  ew::fetch_add(p.results + end.note, 1ull << 32 | value, ew::relaxed, ew::gpu);
  t.report_add(1);
  const u32 next = p.steps[end.note].next;
  if (next != 0 && !file_probe_one(t, p, next - 1)) t.spawn(FN_file_probe_ask, 0, t.pack(next - 1, 1));
}

__device__ void file_probe_door(ew::Warp& t, const DevFileProbe& p) { ew::file_door(t, p.files, FN_file_probe_door); }
