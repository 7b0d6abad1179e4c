// Files of native tasks. The twins are crates/files/src/task.rs, crates/files/src/time_task.rs,
// crates/files/src/net_task.rs, crates/files/src/event_task.rs and crates/files/src/ring.rs, which have the promises.
#pragma once
#include "everwarp/files/pages.cuh"

namespace ew {

constexpr u64 FILE_CLOSED = 1ull << FILE_CLOSED_BIT;

// The task that goes on when a request is done. Its argument is the note, then the result.
struct Then {
  u32 function;
  u32 tag;
  u32 note;

  __device__ __forceinline__ u32 word(u32 priority) const {
    return priority << FILE_THEN_PRIORITY_SHIFT | function << 8 | (tag & 0xff);
  }
};

// The argument of a task that goes on after a request.
struct FileEnd {
  u32 note;
  u32 value;  // bytes that were moved, or the handle of an opened file
  u32 error;  // ERRNO_…; 0: none

  __device__ __forceinline__ explicit FileEnd(u64 arg) {
    const u32 result = (u32)(arg >> 32);
    note = (u32)arg;
    value = (i32)result >= 0 ? result : 0;
    error = (i32)result >= 0 ? 0 : 0 - result;
  }
};

// The warp: copies pairs of words, or writes zeros. Many loads are on their way at a time, because each may cross the bus.
EW_FN void copy_pairs(const u64* from, u64* to, u32 pairs, bool zeros, u32 lane) {
  constexpr u32 EACH = 8;
  for (u32 begin = lane; begin < pairs; begin += EACH * WARP) {
    u64 a[EACH] = {}, b[EACH] = {};
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
      const u32 at = begin + i * WARP;
      if (at < pairs && !zeros) load_pair(from + 2 * at, a[i], b[i], relaxed, sys);
    }
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
      const u32 at = begin + i * WARP;
      if (at < pairs) store_pair(to + 2 * at, a[i], b[i], relaxed, sys);
    }
  }
}

// The host's end of a door: which requests there are.
struct FileRing {
  const DevFiles& files;

  __device__ __forceinline__ DevFileRequest* slot(u64 number) const {
    return files.requests + (u32)number % files.slots;
  }
  // Takes the bell: the group in which the host waits, plus one; 0 if it does not wait.
  __device__ __forceinline__ u64 take_bell() const { return exchange(&files.control->bell, (u64)0, acq_rel, gpu); }
  // Reserves a slot. False if none is free, or if the ring is closed, which the number says. Any set of lanes may ask together. Those of
  // one ring do it with one exchange, because while many warps ask, one of them succeeds in the time of a round trip to memory.
  __device__ __forceinline__ bool reserve(u64& number) const {
    DevFileControl* c = files.control;
    const u32 lanes = __match_any_sync(__activemask(), (u64)c), first = __ffs(lanes) - 1, all = __popc(lanes);
    const u32 rank = __popc(lanes & ((1u << lane_id()) - 1));
    u32 got = 0;
    number = 0;
    if (rank == 0) {
      number = load(&c->reserved, relaxed, gpu);
      while ((number & FILE_CLOSED) == 0) {
        // Acquire pairs with the release in `file_door`: the host has copied what was in the slots. What was reserved may be
        // the older of the two values, and then the exchange fails.
        const u64 end = load(&c->taken, acquire, gpu) + files.slots;
        got = number < end ? (u32)min(end - number, (u64)all) : 0;
        if (got == 0) break;
        const u64 before = compare_exchange(&c->reserved, number, number + got, acq_rel, gpu);
        if (before == number) break;
        number = before;
      }
    }
    // The other lanes fill their slots after the acquire.
    __syncwarp(lanes);
    number = __shfl_sync(lanes, number, first) + rank;
    got = __shfl_sync(lanes, got, first);
    return (number & FILE_CLOSED) == 0 && rank < got;
  }
  // The warp: how many requests the host can copy, up to a limit. Each lane looks at another slot, since each look waits for memory.
  __device__ __forceinline__ u32 count(u32 lane) const {
    const u64 first = load(&files.control->taken, relaxed, gpu);
    u32 n = 0, run = WARP;
    while (n < FILE_TAKE_STEP && run == WARP) {
      const u64 at = first + n + lane;
      const u32 there = __ballot_sync(ALL, load(&slot(at)->turn, acquire, gpu) == at + 1);
      run = there == ALL ? WARP : __ffs(~there) - 1;
      n += run;
    }
    return n;
  }
  // The warp: copies the next requests to where the host reads them.
  __device__ __forceinline__ void copy_out(u32 count, u32 lane) const {
    constexpr u32 PAIRS = sizeof(DevFileRequest) / 16;
    // Another lane may have seen that a request is there.
    __syncwarp();
    const u32 first = (u32)load(&files.control->taken, relaxed, gpu) % files.slots;
    // The ring may end before the last of them.
    const u32 split = min(count, files.slots - first);
    u64* to = (u64*)files.copied;
    for (u32 part = 0; part < 2; part++) {
      const u64* from = (const u64*)(files.requests + (part == 0 ? first : 0));
      copy_pairs(from, to + (part == 0 ? 0 : split * PAIRS * 2), (part == 0 ? split : count - split) * PAIRS, false, lane);
    }
    // The completion, after which the host reads them, has a fence of this device only.
    fence(acq_rel, sys);
  }
  // The warp: whether the ring is closed and the host has copied all requests.
  __device__ __forceinline__ bool ended() const {
    const u64 reserved = load(&files.control->reserved, acquire, gpu);
    const bool all = (reserved & FILE_CLOSED) != 0 && (reserved & ~FILE_CLOSED) == load(&files.control->taken, relaxed, gpu);
    return __shfl_sync(ALL, all, 0);
  }
  // The warp: whether the host can copy a request, or sees the end.
  __device__ __forceinline__ bool is_there() const {
    const u64 first = load(&files.control->taken, relaxed, gpu);
    const bool one = load(&slot(first)->turn, acquire, gpu) == first + 1;
    return ended() || __shfl_sync(ALL, one, 0);
  }
};

