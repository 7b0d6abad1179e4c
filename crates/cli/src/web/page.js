// The page: it runs the two programs, checks and draws what they find, and says how fast they were.
// `?post` posts the results to the server of the page, which the tests do; `?fib=N&width=W&height=H&seed=S` choose the work.
"use strict";

const wanted = new URLSearchParams(location.search);
const number = (name, otherwise) => Number(wanted.get(name) ?? otherwise);
const element = (id) => document.getElementById(id);
const SMALL = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const WHOLE = new Intl.NumberFormat("en");

/** A rate in words: 12.3 M tasks/s. */
function rate(count, ms, what) {
  const each = (count / ms) * 1000;
  const [scale, unit] = each >= 1e9 ? [1e9, " G"] : each >= 1e6 ? [1e6, " M"] : each >= 1e3 ? [1e3, " k"] : [1, ""];
  return `${SMALL.format(each / scale)}${unit} ${what}/s`;
}
function figures(id, list, right) {
  const verdict = document.createElement("span");
  verdict.className = right ? "right" : "wrong";
  verdict.textContent = right ? "verified" : "WRONG";
  element(id).replaceChildren(`${list.join(" · ")} · `, verdict);
}

async function runFib(engine, n) {
  const { value, ms, tasks } = await engine.run(engine.fib, "fib_call", n);
  const right = value === plainFib(n) && tasks === fibTasks(n);
  element("fib-result").textContent = `fib(${n}) = ${WHOLE.format(value)}`;
  figures("fib-figures", [`${WHOLE.format(tasks)} tasks`, `${SMALL.format(ms)} ms`, rate(tasks, ms, "tasks")], right);
  return { n, value, tasks, ms, right };
}

/** From dark violet over red to pale yellow. */
const STOPS = [[34, 22, 74], [98, 26, 108], [172, 46, 98], [226, 92, 66], [248, 160, 62], [252, 232, 150]];
function colour(part) {
  const at = Math.min(part, 0.9999) * (STOPS.length - 1);
  const [from, to] = [STOPS[Math.floor(at)], STOPS[Math.floor(at) + 1]];
  const mixed = from.map((c, i) => Math.round(c + (to[i] - c) * (at % 1)));
  return `rgb(${mixed.join(" ")})`;
}

/** Draws a maze and then its levels, in some seconds. A newer drawing ends an older one. */
class Drawing {
  static CELL = 6;
  static WALL = 2;
  constructor(canvas, maze) {
    this.maze = maze;
    this.step = Drawing.CELL + Drawing.WALL;
    canvas.width = maze.width * this.step + Drawing.WALL;
    canvas.height = maze.height * this.step + Drawing.WALL;
    this.context = canvas.getContext("2d");
    this.context.fillStyle = "#0d0b14";
    this.context.fillRect(0, 0, canvas.width, canvas.height);
    this.context.fillStyle = "#2a2734";
    for (let cell = 0; cell < maze.cells; cell++) this.cell(cell);
    Drawing.current = this;
  }
  /** A cell, and its openings to the right and downwards. */
  cell(cell) {
    const { maze, step, context } = this;
    const x = (cell % maze.width) * step + Drawing.WALL;
    const y = Math.floor(cell / maze.width) * step + Drawing.WALL;
    context.fillRect(x, y, Drawing.CELL + (maze.open[cell] & 1 ? Drawing.WALL : 0), Drawing.CELL);
    if (maze.open[cell] & 2) context.fillRect(x, y, Drawing.CELL, step);
  }
  async levels({ levels, parents }, seconds) {
    const order = Uint32Array.from(levels.keys()).sort((a, b) => levels[a] - levels[b]);
    const most = levels[order[order.length - 1]] || 1;
    const begin = performance.now();
    for (let i = 0; i < order.length; ) {
      if (Drawing.current !== this) return;
      const part = seconds > 0 ? (performance.now() - begin) / 1000 / seconds : 1;
      for (; i < order.length && levels[order[i]] <= part * most; i++) {
        this.context.fillStyle = colour(levels[order[i]] / most);
        this.cell(order[i]);
      }
      if (i < order.length) await new Promise(requestAnimationFrame);
    }
    this.way(parents);
  }
  /** The way from the last cell to the first. */
  way(parents) {
    const { maze, step, context } = this;
    const middle = (cell) => [
      (cell % maze.width) * step + Drawing.WALL + Drawing.CELL / 2,
      Math.floor(cell / maze.width) * step + Drawing.WALL + Drawing.CELL / 2,
    ];
    context.strokeStyle = "#fff";
    context.lineWidth = 2.5;
    context.lineJoin = context.lineCap = "round";
    context.beginPath();
    let cell = maze.cells - 1;
    context.moveTo(...middle(cell));
    while (parents[cell] !== cell) {
      cell = parents[cell];
      context.lineTo(...middle(cell));
    }
    context.stroke();
  }
}

