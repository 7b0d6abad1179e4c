// Imports that change or describe a descriptor.
#pragma once

#include "process/wasi/stream.cuh"

namespace wasi {

// Sends collected output before its descriptor is closed or replaced: it was written to the old stream. From now on the
// host decides where output goes.
__device__ __noinline__ bool leave_output(const Call& c, u32 fd) {
  u32 e;
  if (fd == 1 && !process::flush(c, e)) return false;
  if (fd == 1) c.p->flags &= ~PROCESS_COLLECTS;
  return true;
}

// The directories that a process was given: their names are stored with its arguments, each after its length.
struct Given {
  const u8* strings;
  u32 count;
  __device__ __forceinline__ explicit Given(const DevProcess* p)
      : strings(p->strings), count(__ldcg((const u32*)p->strings + 8)) {}
  // Whether a descriptor is one of them, as long as they are where they were.
  __device__ __forceinline__ bool holds(u32 fd) const { return fd - 3 < count; }
  // The length of the name of one of them; the name follows it.
  __device__ __forceinline__ const u32* name(u32 fd) const {
    const u32* at = (const u32*)(strings + __ldcg((const u32*)strings + 9));
    for (u32 k = 3; k < fd; k++) at += 1 + (__ldcg(at) + 3) / 4;
    return at;
  }
};

// A descriptor is closed or replaced. From then on only the host knows which directory a descriptor is.
__device__ __forceinline__ void leave_given(DevProcess* p, u32 fd) {
  if (fd < 3 || Given(p).holds(fd)) p->flags &= ~PROCESS_GIVEN;
}

// Serves `fd_prestat_get` without the host: only directories that were given have a name. The address was checked.
__device__ __noinline__ u32 prestat(DevInstance* i, u32 fd, u32 at) {
  const Given given(process::of(i));
  if (!given.holds(fd)) return ERRNO_BADF;
  const Memory m(i);
  m.word(at) = 0, m.word(at + 4) = __ldcg(given.name(fd));
  return OK;
}

// The same with a name, for which there is room.
__device__ __noinline__ u32 prestat_name(DevInstance* i, u32 fd, u32 at, u32 room) {
  const u32* name = Given(process::of(i)).name(fd);
  const u32 length = __ldcg(name);
  if (length > room) return ERRNO_NAMETOOLONG;
  const Bytes to = Memory(i).from(at);
  for (u32 k = 0; k < length; k++) *to.at(k) = __ldcg((const u8*)(name + 1) + k);
  return OK;
}

}  // namespace wasi

WASI(fd_advise, u32 fd, u64 offset, u64 length, u32 advice) { PLAIN(hostcall::FdAdvise{.fd = fd, .offset = offset, .length = length, .advice = advice}); }
WASI(fd_allocate, u32 fd, u64 offset, u64 length) { PLAIN(hostcall::FdAllocate{.fd = fd, .offset = offset, .length = length}); }
WASI(fd_datasync, u32 fd) { PLAIN(hostcall::FdDatasync{.fd = fd}); }
WASI(fd_sync, u32 fd) { PLAIN(hostcall::FdSync{.fd = fd}); }
WASI(fd_fdstat_set_flags, u32 fd, u32 flags) { PLAIN(hostcall::FdFdstatSetFlags{.fd = fd, .flags = flags}); }
WASI(fd_fdstat_set_rights, u32 fd, u64 base, u64 inheriting) {
  PLAIN(hostcall::FdFdstatSetRights{.fd = fd, .base = base, .inheriting = inheriting});
}
WASI(fd_filestat_set_size, u32 fd, u64 size) { PLAIN(hostcall::FdFilestatSetSize{.fd = fd, .size = size}); }
WASI(fd_filestat_set_times, u32 fd, u64 atim, u64 mtim, u32 flags) {
  PLAIN(hostcall::FdFilestatSetTimes{.fd = fd, .accessed = atim, .modified = mtim, .flags = flags});
}
WASI(fd_close, u32 fd) {
  if (!wasi::leave_output(wasi::Call(i), fd)) PARK;
  if (fd == 0) process::of(i)->flags &= ~PROCESS_INPUT;
  wasi::leave_given(process::of(i), fd);
  PLAIN(hostcall::FdClose{.fd = fd});
}
WASI(fd_renumber, u32 from, u32 to) {
  if (!wasi::leave_output(wasi::Call(i), from) || !wasi::leave_output(wasi::Call(i), to)) PARK;
  if ((from == 0 || to == 0) && !wasi::leave_input(wasi::Call(i))) PARK;
  process::of(i)->flags &= ~PROCESS_GIVEN;
  PLAIN(hostcall::FdRenumber{.from = from, .to = to});
}

WASI(fd_fdstat_get, u32 fd, u32 at) {
  CHECK(at, 24, 8);
  const wasi::Call c(i);
  if (c.fresh()) c.post(hostcall::FdFdstatGet{.fd = fd});
  if (!c.answered()) PARK;
  const wasi::Memory m(i);
  u32 e = c.error();
  for (u32 k = 0; k < 3 && e == wasi::OK; k++) e = m.put(at + 8 * k, c.value(k));
  DONE(e);
}

WASI(fd_filestat_get, u32 fd, u32 at) {
  CHECK(at, 64, 8);
  const wasi::Call c(i);
  if (c.fresh()) c.post(hostcall::FdFilestatGet{.fd = fd});
  if (!c.answered()) PARK;
  const u32 e = c.error();
  if (e == wasi::OK) c.reply(at, 64);
  DONE(e);
}

WASI(fd_prestat_get, u32 fd, u32 at) {
  CHECK(at, 8, 4);
  const wasi::Call c(i);
  if (c.p->flags & PROCESS_GIVEN) return {fuel, wasi::prestat(i, fd, at), 0};
  if (c.fresh()) c.post(hostcall::FdPrestatGet{.fd = fd});
  if (!c.answered()) PARK;
  const wasi::Memory m(i);
  const u32 e = c.error();
  if (e == wasi::OK) m.word(at) = (u32)c.value(0), m.word(at + 4) = (u32)(c.value(0) >> 32);
  DONE(e);
}

WASI(fd_prestat_dir_name, u32 fd, u32 at, u32 length) {
  const wasi::Call c(i);
  if (const u32 e = wasi::Memory(i).check(at, length, 1); e != wasi::OK) return {fuel, e, 0};
  const bool given = (c.p->flags & PROCESS_GIVEN) && wasi::Given(c.p).holds(fd);
  if (given) return {fuel, wasi::prestat_name(i, fd, at, length), 0};
  if (c.fresh(min(length, HOSTCALL_DATA_BYTES))) c.post(hostcall::FdPrestatDirName{.fd = fd, .length = length});
  if (!c.answered()) PARK;
  const u32 e = c.error();
  if (e == wasi::OK) c.reply(at, length);
  DONE(e);
}

WASI(fd_seek, u32 fd, u64 delta, u32 whence, u32 at) {
  CHECK(at, 8, 8);
  const wasi::Call c(i);
  if (c.fresh()) c.post(hostcall::FdSeek{.fd = fd, .delta = (i64)delta, .whence = whence});
  if (!c.answered()) PARK;
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : wasi::Memory(i).put(at, c.value(0)));
}

WASI(fd_tell, u32 fd, u32 at) {
  CHECK(at, 8, 8);
  const wasi::Call c(i);
  if (c.fresh()) c.post(hostcall::FdTell{.fd = fd});
  if (!c.answered()) PARK;
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : wasi::Memory(i).put(at, c.value(0)));
}