// The files of the running task's instance. One lane makes a request; a warp's other lanes do not call.
struct Files {
  Lane& t;
  FileRing ring;
  u32 door;
  u32 class_bits;  // of all requests
  u64 limit;       // nanoseconds that a request of an open file may take; 0: without a limit

  __device__ __forceinline__ Files(Lane& t, const DevFiles& files, u32 door)
      : t(t), ring{files}, door(door), class_bits(0), limit(0) {}

  // Makes its requests in a class (FILE_INTERACTIVE, FILE_NORMAL, FILE_BACKGROUND).
  __device__ __forceinline__ Files& in_class(u32 number) {
    class_bits = number << FILE_CLASS_SHIFT;
    return *this;
  }
  // Lets each of its reads, writes, appends, truncates, stats and syncs of open files take this many nanoseconds at most.
  __device__ __forceinline__ Files& within(u64 nanos) {
    limit = nanos;
    return *this;
  }

  __device__ __forceinline__ bool open(u32 dir, const u8* path, u32 len, u32 flags, Then then) {
    return post(FILE_OPEN, dir, flags, path, len, then);
  }
  __device__ __forceinline__ bool read(u32 handle, u64 offset, u8* to, u32 len, Then then) {
    return post(FILE_READ, handle, offset, to, len, then, nullptr, limit);
  }
  __device__ __forceinline__ bool write(u32 handle, u64 offset, const u8* from, u32 len, Then then) {
    return post(FILE_WRITE, handle, offset, from, len, then, nullptr, limit);
  }
  __device__ __forceinline__ bool append(u32 handle, const u8* from, u32 len, Then then) {
    return post(FILE_APPEND, handle, 0, from, len, then, nullptr, limit);
  }
  __device__ __forceinline__ bool truncate(u32 handle, u64 size, Then then) {
    return post(FILE_TRUNCATE, handle, size, nullptr, 0, then, nullptr, limit);
  }
  __device__ __forceinline__ bool stat(u32 handle, DevFileStat* to, Then then) {
    return post(FILE_STAT, handle, 0, to, 0, then, nullptr, limit);
  }
  __device__ __forceinline__ bool sync(u32 handle, Then then) {
    return post(FILE_SYNC, handle, 0, nullptr, 0, then, nullptr, limit);
  }
  __device__ __forceinline__ bool close(u32 handle, Then then) { return post(FILE_CLOSE, handle, 0, nullptr, 0, then); }

  __device__ __forceinline__ bool list(u32 dir, const u8* path, u32 len, u8* to, u64 room, Then then) {
    return post(FILE_LIST, dir, 0, path, len, then, to, room);
  }

