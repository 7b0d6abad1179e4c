// The life of a process: start, run, end.
#pragma once

#include "process/call.cuh"
#include "process/gather.cuh"
#include "process/gpu/children.cuh"
#include "process/threads/team.cuh"
#include "process/turn.cuh"

namespace process {

// The warp: copies or clears whole 16-byte pieces.
__device__ __forceinline__ void copy(u8* to, const u8* from, u64 bytes, u32 lane) {
  for (u64 i = lane; i < bytes / 16; i += 32) ((uint4*)to)[i] = __ldcg((const uint4*)from + i);
}
__device__ __forceinline__ void clear(u8* to, u64 bytes, u32 lane) {
  const uint4 zero = make_uint4(0, 0, 0, 0);
  uint4* at = (uint4*)to;
  u64 i = lane, n = bytes / 16;
  for (; i + 96 < n; i += 128) {
#pragma unroll
    for (u32 k = 0; k < 4; k++) at[i + 32 * k] = zero;
  }
  for (; i < n; i += 32) at[i] = zero;
}

// The beginning of the memory of a place, which is interleaved with the other memories of its group of 32.
__device__ __forceinline__ u8* interleaved_memory(const DevProcessTable& t, u32 slot) {
  return t.memories + slot / START_PROCESSES * (START_PROCESSES * t.memory_stride) + slot % START_PROCESSES * UNIT_BYTES;
}

// The warp: fills and clears the memories that the bits of `which` name, from `first` on, each lane its own, so that
// the stores of a warp are next to each other.
__device__ __noinline__ void prepare_interleaved(const DevProcessTable& t, u32 first, u32 which, u32 lane) {
  const bool mine = which >> lane & 1;
  const u32 slot = first + lane;
  u64 dirty = 0;
  if (mine) dirty = __ldcg(&t.spawns[slot].flags) & PROCESS_FRESH ? 0 : at(t, slot)->dirty;
  const u32 initial = t.initial_bytes / UNIT_BYTES;
  const u32 units = max(mine ? initial : 0, (u32)(dirty / UNIT_BYTES));
  const u32 most = __reduce_max_sync(~0u, units);
  u32* to = (u32*)interleaved_memory(t, slot);
#pragma unroll 4
  for (u32 k = 0; k < most; k++) {
    const u32 unit = k < initial ? __ldcg((const u32*)t.memory + k) : 0;
    if (k < units) to[(u64)k * (UNIT_STRIDE_BYTES / UNIT_BYTES)] = unit;
  }
}

// The warp: makes a place of the table ready. The place is free: its last process has ended.
__device__ __noinline__ void prepare(const DevProcessTable& t, u32 slot, u32 lane) {
  DevProcess* p = at(t, slot);
  DevInstance* i = instance(p);
  const u32 flags = __ldcg(&t.spawns[slot].flags);
  const bool interleaved = flags & PROCESS_INTERLEAVED, thread = flags & PROCESS_THREAD;
  u8* memory = interleaved ? interleaved_memory(t, slot) : t.memories + slot * t.memory_stride;
  copy((u8*)i, t.block, t.block_bytes, lane);
  if (!interleaved && !thread) {
    // Memory that no process has used was cleared when the host started.
    const u64 dirty = flags & PROCESS_FRESH ? 0 : p->dirty;
    copy(memory, t.memory, t.initial_bytes, lane);
    if (dirty > t.initial_bytes) clear(memory + t.initial_bytes, dirty - t.initial_bytes, lane);
  }
  if (t.world != 0) begin_relations(t, &t.spawns[slot], lane);
  __syncwarp();
  if (lane == 0) {
    const DevSpawn* s = &t.spawns[slot];
    p->pid = p->owner = __ldcg(&s->pid);
    p->team = nullptr;
    p->wait = WAIT_NONE;
    p->start_args[0] = thread ? (slot - t.first_thread) % t.threads + 1 : 0;
    p->start_args[1] = thread ? __ldcg(&s->instance) : 0;
    p->table = (DevProcessTable*)&t;
    p->strings = (u8*)__ldcg((const u64*)&s->strings);
    p->random_blocks = 0;
    p->output_len = p->output_sent = 0;
    p->exit_code = 0;
    p->call = CALL_NONE;
    p->call_area = 0;
    // The count of a place's calls goes on from one of its processes to the next, as long as the place keeps its number.
    if (flags & (PROCESS_FRESH | PROCESS_FIRST)) p->call_sequence = 0;
    p->progress = 0;
    p->turn = TURN_RUNS;
    p->stage = STAGE_NEW;
    p->flags = flags;
    i->fuel = p->granted = __ldcg(&s->fuel);
    i->memory = memory;
    i->memory_limit = __ldcg(&s->memory_limit);
    i->module_data = t.module_data;
    i->depth = t.depth;
    if (t.suspension_at != 0) {
      DevSuspension* save = (DevSuspension*)((u8*)i + t.suspension_at);
      save->base += (u64)i;
      save->end += (u64)i;
      save->top += (u64)i;
    }
    if (t.deep_at != 0) {
      DevDeep* deep = (DevDeep*)((u8*)i + t.deep_at);
      deep->base += (u64)i;
      deep->end += (u64)i;
      deep->top += (u64)i;
    }
    if (t.teams != nullptr) team::share_memory(t, p, slot);
    // The host asks for an end by first writing this word, then the header's: one of the two writes stays.
    ew::fence(ew::acq_rel, ew::sys);
    if (ew::load(&s->kill, ew::relaxed, ew::sys) != 0) ew::store(&i->kill, 1, ew::relaxed, ew::sys);
  }
  // The template's tables have their elements at offsets.
  for (u32 k = lane; k < t.tables; k += 32) {
    DevTable* table = (DevTable*)((u8*)i + t.tables_at) + k;
    table->elements = (u64*)((u8*)i + (u64)table->elements);
  }
}

// The warp: makes ready the places that the bits of `which` name, from `first` on.
__device__ __noinline__ void prepare_all(const DevProcessTable& t, u32 first, u32 which, u32 lane) {
  // The last processes of these places may have written their memory on another multiprocessor, before
  // the host learned of their end. This multiprocessor must forget what it has cached.
  ew::fence(ew::acq_rel, ew::gpu);
  if (__ldcg(&t.spawns[first + __ffs(which) - 1].flags) & PROCESS_INTERLEAVED) prepare_interleaved(t, first, which, lane);
  for (u32 rest = which; rest != 0; rest &= rest - 1) prepare(t, first + __ffs(rest) - 1, lane);
  __syncwarp();
}

// Reports the end to the host. As soon as the host knows, the place belongs to it again, so the record must not be
// touched afterwards. A child's place belongs to its parent, which may start another child there at once. The host takes
// no call of that child before it has answered this one, so this lane waits for the answer.
__device__ __noinline__ void tell(DevProcess* p, bool child) {
  DevInstance* i = instance(p);
  const Call c(i);
  p->dirty = i->memory_bytes;
  u32 kind = EXIT_TRAP;
  if (i->trap == 0 || i->trap == TRAP_EXIT) kind = EXIT_NORMAL;
  if (i->trap == TRAP_KILLED) kind = EXIT_KILLED;
  if (i->trap == TRAP_OUT_OF_FUEL) kind = EXIT_OUT_OF_FUEL;
  c.fresh();
  c.payload(output(p) + p->output_sent, p->output_len - p->output_sent);
  const hostcall::Exit exit{
      .kind = kind,
      .code = i->trap == TRAP_EXIT ? p->exit_code : 0,
      .trap = i->trap,
      .function = i->trap_function,
      .offset = i->trap_offset,
      .fuel_left = (u64)i->fuel,
  };
  if (!child) return c.post_last(exit);
  c.post_here(exit);
  await(p);
  c.close();
}

// Runs compiled code for a slice. Lanes that have parted in it do not come together again by themselves: so each counts
// the lanes that run with it, and returns if they are fewer than have entered here. They count when their fuel is a
// multiple of the interval. The remainder is put aside, so that all count at the same time, as long as a slice cannot
// use up the rest.
__device__ __noinline__ void enter(const DevProcessTable& t, DevProcess* p, u32 entry) {
  DevInstance* i = instance(p);
  DevSuspension* s = (DevSuspension*)((u8*)i + t.suspension_at);
  const i64 aside = i->fuel > 2 * SLICE_LOOKS * LOOK_INTERVAL ? i->fuel % LOOK_INTERVAL : 0;
  i->fuel -= aside;
  s->slice = SLICE_LOOKS;
  s->mates = __popc(__activemask());
  // An engine that is to park does not wait for slices.
  s->stop = (u32*)&everwarp_tables.grid->stop;
  s->stop_from = ew::shared().epoch;
  linked_enter(t.module, (u64)i, entry, (u64)p->start_args);
  i->fuel += aside;
}

// Whether the engine is to park, so that nothing long should begin.
__device__ __forceinline__ bool parking() {
  return ew::load(&everwarp_tables.grid->stop, ew::relaxed, ew::gpu) >= ew::shared().epoch;
}

#ifdef EVERWARP_PARTIAL
// Asks the host for the function that the process has called and the image does not have; false if the process must park. The
// host answers when the image has the function. After an error the process has trapped.
__device__ __noinline__ bool supplied(DevProcess* p) {
  DevInstance* i = instance(p);
  const Call c(i);
  // A killed process gets no answer that it could wait for.
  const bool killed = ew::load(&i->kill, ew::relaxed, ew::sys) != 0;
  if (c.fresh()) c.post_long(hostcall::NeedFunction{.function = i->trap_function});
  if (!c.answered()) return false;
  const u32 error = c.error();
  c.close();
  if (error == ERRNO_SUCCESS && !killed) return true;
  i->trap = killed || error == ERRNO_CANCELED ? TRAP_KILLED : TRAP_NOT_COMPILED;
  i->trap_offset = 0;
  return true;
}
#endif

// The state of a process that has run for a while.
enum class Then { ENDS, WAITS, GOES_ON };

// Runs the process as far as it goes, or until its slice is spent.
__device__ __noinline__ Then advance(const DevProcessTable& t, DevProcess* p) {
  DevInstance* i = instance(p);
  if (p->stage == STAGE_NEW) {
    p->stage = t.start != ENTRY_NONE ? STAGE_START : STAGE_ENTRY;
    if (ew::load(&i->kill, ew::relaxed, ew::sys) != 0) {
      i->trap = TRAP_KILLED;
      p->stage = STAGE_OUTPUT;
    }
  }
  while (p->stage < STAGE_CALL) {
#ifdef EVERWARP_PARTIAL
    if (i->state == STATE_MISSING) {
      if (!supplied(p)) return Then::WAITS;
      if (i->trap != 0) {
        p->stage = STAGE_OUTPUT;
        break;
      }
    }
#endif
    enter(t, p, p->stage == STAGE_START ? t.start : p->flags & PROCESS_THREAD ? t.thread_entry : t.entry);
#ifdef EVERWARP_PARTIAL
    if (i->trap == 0 && i->state == STATE_MISSING) continue;
#endif
    if (i->trap == 0 && i->state != 0) return i->state == STATE_PREEMPTED ? Then::GOES_ON : Then::WAITS;
    p->stage = i->trap == 0 && p->stage == STAGE_START ? STAGE_ENTRY : STAGE_CALL;
  }
  if (p->stage == STAGE_CALL) {
    // It may have ended while its call was on its way.
    if (p->call != CALL_NONE && !Call::over(p)) return Then::WAITS;
    Call(i).close();
    p->stage = STAGE_OUTPUT;
  }
  if (p->flags & PROCESS_THREAD) {
    if (i->trap != 0) team::end(p);
    return Then::ENDS;
  }
  if (p->team != nullptr && !team::retire(p)) return Then::WAITS;
  const bool child = t.world != 0 && relations(p)->parent != 0;
  if (t.world != 0 && !retire(p)) return Then::WAITS;
  // The rest of the output goes along with the end if it fits there. The parent takes a child's end, and the child's slot
  // is used again as soon as it has: so the slot must not hold output then.
  if (!child && p->call == CALL_NONE && p->output_len - p->output_sent <= HOSTCALL_INLINE_BYTES) return Then::ENDS;
  u32 error;
  return flush(i, error) ? Then::ENDS : Then::WAITS;
}

// The work that is left for a process when its lane has left it.
enum class Next { NOTHING, AGAIN, GATHERS };

// Runs a process, and returns what another task is to do for it.
__device__ __noinline__ Next run(const DevProcessTable& t, u32 slot) {
  DevProcess* p = at(t, slot);
  const bool alone = __popc(__activemask()) == 1;
  // As above: another multiprocessor may have made the memory ready, copied a reply there, or parked the process.
  ew::fence(ew::acq_rel, ew::gpu);
  while (true) {
    const Then then = advance(t, p);
    if (then == Then::GOES_ON) return Next::AGAIN;
    if (then == Then::ENDS) break;
    expect_wake(t, p, slot);
    if (park(p)) return Next::NOTHING;
    // It was answered before it could leave; the other lanes have left, or will.
    if (expect_none(t, p, slot) || !alone) return Next::GATHERS;
  }
  if (p->flags & PROCESS_THREAD) {
    team::leave(p);
    return Next::NOTHING;
  }
  const bool child = t.world != 0 && relations(p)->parent != 0;
  if ((p->flags & PROCESS_UNKNOWN) == 0) tell(p, child);
  if (child) tell_parent(p);
  return Next::NOTHING;
}

// Spawns what is to go on with the process.
__device__ __forceinline__ void go_on(ew::Lane& t, Next next) {
  const u32 slot = t.lo();
  if (next == Next::AGAIN) t.spawn(FN_process_again, RUN_GOES_ON, slot);
  if (next == Next::GATHERS) {
    t.spawn(FN_process_wake, RUN_GOES_ON, ew::Lane::pack(slot / START_PROCESSES, 1u << slot % START_PROCESSES));
  }
}

}  // namespace process

