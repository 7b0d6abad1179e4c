// The view of a lane-shaped task function. The CPU twins' TaskCx has the same methods with the same meaning.
#pragma once
#include "everwarp/heap/task.cuh"
#include "everwarp/system/egress.cuh"

namespace ew {

// The running task of one lane; for warp-shaped tasks all 32 lanes hold the same task.
struct Lane {
  DevTask task;
  u32 limit;     // tasks it may spawn
  u32 forks;     // whether it may fork
  u32 delta;     // tasks spawned into the own group
  u32 forked;    // the group this call opened, or NONE
  u32 children;  // tasks spawned into it
  u64 value;     // the report of a task that the host counts directly
  u32 then_head;
  u64 then_arg;
  u32 broken;    // the rule that it broke (FAULT_…), raised when it has ended; 0: none
  DevTask next;  // the first task it spawned, which the lane may go on with; head NONE: none yet

  __device__ __forceinline__ u64 arg() const { return task.arg; }
  __device__ __forceinline__ u32 lo() const { return (u32)task.arg; }
  __device__ __forceinline__ u32 hi() const { return (u32)(task.arg >> 32); }
  __device__ __forceinline__ u32 tag() const { return tag_of(task.head); }
  __device__ __forceinline__ const u8* params() const { return everwarp_tables.params + instance_of(task.head) * PARAM_BYTES; }
  static __device__ __forceinline__ u64 pack(u32 lo, u32 hi) { return (u64)hi << 32 | lo; }

  // The owner of the blocks that the task's instance allocates.
  __device__ __forceinline__ u32 owner() const { return instance_of(task.head) + 1; }
  // A block of the engine's heap, aligned to 16 and not zeroed; null when there is no room. Any set of lanes
  // may ask together, and it is faster when they do.
  __device__ __forceinline__ u8* alloc(u64 bytes) const { return alloc_for(owner(), bytes); }
  __device__ __forceinline__ u8* alloc_for(u32 whose, u64 bytes) const { return heap_task_alloc(bytes, whose); }
  // Frees a block, also of another owner. Null is ignored.
  __device__ __forceinline__ void free(void* block) const { heap_task_free((u8*)block, owner()); }
  // The block with another size, moved where it must be, which keeps its owner; null when there is no room, and
  // then the old one stays. Without a block it allocates.
  __device__ __forceinline__ u8* realloc(void* block, u64 bytes) const {
    return heap_realloc(true, (u8*)block, bytes, owner());
  }

  // The head of a task of this instance.
  __device__ __forceinline__ u32 head(u32 fn, u32 tag, u32 priority) const {
    return fn | (task.head & 0xffu << TASK_INSTANCE_SHIFT) | (tag & 0xff) << TASK_TAG_SHIFT |
           priority << TASK_PRIORITY_SHIFT;
  }
  __device__ __forceinline__ void put(const DevTask& t) {
    if (next.head == NONE && !is_block(fn_of(t.head)) && priority_of(t.head) == priority_of(task.head)) {
      next = t;
      return;
    }
    LocalQueue& q = shared().queues[threadIdx.x / WARP];
    append(q, t);
    if (priority_of(t.head) != priority_of(task.head)) note_priority(q, priority_of(t.head));
    if (is_block(fn_of(t.head))) q.strays = 1;
  }
  __device__ __forceinline__ void spawn(u32 fn, u32 tag, u64 arg) { spawn_at(priority_of(task.head), fn, tag, arg); }
  __device__ __forceinline__ void spawn_at(u32 priority, u32 fn, u32 tag, u64 arg) {
    if (delta + children >= limit) return over();
    delta++;
    put(DevTask{head(fn, tag, priority), task.group, arg});
  }
  __device__ __forceinline__ void fork(u32 fn, u32 tag, u64 arg) { open(head(fn, tag, priority_of(task.head)), arg); }
  __device__ __forceinline__ void fork_collect(u32 fn, u32 tag) {
    open(head(fn, tag, priority_of(task.head)) | TASK_ARG_FROM_GROUP, 0);
  }
  __device__ __forceinline__ void spawn_child(u32 fn, u32 tag, u64 arg) {
    if (delta + children >= limit) return over();
    children++;
    put(DevTask{head(fn, tag, priority_of(task.head)), forked, arg});
  }
  // Keeps the own group open for a task that is to be spawned later, by any task, with spawn_held. It counts at once: that
  // task may end before this one, and what this one spawns counts at its end.
  __device__ __forceinline__ u32 hold() {
    // The fault of a task that is not counted and yet spawns is raised at its end.
    if (task.group & HOST_DIRECT) delta++;
    else add(&everwarp_tables.groups[task.group].pending, 1, relaxed, gpu);
    return task.group;
  }
  // The same in place of this task, which takes fewer registers: the later task has this one's place in the group. This one
  // spawns nothing into the group, does not hold it and reports nothing any more.
  __device__ __forceinline__ u32 pass_on() {
    if (delta + children >= limit) over();
    delta++;
    return task.group;
  }
  __device__ __forceinline__ void spawn_held(u32 group, u32 fn, u32 tag, u64 arg) {
    spawn_held_at(priority_of(task.head), group, fn, tag, arg);
  }
  __device__ __forceinline__ void spawn_held_at(u32 priority, u32 group, u32 fn, u32 tag, u64 arg) {
    if (delta + children >= limit) return over();
    limit--;
    put(DevTask{head(fn, tag, priority), group, arg});
  }
  // Spawns a task into another group, which is held until this task has ended. The count is in place before another warp
  // can finish the new task: it is handed on with a release.
  __device__ __forceinline__ void spawn_into(u32 group, u32 fn, u32 tag, u64 arg) {
    add(&everwarp_tables.groups[group].pending, 1, relaxed, gpu);
    spawn_held(group, fn, tag, arg);
  }
  __device__ __forceinline__ void report_slot(u32 slot, u32 v) {
    if (task.group & HOST_DIRECT) {
      value = slot == 0 ? (value & ~0xffffffffull) | v : (value & 0xffffffffull) | (u64)v << 32;
    } else {
      store((u32*)&everwarp_tables.groups[task.group].value + slot, v, relaxed, gpu);
    }
  }
  __device__ __forceinline__ void report_add(u64 v) {
    if (task.group & HOST_DIRECT) value += v;
    else add(&everwarp_tables.groups[task.group].value, v, relaxed, gpu);
  }
  __device__ __forceinline__ void fault(u64 detail) { raise_fault(everwarp_tables, FAULT_PROGRAM, fn_of(task.head), detail); }

 private:
  __device__ __forceinline__ void open(u32 head, u64 arg) {
    if (forked != NONE || forks == 0) {
      broken = FAULT_FORK;
      return;
    }
    forked = group_alloc(shared(), threadIdx.x / WARP);
    then_head = head;
    then_arg = arg;
  }
  __device__ __forceinline__ void over() { broken = FAULT_SPAWN_LIMIT; }

 public:
  EW_FN Lane begin(const DevTask& t, const FnMeta& m) {
    return Lane{t, m.max_spawn(), m.forks(), 0, NONE, 0, 0, 0, 0, 0, DevTask{NONE, 0, 0}};
  }
};

}  // namespace ew
