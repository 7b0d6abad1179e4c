// What names a path, or two.

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
__device__ __forceinline__ void post_paths(const Call& c, u32 call, Path a, Path b) {
  add_paths(c, a, b);
  c.post(call);
}

}  // namespace wasi

// An import with one or two paths whose answer is the error number alone.
#define PATHS(call, a, b, ...) PATHS_FOR(0, call, a, b, __VA_ARGS__)
// The same with an answer of up to `bytes` bytes.
#define PATHS_FOR(bytes, call, a, b, ...)                                                   \
  const wasi::Call c(i);                                                                    \
  if (const u32 e = wasi::check_paths(i, a, b); e != wasi::OK) return {fuel, e, 0};         \
  if (c.fresh(max((a).length + (b).length, min((u32)(bytes), HOSTCALL_DATA_BYTES)))) {      \
    c.args(__VA_ARGS__);                                                                    \
    wasi::post_paths(c, call, a, b);                                                        \
  }                                                                                         \
  if (!c.answered()) PARK
#define ONE(at, length) (wasi::Path{at, length})
#define NONE_MORE (wasi::Path{0, 0})

WASI(path_create_directory, u32 fd, u32 at, u32 length) {
  PATHS(HOSTCALL_PATH_CREATE_DIRECTORY, ONE(at, length), NONE_MORE, fd, 0);
  DONE(c.error());
}
WASI(path_remove_directory, u32 fd, u32 at, u32 length) {
  PATHS(HOSTCALL_PATH_REMOVE_DIRECTORY, ONE(at, length), NONE_MORE, fd, 0);
  DONE(c.error());
}
WASI(path_unlink_file, u32 fd, u32 at, u32 length) {
  PATHS(HOSTCALL_PATH_UNLINK_FILE, ONE(at, length), NONE_MORE, fd, 0);
  DONE(c.error());
}
WASI(path_filestat_get, u32 fd, u32 lookup, u32 at, u32 length, u32 to) {
  PATHS(HOSTCALL_PATH_FILESTAT_GET, ONE(at, length), NONE_MORE, fd, lookup);
  u32 e = c.error();
  if (e == wasi::OK) e = wasi::Memory(i).check(to, 64, 8);
  if (e == wasi::OK) c.reply(to, 64);
  DONE(e);
}
WASI(path_filestat_set_times, u32 fd, u32 lookup, u32 at, u32 length, u64 atim, u64 mtim, u32 flags) {
  PATHS(HOSTCALL_PATH_FILESTAT_SET_TIMES, ONE(at, length), NONE_MORE, fd, lookup, atim, mtim, flags);
  DONE(c.error());
}
WASI(path_link, u32 fd, u32 lookup, u32 at, u32 length, u32 new_fd, u32 new_at, u32 new_length) {
  PATHS(HOSTCALL_PATH_LINK, ONE(at, length), ONE(new_at, new_length), fd, lookup, length, new_fd);
  DONE(c.error());
}
WASI(path_rename, u32 fd, u32 at, u32 length, u32 new_fd, u32 new_at, u32 new_length) {
  PATHS(HOSTCALL_PATH_RENAME, ONE(at, length), ONE(new_at, new_length), fd, length, new_fd);
  DONE(c.error());
}
WASI(path_symlink, u32 at, u32 length, u32 fd, u32 new_at, u32 new_length) {
  PATHS(HOSTCALL_PATH_SYMLINK, ONE(at, length), ONE(new_at, new_length), length, fd);
  DONE(c.error());
}
WASI(path_readlink, u32 fd, u32 at, u32 length, u32 to, u32 to_length, u32 used) {
  if (const u32 e = wasi::Memory(i).check(to, to_length, 1); e != wasi::OK) return {fuel, e, 0};
  PATHS_FOR(to_length, HOSTCALL_PATH_READLINK, ONE(at, length), NONE_MORE, fd, to_length);
  const u32 e = c.error();
  DONE(e != wasi::OK ? e : wasi::Memory(i).put(used, c.reply(to, to_length)));
}
WASI(path_open, u32 fd, u32 lookup, u32 at, u32 length, u32 oflags, u64 base, u64 inheriting, u32 fdflags, u32 to) {
  const wasi::Call c(i);
  if (const u32 e = wasi::check_paths(i, ONE(at, length), NONE_MORE); e != wasi::OK) return {fuel, e, 0};
  while (true) {
    if (c.fresh(length)) {
      c.args(fd, lookup, oflags, fdflags, base, inheriting);
      wasi::add_paths(c, ONE(at, length), NONE_MORE);
      // Whoever has to wait until others close something must not hold them up.
      if (c.p->progress == 0) c.post(HOSTCALL_PATH_OPEN);
      else c.post_long(HOSTCALL_PATH_OPEN);
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