// arg: the first of up to 32 places | which of them << 32. Where memories are interleaved the host's tasks begin with the
// first of a group, so that those that start together run together.
static __device__ __forceinline__ void process_start(ew::Warp& t, const DevProcessTable& table) {
  const u32 first = t.lo(), which = t.hi();
  process::prepare_all(table, first, which, t.lane);
  if (which >> t.lane & 1) t.spawn(FN_process_run, RUN_GOES_ON, first + t.lane);
}

// arg: the first of many places | how many << 32; tag: how many a warp starts. Where places are not contiguous the host
// submits each of these tasks itself; here each goes to a different warp, or to the queue in which idle warps look. The
// engine would hand all of them to one warp, and if no warp is idle that warp keeps them until its own work has ended.
static __device__ __forceinline__ void process_spread(ew::Warp& t, const DevProcessTable& table) {
  const u32 first = t.lo(), count = t.hi(), width = min(max(t.tag(), 1u), (u32)START_PROCESSES);
  for (u32 at = t.lane * width; at < count; at += 32 * width) {
    const u32 here = min(width, count - at);
    process::post(DevTask{t.head(FN_process_start, 0, ew::priority_of(t.task.head)), t.task.group, ew::Lane::pack(first + at, ~0u >> (32 - here))});
  }
}