  __device__ __forceinline__ bool open_cached(u32 dir, const u8* path, u32 len, u32 flags, u64 room, Then then) {
    return post(FILE_OPEN, dir, flags | FILE_CACHED, path, len, then, (void*)room);
  }

  // Times are nanoseconds.
  __device__ __forceinline__ bool sleep(u64 nanos, Then then) { return post(FILE_SLEEP, 0, nanos, nullptr, 0, then); }
  __device__ __forceinline__ bool timer(u64 after, u64 period, Then then) {
    return post(FILE_TIMER, 0, after, nullptr, 0, then, nullptr, period);
  }
  __device__ __forceinline__ bool tick(u32 handle, Then then) { return post(FILE_TICK, handle, 0, nullptr, 0, then); }

  // Sockets. An address is the number of an IPv6 address, in which those of IPv4 have their places.
  __device__ __forceinline__ bool listen(const DevNetAddress& at, Then then) { return open_socket(FILE_LISTEN, at, then); }
  __device__ __forceinline__ bool connect(const DevNetAddress& to, Then then) { return open_socket(FILE_CONNECT, to, then); }
  __device__ __forceinline__ bool datagrams(const DevNetAddress& at, Then then) {
    return open_socket(FILE_DATAGRAMS, at, then);
  }
  __device__ __forceinline__ bool accept(u32 handle, DevNetAddress* peer, Then then) {
    return accept_within(handle, peer, 0, then);
  }
  __device__ __forceinline__ bool receive(u32 handle, u8* to, u32 len, Then then) {
    return receive_within(handle, to, len, 0, then);
  }
  __device__ __forceinline__ bool send(u32 handle, const u8* from, u32 len, Then then) {
    return send_within(handle, from, len, 0, then);
  }
  __device__ __forceinline__ bool receive_from(u32 handle, u8* to, u32 len, DevNetAddress* sender, Then then) {
    return post(FILE_RECEIVE_FROM, handle, 0, to, len, then, sender);
  }
  __device__ __forceinline__ bool send_to(u32 handle, const u8* from, u32 len, const DevNetAddress& to, Then then) {
    return post(FILE_SEND_TO, handle, port_and_scope(to), from, len, then, (void*)to.high, to.low);
  }
  __device__ __forceinline__ bool shut(u32 handle, u32 directions, Then then) {
    return post(FILE_SHUT, handle, directions, nullptr, 0, then);
  }
  __device__ __forceinline__ bool address(u32 handle, DevNetAddress* to, Then then) {
    return post(FILE_ADDRESS, handle, 0, to, 0, then);
  }
  // A limit of 0 nanoseconds is none.
  __device__ __forceinline__ bool connect_within(const DevNetAddress& to, u64 nanos, Then then) {
    return open_socket(FILE_CONNECT, to, then, nanos);
  }
  __device__ __forceinline__ bool accept_within(u32 handle, DevNetAddress* peer, u64 nanos, Then then) {
    return post(FILE_ACCEPT, handle, nanos, peer, 0, then);
  }
  __device__ __forceinline__ bool receive_within(u32 handle, u8* to, u32 len, u64 nanos, Then then) {
    return post(FILE_RECEIVE, handle, nanos, to, len, then);
  }
  __device__ __forceinline__ bool send_within(u32 handle, const u8* from, u32 len, u64 nanos, Then then) {
    return post(FILE_SEND, handle, nanos, from, len, then);
  }
  __device__ __forceinline__ bool cancel(u32 handle, u32 note, Then then) {
    return post(FILE_CANCEL, handle, note, nullptr, 0, then);
  }
  __device__ __forceinline__ bool set_option(u32 handle, u32 option, u64 value, Then then) {
    return post(FILE_SET_OPTION, handle, option, (void*)value, 0, then);
  }
  __device__ __forceinline__ bool option(u32 handle, u32 option, Then then) {
    return post(FILE_OPTION, handle, option, nullptr, 0, then);
  }
  __device__ __forceinline__ bool peer(u32 handle, DevNetAddress* to, Then then) {
    return post(FILE_PEER, handle, 0, to, 0, then);
  }
  // Events. The result of `events` is how many have come; 0: none comes any more.
  __device__ __forceinline__ bool watch(u32 handle, u32 sources, u64 signals, Then then) {
    return post(FILE_WATCH, handle, sources, (void*)signals, 0, then);
  }
  __device__ __forceinline__ bool events(u32 handle, DevEvent* to, u32 most, Then then) {
    return post(FILE_EVENTS, handle, 0, to, most, then);
  }
  __device__ __forceinline__ static u64 port_and_scope(const DevNetAddress& a) { return (u64)a.scope << 32 | a.port; }
  __device__ __forceinline__ bool open_socket(u32 op, const DevNetAddress& a, Then then, u64 nanos = 0) {
    return post(op, 0, port_and_scope(a), (void*)nanos, 0, then, (void*)a.high, a.low);
  }

