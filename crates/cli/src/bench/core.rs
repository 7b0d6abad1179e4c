//! The core rows: what the engine itself costs.

use std::path::Path;
use std::time::Instant;

use everwarp::cuda::raw::Raw;
use everwarp::{Device, Engine, EngineKind, Program};
use everwarp_graph::{Csr, ReadOptions, Spec, generate, read_path};
use everwarp_programs::{bfs, fib, noop, pingpong, tree};

use super::experiment::{Experiment, Measure, On, Part};
use super::stats::{Row, median};
use crate::error::CliError;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "core",
    title: "what the engine itself costs",
    about: "The raw limits of a row are the least that the same machine needs for such a step, measured in the \
            same process before the engine was resident.",
    parts: &[
        one("round_trip", round_trip),
        one("host_tasks", host_tasks),
        one("fib", fib_row),
        one("tree", tree_row),
        one("step", step),
        one("fork_join", fork_join),
        one("epoch_swap", epoch_swap),
        one("start", start),
        one("bfs_chain", bfs_chain),
        Part {
            roads: true,
            ..one("bfs_roads", bfs_roads)
        },
    ],
};

const fn one(
    name: &'static str,
    measure: fn(&Device, Option<&Path>) -> Result<Row, CliError>,
) -> Part {
    Part {
        name,
        on: On::Both,
        roads: false,
        measure: Measure::One(measure),
    }
}

fn engine(device: &Device, program: &'static Program) -> Result<Engine, CliError> {
    Ok(device.engine().program(program).start()?)
}

fn is_cuda(device: &Device) -> bool {
    device.kind() == EngineKind::Cuda
}
/// Whether the device is worth the work of a GPU: an adapter may be software.
fn is_gpu(device: &Device) -> bool {
    is_cuda(device) || is_hardware(device)
}
#[cfg(feature = "wgpu")]
fn is_hardware(device: &Device) -> bool {
    device.adapter().is_some_and(|a| !a.facts().software)
}
#[cfg(not(feature = "wgpu"))]
fn is_hardware(_: &Device) -> bool {
    false
}

/// Adds raw limits, measured before the engine is resident.
fn raw<T>(
    device: &Device,
    measure: impl FnOnce(&Raw) -> Result<T, everwarp::EngineError>,
) -> Result<Option<T>, CliError> {
    match device.cuda() {
        Some(gpu) => Ok(Some(measure(&Raw::new(gpu)?)?)),
        None => Ok(None),
    }
}

/// Adds how long dispatches took, where the engine is a chain of them.
fn with_dispatches(row: Row, engine: &Engine) -> Result<Row, CliError> {
    Ok(match engine.stats()?.dispatches {
        None => row,
        Some(times) => row
            .raw("dispatches", times.count as f64)
            .raw("dispatch_p50_s", times.median.as_secs_f64())
            .raw("dispatch_p999_s", times.p999.as_secs_f64())
            .raw("dispatch_longest_s", times.longest.as_secs_f64()),
    })
}

/// The raw limits and rivals on an adapter: for each the name of its column, its words, and its seconds.
type OnAdapter = Vec<(&'static str, &'static str, f64)>;

#[cfg(feature = "wgpu")]
use everwarp::wgpu::RawWgpu;
/// This command has no engine on adapters.
#[cfg(not(feature = "wgpu"))]
enum RawWgpu {}

#[cfg(not(feature = "wgpu"))]
impl RawWgpu {
    fn round_trips(&self, _: u32, _: bool) -> Result<Vec<f64>, everwarp::EngineError> {
        match *self {}
    }
    fn chain(&self, _: u32) -> Result<Vec<f64>, everwarp::EngineError> {
        match *self {}
    }
}
#[cfg(not(feature = "wgpu"))]
fn on_adapter(
    _: &Device,
    _: impl FnOnce(&RawWgpu) -> Result<OnAdapter, everwarp::EngineError>,
) -> Result<OnAdapter, CliError> {
    Ok(Vec::new())
}

#[cfg(feature = "wgpu")]
fn on_adapter(
    device: &Device,
    measure: impl FnOnce(&RawWgpu) -> Result<OnAdapter, everwarp::EngineError>,
) -> Result<OnAdapter, CliError> {
    match device.adapter() {
        Some(adapter) => Ok(measure(&RawWgpu::new(adapter)?)?),
        None => Ok(Vec::new()),
    }
}

/// The seconds that each of `n` repetitions took, after one warm-up that is not counted: for the engine and for all that
/// it is compared with alike.
fn times(n: usize, mut once: impl FnMut() -> Result<(), CliError>) -> Result<Vec<f64>, CliError> {
    let mut list = Vec::with_capacity(n);
    once()?;
    for _ in 0..n {
        let begin = Instant::now();
        once()?;
        list.push(begin.elapsed().as_secs_f64());
    }
    Ok(list)
}

