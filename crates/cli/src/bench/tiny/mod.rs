//! B: many tiny tasks that do not depend on each other.

#[cfg(feature = "wgpu")]
mod adapter;
mod gpu;
mod host;

use everwarp::{DevTask, Engine};
use everwarp_programs::range::{self, Range};

use super::experiment::{Context, Experiment, On, Part};
use super::stats::Role;
use super::work::{Label, Work, sweep};
use crate::error::CliError;

/// Numbers of tasks.
pub(super) const SIZES: [u64; 6] = [1000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000];

/// The fewest cells in one grain of a range task: 16 KiB, so that the traffic to memory outweighs the task.
const GRAIN: u32 = 4096;

/// Cells in one grain: as many grains as there are warps, which all move memory at the same pace, and on a CPU
/// many more than threads, which may be interrupted.
fn grain(cx: &Context<'_>, engine: &Engine, cells: u64) -> u32 {
    let each = if cx.is_cuda() { 1 } else { 64 };
    let grains = u64::from(engine.worker_count()) * each;
    let even = cells.div_ceil(grains) as u32;
    even.next_multiple_of(range::GRAIN_UNIT).max(GRAIN)
}

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "B",
    title: "many tiny tasks",
    about: "Each task adds 1 to a cell of its own. `bulk` is one kernel with a thread for each task, `bulk_wide` the same at \
            the speed of memory: where all tasks are alike and known, that is the right tool, and single tasks lose to \
            it. `range_split` and `range_fan` are one task over all cells that divides itself into grains, by halves or into \
            64 parts at a time. There is one grain for each warp, of 4,096 cells or more. `graph` has a node for each task. \
            On an adapter, `dispatch_and_wait` submits a dispatch for each task and maps a result, `dispatches` submits 1,000 \
            dispatches at a time, and `bulk` is one dispatch.",
    parts: &[
        Part::many("launch_and_wait", On::Cuda, gpu::launch_and_wait),
        Part::many("stream", On::Cuda, gpu::stream),
        Part::many("graph", On::Cuda, gpu::graph),
        Part::many("graph_wide", On::Cuda, gpu::graph_wide),
        Part::many("device_graph", On::Cuda, gpu::device_graph),
        Part::many("bulk", On::Cuda, gpu::bulk),
        Part::many("bulk_wide", On::Cuda, gpu::bulk_wide),
        Part::many("threads", On::Cpu, host::threads),
        Part::many("pool", On::Cpu, host::pool),
        Part::many("pool_ranges", On::Cpu, host::pool_ranges),
        Part::many("loop", On::Cpu, host::plain_loop),
        #[cfg(feature = "wgpu")]
        Part::many("dispatch_and_wait", On::Adapter, adapter::dispatch_and_wait),
        #[cfg(feature = "wgpu")]
        Part::many("dispatches", On::Adapter, adapter::dispatches),
        #[cfg(feature = "wgpu")]
        Part::many("bulk", On::Adapter, adapter::bulk),
        Part::many("from_host", On::Both, from_host),
        Part::many("from_threads", On::Both, from_threads),
        Part::many("on_device", On::Both, on_device),
        Part::many("range_split", On::Both, range_split),
        Part::many("range_fan", On::Both, range_fan),
    ],
};

/// How the engine runs its tasks.
enum Way {
    /// This number of threads submits them.
    Batch(Vec<DevTask>, usize),
    Root(u32),
}

/// The origin of the tasks.
#[derive(Clone, Copy)]
enum From {
    /// This number of threads of the host submits all of them.
    Host(usize),
    /// A task of this function.
    Root(u32),
}

/// Threads of `from_threads`.
const THREADS: usize = 4;

struct Ours {
    engine: Engine,
    range: Range,
    way: Way,
}

impl Work for Ours {
    fn run(&mut self) -> Result<(), CliError> {
        let done = match &self.way {
            Way::Batch(tasks, 1) => self.engine.submit_all(tasks),
            Way::Batch(tasks, threads) => std::thread::scope(|scope| {
                let engine = &self.engine;
                let parts = tasks.chunks(tasks.len().div_ceil(*threads));
                let start = |part| scope.spawn(move || engine.submit_all(part));
                let started: Vec<_> = parts.map(start).collect();
                let mut ended = started.into_iter().map(|t| t.join().expect("no panic"));
                ended.try_for_each(|ended| ended)
            }),
            Way::Root(function) => self.range.run(&self.engine, *function),
        };
        Ok(done?)
    }
    fn is_right(&mut self, rounds: u64) -> Result<bool, CliError> {
        Ok(self.range.holds(rounds as u32)?)
    }
}

fn ours(cx: &Context<'_>, what: &str, from: From) -> Result<(), CliError> {
    let engine = cx.device.engine().program(&range::PROGRAM).start()?;
    let unit = match from {
        From::Root(range::SPLIT | range::FAN) => "cell",
        _ => "task",
    };
    sweep(cx, Label::new(what, unit, Role::Ours), &SIZES, |n| {
        let range = Range::new(&engine, n as u32, grain(cx, &engine, n))?;
        let way = match from {
            From::Root(function) => Way::Root(function),
            From::Host(threads) => Way::Batch(range.batch(), threads),
        };
        Ok(Ours {
            engine: engine.clone(),
            range,
            way,
        })
    })
}

fn from_host(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a task a cell, all submitted by one host thread";
    ours(cx, what, From::Host(1))
}
fn from_threads(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a task a cell, submitted by four host threads";
    ours(cx, what, From::Host(THREADS))
}
fn on_device(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a task a cell, spawned by a binary tree of tasks";
    ours(cx, what, From::Root(range::SPREAD))
}
fn range_split(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "one task over all cells, halved down to a grain a warp";
    ours(cx, what, From::Root(range::SPLIT))
}
fn range_fan(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "one task over all cells, divided among 64 at a time down to a grain a warp";
    ours(cx, what, From::Root(range::FAN))
}