  // Acquires the page with the byte at `offset` of a cached file, for the running task or for the task that goes on. One lane of
  // a warp or a block calls.
  __device__ __forceinline__ Page acquire(u32 handle, u64 offset, Then then) {
    u64 index;
    u32 writable;
    const u32 error = PageTable{ring.files.pages}.find(handle, offset, index, writable);
    if (error != 0) return {PageState::failed, error, nullptr};
    return acquire_found(handle, offset, index, then);
  }
  // The same for the page whose word has this number.
  __device__ __forceinline__ Page acquire_found(u32 handle, u64 offset, u64 index, Then then) {
    const PageTable table{ring.files.pages};
    const PageWord page = table.word(index);
    const u64 before = fetch_add(page.word, (u64)1, acquire_t{}, gpu);
    if ((before & PAGE_HOLDERS) >= PAGE_HOLDERS_MOST) {
      page.release();
      return {PageState::full, 0, nullptr};
    }
    const bool missing = (before & PAGE_HERE) == 0;
    if (!missing && (before & PAGE_USED) == 0) fetch_or(page.word, PAGE_USED, relaxed, gpu);
    if (missing ||
        ((before & PAGE_MARK) != 0 && (fetch_and(page.word, ~PAGE_MARK, relaxed, gpu) & PAGE_MARK) != 0)) {
      // At a mark the host reads further pages. Without room for that request it finds out by the next miss. One call serves
      // both, which spares code.
      bool closed = false;
      const bool taken = post(missing ? FILE_PAGE : FILE_PREFETCH, handle, offset, nullptr, 0, then, (void*)index, 0, missing,
                              &closed);
      if (missing) {
        // A task that goes on with an error holds nothing.
        if (!taken || closed) page.release();
        return {taken ? PageState::later : PageState::full, 0, nullptr};
      }
    }
    return {PageState::here, 0, table.bytes(PageWord::frame(before), offset)};
  }
  // Where the byte at `offset` is, whose page the task holds.
  __device__ __forceinline__ u8* held(u32 handle, u64 offset) const {
    const PageTable table{ring.files.pages};
    u64 index;
    u32 writable;
    if (table.find(handle, offset, index, writable) != 0) return nullptr;
    const u64 word = load(table.word(index).word, acquire_t{}, gpu);
    return (word & PAGE_HERE) != 0 ? table.bytes(PageWord::frame(word), offset) : nullptr;
  }
  // Says that the task has written `len` bytes from `offset` on, in a page that it holds. False if the handle is not open for
  // writing.
  __device__ __forceinline__ bool wrote(u32 handle, u64 offset, u32 len) const {
    const PageTable table{ring.files.pages};
    u64 index;
    u32 writable;
    if (table.find(handle, offset, index, writable) != 0 || writable == 0) return false;
    if (len == 0) return true;
    const PageWord page = table.word(index);
    const u64 word = load(page.word, acquire_t{}, gpu);
    if ((word & PAGE_HERE) == 0) return false;
    const u32 part_bits = table.pages.page_bits - 6;
    const u64 last_byte = (1ull << table.pages.page_bits) - 1;
    const u64 at = offset & last_byte;
    const u64 first = at >> part_bits, last = min(at + len - 1, last_byte) >> part_bits;
    page.wrote(table.pages.written + PageWord::frame(word), ~0ull >> (63 - (last - first)) << first);
    return true;
  }
  // Releases the page with the byte at `offset`, which the task holds.
  __device__ __forceinline__ void release(u32 handle, u64 offset) const {
    const PageTable table{ring.files.pages};
    u64 index;
    u32 writable;
    if (table.find(handle, offset, index, writable) == 0) table.word(index).release();
  }
  // Reads a value, whose offset is a multiple of its size.
  template <typename T>
  __device__ __forceinline__ Got<T> get(u32 handle, u64 offset, Then then) {
    if (offset % sizeof(T) != 0) return {PageState::failed, ERRNO_INVAL, T{}};
    const PageTable table{ring.files.pages};
    u64 index;
    u32 writable;
    const u32 error = table.find(handle, offset, index, writable);
    if (error != 0) return {PageState::failed, error, T{}};
    const PageWord word = table.word(index);
    if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
      using Bits = typename BitsOf<sizeof(T)>::type;
      if (const u64 seen = word.peek()) {
        // Acquire: before the second look.
        const Bits bits = load((const Bits*)table.bytes(PageWord::frame(seen), offset), ew::acquire, gpu);
        if (word.stayed(seen)) return {PageState::here, 0, bits_as<T>(bits)};
      }
    }
    const Page page = acquire_found(handle, offset, index, then);
    if (page.state != PageState::here) return {page.state, page.error, T{}};
    const T value = __ldcg((const T*)page.bytes);
    word.release();
    return {PageState::here, 0, value};
  }
  // Reads a value from a page that the task holds, and releases the page.
  template <typename T>
  __device__ __forceinline__ T take(u32 handle, u64 offset) const {
    const T value = __ldcg((const T*)held(handle, offset));
    release(handle, offset);
    return value;
  }
  // Says that tasks will want `len` bytes from `offset` on. False if the request has found no room.
  __device__ __forceinline__ bool prefetch(u32 handle, u64 offset, u64 len) {
    return len == 0 || ahead(handle, offset, len);
  }
  __device__ __forceinline__ bool ahead(u32 handle, u64 offset, u64 len) {
    return post(FILE_PREFETCH, handle, offset, nullptr, 0, {0, 0, 0}, nullptr, len, false);
  }

  // Makes a request. False if the ring is full: then nothing was asked. `waits`: a task goes on after it.
  __device__ __forceinline__ bool post(u32 op, u32 handle, u64 offset, const void* address, u32 len, Then then,
                                       void* to = nullptr, u64 room = 0, bool waits = true, bool* closed = nullptr) {
    u64 number;
    if (!ring.reserve(number)) {
      if ((number & FILE_CLOSED) == 0) {
        add(&ring.files.control->refused, 1, relaxed, gpu);
        return false;
      }
      if (waits) t.spawn(then.function, then.tag, Lane::pack(then.note, 0 - ERRNO_CANCELED));
      if (closed != nullptr) *closed = true;
      return true;
    }
    const u32 group = waits ? t.hold() : NONE;
    DevFileRequest* r = ring.slot(number);
    store(&r->op, op | class_bits, relaxed, gpu);
    store(&r->handle, handle, relaxed, gpu);
    store(&r->offset, offset, relaxed, gpu);
    store(&r->address, (u64)address, relaxed, gpu);
    store(&r->len, len, relaxed, gpu);
    store(&r->group, group, relaxed, gpu);
    store(&r->then, then.word(priority_of(t.task.head)), relaxed, gpu);
    store(&r->note, then.note, relaxed, gpu);
    store(&r->to, (u64)to, relaxed, gpu);
    store(&r->room, room, relaxed, gpu);
    // The host copies the slot, and the bytes to be written, after a completion that comes after this.
    fence(acq_rel, sys);
    store(&r->turn, number + 1, ew::release, gpu);
    const u64 bell = ring.take_bell();
    if (bell != 0) t.spawn_held_at(PRIORITY_URGENT, (u32)bell - 1, door, FILE_DOOR_COUNT, 0);
    return true;
  }
};

