// The host of the engine in a browser: it moves submissions to the GPU, keeps the chain of dispatches going while there is
// work, and brings completions back. It is the small sister of the pump of the wgpu engine.
//
// Every layout and constant comes from the text of the image, in which they are generated; none is written down here.
"use strict";

class EngineError extends Error {}

/** Reads `const NAME = 1u;` and `const NAME = 0x1u;` from the text of an image. */
function constantsOf(wgsl) {
  const found = {};
  for (const [, name, value] of wgsl.matchAll(/^const (\w+)(?:\s*:\s*u32)? = (0x[0-9a-f]+|\d+)u;$/gm)) found[name] = Number(value);
  return found;
}

class Engine {
  /** The distance of two dispatches' numbers in their buffer. */
  static STRIDE = 256;
  /** Dispatches of a submission, at most. */
  static ROUNDS = 16;
  /** Milliseconds that a submission should take. */
  static BEAT = 6;

  /** Opens the GPU and compiles the image. */
  static async open(image) {
    if (!navigator.gpu) throw new EngineError("This browser has no WebGPU.");
    const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) throw new EngineError("This browser has WebGPU, but finds no adapter.");
    const device = await adapter.requestDevice();
    const engine = new Engine(image, adapter, device);
    await engine.compile();
    return engine;
  }

  constructor(image, adapter, device) {
    this.image = image;
    this.device = device;
    this.is = constantsOf(image.wgsl);
    const info = adapter.info ?? {};
    this.name = [info.vendor, info.architecture, info.description].filter(Boolean).join(" ") || "an adapter without a name";
    this.software = adapter.isFallbackAdapter === true || info.isFallbackAdapter === true || /swiftshader|llvmpipe/i.test(this.name);
    this.size = this.software ? Math.min(8, image.workgroups) : image.workgroups;
    this.round = 0;
    this.submission = 0;
    this.inboxTail = 0;
    this.executed = 0;
    this.turns = 64;
    this.rounds = 1;
    this.next = 256; // address 0 is null
    this.instances = 0;
    this.lost = null;
    device.lost.then((reason) => { this.lost = reason.message || "the device was lost"; });
    device.addEventListener("uncapturederror", (event) => { this.lost ??= event.error.message; });
  }

  async compile() {
    const { device, image } = this;
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
    const storage = (size) => device.createBuffer({ size, usage });
    const back = (size) => device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    this.buffers = Object.fromEntries(Object.entries(image.bytes).map(([name, size]) => [name, storage(size)]));
    this.numbers = device.createBuffer({
      size: Engine.ROUNDS * Engine.STRIDE,
      usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST,
    });
    this.headerBytes = 4 * this.is.words_of_DevWgpuHeader;
    this.back = back(this.headerBytes + image.bytes.completed / 2);
    const state = new Uint32Array(image.bytes.state / 4);
    for (const [at, count, first, step] of image.state) {
      for (let i = 0; i < count; i++) state[at + i] = first + i * step;
    }
    device.queue.writeBuffer(this.buffers.state, 0, state);
    device.queue.writeBuffer(this.buffers.params, 4 * this.is.WGPU_FUNCTIONS, new Uint32Array(image.functions.map((f) => f.info)));

    const module = device.createShaderModule({ code: image.wgsl });
    const messages = (await module.getCompilationInfo()).messages.filter((m) => m.type === "error");
    if (messages.length) throw new EngineError(`The image does not compile: line ${messages[0].lineNum}: ${messages[0].message}`);
    const kind = (type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type, hasDynamicOffset: binding === 0 } });
    const names = ["window", "params", "tasks", "groups", "state", "inbox", "completed"];
    const readOnly = ["params", "inbox"];
    const layout = device.createBindGroupLayout({
      entries: [kind("uniform", 0), ...names.map((n, i) => kind(readOnly.includes(n) ? "read-only-storage" : "storage", i + 1))],
    });
    this.pipeline = await device.createComputePipelineAsync({
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module, entryPoint: "main" },
    });
    this.bindings = device.createBindGroup({
      layout,
      entries: [
        { binding: 0, resource: { buffer: this.numbers, size: 4 * this.is.words_of_DevRound } },
        ...names.map((n, i) => ({ binding: i + 1, resource: { buffer: this.buffers[n] } })),
      ],
    });
    this.entries = new Map(image.functions.map((f, id) => [f.name, { ...f, id }]));
  }

  /** Memory that programs reach: its address. */
  alloc(bytes) {
    const address = this.next;
    this.next = (address + bytes + 255) & ~255;
    if (this.next > this.image.bytes.window) throw new EngineError("The graph does not fit the window of memory.");
    return address;
  }
  write(address, words) {
    this.device.queue.writeBuffer(this.buffers.window, address, words);
  }
  async read(address, words) {
    const buffer = this.device.createBuffer({ size: 4 * words, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(this.buffers.window, address, buffer, 0, 4 * words);
    this.device.queue.submit([encoder.finish()]);
    await buffer.mapAsync(GPUMapMode.READ);
    const copy = new Uint32Array(buffer.getMappedRange().slice(0));
    buffer.destroy();
    return copy;
  }

  /** An instance of a program; `fill` gets its parameters as words. */
  instance(fill = () => {}) {
    const number = this.instances++;
    const words = new Uint32Array(this.is.PARAM_BYTES / 4);
    fill(words);
    this.device.queue.writeBuffer(this.buffers.params, number * this.is.PARAM_BYTES, words);
    return number;
  }

  /** Runs a task to its end, and all that it spawns. Returns its value, the milliseconds, and how many tasks ran. */
  async run(instance, name, lo = 0, hi = 0) {
    const { is, device } = this;
    const entry = this.entries.get(name);
    const token = 0;
    const slot = this.inboxTail & (this.image.inbox - 1);
    const head = entry.id | (instance << is.TASK_INSTANCE_SHIFT);
    const task = new Uint32Array([
      (head | (entry.counted ? is.TASK_COUNTED : 0)) >>> 0,
      (entry.counted ? token : token | is.HOST_DIRECT) >>> 0,
      lo,
      hi,
    ]);
    device.queue.writeBuffer(this.buffers.inbox, 16 * slot, task);
    this.inboxTail = (this.inboxTail + 1) >>> 0;
    const before = this.executed;
    const begin = performance.now();
    let done = null;
    let waiting = 1;
    while (done === null) {
      const result = await this.submit(waiting === 0 ? 1 : this.rounds);
      done = result.done;
      waiting = result.waiting;
      if (done === null && waiting === 0) throw new EngineError("The engine has no work left, but the task has not ended.");
    }
    return { value: done, ms: performance.now() - begin, tasks: (this.executed - before) >>> 0 };
  }

  /** One submission: some dispatches, and a copy of what they say. */
  async submit(rounds) {
    const { is, device, image } = this;
    if (this.lost) throw new EngineError(this.lost);
    this.submission = (this.submission + 1) >>> 0;
    const numbers = new Uint32Array((rounds * Engine.STRIDE) / 4);
    for (let i = 0; i < rounds; i++) {
      const at = (i * Engine.STRIDE) / 4;
      this.round = (this.round + 1) >>> 0;
      numbers.set(image.round, at);
      numbers[at + is.DevRound_number] = this.round;
      numbers[at + is.DevRound_worth] = 16;
      numbers[at + is.DevRound_phase] = this.round & 1 ? 1 : 2;
      numbers[at + is.DevRound_submission] = this.submission;
      numbers[at + is.DevRound_workgroups] = this.size;
      numbers[at + is.DevRound_size] = this.size;
      numbers[at + is.DevRound_turns] = this.turns;
      numbers[at + is.DevRound_patience] = this.software ? 16 : 8;
      numbers[at + is.DevRound_inbox_tail] = this.inboxTail;
    }
    device.queue.writeBuffer(this.numbers, 0, numbers);
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(this.pipeline);
    for (let i = 0; i < rounds; i++) {
      pass.setBindGroup(0, this.bindings, [i * Engine.STRIDE]);
      pass.dispatchWorkgroups(this.size);
    }
    pass.end();
    const region = image.bytes.completed / 2;
    encoder.copyBufferToBuffer(this.buffers.state, 0, this.back, 0, this.headerBytes);
    encoder.copyBufferToBuffer(this.buffers.completed, (this.submission & 1) * region, this.back, this.headerBytes, region);
    const begin = performance.now();
    device.queue.submit([encoder.finish()]);
    await this.back.mapAsync(GPUMapMode.READ);
    const words = new Uint32Array(this.back.getMappedRange().slice(0));
    this.back.unmap();
    const each = (performance.now() - begin) / rounds;
    const header = (name, place = 0) => words[is[`DevWgpuHeader_${name}`] + place];
    if (header("stop")) {
      const name = image.functions[header("fault_function")]?.name ?? "the scheduler";
      throw new EngineError(`The engine ended: fault ${header("fault_code")} in ${name}.`);
    }
    this.executed = header("executed");
    const waiting = header("waiting", this.round & 3);
    const completions = header("completions", this.submission & 3);
    // Turns and dispatches follow the time that the last ones took.
    const long = this.software ? 12 : 2;
    if (each > long) this.turns = Math.max(4, this.turns >> 1);
    else if (each < long / 2 && header("spent", this.round & 3)) this.turns = Math.min(2048, this.turns * 2);
    if (each * this.rounds * 2 <= Engine.BEAT) this.rounds = Math.min(Engine.ROUNDS, this.rounds * 2);
    else if (each * this.rounds > 2 * Engine.BEAT) this.rounds = Math.max(1, this.rounds >> 1);
    const first = this.headerBytes / 4;
    const value = first + is.DevCompletion_value;
    return { waiting, done: completions > 0 ? words[value] + words[value + 1] * 2 ** 32 : null };
  }
}

/** A graph on the engine, for the program `bfs`. */
class Search {
  constructor(engine, rows, columns) {
    const { is } = engine;
    this.engine = engine;
    this.vertices = rows.length - 1;
    const place = (words) => engine.alloc(4 * Math.max(words, 4));
    const at = {
      rows: place(rows.length),
      columns: place(columns.length),
      best: place(2 * this.vertices),
      bits: place(4),
      queue: place(4),
      state: place(is.words_of_DevBfsState),
    };
    at.in_rows = at.rows;
    at.in_columns = at.columns;
    engine.write(at.rows, rows);
    engine.write(at.columns, columns);
    this.best = at.best;
    this.instance = engine.instance((words) => {
      for (const [name, address] of Object.entries(at)) words[is[`DevBfs_${name}`]] = address;
      words[is.DevBfs_vertices] = this.vertices;
    });
  }
  /** Searches from a vertex. Returns levels and parents, the milliseconds and the tasks of the search. */
  async from(source) {
    const { engine } = this;
    const parts = Math.ceil(this.vertices / this.engine.image.resetVertices);
    await engine.run(this.instance, "bfs_reset", 0, parts);
    engine.write(this.best + 8 * source, new Uint32Array([source, 0]));
    const { ms, tasks } = await engine.run(this.instance, "bfs_visit", source, 0);
    const words = await engine.read(this.best, 2 * this.vertices);
    const half = (which) => Uint32Array.from({ length: this.vertices }, (_, v) => words[2 * v + which]);
    return { parents: half(0), levels: half(1), ms, tasks };
  }
}