fn round_trip(device: &Device, _: Option<&Path>) -> Result<Row, CliError> {
    let limits = raw(device, |raw| {
        Ok((
            raw.round_trips(20_000, false)?,
            raw.round_trips(20_000, true)?,
            raw.launches(2000)?,
        ))
    })?;
    let adapter = on_adapter(device, |raw| {
        // As for the engine, the first ones are not counted.
        raw.round_trips(500, false)?;
        Ok(vec![
            (
                "wgpu_blocking_s",
                "write, dispatch, copy and map, blocking",
                median(raw.round_trips(2000, false)?),
            ),
            (
                "wgpu_spinning_s",
                "write, dispatch, copy and map, spinning",
                median(raw.round_trips(2000, true)?),
            ),
        ])
    })?;
    let engine = engine(device, &noop::PROGRAM)?;
    let instance = noop::instance(&engine)?;
    let once = || {
        Ok(engine
            .submit(instance.task(noop::NOTHING))?
            .wait()
            .map(drop)?)
    };
    // The host and the GPU reach their highest clocks.
    times(2000, once)?;
    let list = times(20_000, once)?;
    engine.park()?;
    // Each of the two has one warm-up of its own.
    let right = engine.stats()?.executed == 22_002;
    let mut row = Row::new(
        "submit, run, see the completion; engine idle",
        "trip",
        1.0,
        list,
    )
    .verified(right);
    row = with_dispatches(row, &engine)?;
    for (name, what, seconds) in adapter {
        row = row.raw(name, seconds).rival(what, seconds);
    }
    if let Some((direct, relay, launches)) = limits {
        row = row
            .raw("pinned_ping_pong_s", median(direct))
            .raw("three_hop_relay_s", median(relay));
        let launch = median(launches);
        row = row.raw("launch_and_synchronize_s", launch);
        row = row.rival("launch and synchronize", launch);
    }
    Ok(row)
}

fn host_tasks(device: &Device, _: Option<&Path>) -> Result<Row, CliError> {
    let engine = engine(device, &noop::PROGRAM)?;
    let instance = noop::instance(&engine)?;
    let n = if is_cuda(device) {
        20_000_000
    } else {
        2_000_000
    };
    let tasks = vec![instance.task(noop::NOTHING).build(); n];
    let repeats = 15;
    let list = times(repeats, || Ok(engine.submit_all(&tasks)?))?;
    engine.park()?;
    let right = engine.stats()?.executed == (n * (repeats + 1)) as u64;
    // The limit: one thread writes the same tasks to ordinary memory.
    let mut copy = vec![tasks[0]; n];
    let copies = times(repeats, || {
        copy.copy_from_slice(std::hint::black_box(&tasks));
        std::hint::black_box(&mut copy);
        Ok(())
    })?;
    let row = Row::new("tiny tasks from one host thread", "task", n as f64, list).verified(right);
    let row = with_dispatches(row, &engine)?;
    Ok(row.raw("copied_by_one_thread", n as f64 / median(copies)))
}

fn fib_row(device: &Device, _: Option<&Path>) -> Result<Row, CliError> {
    let limits = raw(device, |raw| {
        raw.atomics(
            device
                .cuda()
                .map_or(1, everwarp::cuda::CudaDevice::multiprocessors),
        )
    })?;
    let engine = engine(device, &fib::PROGRAM)?;
    let instance = fib::instance(&engine)?;
    let n = if is_gpu(device) { 40 } else { 30 };
    let mut right = true;
    fib::run(&engine, &instance, n - 5)?;
    let list = times(if is_gpu(device) { 20 } else { 7 }, || {
        right &= fib::run(&engine, &instance, n)? == fib::reference(n);
        Ok(())
    })?;
    let calls = fib::calls(n) as f64;
    let row = Row::new(
        &format!("fib({n}), every call a task with a join; additions not counted"),
        "task",
        calls,
        list,
    );
    engine.park()?;
    let stats = engine.stats()?;
    let row = row.verified(right).raw(
        "tasks_per_batch",
        stats.executed as f64 / stats.batches as f64,
    );
    let row = with_dispatches(row, &engine)?;
    Ok(limits
        .into_iter()
        .fold(row, |row, l| row.raw("atomics_with_release_and_acquire", l)))
}

fn tree_row(device: &Device, _: Option<&Path>) -> Result<Row, CliError> {
    let engine = engine(device, &tree::PROGRAM)?;
    let tree = tree::Tree::new(&engine)?;
    let depth = if is_gpu(device) { 22 } else { 14 };
    let right = tree.run(&engine, 14)? == tree::reference(14);
    let list = times(10, || Ok(tree.run_timed(&engine, depth)?))?;
    let nodes = tree::nodes(depth) as f64;
    let what = format!(
        "a tree of depth {depth}, 256 loads and multiply-adds a task (checked at depth 14)"
    );
    Ok(Row::new(&what, "task", nodes, list).verified(right))
}