// arg: the place.
static __device__ __forceinline__ void process_run(ew::Lane& t, const DevProcessTable& table) {
  process::go_on(t, process::run(table, t.lo()));
}

// arg: the place of a process that was preempted.
static __device__ __forceinline__ void process_again(ew::Lane& t, const DevProcessTable& table) {
  process::go_on(t, process::parking() ? process::Next::AGAIN : process::run(table, t.lo()));
}

// arg: a group of 32 places | which of them << 32; tag: `RUN_…`, whether they are parked and have been answered, or
// were answered before they could be.
static __device__ __forceinline__ void process_wake(ew::Warp& t, const DevProcessTable& table) {
  const u32 group = t.lo(), first = group * START_PROCESSES, which = t.hi();
  const bool owned = t.tag() == RUN_GOES_ON;
  const bool goes_on = which >> t.lane & 1 && (owned || process::resume(process::at(table, first + t.lane)));
  const u32 woken = __ballot_sync(~0u, goes_on);
  const u32 waited = __ballot_sync(~0u, goes_on && !owned && process::answered_soon(process::at(table, first + t.lane)));
  process::take_answers(table, first, woken, t.lane);
  const u32 together = process::gather(table, group, woken, waited, t.lane);
  if (together >> t.lane & 1) t.spawn(FN_process_run, RUN_GOES_ON, first + t.lane);
}

// arg: where in the memories, in pieces of `CLEAR_PIECE` | bytes << 32. Clears memory that has not been used yet.
static __device__ __forceinline__ void process_clear(ew::Warp& t, const DevProcessTable& table) {
  process::clear((u8*)table.memories + (u64)t.lo() * CLEAR_PIECE, t.hi(), t.lane);
}

// Reports the device's clock.
static __device__ __forceinline__ void process_clock(ew::Lane& t, const DevProcessTable&) { t.report_add(process::now()); }
