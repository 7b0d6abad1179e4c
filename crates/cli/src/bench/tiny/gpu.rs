//! Tiny tasks by launches, graphs and one kernel.

use everwarp::EngineError;
use everwarp::cuda::baseline::{Baseline, DeviceGraphs, Tiny, TinyWay};

use super::SIZES;
use crate::bench::experiment::Context;
use crate::bench::stats::Role;
use crate::bench::work::{Label, Work, sweep};
use crate::error::CliError;

/// A graph with more nodes takes too long to make.
const GRAPH_CAP: (u64, &str) = (
    10_000,
    "a graph with so large a number of nodes is not made; the limit is 10,000",
);

/// Tasks that the driver runs. Each adds 1 to a cell of its own.
struct Launched<T> {
    tasks: T,
    run: fn(&T) -> Result<(), EngineError>,
    cells: fn(&T) -> Result<Vec<u32>, EngineError>,
}

impl<T> Work for Launched<T> {
    fn run(&mut self) -> Result<(), CliError> {
        Ok((self.run)(&self.tasks)?)
    }
    fn is_right(&mut self, rounds: u64) -> Result<bool, CliError> {
        let cells = (self.cells)(&self.tasks)?;
        Ok(cells.iter().all(|&c| u64::from(c) == rounds))
    }
}

fn measure(
    cx: &Context<'_>,
    way: TinyWay,
    most: Option<(u64, &str)>,
    what: &str,
) -> Result<(), CliError> {
    let base = Baseline::new(cx.gpu())?;
    let label = Label {
        most,
        ..Label::new(what, "task", Role::Rival)
    };
    sweep(cx, label, &SIZES, |n| {
        Ok(Launched {
            tasks: Tiny::new(&base, way, n as u32)?,
            run: |tasks| tasks.run(),
            cells: |tasks| tasks.cells(),
        })
    })
}

pub(super) fn launch_and_wait(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a launch and a wait for each task";
    measure(cx, TinyWay::Synchronized, None, what)
}
pub(super) fn stream(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, TinyWay::Streamed, None, "a launch a task, one wait")
}
pub(super) fn graph(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "one graph, a node a task, in a row";
    measure(cx, TinyWay::Graph, Some(GRAPH_CAP), what)
}
pub(super) fn graph_wide(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "one graph, a node a task, no dependences";
    measure(cx, TinyWay::GraphWide, Some(GRAPH_CAP), what)
}
pub(super) fn device_graph(cx: &Context<'_>) -> Result<(), CliError> {
    let Some(base) = Baseline::device_graphs(cx.gpu())? else {
        let why = "launching graphs from the device needs libcudadevrt.a of a CUDA toolkit; install one, or set CUDA_HOME \
                   to where it is";
        return cx.skip(cx.part, "", why);
    };
    let what = "graphs of one task launched by a graph on the device, 120 at a time";
    sweep(cx, Label::new(what, "task", Role::Rival), &SIZES, |n| {
        Ok(Launched {
            tasks: DeviceGraphs::new(&base, n as u32)?,
            run: |tasks| tasks.run(),
            cells: |tasks| tasks.cells(),
        })
    })
}
pub(super) fn bulk(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, TinyWay::Bulk, None, "one kernel, a thread a task")
}
pub(super) fn bulk_wide(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "one kernel, four tasks a thread and step";
    measure(cx, TinyWay::BulkWide, None, what)
}
