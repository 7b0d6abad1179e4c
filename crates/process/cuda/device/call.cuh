// A process's call of the host: the device's side of the host-call ring.
//
// A process has at most one call on its way, with the slot that has its place's number. Every import that calls the
// host is written so that it may be entered again with the same arguments while the call is on its way: a `fresh` call
// is posted, an `answered` call gives its answer, and between the two the import leaves by PARK.
//
// While few calls are on their way, a lane waits on the spot for a call that should not take long: two suspensions cost
// more than the few microseconds. Otherwise the process gives up its lane, and the host wakes it. It also does so when the
// answer does not come after all, because the output has no reader: no lane may wait for what happens outside this
// program, or the engine could not park. A call takes one atomic and four stores; nothing else waits for memory, and
// there is no fence unless there is a payload.
#pragma once

#include "process/memory.cuh"

namespace process {

// Tells the host of a child before its first call: see gpu/adopt.cuh.
__device__ void introduce(DevInstance* i);

__device__ __forceinline__ const DevHostCallRing& ring() { return everwarp_tables.host_calls; }

// Takes an area, counted from 1, that is free in the first `looks` words of the bitmap; 0 if there is none. Every place
// begins at a different area, so that neighbours do not contend for the same ones.
__device__ __noinline__ u32 take_area(u32 place, u32 looks) {
  const u32 words = ring().area_count / 32;
  u32 at = place;
  const u32 turn = place / words;
  for (u32 k = 0; k < min(looks, words); k++, at++) {
    u32* word = &ring().free[at % words];
    u32 bits = ew::load(word, ew::relaxed, ew::gpu);
    while (bits != 0) {
      const u32 bit = 1u << (__ffs(__funnelshift_r(bits, bits, turn)) - 1 + turn) % 32;
      // Pairs with the release of `give_area`: the reply was read before the area is written again.
      if (ew::fetch_and(word, ~bit, ew::acquire, ew::gpu) & bit) return at % words * 32 + __ffs(bit);
      bits &= ~bit;
    }
  }
  return 0;
}

__device__ __forceinline__ void give_area(u32 area) {
  ew::fetch_or(&ring().free[(area - 1) / 32], 1u << (area - 1) % 32, ew::release, ew::gpu);
}

// The beginning of an answer. One load brings all of it over the bus, and the host writes the status last: so
// error number and first value need no load of their own once the status is right.
struct Answer {
  u32 status, error, reply_bytes;
  u64 value;
  __device__ __forceinline__ explicit Answer(const DevProcess* p) {
    u64 head;
    load_wide((const u8*)&ring().slots[(u32)p->pid], head, value);
    status = (u32)head, error = (u32)(head >> 32) & 0xffff, reply_bytes = min((u32)(head >> 48), HOSTCALL_DATA_BYTES);
  }
};

// Asks the host to wake the process after the answer to a call that was sent without that wish. The host writes the
// status, and then reads this word; here the word is written, and then the status is read: one of the two sees the other.
__device__ __forceinline__ void wish_for_wake(const DevProcess* p) {
  ew::store(&ring().slots[(u32)p->pid].given_up, (u64)p->call_sequence, ew::relaxed, ew::sys);
  ew::fence(ew::sc, ew::sys);
}

// As many looks take some 0.4 ms.
constexpr u32 LOOKS_ON_THE_SPOT = 64;
constexpr u32 LOOKS_UNTIL_ANSWERED = ~0u;

// Waits for an answer on the spot; a lane that sleeps holds up only its own warp. A look takes a microsecond, so
// the first looks follow each other without a pause, and each also reads whether the process is to end. After `most`
// looks the host is asked to wake the process, and what the look after that finds is returned, answer or not.
__device__ __noinline__ Answer await(DevProcess* p, u32 most) {
  for (u32 looks = 0;; looks++) {
    if (looks == most) wish_for_wake(p);
    const u32 killed = ew::load(&instance(p)->kill, ew::relaxed, ew::sys);
    const Answer a(p);
    if (a.status == p->call_sequence || looks == most) {
      p->killed = killed;
      return a;
    }
    if (looks >= 16) __nanosleep(min(64u << min(looks - 16, 7u), 8192u));
  }
}
__device__ __forceinline__ Answer await(DevProcess* p) { return await(p, LOOKS_UNTIL_ANSWERED); }

// Keeps an answer.
__device__ __forceinline__ void take(DevProcess* p, const Answer& a) {
  p->call_error = a.error;
  p->call_bytes = a.reply_bytes;
  p->call_value = a.value;
}

// Words of the bitmap that a call looks at if it can do without an area.
constexpr u32 FEW_LOOKS = 8;

// How a request is sent.
constexpr u32 SEND_SHORT = 0;  // it is answered soon; the lane waits on the spot while few calls are on their way
constexpr u32 SEND_LONG = 1;   // it may take any time, and holds up no other process
constexpr u32 SEND_LAST = 2;   // the process belongs to the host as soon as the request has arrived
constexpr u32 SEND_HERE = 3;   // the sender waits for the answer
constexpr u32 SEND_SOON = 4;   // it is answered soon, and no lane waits on the spot

__device__ __noinline__ void send(DevProcess* p, u32 how, u32 call, u64 a0, u64 a1, u64 a2, u64 a3, u64 a4, u64 a5) {
  constexpr u64 REST = ~0ull >> 1;
  // A thread calls for its process, with a slot of its own.
  const u64 names = p->owner;
  const u32 bytes = p->call_bytes;
  u64 head = (u32)p->pid | (u64)bytes << HOSTCALL_BYTES_SHIFT | (u64)p->call_area << HOSTCALL_AREA_SHIFT |
             (a1 >> 63 | a3 >> 63 << 1 | a5 >> 63 << 2) << HOSTCALL_HIGH_SHIFT;
  p->call_sequence++;
  // Pairs with the host's acquire of the entry; and for the last call, with `prepare` for the next process of the place.
  if (bytes != 0 || how == SEND_LAST) ew::fence(ew::acq_rel, ew::sys);
  const u64 before = ew::fetch_add(ring().tail, (1ull << 32) + (how == SEND_SHORT), ew::relaxed, ew::gpu);
  const bool wake = how == SEND_LONG || how == SEND_SOON || (how == SEND_SHORT && (u32)before >= SPINNING_CALLS);
  if (how != SEND_LAST) {
    p->call = how == SEND_SHORT ? CALL_COUNTED : how == SEND_SOON ? CALL_SOON : CALL_SENT;
    p->waits = wake ? WAITS_POSTED : WAITS_HERE;
  }
  const u32 waits = (wake ? HOSTCALL_WAKE : 0) | (how == SEND_LONG ? HOSTCALL_PATIENT : 0);
  head |= (u64)(call | waits) << HOSTCALL_CALL_SHIFT;
  const u32 index = (u32)(before >> 32), entries = ring().entry_count;
  const u64 lap = (index & entries) == 0 ? 1ull << 63 : 0;
  u64* to = ring().entries[index & (entries - 1)].words;
  store_wide(to, names, head | lap);
  store_wide(to + 2, a0, (a1 & REST) | lap);
  store_wide(to + 4, a2, (a3 & REST) | lap);
  store_wide(to + 6, a4, (a5 & REST) | lap);
}

__device__ __forceinline__ bool on_its_way(const DevProcess* p) {
  return p->call == CALL_SENT || p->call == CALL_COUNTED || p->call == CALL_SOON;
}

struct Call {
  DevInstance* i;
  DevProcess* p;

