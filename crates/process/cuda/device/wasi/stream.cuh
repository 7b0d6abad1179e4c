// Reading and writing.
#pragma once

#include "process/wasi/import.cuh"

namespace wasi {

// A list of buffers, checked as a whole before anything of it is used.
struct Buffers {
  Memory m;
  u32 at;
  u32 count;
  u32 error;
  u64 bytes;
  __device__ __forceinline__ Buffers(const DevInstance* i, u32 at, u32 count) : m(i), at(at), count(count), bytes(0) {
    error = m.check(at, 8ull * count, 4);
    for (u32 k = 0; k < count && error == OK; k++) {
      error = m.check(from(k), length(k), 1);
      bytes += length(k);
    }
  }
  __device__ __forceinline__ u32 from(u32 k) const { return m.word(at + 8 * k); }
  __device__ __forceinline__ u32 length(u32 k) const { return m.word(at + 8 * k + 4); }
  // The first that holds anything: a read fills that one alone, as wasmtime's does.
  __device__ __forceinline__ u32 first() const {
    u32 k = 0;
    while (k + 1 < count && length(k) == 0) k++;
    return k;
  }
  __device__ __forceinline__ u32 first_length() const { return count == 0 ? 0 : min(length(first()), HOSTCALL_DATA_BYTES); }
};

// Bytes of a write that fit a request.
__device__ __forceinline__ u32 most(u64 bytes) { return (u32)min(bytes, (u64)HOSTCALL_DATA_BYTES); }

// Adds as much of the buffers as fits to the payload: a short write is allowed.
__device__ __forceinline__ void add_buffers(const Call& c, const Buffers& b) {
  for (u32 k = 0; k < b.count && c.room() != 0; k++) c.payload(b.m.from(b.from(k)), min(b.length(k), c.room()));
}
template <class C>
__device__ __forceinline__ void post_write(const Call& c, const Buffers& b, const C& call) {
  add_buffers(c, b);
  c.post(call);
}

// Writes as much of the buffers as fits where the call may have to wait for a peer: it is sent again then, so that no
// neighbour waits with it. False if the import must come again; otherwise the call is answered.
template <class C>
__device__ __forceinline__ bool send_all_that_fits(const Call& c, const Buffers& b, const C& call) {
  while (true) {
    if (c.fresh_part(most(b.bytes))) {
      add_buffers(c, b);
      if (c.p->progress == 0) c.post(call);
      else c.post_long(call);
    }
    if (!c.answered()) return false;
    if (c.error() != HOSTCALL_LATER) break;
    c.close();
    c.p->progress = 1;
  }
  c.p->progress = 0;
  return true;
}

// Says where the bytes of a read go, and returns how many may come.
__device__ __forceinline__ u32 expect_read(const Call& c, const Buffers& b) {
  const u32 bytes = min(b.first_length(), c.room());
  if (b.count != 0) c.expect(b.from(b.first()), bytes);
  return bytes;
}

// Takes the answer of a read.
__device__ __forceinline__ u32 take_read(const Call& c, const Buffers& b, u32 count_at) {
  u32 e = c.error();
  if (e != OK) return e;
  const u32 bytes = b.count == 0 ? 0 : c.reply(b.from(b.first()), b.first_length());
  return b.m.put(count_at, bytes);
}

// Standard input that is stored with the arguments: its bytes, and how many of them have been read.
struct Input {
  const u8* bytes;
  u32 left;
  u32* taken;
  __device__ __forceinline__ explicit Input(const DevProcess* p) {
    u32* head = (u32*)p->strings;
    taken = &head[6];
    bytes = p->strings + ((u64)__ldcg(&head[7]) << 32 | __ldcg(&head[4])) + __ldcg(taken);
    left = __ldcg(&head[5]) - __ldcg(taken);
  }
  __device__ __forceinline__ void take(u32 n) const { *taken = __ldcg(taken) + n; }
};

__device__ __noinline__ u32 read_input(const Call& c, const Buffers& b, u32 count_at) {
  const Input input(c.p);
  const u32 n = min(b.first_length(), input.left);
  if (const u32 e = b.m.put(count_at, n); e != OK) return e;
  if (n == 0) return OK;
  process::copy_out(b.m.from(b.from(b.first())), input.bytes, n);
  input.take(n);
  return OK;
}

// Hands standard input over to the host, which skips the bytes that have been read here. False if the import must come
// again.
__device__ __noinline__ bool leave_input(const Call& c) {
  DevProcess* p = c.p;
  while (p->flags & PROCESS_INPUT) {
    u32* head = (u32*)p->strings;
    const u32 taken = __ldcg(&head[6]);
    if (taken == 0) break;
    const u32 n = min(taken, HOSTCALL_INLINE_BYTES);
    if (c.fresh(n)) c.post(hostcall::FdRead{.fd = 0, .length = n});
    if (!c.answered()) return false;
    const bool got = c.error() == OK && c.value(0) == n;
    c.close();
    head[6] = got ? taken - n : 0;
  }
  p->flags &= ~PROCESS_INPUT;
  return true;
}

// Standard output that is collected. False if the import must come again.
__device__ __forceinline__ bool print(const Call& c, const Buffers& b, u32& error) {
  DevProcess* p = c.p;
  error = OK;
  if (p->output_len + b.bytes > OUTPUT_BYTES && !process::flush(c, error)) return false;
  if (error != OK) return true;
  u8* to = process::output(p);
  for (u32 k = 0; k < b.count; k++) {
    process::copy_out(to + p->output_len, b.m.from(b.from(k)), b.length(k));
    p->output_len += b.length(k);
  }
  return true;
}

}  // namespace wasi

