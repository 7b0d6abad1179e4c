// How a process wakes another one without the host; and locks between processes.
#pragma once

#include "process/gather.cuh"
#include "process/memory.cuh"
#include "process/turn.cuh"

namespace process {

// One lane: runs `f` holding a lock. Lanes of one warp may want the same: so each tries and goes round, and the
// one that has it does not wait for the others anywhere.
template <class F>
__device__ __forceinline__ void locked(u32* lock, F f) {
  u32 wait = 32;
  for (bool done = false; !done;) {
    // Acquire, and release below: what the lock guards moves between multiprocessors with it.
    if (ew::compare_exchange(lock, 0, 1, ew::acquire, ew::gpu) == 0) {
      f();
      ew::store(lock, 0, ew::release, ew::gpu);
      done = true;
    } else {
      __nanosleep(wait);
      wait = min(2 * wait, 1024u);
    }
  }
}

// One lane, from the middle of its task: gives the engine a task, which another warp may start before this lane's task
// ends. A task that is spawned stays with its warp until the whole batch has ended, and some process of the batch may
// run for hours; so this task goes to an idle warp, or to the queue in which idle warps look.
//
// The task is counted in its group already.
__device__ __noinline__ void hand_on(const DevTask& task) {
  const DevEngine& e = everwarp_tables;
  const u32 head = task.head;
  if (ew::load(&e.grid->idle_warps, ew::relaxed, ew::gpu) != 0) {
    const u32 words = e.bit_words, random = ew::Worker::here().random(), turn = random >> 12 & 31;
    for (u32 k = 0; k < words; k++) {
      u32* bits = &e.idle_warp_bits[(random + k) % words];
      const u32 word = ew::load(bits, ew::relaxed, ew::gpu);
      if (word == 0) continue;
      const u32 bit = (__ffs(__funnelshift_r(word, word, turn)) - 1 + turn) & 31;
      if ((ew::fetch_and(bits, ~(1u << bit), ew::acquire, ew::gpu) >> bit & 1) == 0) continue;
      ew::add(&e.grid->idle_warps, ~0u, ew::relaxed, ew::gpu);
      DevInbox& inbox = e.inboxes[(random + k) % words * 32 + bit];
      ew::store_task(&inbox.task, task, ew::relaxed, ew::gpu);
      ew::store(&inbox.chunk, (u64)INBOX_TASK, ew::release, ew::gpu);
      return;
    }
  }
  // A chunk for one task. There are more chunks than such tasks can be under way: two for each place and a start.
  u32 id;
  while ((id = ew::shard_pop(e, SHARDS_CHUNKS, e.chunk_next, &e.grid->fresh_chunks, e.chunk_limit)) == ew::NONE) {
    __nanosleep(1000);
  }
  const u32 priority = ew::priority_of(head);
  ew::store_task(&e.chunks[id * CHUNK_TASKS], task, ew::relaxed, ew::gpu);
  ew::store(&e.chunk_count[id], 1, ew::relaxed, ew::gpu);
  const ew::Class c = ew::Class::warps(e);
  ew::stack_push(&c.overflow[priority], e.chunk_next, id);
  c.counted(priority, 1);
}

// The same for a task that is not counted yet. The count of the group is raised before another warp can see the task: both
// ways of handing it on release.
__device__ __forceinline__ void post(const DevTask& task) {
  ew::add(&everwarp_tables.groups[task.group].pending, 1, ew::relaxed, ew::gpu);
  hand_on(task);
}

// The same for a process, whose own task may end before this one.
__device__ __forceinline__ void post(const DevWorld* world, u32 head, u64 arg) { post(DevTask{head, world->group, arg}); }

__device__ __forceinline__ DevRelations* relations(const DevWorld* world, u32 place) { return world->relations + place; }
__device__ __forceinline__ DevChildRecord* child_record(const DevWorld* world, u32 place) { return world->child_records + place; }
__device__ __forceinline__ DevRelations* relations(const DevProcess* p) { return relations(p->table->world, (u32)p->pid); }

// Wakes a process whose event may have occurred. It need not be waiting, or be the same process as before: a process that
// is woken looks again.
__device__ __noinline__ void wake(const DevWorld* world, u32 place) {
  const DevRelations* k = relations(world, place);
  const DevModule& m = world->modules[__ldcg(&k->module)];
  const u32 slot = __ldcg(&k->slot);
  DevProcess* p = at(*m.table, slot);
  // Pairs with the release of `park`; and the lane that goes on with it sees why.
  if (!resume(p)) return;
  // If it waits for the host too, the host's wake may have come already, and have found its bit in the gathering word.
  if (expect_none(*m.table, p, slot)) post(world, m.wake_head | RUN_WAKES << TASK_TAG_SHIFT, slot / START_PROCESSES);
  post(world, m.run_head | RUN_GOES_ON << TASK_TAG_SHIFT, slot);
}

}  // namespace process
