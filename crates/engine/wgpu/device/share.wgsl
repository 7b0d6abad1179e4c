// The beginning of a dispatch: all workgroups read the same counts and compute the same division. Workgroups with more
// than the average give their oldest tasks to those with less than half of it; new submissions are divided equally.

// Prefix sums of what workgroups give.
var<workgroup> given_at: array<u32, WGPU_WORKGROUPS + 1u>;
var<workgroup> part: array<vec3<u32>, WGPU_THREADS>;
var<workgroup> own: vec4<u32>;
var<workgroup> mine: vec4<u32>;
// The next range of tasks for this workgroup, as uniform values.
var<workgroup> plan: vec4<u32>;

fn total_of(workgroup: u32) -> u32 { return word(round.at_totals + parity_before() * round.workgroups + workgroup); }
fn room_of(workgroup: u32) -> u32 { return word(round.at_rooms + parity_before() * round.workgroups + workgroup) / 2u; }
fn queue_word(phase: u32, workgroup: u32, queue: u32) -> u32 {
  return round.at_queues + ((phase * round.workgroups + workgroup) * WGPU_QUEUES + queue) * words_of_DevWgpuQueue;
}

// What a workgroup gives, takes of others, and takes of the submissions.
fn division(workgroup: u32, average: u32, each: u32) -> vec3<u32> {
  let has = total_of(workgroup);
  if workgroup >= round.size { return vec3(has, 0u, 0u); }
  let space = room_of(workgroup);
  return vec3(
    select(0u, has - average, has > average),
    select(0u, min(average - has, space), has * 2u < average),
    min(min(each, WGPU_INTAKE), space));
}
// The sum of the parts of the lanes before one; only the first `used` have any.
fn parts_before(lane: u32, used: u32) -> vec3<u32> {
  var sum = vec3(0u, 0u, 0u);
  for (var i = 0u; i < min(lane, used); i += 1u) { sum += part[i]; }
  return sum;
}

// What this workgroup takes: tasks of others from x to y, submissions from z to w; and the number of the first submission.
var<private> ranges: vec4<u32>;
var<workgroup> first_submission: u32;

// The workgroup: computes the division, and gives tasks away.
fn share() {
  let count = round.workgroups;
  let each_lane = (count + EW_THREADS - 1u) / EW_THREADS;
  let used = (count + each_lane - 1u) / each_lane;
  let first = min(ew_thread * each_lane, count);
  let end = min(first + each_lane, count);
  var sum = vec3(0u, 0u, 0u);
  for (var i = first; i < end; i += 1u) { sum.x += total_of(i); }
  part[ew_thread] = sum;
  workgroupBarrier();
  let waiting = parts_before(EW_THREADS, used).x;
  let average = (waiting + round.size - 1u) / round.size;
  let head = word(DevWgpuHeader_inbox_head + parity_before());
  let submitted = round.inbox_tail - head;
  let each = (submitted + round.size - 1u) / round.size;
  workgroupBarrier();
  sum = vec3(0u, 0u, 0u);
  for (var i = first; i < end; i += 1u) { sum += division(i, average, each); }
  part[ew_thread] = sum;
  workgroupBarrier();
  var before = parts_before(ew_thread, used);
  for (var i = first; i < end; i += 1u) {
    given_at[i] = before.x;
    let one = division(i, average, each);
    if i == ew_workgroup {
      own = vec4(before.y, one.y, before.z, one.z);
      mine = vec4(before.x, one.x, 0u, 0u);
    }
    before += one;
  }
  if ew_thread == EW_THREADS - 1u {
    given_at[count] = before.x;
    let moved = min(before.x, before.y);
    plan = vec4(moved, min(before.z, submitted), head, 0u);
  }
  let all = workgroupUniformLoad(&plan);
  let moved = all.x;
  let accepted = all.y;
  if ew_thread == 0u {
    // Gives the oldest tasks, the most urgent first.
    var left = select(0u, min(mine.x + mine.y, moved) - mine.x, mine.x < moved);
    for (var queue = 0u; queue < round.queues && left > 0u; queue += 1u) {
      let some = min(left, q_count[queue]);
      if some == 0u { continue; }
      q_head[queue] += some;
      q_count[queue] -= some;
      q_held |= 1u << queue;
      left -= some;
    }
    ranges = vec4(min(own.x, moved), min(own.x + own.y, moved), min(own.z, accepted), min(own.z + own.w, accepted));
    first_submission = head;
    received += ranges.y - ranges.x;
    if ew_workgroup == 0u { set_word(DevWgpuHeader_inbox_head + parity(), head + accepted); }
  }
}

// One of the tasks that are given: its number counts through all givers.
fn take(number: u32) -> vec4<u32> {
  var low = 0u;
  var high = round.workgroups;  // given_at[low] <= number < given_at[high]
  while high - low > 1u {
    let middle = (low + high) / 2u;
    if given_at[middle] <= number { low = middle; } else { high = middle; }
  }
  var offset = number - given_at[low];
  for (var queue = 0u; queue < round.queues; queue += 1u) {
    let at = queue_word(parity_before(), low, queue);
    let count = word(at + DevWgpuQueue_count);
    if offset < count {
      let task = tasks[task_at(low, queue, word(at + DevWgpuQueue_head) + offset)];
      mark_shared(task.y);
      return task;
    }
    offset -= count;
  }
  raise(FAULT_INTERNAL, 0u, vec2(4u, number));
  return vec4(0u, 0u, 0u, 0u);
}

// Takes a submission: its group is a token with HOST_DIRECT, or a token that is a group of the host's.
fn accept(submission: vec4<u32>) -> vec4<u32> {
  var task = submission;
  if (task.x & TASK_COUNTED) != 0u {
    task.x &= ~TASK_COUNTED;
    open_group(task.y, 1u, vec4(FN_COMPLETE, task.y, 0u, 0u));
  }
  return task;
}
