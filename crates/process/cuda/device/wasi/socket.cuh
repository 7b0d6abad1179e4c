// Sockets: listeners that the process was given, and connections.
#pragma once

#include "process/wasi/stream.cuh"

namespace wasi {

// `riflags`: wait until the whole buffer is full, or the stream ends.
constexpr u32 WAIT_ALL = 2;

}  // namespace wasi

WASI(sock_shutdown, u32 fd, u32 how) { PLAIN(hostcall::SockShutdown{.fd = fd, .how = how}); }

// A process accepts to wait: its lane does other work until a peer connects.
WASI(sock_accept, u32 fd, u32 flags, u32 to) {
  CHECK(to, 4, 4);
  const wasi::Call c(i);
  if (c.fresh()) c.post_long(hostcall::SockAccept{.fd = fd, .flags = flags});
  if (!c.answered()) PARK;
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : wasi::Memory(i).put(to, (u32)c.value(0)));
}

// A request brings as many bytes as an area holds. If all are to come, there are several requests for one buffer.
WASI(sock_recv, u32 fd, u32 list, u32 count, u32 flags, u32 received, u32 out_flags) {
  CHECK(received, 4, 4);
  CHECK(out_flags, 2, 2);
  const wasi::Call c(i);
  const wasi::Buffers b(i, list, count);
  if (b.error != wasi::OK) return {fuel, b.error, 0};
  const u32 wanted = b.count == 0 ? 0 : b.length(b.first());
  while (true) {
    const u32 done = c.p->progress;
    if (c.fresh_part(min(wanted - done, HOSTCALL_DATA_BYTES))) {
      const u32 most = min(wanted - done, c.room());
      if (wanted != 0) c.expect(b.from(b.first()) + done, most);
      c.post_long(hostcall::SockRecv{.fd = fd, .length = most, .flags = flags});
    }
    if (!c.answered()) PARK;
    const u32 asked = c.p->reply_most;
    u32 e = c.error(), got = 0;
    if (e == wasi::OK && wanted != 0) got = c.reply(b.from(b.first()) + done, asked);
    if (e == wasi::OK && flags == wasi::WAIT_ALL && got != 0 && got == asked && done + got < wanted) {
      c.p->progress = done + got;
      c.close();
      continue;
    }
    c.p->progress = 0;
    // An error after the first bytes comes again with the next call.
    if (done != 0) e = wasi::OK;
    if (e == wasi::OK) {
      u8* to = wasi::Memory(i).from(out_flags).at(0);
      to[0] = to[1] = 0;
      e = b.m.put(received, done + got);
    }
    DONE(e);
  }
}

WASI(sock_send, u32 fd, u32 list, u32 count, u32 flags, u32 sent) {
  CHECK(sent, 4, 4);
  const wasi::Call c(i);
  const wasi::Buffers b(i, list, count);
  if (b.error != wasi::OK) return {fuel, b.error, 0};
  if (!wasi::send_all_that_fits(c, b, hostcall::SockSend{.fd = fd, .flags = flags})) PARK;
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : b.m.put(sent, (u32)c.value(0)));
}

// `launch` of `everwarp:net`: the name and the variables travel together.
extern "C" __device__ __noinline__ wasi::Errno everwarp_net_launch(DevInstance* i, i64 fuel, u32 depth, u32 name, u32 name_length,
                                                                   u32 variables, u32 variables_length, u32 to) {
  CHECK(to, 4, 4);
  const wasi::Call c(i);
  const wasi::Memory m(i);
  u32 e = m.check(name, name_length, 1);
  if (e == wasi::OK) e = m.check(variables, variables_length, 1);
  if (e == wasi::OK && (u64)name_length + variables_length > HOSTCALL_DATA_BYTES) e = ERRNO_NOBUFS;
  if (e != wasi::OK) return {fuel, e, 0};
  if (c.fresh(name_length + variables_length)) {
    c.payload(m.from(name), name_length);
    c.payload(m.from(variables), variables_length);
    c.post(hostcall::NetLaunch{.name_length = name_length});
  }
  if (!c.answered()) PARK;
  e = c.error();
  DONE(e != wasi::OK ? e : m.put(to, (u32)c.value(0)));
}
