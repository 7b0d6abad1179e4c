// Sockets that a process opens itself: the functions of `everwarp:net` but `launch`, which is in socket.cuh.
//
// Each checks its pointers in the order of the CPU engine, and the host checks everything else.
#pragma once

#include "process/wasi/socket.cuh"

namespace net {

// Bytes of an address, which is aligned to 4.
constexpr u32 ADDRESS_BYTES = 24;

// Two words of memory that was checked, as one of a host call.
__device__ __forceinline__ u64 word(const process::Memory& m, u32 at) { return (u64)m.word(at) | (u64)m.word(at + 4) << 32; }

// Writes the three values of an answer as an address, to memory that was checked.
__device__ __noinline__ void put_address(const wasi::Call& c, u32 to) {
  const process::Memory m(c.i);
  for (u32 k = 0; k < 3; k++) {
    const u64 v = c.value(k);
    m.word(to + 8 * k) = (u32)v, m.word(to + 8 * k + 4) = (u32)(v >> 32);
  }
}

}  // namespace net

#define NET(name, ...)                                                                                    \
  extern "C" __device__ __noinline__ wasi::Errno everwarp_net_##name(DevInstance* i, i64 fuel, u32 depth, \
                                                                     ##__VA_ARGS__)

NET(socket, u32 family, u32 kind, u32 to) {
  CHECK(to, 4, 4);
  const wasi::Call c(i);
  if (c.fresh()) c.post(hostcall::NetSocket{.family = family, .kind = kind});
  if (!c.answered()) PARK;
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : wasi::Memory(i).put(to, (u32)c.value(0)));
}

NET(bind, u32 fd, u32 at) {
  CHECK(at, net::ADDRESS_BYTES, 4);
  const wasi::Memory m(i);
  PLAIN(hostcall::NetBind{.fd = fd, .first = net::word(m, at), .second = net::word(m, at + 8), .third = net::word(m, at + 16)});
}

NET(listen, u32 fd, u32 backlog) { PLAIN(hostcall::NetListen{.fd = fd, .backlog = backlog}); }

// A process connects to wait: its lane does other work until the peer answers.
NET(connect, u32 fd, u32 at) {
  CHECK(at, net::ADDRESS_BYTES, 4);
  const wasi::Call c(i);
  if (c.fresh()) {
    const wasi::Memory m(i);
    c.post_long(hostcall::NetConnect{
        .fd = fd, .first = net::word(m, at), .second = net::word(m, at + 8), .third = net::word(m, at + 16)});
  }
  if (!c.answered()) PARK;
  DONE(c.error());
}

NET(address, u32 fd, u32 which, u32 to) {
  CHECK(to, net::ADDRESS_BYTES, 4);
  const wasi::Call c(i);
  if (c.fresh()) c.post(hostcall::NetAddress{.fd = fd, .which = which});
  if (!c.answered()) PARK;
  const u32 e = c.error();
  if (e == wasi::OK) net::put_address(c, to);
  DONE(e);
}

// A datagram goes out whole or not at all, so there is room for all of it.
NET(send_to, u32 fd, u32 at, u32 length, u32 to, u32 sent) {
  CHECK(sent, 4, 4);
  CHECK(at, length, 1);
  CHECK(to, net::ADDRESS_BYTES, 4);
  const wasi::Call c(i);
  const wasi::Memory m(i);
  if (length > HOSTCALL_DATA_BYTES) return {fuel, ERRNO_MSGSIZE, 0};
  if (c.fresh(length)) {
    c.payload(m.from(at), length);
    c.post_long(hostcall::NetSendTo{
        .fd = fd, .first = net::word(m, to), .second = net::word(m, to + 8), .third = net::word(m, to + 16)});
  }
  if (!c.answered()) PARK;
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : m.put(sent, (u32)c.value(0)));
}

// What does not fit is lost, so there is room for all that the process takes.
NET(receive_from, u32 fd, u32 at, u32 length, u32 flags, u32 from, u32 received) {
  CHECK(received, 4, 4);
  CHECK(at, length, 1);
  CHECK(from, net::ADDRESS_BYTES, 4);
  const wasi::Call c(i);
  const u32 most = min(length, HOSTCALL_DATA_BYTES);
  if (c.fresh(most)) {
    if (most != 0) c.expect(at, most);
    c.post_long(hostcall::NetReceiveFrom{.fd = fd, .length = most, .flags = flags});
  }
  if (!c.answered()) PARK;
  u32 e = c.error();
  if (e == wasi::OK) {
    const u32 got = c.reply(at, most);
    net::put_address(c, from);
    e = wasi::Memory(i).put(received, got);
  }
  DONE(e);
}

NET(option, u32 fd, u32 option, u32 to) {
  CHECK(to, 8, 8);
  const wasi::Call c(i);
  if (c.fresh()) c.post(hostcall::NetOption{.fd = fd, .option = option});
  if (!c.answered()) PARK;
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : wasi::Memory(i).put(to, c.value(0)));
}

NET(set_option, u32 fd, u32 option, u64 value) {
  PLAIN(hostcall::NetSetOption{.fd = fd, .option = option, .value = value});
}

// A server of names may take long to answer.
NET(look_up, u32 name, u32 length, u32 to, u32 most, u32 count) {
  CHECK(count, 4, 4);
  CHECK(name, length, 1);
  CHECK(to, (u64)net::ADDRESS_BYTES * most, 4);
  const wasi::Call c(i);
  const wasi::Memory m(i);
  if (length > HOSTCALL_DATA_BYTES) return {fuel, ERRNO_NAMETOOLONG, 0};
  const u32 fit = min(most, HOSTCALL_ADDRESSES_MAX);
  if (c.fresh(max(length, net::ADDRESS_BYTES * fit))) {
    c.payload(m.from(name), length);
    if (fit != 0) c.expect(to, net::ADDRESS_BYTES * fit);
    c.post_long(hostcall::NetLookUp{.most = fit});
  }
  if (!c.answered()) PARK;
  u32 e = c.error();
  if (e == wasi::OK) {
    c.reply(to, net::ADDRESS_BYTES * fit);
    e = m.put(count, (u32)c.value(0));
  }
  DONE(e);
}