WASI(fd_write, u32 fd, u32 list, u32 count, u32 written) {
  CHECK(written, 4, 4);
  const wasi::Call c(i);
  const wasi::Buffers b(i, list, count);
  if (b.error != wasi::OK) return {fuel, b.error, 0};
  if (fd == 1 && (c.p->flags & PROCESS_COLLECTS) && b.bytes <= OUTPUT_BYTES) {
    u32 e;
    if (!wasi::print(c, b, e)) PARK;
    return {fuel, e != wasi::OK ? e : b.m.put(written, (u32)b.bytes), 0};
  }
  // Collected output comes first.
  if (fd == 1 && c.p->output_len != 0) {
    u32 e;
    if (!process::flush(c, e)) PARK;
  }
  if (!wasi::send_all_that_fits(c, b, hostcall::FdWrite{.fd = fd})) PARK;
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : b.m.put(written, (u32)c.value(0)));
}

WASI(fd_pwrite, u32 fd, u32 list, u32 count, u64 offset, u32 written) {
  CHECK(written, 4, 4);
  const wasi::Call c(i);
  const wasi::Buffers b(i, list, count);
  if (b.error != wasi::OK) return {fuel, b.error, 0};
  if (c.fresh_part(wasi::most(b.bytes))) wasi::post_write(c, b, hostcall::FdPwrite{.fd = fd, .offset = offset});
  if (!c.answered()) PARK;
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : b.m.put(written, (u32)c.value(0)));
}

WASI(fd_read, u32 fd, u32 list, u32 count, u32 read) {
  CHECK(read, 4, 4);
  const wasi::Call c(i);
  const wasi::Buffers b(i, list, count);
  if (b.error != wasi::OK) return {fuel, b.error, 0};
  if (fd == 0 && (c.p->flags & PROCESS_INPUT)) return {fuel, wasi::read_input(c, b, read), 0};
  // A process that waits for an answer has printed the question.
  if (c.p->output_len != 0 && (c.p->flags & PROCESS_TALKS)) {
    u32 e;
    if (!process::flush(c, e)) PARK;
  }
  while (true) {
    if (c.fresh_part(b.first_length())) {
      const hostcall::FdRead call{.fd = fd, .length = wasi::expect_read(c, b)};
      // A read of standard input may never be answered; and standard input may have another number.
      if (fd > 2 && c.p->progress == 0) c.post_soon(call);
      else c.post_long(call);
    }
    if (!c.answered()) PARK;
    if (c.error() != HOSTCALL_LATER) break;
    c.close();
    c.p->progress = 1;
  }
  c.p->progress = 0;
  DONE(wasi::take_read(c, b, read));
}