async function runMaze(engine, seed) {
  const maze = new Maze(number("width", 144), number("height", 80), seed);
  const drawing = new Drawing(element("maze"), maze);
  const graph = maze.graph();
  // Each maze takes the place of the one before.
  engine.next = 256;
  engine.instances = engine.fib + 1;
  const search = new Search(engine, graph.rows, graph.columns);
  const found = await search.from(0);
  const plain = plainSearch(graph, 0);
  const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);
  const right = same(found.levels, plain.levels) && same(found.parents, plain.parents);
  const levels = found.levels.reduce((most, level) => Math.max(most, level), 0) + 1;
  const edges = graph.columns.length;
  const list = [
    `${WHOLE.format(maze.cells)} cells in ${WHOLE.format(levels)} levels`,
    `${WHOLE.format(found.tasks)} tasks`,
    `${SMALL.format(found.ms)} ms`,
    rate(edges, found.ms, "edges"),
  ];
  figures("maze-figures", list, right);
  const drawn = drawing.levels(found, number("draw", 3));
  return { cells: maze.cells, levels, edges, tasks: found.tasks, ms: found.ms, right, drawn };
}

async function post(result) {
  if (wanted.has("post")) await fetch("result", { method: "POST", body: JSON.stringify(result) });
}

function without(reason) {
  element("device").textContent = "";
  element("main").hidden = true;
  element("reason").textContent = reason;
  element("without").hidden = false;
}

async function main() {
  const begin = performance.now();
  let engine;
  try {
    engine = await Engine.open(IMAGE);
  } catch (error) {
    without(error.message);
    return post({ error: error.message });
  }
  const started = performance.now() - begin;
  const name = document.createElement("b");
  name.textContent = engine.name;
  element("device").replaceChildren("Running on ", name, `, started in ${SMALL.format(started)} ms.`);
  element("main").hidden = false;
  engine.fib = engine.instance();

  let seed = number("seed", Math.floor(Math.random() * 2 ** 32));
  const slider = element("n");
  slider.value = number("fib", engine.software ? 18 : 25);
  const show = () => { element("n-value").textContent = slider.value; };
  slider.addEventListener("input", show);
  show();
  // One run at a time.
  const buttons = [element("fib"), element("search")];
  const alone = async (work) => {
    buttons.forEach((button) => { button.disabled = true; });
    try {
      return await work();
    } catch (error) {
      without(error.message);
      throw error;
    } finally {
      buttons.forEach((button) => { button.disabled = false; });
    }
  };
  element("fib").addEventListener("click", () => alone(() => runFib(engine, Number(slider.value))));
  element("search").addEventListener("click", () => alone(() => runMaze(engine, ++seed)));
  try {
    const maze = await alone(() => runMaze(engine, seed));
    const fib = await alone(() => runFib(engine, Number(slider.value)));
    await maze.drawn;
    delete maze.drawn;
    await post({ adapter: engine.name, started, fib, maze });
  } catch (error) {
    await post({ error: error.message });
  }
}

main();