// The warp: copies bytes of the arena, or writes zeros.
EW_FN void file_copy(const DevFiles& files, u32 from, u32 len, u64 to, u32 lane) {
  const bool zeros = from == FILE_COPY_ZEROS;
  const u8* source = files.arena + (zeros ? 0 : from);
  u8* target = (u8*)to;
  const u32 head = min(len, 0u - (u32)to & 15), pairs = (len - head) / 16, rest = head + 16 * pairs;
  // The bytes before and after those that go 16 at a time.
  const u32 odd = lane < 16 ? lane : rest + lane - 16;
  if (lane < 16 ? lane < head : odd < len) target[odd] = zeros ? 0 : *(const volatile u8*)(source + odd);
  copy_pairs((const u64*)(source + head), (u64*)(target + head), pairs, zeros, lane);
}

// The warp: copies what up to 32 records say, and then names the pages that are there. False if a record says something that cannot be.
EW_FN bool file_copies(const DevFiles& files, u32 first, u32 count, u32 lane) {
  u64 place = 0, to = 0;
  const u64* record = (const u64*)(files.copies + first + lane);
  const bool own = lane < count && first + lane < files.copy_slots;
  if (own) load_pair(record, place, to, relaxed, sys);
  const u32 from = (u32)place, len = (u32)(place >> 32);
  const bool fits = from == FILE_COPY_ZEROS || (from <= files.arena_bytes && len <= files.arena_bytes - from && ((from ^ (u32)to) & 15) == 0);
  if (!__all_sync(ALL, fits && len <= FILE_COPY_MOST) || count > WARP) return false;
  for (u32 i = 0; i < count; i++) {
    file_copy(files, __shfl_sync(ALL, from, i), __shfl_sync(ALL, len, i), __shfl_sync(ALL, to, i), lane);
  }
  // What other lanes have copied comes before the release of each lane. The page is loaded only now, because the copies need all registers.
  __syncwarp();
  u64 page = 0, bits = 0;
  if (own) load_pair(record + 2, page, bits, relaxed, sys);
  if (page != 0 && page <= files.pages.count) PageWord{files.pages.words + page - 1}.fill(bits);
  return true;
}