  __device__ __forceinline__ explicit Call(DevInstance* i) : i(i), p(of(i)) {}
  __device__ __forceinline__ DevHostCall& slot() const { return ring().slots[(u32)p->pid]; }
  __device__ __forceinline__ u8* data() const {
    return p->call_area == 0 ? slot().data : ring().areas + (u64)(p->call_area - 1) * HOSTCALL_DATA_BYTES;
  }

  // Whether no call is on its way: then there is room for `bytes` of payload or of reply, whichever is more, and the
  // call is to be posted. If there is no area for them, the process sends a NOP, which holds no lane, and the import
  // comes back here.
  __device__ __forceinline__ bool fresh(u32 bytes = 0) const { return fresh_or(bytes, bytes); }
  // The same for a call that may be done in part: there is room for some bytes, as `room` says. So no process waits for
  // an area without need, and a hundred thousand that read do not keep the host busy with NOPs.
  __device__ __forceinline__ bool fresh_part(u32 bytes) const { return fresh_or(bytes, 0); }
  __device__ __forceinline__ bool fresh_or(u32 bytes, u32 least) const {
    if (on_its_way(p)) return false;
    if (p->flags & PROCESS_UNKNOWN) introduce(i);
    return bytes <= HOSTCALL_INLINE_BYTES && p->call == CALL_NONE ? begin(p, 0) : make_room(p, bytes, least);
  }
  __device__ __forceinline__ static bool begin(DevProcess* p, u32 area) {
    p->call_area = area;
    p->call_bytes = 0;
    p->reply_most = 0;
    return true;
  }
  __device__ __noinline__ static bool make_room(DevProcess* p, u32 bytes, u32 least) {
    if (p->call == CALL_FOR_ROOM) {
      if (Answer(p).status != p->call_sequence) return false;
      p->call = CALL_NONE;
    }
    if (bytes <= HOSTCALL_INLINE_BYTES) return begin(p, 0);
    const bool must = least > HOSTCALL_INLINE_BYTES;
    if (const u32 area = take_area((u32)p->pid, must ? ~0u : FEW_LOOKS)) return begin(p, area);
    if (!must) return begin(p, 0);
    begin(p, 0);
    send(p, SEND_LONG, hostcall::Nop::NUMBER, 0, 0, 0, 0, 0, 0);
    p->call = CALL_FOR_ROOM;
    return false;
  }
  // Adds to the payload; the caller has asked for the room.
  __device__ __forceinline__ void payload(Bytes from, u32 bytes) const {
    copy_out(data() + p->call_bytes, from, bytes);
    p->call_bytes += bytes;
  }
  __device__ __forceinline__ u32 room() const {
    return (p->call_area == 0 ? HOSTCALL_INLINE_BYTES : HOSTCALL_DATA_BYTES) - p->call_bytes;
  }
  // Says where the reply is to go, linear memory that was checked: then a whole warp may copy it there before the
  // process goes on. One lane alone has few reads on their way over the bus.
  __device__ __forceinline__ void expect(u32 to, u32 most) const { p->reply_to = to, p->reply_most = most; }
  // Sends a request: one of the contract's structs, whose fields are the arguments. They stay in registers, since all of
  // this is inlined.
  template <class C>
  __device__ __forceinline__ void post_as(u32 how, const C& call) const {
    u64 a[6] = {};
    call.words(a);
    send(p, how, C::NUMBER, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  template <class C>
  __device__ __forceinline__ void post(const C& call) const {
    post_as(SEND_SHORT, call);
  }
  // A call that may take as long as it likes.
  template <class C>
  __device__ __forceinline__ void post_long(const C& call) const {
    post_as(SEND_LONG, call);
  }
  // A call that is answered soon. A warp takes its answer.
  template <class C>
  __device__ __forceinline__ void post_soon(const C& call) const {
    post_as(SEND_SOON, call);
  }
  // A call for whose answer the caller waits by `await`, however many calls are on their way.
  template <class C>
  __device__ __forceinline__ void post_here(const C& call) const {
    post_as(SEND_HERE, call);
  }
  // The last call: nothing of the process may be touched afterwards, and nothing waits for the answer.
  template <class C>
  __device__ __forceinline__ void post_last(const C& call) const {
    post_as(SEND_LAST, call);
  }
  // Looks for the answer. If it is not there, the process is woken when it is.
  __device__ __forceinline__ static Answer look(DevProcess* p) {
    if (p->waits != WAITS_HERE) return Answer(p);
    const Answer a = await(p, LOOKS_ON_THE_SPOT);
    if (a.status != p->call_sequence) {
      p->waits = WAITS_PARKED;
      // It is no call that is answered soon, and no lane waits for it.
      if (p->call == CALL_COUNTED) ew::add(ring().tail, ~0ull, ew::relaxed, ew::gpu);
      p->call = CALL_SENT;
    }
    return a;
  }
  // Whether the call is over, for a process that does not need the answer. If not, the process must park.
  __device__ __noinline__ static bool over(DevProcess* p) {
    if (p->waits == WAITS_READY || p->waits == WAITS_DELIVERED) return true;
    return look(p).status == p->call_sequence;
  }
  // Whether the answer is there. If not, the process must park.
  __device__ __forceinline__ bool answered() const { return answered(p); }
  __device__ __noinline__ static bool answered(DevProcess* p) {
    if (p->call == CALL_FOR_ROOM) return false;
    if (p->waits == WAITS_READY || p->waits == WAITS_DELIVERED) return true;
    if (p->waits == WAITS_POSTED) {
      // The first look would find nothing.
      p->waits = WAITS_PARKED;
      return false;
    }
    const Answer a = look(p);
    if (a.status != p->call_sequence) return false;
    take(p, a);
    // Pairs with the host's release of the status: what else it has written is read after this.
    if (a.error == ERRNO_SUCCESS && a.reply_bytes != 0) ew::fence(ew::acq_rel, ew::sys);
    return true;
  }
  __device__ __forceinline__ u32 error() const { return p->call_error; }
  __device__ __forceinline__ u64 value(u32 k) const {
    if (k == 0) return p->call_value;
    // As in `answered`.
    ew::fence(ew::acq_rel, ew::sys);
    return ew::load(&slot().values[k], ew::relaxed, ew::sys);
  }
  // Copies a reply of up to `most` bytes to linear memory that was checked.
  __device__ __forceinline__ u32 reply(u32 to, u32 most) const {
    const u32 bytes = min(p->call_bytes, most);
    if (p->waits != WAITS_DELIVERED) copy_in(Memory(i).from(to), data(), bytes);
    return bytes;
  }
  // Ends the call: its answer is not needed any longer.
  __device__ __forceinline__ void close() const {
    if (p->call == CALL_NONE) return;
    if (p->call_area != 0) give_area(p->call_area);
    if (p->call == CALL_COUNTED) ew::add(ring().tail, ~0ull, ew::relaxed, ew::gpu);
    p->call = CALL_NONE;
    p->call_area = 0;
  }
};

// Sends the collected output; false if the import must come again. The import that sends it passes an error of the host
// on to the process, once.
__device__ __noinline__ bool flush(DevInstance* i, u32& error) {
  const Call c(i);
  DevProcess* p = c.p;
  error = ERRNO_SUCCESS;
  while (p->output_sent < p->output_len) {
    const u32 rest = p->output_len - p->output_sent;
    if (c.fresh_part(rest)) {
      c.payload(output(p) + p->output_sent, min(rest, c.room()));
      c.post(hostcall::Output{.stream = 1});
    }
    if (!c.answered()) return false;
    error = c.error();
    const u64 taken = c.value(0);
    c.close();
    if (error != ERRNO_SUCCESS || taken == 0) break;
    p->output_sent += (u32)taken;
  }
  p->output_sent = p->output_len = 0;
  return true;
}

__device__ __forceinline__ bool flush(const Call& c, u32& error) { return flush(c.i, error); }

// The warp: takes the answers of the processes of a table, from `first` on, that the bits of `which` name, and
// copies long replies to where they are expected. The warp has resumed them, so no other lane touches them: a process
// may be woken twice, and the second wake must not write to the memory of a process that has gone on.
__device__ __noinline__ void take_answers(const DevProcessTable& t, u32 first, u32 which, u32 lane) {
  DevProcess* p = at(t, first + lane);
  u32 bytes = 0, to = 0;
  u8* memory = nullptr;
  const u8* from = nullptr;
  bool interleaved = false;
  if ((which >> lane & 1) != 0 && on_its_way(p)) {
    const Answer a(p);
    if (a.status == p->call_sequence) {
      take(p, a);
      p->waits = WAITS_READY;
      if (a.error == ERRNO_SUCCESS && a.reply_bytes >= DELIVERED_BYTES) bytes = min(a.reply_bytes, p->reply_most);
      const Call c(instance(p));
      from = c.data(), memory = c.i->memory, to = p->reply_to, interleaved = p->flags & PROCESS_INTERLEAVED;
    }
  }
  // Pairs with the host's release of each status.
  ew::fence(ew::acq_rel, ew::sys);
  for (u32 rest = __ballot_sync(~0u, bytes != 0); rest != 0; rest &= rest - 1) {
    const u32 whose = __ffs(rest) - 1;
    const Bytes its((u8*)__shfl_sync(~0u, (u64)memory, whose), __shfl_sync(~0u, to, whose), __shfl_sync(~0u, (u32)interleaved, whose));
    copy_in_warp(its, (const u8*)__shfl_sync(~0u, (u64)from, whose), __shfl_sync(~0u, bytes, whose), lane);
    if (lane == whose) p->waits = WAITS_DELIVERED;
  }
  __syncwarp();
}

}  // namespace process
