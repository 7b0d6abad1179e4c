// A process's call of the host: the device's side of the host-call ring.
//
// A process has at most one call on its way; its record remembers the slot. Every import that calls the host is
// written so that it may be entered again with the same arguments while the call is on its way: what is `fresh`
// posts, what is `answered` takes the answer, and between the two the import leaves by PARK.
//
// While few calls are on their way, a call that cannot take long is waited for where it was made: two suspensions
// cost more than the few microseconds. Otherwise the process gives up its lane, and the host wakes it.

namespace process {

// Tells the host of a child before its first call: see gpu/adopt.cuh.
__device__ void introduce(DevInstance* i);

// Takes a slot of the ring. There is always one to come: the host answers, and who is answered gives back.
__device__ __noinline__ u32 take_slot(const DevHostCallRing& ring) {
  const u32 words = ring.slot_count / 32;
  u32 lane, at = ew::Worker::here().global;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  for (u32 wait = 64;; wait = min(wait * 2, 4096u)) {
    for (u32 k = 0; k < words; k++, at++) {
      u32* word = &ring.free[at % words];
      // Lanes of a warp begin at different bits.
      u32 bits = ew::load(word, ew::relaxed, ew::gpu);
      while (bits != 0) {
        const u32 turned = __funnelshift_r(bits, bits, lane);
        const u32 bit = 1u << (__ffs(turned) - 1 + lane) % 32;
        // Pairs with the release of who gave it back: the answer was read before the slot is written again.
        if (ew::fetch_and(word, ~bit, ew::acquire, ew::gpu) & bit) return at % words * 32 + __ffs(bit) - 1;
        bits &= ~bit;
      }
    }
    __nanosleep(wait);
  }
}

__device__ __forceinline__ void give_slot(const DevHostCallRing& ring, u32 slot) {
  ew::fetch_or(&ring.free[slot / 32], 1u << slot % 32, ew::release, ew::gpu);
}

// The beginning of an answer. One load brings all of it over the bus, and the host writes the status last: so
// the error number needs no load of its own once the status is right.
struct Answer {
  u32 status, error, reply_bytes;
  __device__ __forceinline__ explicit Answer(const DevHostCall& h) {
    u64 a, b;
    load_wide((const u8*)&h.status, a, b);
    status = (u32)a, error = (u32)(a >> 32), reply_bytes = min((u32)b, HOSTCALL_DATA_BYTES);
  }
};

// Waits for an answer on the spot; a lane that sleeps holds up its own warp alone. A look takes a microsecond, so
// the first ones follow each other without a pause.
__device__ __noinline__ Answer await(const DevHostCall& h, u32 sequence) {
  for (u32 looks = 0;; looks++) {
    const Answer a(h);
    if (a.status == sequence) return a;
    if (looks >= 8) __nanosleep(min(64u << min(looks - 8, 7u), 8192u));
  }
}

struct Call {
  DevInstance* i;
  DevProcess* p;

  // In DevProcess::waits.
  static constexpr u32 SPINS = 0;
  static constexpr u32 PARKS = 1;
  static constexpr u32 POSTED = 2;  // parks, and the first look would find nothing

  __device__ __forceinline__ explicit Call(DevInstance* i) : i(i), p(of(i)) {}
  __device__ __forceinline__ static const DevHostCallRing& ring() { return *everwarp_tables.host_calls; }
  __device__ __forceinline__ DevHostCall& header() const { return ring().slots[p->call - 1]; }
  __device__ __forceinline__ u8* data() const { return ring().data + (u64)(p->call - 1) * HOSTCALL_DATA_BYTES; }