// The door: the function through which the host and the tasks of an instance meet. A warp runs it.
EW_FN void file_door(Warp& t, const DevFiles& files, u32 number) {
  const FileRing ring{files};
  DevFileControl* c = files.control;
  const bool first = t.lane == 0;
  u64 bell = 0;
  bool reports = false;
  // What the host has written to its own memory before it submitted this task: completions, orders, and bytes of the arena.
  if (t.tag() >= FILE_DOOR_DELIVER) fence(acq_rel, sys);
  switch (t.tag()) {
    case FILE_DOOR_WAIT: {
      if (first) store(&c->taken, t.arg(), release, gpu);
      __syncwarp();
      reports = ring.is_there();
      if (reports) break;
      u64 own = 0;
      if (first) {
        own = (u64)t.hold() + 1;
        exchange(&c->bell, own, acq_rel, gpu);
      }
      __syncwarp();
      // A request that came in between, whose task may have seen no bell.
      if (ring.is_there() && first && compare_exchange(&c->bell, own, (u64)0, acq_rel, gpu) == own) bell = own;
      break;
    }
    case FILE_DOOR_COUNT: reports = true; break;
    case FILE_DOOR_DELIVER:
      if (t.lane < t.hi()) {
        const u64* done = (const u64*)(files.done + (t.lo() + t.lane) % files.done_slots);
        u64 head, arg, page, bits;
        load_pair(done, head, arg, relaxed, sys);
        load_pair(done + 2, page, bits, relaxed, sys);
        if (page != 0 && page <= files.pages.count) {
          const PageWord word{files.pages.words + page - 1};
          if (bits != 0) word.fill(bits);
          else word.release();
        }
        const u32 then = (u32)head;
        t.spawn_held_at(then >> FILE_THEN_PRIORITY_SHIFT, (u32)(head >> 32), then >> 8 & ((1u << TASK_FN_BITS) - 1), then & 0xff,
                        arg);
      }
      break;
    case FILE_DOOR_ORDERS:
      for (u32 i = t.lane; i < t.hi(); i += WARP) PageTable{files.pages}.carry_out(t.lo() + i);
      // The completion, after which the host reads the answers, has a fence of this device only.
      fence(acq_rel, sys);
      break;
    case FILE_DOOR_COPY:
      // The counts at the end of this task release what all lanes have written.
      if (!file_copies(files, t.lo(), t.hi(), t.lane) && first) t.fault(t.arg());
      break;
    case FILE_DOOR_CLOSE:
      if (first) {
        fetch_or(&c->reserved, FILE_CLOSED, acq_rel, gpu);
        bell = ring.take_bell();
      }
      break;
    default:
      if (first) t.fault(t.arg());
  }
  if (bell != 0) t.spawn_held((u32)bell - 1, number, FILE_DOOR_COUNT, 0);
  if (reports) {
    const u32 count = ring.count(t.lane);
    ring.copy_out(count, t.lane);
    const bool ends = count == 0 && ring.ended();
    if (first) t.report_add(ends ? FILE_ENDED : count);
  }
}

}  // namespace ew