WASI(fd_pread, u32 fd, u32 list, u32 count, u64 offset, u32 read) {
  CHECK(read, 4, 4);
  const wasi::Call c(i);
  const wasi::Buffers b(i, list, count);
  if (b.error != wasi::OK) return {fuel, b.error, 0};
  if (c.fresh_part(b.first_length())) {
    const hostcall::FdPread call{.fd = fd, .length = wasi::expect_read(c, b), .offset = offset};
    // A long reply comes by a warp, which takes less time than to wait for it and copy it here.
    if (call.length >= DELIVERED_BYTES) c.post_soon(call);
    else c.post(call);
  }
  if (!c.answered()) PARK;
  DONE(wasi::take_read(c, b, read));
}

// Fills the buffer with the listing after the cookie, in as many replies as it takes.
WASI(fd_readdir, u32 fd, u32 buffer, u32 length, u64 cookie, u32 used) {
  CHECK(used, 4, 4);
  const wasi::Call c(i);
  const wasi::Memory m(i);
  if (const u32 e = m.check(buffer, length, 1); e != wasi::OK) return {fuel, e, 0};
  while (true) {
    if (c.fresh_part(min(length - c.p->progress, HOSTCALL_DATA_BYTES))) {
      c.expect(buffer + c.p->progress, min(length - c.p->progress, c.room()));
      c.post(hostcall::FdReaddir{.fd = fd, .length = c.p->reply_most, .cookie = cookie, .skip = c.p->progress});
    }
    if (!c.answered()) PARK;
    const u32 asked = c.p->reply_most;
    u32 e = c.error();
    u32 got = 0;
    if (e == wasi::OK) {
      got = c.reply(buffer + c.p->progress, asked);
      c.p->progress += got;
    }
    if (e == wasi::OK && got != 0 && got == asked && c.p->progress < length) {
      c.close();
      continue;
    }
    if (e == wasi::OK) e = m.put(used, c.p->progress);
    c.p->progress = 0;
    DONE(e);
  }
}

// The kind of a subscription that is no descriptor's.
constexpr u32 WASI_CLOCK = 0;

// Waiting for clocks and descriptors.
WASI(poll_oneoff, u32 in, u32 out, u32 count, u32 events) {
  const wasi::Call c(i);
  const wasi::Memory m(i);
  if (count == 0) return {fuel, ERRNO_INVAL, 0};
  u32 e = m.check(in, 48ull * count, 8);
  if (e == wasi::OK) e = m.check(out, 32ull * count, 8);
  if (e == wasi::OK) e = m.check(events, 4, 4);
  // More than fit an area, which the memory holds.
  if (e == wasi::OK && count > HOSTCALL_POLL_MAX) e = ERRNO_INVAL;
  if (e != wasi::OK) return {fuel, e, 0};
  bool reads = false;
  for (u32 k = 0; k < count; k++) reads |= (m.word(in + 48 * k + 8) & 0xff) != WASI_CLOCK;
  if (reads && !wasi::leave_input(c)) PARK;
  if (c.p->output_len != 0 && !process::flush(c, e)) PARK;
  if (c.fresh(48 * count)) {
    const u64 now = process::now();
    c.payload(m.from(in), 48 * count);
    c.post_long(hostcall::PollOneoff{.count = count, .realtime = now + c.p->table->clock_offset, .monotonic = now});
  }
  if (!c.answered()) PARK;
  e = c.error();
  if (e == wasi::OK) {
    c.reply(out, 32 * count);
    e = m.put(events, (u32)c.value(0));
  }
  DONE(e);
}
