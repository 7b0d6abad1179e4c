// Mazes, and the plain references that the engine's results are checked against.
"use strict";

/** Numbers from 0 to 1 (mulberry32, by Tommy Ettinger). */
function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A maze of width x height cells: a random spanning tree, and some walls less, so that there are several ways. */
class Maze {
  constructor(width, height, seed) {
    const random = randomNumbers(seed);
    this.width = width;
    this.height = height;
    this.cells = width * height;
    // Bit 1: open to the right; bit 2: open downwards.
    this.open = new Uint8Array(this.cells);
    const seen = new Uint8Array(this.cells);
    const path = [0];
    seen[0] = 1;
    while (path.length) {
      // Mostly the newest cell, which makes long corridors; sometimes another one, which makes branches.
      const i = random() < 0.85 ? path.length - 1 : Math.floor(random() * path.length);
      const next = this.around(path[i]).filter((c) => !seen[c]);
      if (!next.length) {
        path[i] = path[path.length - 1];
        path.pop();
        continue;
      }
      const to = next[Math.floor(random() * next.length)];
      this.join(path[i], to);
      seen[to] = 1;
      path.push(to);
    }
    for (let n = 0; n < this.cells / 24; n++) {
      const cell = Math.floor(random() * this.cells);
      const near = this.around(cell);
      this.join(cell, near[Math.floor(random() * near.length)]);
    }
  }
  around(cell) {
    const [x, y] = [cell % this.width, Math.floor(cell / this.width)];
    const list = [];
    if (y > 0) list.push(cell - this.width);
    if (x > 0) list.push(cell - 1);
    if (x + 1 < this.width) list.push(cell + 1);
    if (y + 1 < this.height) list.push(cell + this.width);
    return list;
  }
  join(a, b) {
    this.open[Math.min(a, b)] |= Math.abs(a - b) === 1 && this.width > 1 ? 1 : 2;
  }
  joined(a, b) {
    return (this.open[Math.min(a, b)] & (Math.abs(a - b) === 1 && this.width > 1 ? 1 : 2)) !== 0;
  }
  /** Its graph: row offsets and neighbours, ascending. */
  graph() {
    const rows = new Uint32Array(this.cells + 1);
    const columns = [];
    for (let cell = 0; cell < this.cells; cell++) {
      for (const other of this.around(cell)) if (this.joined(cell, other)) columns.push(other);
      rows[cell + 1] = columns.length;
    }
    return { rows, columns: Uint32Array.from(columns) };
  }
}

/** Levels, and for each vertex the smallest neighbour of the level before. */
function plainSearch({ rows, columns }, source) {
  const vertices = rows.length - 1;
  const levels = new Uint32Array(vertices).fill(0xffffffff);
  const parents = new Uint32Array(vertices).fill(0xffffffff);
  levels[source] = 0;
  parents[source] = source;
  let frontier = [source];
  for (let level = 1; frontier.length; level++) {
    const next = [];
    for (const v of frontier) {
      for (let edge = rows[v]; edge < rows[v + 1]; edge++) {
        const u = columns[edge];
        if (levels[u] === 0xffffffff) {
          levels[u] = level;
          next.push(u);
        }
        if (levels[u] === level) parents[u] = Math.min(parents[u], v);
      }
    }
    frontier = next;
  }
  return { levels, parents };
}

function plainFib(n) {
  let [a, b] = [0, 1];
  for (let i = 0; i < n; i++) [a, b] = [b, a + b];
  return a;
}
/** The calls and the additions of fib(n), each of which is a task. */
function fibTasks(n) {
  const calls = 2 * plainFib(n + 1) - 1;
  return calls + (calls - 1) / 2;
}