fn step(device: &Device, _: Option<&Path>) -> Result<Row, CliError> {
    let limits = raw(device, |raw| raw.launches(2000))?;
    let adapter = on_adapter(device, |raw| {
        let what = "a chain of dispatches, 1,000 a submission";
        Ok(vec![("wgpu_dispatch_s", what, median(raw.chain(20)?))])
    })?;
    let engine = engine(device, &pingpong::PROGRAM)?;
    let instance = pingpong::instance(&engine)?;
    let steps = 10_000;
    let mut right = true;
    let list = times(30, || {
        right &= pingpong::run(&engine, &instance, steps)? == pingpong::reference(steps);
        Ok(())
    })?;
    let row = Row::new(
        "10,000 dependent steps, each a task",
        "step",
        f64::from(steps),
        list,
    )
    .verified(right);
    let row = with_dispatches(row, &engine)?;
    let row = adapter.into_iter().fold(row, |row, (name, what, seconds)| {
        row.raw(name, seconds)
            .rival(what, seconds * f64::from(steps))
    });
    Ok(limits.into_iter().fold(row, |row, l| {
        let launch = median(l);
        row.raw("launch_and_synchronize_s", launch)
            .rival("launch and synchronize", launch * f64::from(steps))
    }))
}

fn fork_join(device: &Device, _: Option<&Path>) -> Result<Row, CliError> {
    let engine = engine(device, &pingpong::PROGRAM)?;
    let instance = pingpong::instance(&engine)?;
    let levels = 2000;
    let mut right = true;
    let list = times(30, || {
        right &= pingpong::run_levels(&engine, &instance, levels)? == 1;
        Ok(())
    })?;
    let row = Row::new(
        "2,000 levels that fork 32 tasks and join",
        "level",
        f64::from(levels),
        list,
    );
    with_dispatches(row.verified(right), &engine)
}

fn epoch_swap(device: &Device, _: Option<&Path>) -> Result<Row, CliError> {
    let limits = raw(device, |raw| raw.launches(2000))?;
    let engine = engine(device, &fib::PROGRAM)?;
    let instance = fib::instance(&engine)?;
    let mut list = Vec::new();
    let mut right = true;
    for round in 0..=500 {
        let swap = engine.swap(None)?.as_secs_f64();
        // The first is a warm-up.
        if round > 0 {
            list.push(swap);
        }
        right &= fib::run(&engine, &instance, 8)? == fib::reference(8);
    }
    let row = Row::new(
        "stop flag to the next epoch's first answer",
        "swap",
        1.0,
        list,
    )
    .verified(right);
    Ok(limits
        .into_iter()
        .fold(row, |row, l| row.raw("launch_and_synchronize_s", median(l))))
}

fn start(device: &Device, _: Option<&Path>) -> Result<Row, CliError> {
    let mut list = Vec::new();
    let mut right = true;
    // The first start may compile; it is not counted.
    for i in 0..11 {
        let begin = Instant::now();
        let engine = engine(device, &fib::PROGRAM)?;
        let seconds = begin.elapsed().as_secs_f64();
        let instance = fib::instance(&engine)?;
        right &= fib::run(&engine, &instance, 10)? == fib::reference(10);
        if i > 0 {
            list.push(seconds);
        }
    }
    let what = "from an open device to an engine that takes tasks, image cached";
    Ok(Row::new(what, "start", 1.0, list).verified(right))
}

/// Searches from vertex 0; the raw figure is a sequential search on this machine's CPU.
fn search(device: &Device, graph: &Csr, what: &str, repeats: usize) -> Result<Row, CliError> {
    let engine = engine(device, &bfs::PROGRAM)?;
    let search = bfs::Bfs::new(&engine, graph.rows(), graph.columns())?;
    let expected = bfs::reference(graph.rows(), graph.columns(), 0);
    let mut list = Vec::new();
    let mut right = true;
    for round in 0..=repeats {
        search.reset(&engine, 0)?;
        let begin = Instant::now();
        search.search(&engine, 0)?;
        let seconds = begin.elapsed().as_secs_f64();
        // The first is a warm-up.
        if round > 0 {
            list.push(seconds);
        }
        right &= search.found()? == expected;
    }
    engine.park()?;
    let tasks =
        engine.stats()?.executed as f64 / (repeats + 1) as f64 - search.reset_tasks() as f64;
    let plain = times(repeats, || {
        std::hint::black_box(bfs::reference(graph.rows(), graph.columns(), 0));
        Ok(())
    })?;
    let row = Row::new(what, "edge", graph.edges() as f64, list).verified(right);
    let row = with_dispatches(row, &engine)?;
    let plain = median(plain);
    Ok(row
        .raw("plain_sequential_search_s", plain)
        .rival("one CPU core", plain)
        .raw(
            "tasks_per_vertex_reached",
            tasks / expected.reached() as f64,
        ))
}

fn bfs_chain(device: &Device, _: Option<&Path>) -> Result<Row, CliError> {
    let graph = generate(&"chain:20000".parse::<Spec>()?)?;
    search(device, &graph, "a path of 20,000 vertices from its end", 20)
}

fn bfs_roads(device: &Device, roads: Option<&Path>) -> Result<Row, CliError> {
    let path = roads.expect("the part is declared to need it");
    let graph = read_path(path, &ReadOptions::default(), &mut |_, _| {})?;
    search(device, &graph, "the road network from vertex 0", 30)
}
