#include "everwarp/files/files.cuh"

// Each function asks for what comes next. Without room for the request, a task of the same function tries again.
__device__ __forceinline__ u8* echo_piece(const DevEcho& p, u32 slot) { return p.bytes + (u64)slot * p.piece; }

__device__ __forceinline__ u32 echo_connection(const DevEcho& p, u32 slot) {
  return ew::load(p.connections + slot, ew::relaxed, ew::gpu);
}

__device__ __forceinline__ bool echo_receive(ew::Files& files, const DevEcho& p, u32 slot) {
  return files.receive(echo_connection(p, slot), echo_piece(p, slot), p.piece, {FN_echo_received, 0, slot});
}

__device__ __forceinline__ bool echo_close(ew::Files& files, const DevEcho& p, u32 slot) {
  return files.close(echo_connection(p, slot), {FN_echo_closed, 0, slot});
}

__device__ __forceinline__ bool echo_accept(ew::Files& files, const DevEcho& p, u32 slot) {
  return files.accept(p.listener, nullptr, {FN_echo_accepted, 0, slot});
}

__device__ void echo_begin(ew::Lane& t, const DevEcho& p) {
  ew::Files files(t, p.files, FN_echo_door);
  if (!echo_accept(files, p, t.lo())) t.spawn(FN_echo_begin, 0, t.arg());
}

__device__ void echo_accepted(ew::Lane& t, const DevEcho& p) {
  const ew::FileEnd end(t.arg());
  ew::Files files(t, p.files, FN_echo_door);
  bool taken = true;
  if (end.error == 0) {
    ew::store(p.connections + end.note, end.value, ew::relaxed, ew::gpu);
    ew::store(p.asked + end.note, 0u, ew::relaxed, ew::gpu);
    taken = echo_receive(files, p, end.note);
  } else if (end.error != ERRNO_CANCELED && end.error != ERRNO_BADF) {
    // Others may give descriptors back. The connection stays in the listener's queue.
    taken = files.sleep(10000000, {FN_echo_begin, 0, end.note});
  }
  if (!taken) t.spawn(FN_echo_accepted, 0, t.arg());
}

// Sends the reply to a request that has come, if there is one, and else receives more.
__device__ __forceinline__ void echo_reply(ew::Lane& t, const DevEcho& p, u32 slot) {
  ew::Files files(t, p.files, FN_echo_door);
  u32* asked = p.asked + slot;
  const u32 before = ew::load(asked, ew::relaxed, ew::gpu);
  bool taken;
  if (before >= 256) {
    // Before the request is made: the task after it may run at once.
    ew::store(asked, before - 256, ew::relaxed, ew::gpu);
    taken = files.send(echo_connection(p, slot), p.reply, p.reply_len, {FN_echo_sent, 0, slot});
    if (!taken) ew::store(asked, before, ew::relaxed, ew::gpu);
  } else {
    taken = echo_receive(files, p, slot);
  }
  if (!taken) t.spawn(FN_echo_answer, 0, slot);
}

// Looks for the ends of requests in what has come.
__device__ __forceinline__ void echo_scan(const DevEcho& p, u32 slot, u32 bytes) {
  u32 asked = ew::load(p.asked + slot, ew::relaxed, ew::gpu);
  u32 ends = asked / 256, there = asked % 256;
  for (u32 i = 0; i < bytes; i++) {
    const u8 byte = __ldcg(echo_piece(p, slot) + i);
    there = byte == (there % 2 == 0 ? '\r' : '\n') ? there + 1 : byte == '\r';
    if (there == 4) {
      ends++;
      there = 0;
    }
  }
  ew::store(p.asked + slot, ends * 256 + there, ew::relaxed, ew::gpu);
}

__device__ void echo_answer(ew::Lane& t, const DevEcho& p) { echo_reply(t, p, t.lo()); }

__device__ void echo_received(ew::Lane& t, const DevEcho& p) {
  const ew::FileEnd end(t.arg());
  const bool ended = end.error != 0 || end.value == 0;
  if (!ended && p.reply_len != 0) {
    echo_scan(p, end.note, end.value);
    return echo_reply(t, p, end.note);
  }
  ew::Files files(t, p.files, FN_echo_door);
  const bool taken = ended ? echo_close(files, p, end.note)
                           : files.send(echo_connection(p, end.note), echo_piece(p, end.note), end.value,
                                        {FN_echo_sent, 0, end.note});
  if (!taken) t.spawn(FN_echo_received, 0, t.arg());
}

__device__ void echo_sent(ew::Lane& t, const DevEcho& p) {
  const ew::FileEnd end(t.arg());
  if (end.error == 0 && p.reply_len != 0) {
    t.report_add(end.value);
    return echo_reply(t, p, end.note);
  }
  ew::Files files(t, p.files, FN_echo_door);
  const bool taken = end.error != 0 ? echo_close(files, p, end.note) : echo_receive(files, p, end.note);
  if (!taken) t.spawn(FN_echo_sent, 0, t.arg());
  else if (end.error == 0) t.report_add(end.value);
}

__device__ void echo_closed(ew::Lane& t, const DevEcho& p) {
  ew::Files files(t, p.files, FN_echo_door);
  if (!echo_accept(files, p, ew::FileEnd(t.arg()).note)) t.spawn(FN_echo_closed, 0, t.arg());
}

__device__ void echo_door(ew::Warp& t, const DevEcho& p) { ew::file_door(t, p.files, FN_echo_door); }