  // Whether nothing is on its way: then there is a slot, to be filled and posted.
  __device__ __forceinline__ bool fresh() const {
    if (p->call != 0) return false;
    if (p->flags & PROCESS_UNKNOWN) introduce(i);
    begin();
    return true;
  }
  // Takes a slot for a call.
  __device__ __forceinline__ void begin() const {
    // The answer to this comes while a slot is looked for.
    const u32 others = ew::fetch_add(p->table->calls, 1, ew::relaxed, ew::gpu);
    p->call = take_slot(ring()) + 1;
    p->call_bytes = 0;
    p->waits = others < SPINNING_CALLS ? SPINS : POSTED;
  }
  __device__ __forceinline__ void arg(u32 k, u64 v) const { header().args[k] = v; }
  // Arguments from the first on.
  template <class... T>
  __device__ __forceinline__ void args(T... v) const {
    u32 k = 0;
    (arg(k++, v), ...);
  }
  // Adds to the payload; the caller has seen to the room.
  __device__ __forceinline__ void payload(const u8* from, u32 bytes) const {
    copy_out(data() + p->call_bytes, from, bytes);
    p->call_bytes += bytes;
  }
  __device__ __forceinline__ u32 room() const { return HOSTCALL_DATA_BYTES - p->call_bytes; }
  // A call that may take as long as it likes.
  __device__ __forceinline__ void post_long(u32 call) const {
    p->waits = POSTED;
    post(call);
  }
  __device__ __noinline__ void post(u32 call) const {
    const DevHostCallRing& r = ring();
    const u32 slot = p->call - 1, sequence = r.sequence[slot] + 1;
    r.sequence[slot] = sequence;
    p->call_sequence = sequence;
    DevHostCall& h = header();
    h.process = (u32)p->pid;
    h.generation = (u32)(p->pid >> 32);
    h.call = p->waits == SPINS ? call : call | HOSTCALL_WAKE;
    h.data_bytes = p->call_bytes;
    const u32 index = ew::fetch_add(r.tail, 1, ew::relaxed, ew::gpu);
    const u32 lap = (index & r.entry_count) == 0 ? HOSTCALL_LAP : 0;
    // Release: whoever reads the entry with acquire sees the request.
    ew::store(&r.entries[index & (r.entry_count - 1)], (u64)sequence << 32 | slot | lap, ew::release, ew::sys);
  }
  // Whether the answer is there. If not, the process must park.
  __device__ __noinline__ bool answered() const {
    if (p->waits == POSTED) {
      p->waits = PARKS;
      return false;
    }
    const Answer a = p->waits == PARKS ? Answer(header()) : await(header(), p->call_sequence);
    if (a.status != p->call_sequence) return false;
    p->call_error = a.error;
    p->call_bytes = a.reply_bytes;
    // Pairs with the host's release of the status: what else it has written is read after this.
    if (a.error == ERRNO_SUCCESS) ew::fence(ew::acq_rel, ew::sys);
    return true;
  }
  __device__ __forceinline__ u32 error() const { return p->call_error; }
  __device__ __forceinline__ u64 value(u32 k) const {
    u64 v;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(&header().values[k]) : "memory");
    return v;
  }
  // Copies a reply of up to `most` bytes to linear memory that was checked.
  __device__ __forceinline__ u32 reply(u32 to, u32 most) const {
    const u32 bytes = min(p->call_bytes, most);
    copy_in(i->memory + to, data(), bytes);
    return bytes;
  }
  // The answer is not needed any longer.
  __device__ __forceinline__ void close() const {
    if (p->call == 0) return;
    give_slot(ring(), p->call - 1);
    ew::add(p->table->calls, ~0u, ew::relaxed, ew::gpu);
    p->call = 0;
  }
};

// Sends the collected output; false if the import must come again. An error of the host's is handed to the
// process once, by the import that sent.
__device__ __noinline__ bool flush(const Call& c, u32& error) {
  DevProcess* p = c.p;
  error = ERRNO_SUCCESS;
  while (p->output_sent < p->output_len) {
    if (c.fresh()) {
      c.arg(0, 1);
      c.payload(output(p) + p->output_sent, p->output_len - p->output_sent);
      c.post(HOSTCALL_OUTPUT);
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

}  // namespace process
