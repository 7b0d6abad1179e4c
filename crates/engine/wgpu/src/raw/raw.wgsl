// What a program without the engine does: a dispatch that counts, one that adds to cells, and a level of a breadth-first
// search for each dispatch.

// Of a level: its number, and how many vertices there are. Of cells: the first one, and how many.
@group(0) @binding(0) var<uniform> step: vec4<u32>;
// Counts of the levels' vertices, modulo 4; the first one also counts dispatches.
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read> rows: array<u32>;
@group(0) @binding(3) var<storage, read> columns: array<u32>;
@group(0) @binding(4) var<storage, read_write> levels: array<atomic<u32>>;
// The frontiers of even and of odd levels.
@group(0) @binding(5) var<storage, read_write> queue: array<u32>;

@compute @workgroup_size(64)
fn count(@builtin(global_invocation_id) id: vec3<u32>) {
  if id.x == 0u { atomicAdd(&counts[0], step.x); }
}

// The cells are where a search has its levels.
@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  for (var i = id.x; i < step.y; i += groups.x * 64u) {
    let at = step.x + i;
    atomicStore(&levels[at], atomicLoad(&levels[at]) + 1u);
  }
}

@compute @workgroup_size(256)
fn level(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let level = step.x;
  let vertices = step.y;
  let n = atomicLoad(&counts[level & 3u]);
  if id.x == 0u { atomicStore(&counts[(level + 2u) & 3u], 0u); }
  for (var i = id.x; i < n; i += groups.x * 256u) {
    let v = queue[(level & 1u) * vertices + i];
    for (var edge = rows[v]; edge < rows[v + 1u]; edge += 1u) {
      let u = columns[edge];
      if atomicLoad(&levels[u]) <= level + 1u { continue; }
      if atomicMin(&levels[u], level + 1u) == 0xffffffffu {
        queue[((level + 1u) & 1u) * vertices + atomicAdd(&counts[(level + 1u) & 3u], 1u)] = u;
      }
    }
  }
}
