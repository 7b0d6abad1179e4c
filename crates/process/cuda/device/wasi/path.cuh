// Imports that take a path, or two.
#pragma once

#include "process/wasi/import.cuh"

namespace wasi {

// A path in linear memory.
struct Path {
  u32 at;
  u32 length;
};

// Whether both may be read and fit the payload. The second of one path is empty.
__device__ __noinline__ u32 check_paths(DevInstance* i, Path a, Path b) {
  const Memory m(i);
  u32 e = m.check(a.at, a.length, 1);
  if (e == OK) e = m.check(b.at, b.length, 1);
  if (e == OK && (u64)a.length + b.length > HOSTCALL_DATA_BYTES) e = ERRNO_NAMETOOLONG;
  return e;
}

__device__ __forceinline__ void add_paths(const Call& c, Path a, Path b) {
  const Memory m(c.i);
  c.payload(m.from(a.at), a.length);
  c.payload(m.from(b.at), b.length);
}
template <class C>
__device__ __forceinline__ void post_paths(const Call& c, Path a, Path b, const C& call) {
  add_paths(c, a, b);
  c.post(call);
}

}  // namespace wasi

// An import with one or two paths that makes this call, whose answer is the error number alone.
#define PATHS(a, b, ...) PATHS_FOR(0, a, b, __VA_ARGS__)
// The same with an answer of up to `bytes` bytes.
#define PATHS_FOR(bytes, a, b, ...)                                                         \
  const wasi::Call c(i);                                                                    \
  if (const u32 e = wasi::check_paths(i, a, b); e != wasi::OK) return {fuel, e, 0};         \
  if (c.fresh(max((a).length + (b).length, min((u32)(bytes), HOSTCALL_DATA_BYTES)))) {      \
    wasi::post_paths(c, a, b, __VA_ARGS__);                                                 \
  }                                                                                         \
  if (!c.answered()) PARK
#define ONE(at, length) (wasi::Path{at, length})
#define NONE_MORE (wasi::Path{0, 0})

WASI(path_create_directory, u32 fd, u32 at, u32 length) {
  PATHS(ONE(at, length), NONE_MORE, hostcall::PathCreateDirectory{.fd = fd});
  DONE(c.error());
}
WASI(path_remove_directory, u32 fd, u32 at, u32 length) {
  PATHS(ONE(at, length), NONE_MORE, hostcall::PathRemoveDirectory{.fd = fd});
  DONE(c.error());
}
WASI(path_unlink_file, u32 fd, u32 at, u32 length) {
  PATHS(ONE(at, length), NONE_MORE, hostcall::PathUnlinkFile{.fd = fd});
  DONE(c.error());
}
WASI(path_filestat_get, u32 fd, u32 lookup, u32 at, u32 length, u32 to) {
  CHECK(to, 64, 8);
  PATHS(ONE(at, length), NONE_MORE, hostcall::PathFilestatGet{.fd = fd, .lookup = lookup});
  const u32 e = c.error();
  if (e == wasi::OK) c.reply(to, 64);
  DONE(e);
}
WASI(path_filestat_set_times, u32 fd, u32 lookup, u32 at, u32 length, u64 atim, u64 mtim, u32 flags) {
  PATHS(ONE(at, length), NONE_MORE, hostcall::PathFilestatSetTimes{
      .fd = fd, .lookup = lookup, .accessed = atim, .modified = mtim, .flags = flags});
  DONE(c.error());
}
WASI(path_link, u32 fd, u32 lookup, u32 at, u32 length, u32 new_fd, u32 new_at, u32 new_length) {
  PATHS(ONE(at, length), ONE(new_at, new_length), hostcall::PathLink{
      .old_fd = fd, .lookup = lookup, .old_length = length, .new_fd = new_fd});
  DONE(c.error());
}
WASI(path_rename, u32 fd, u32 at, u32 length, u32 new_fd, u32 new_at, u32 new_length) {
  PATHS(ONE(at, length), ONE(new_at, new_length), hostcall::PathRename{
      .old_fd = fd, .old_length = length, .new_fd = new_fd});
  DONE(c.error());
}
WASI(path_symlink, u32 at, u32 length, u32 fd, u32 new_at, u32 new_length) {
  PATHS(ONE(at, length), ONE(new_at, new_length), hostcall::PathSymlink{.target_length = length, .fd = fd});
  DONE(c.error());
}
WASI(path_readlink, u32 fd, u32 at, u32 length, u32 to, u32 to_length, u32 used) {
  CHECK(to, to_length, 1);
  CHECK(used, 4, 4);
  PATHS_FOR(to_length, ONE(at, length), NONE_MORE, hostcall::PathReadlink{.fd = fd, .length = to_length});
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : wasi::Memory(i).put(used, c.reply(to, to_length)));
}
WASI(path_open, u32 fd, u32 lookup, u32 at, u32 length, u32 oflags, u64 base, u64 inheriting, u32 fdflags, u32 to) {
  CHECK(to, 4, 4);
  const wasi::Call c(i);
  if (const u32 e = wasi::check_paths(i, ONE(at, length), NONE_MORE); e != wasi::OK) return {fuel, e, 0};
  while (true) {
    if (c.fresh(length)) {
      wasi::add_paths(c, ONE(at, length), NONE_MORE);
      const hostcall::PathOpen open{
          .fd = fd, .lookup = lookup, .oflags = oflags, .fdflags = fdflags, .base = base, .inheriting = inheriting};
      // A process that has to wait until others close files must not hold them up.
      if (c.p->progress == 0) c.post(open);
      else c.post_long(open);
    }
    if (!c.answered()) PARK;
    if (c.error() != HOSTCALL_LATER) break;
    c.close();
    c.p->progress = 1;
  }
  c.p->progress = 0;
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : wasi::Memory(i).put(to, (u32)c.value(0)));
}
