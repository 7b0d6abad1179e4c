//! Tiny tasks by launches, graphs and one kernel.

use everwarp::cuda::baseline::{Baseline, DeviceGraphs, Tiny, TinyWay};

use super::SIZES;
use crate::bench::experiment::Context;
use crate::bench::stats::Role;
use crate::bench::work::{Label, Work, sweep};
use crate::error::CliError;

/// A graph with more nodes takes longer to make than anybody would wait.
const GRAPH_CAP: (u64, &str) = (
    10_000,
    "a graph of so many nodes is not made; the cap is 10,000",
);

struct Launched<'b>(Tiny<'b>);

impl Work for Launched<'_> {
    fn run(&mut self) -> Result<(), CliError> {
        Ok(self.0.run()?)
    }
    fn is_right(&mut self, rounds: u64) -> Result<bool, CliError> {
        Ok(self.0.cells()?.iter().all(|&c| u64::from(c) == rounds))
    }
}

struct FromDevice<'b>(DeviceGraphs<'b>);

impl Work for FromDevice<'_> {
    fn run(&mut self) -> Result<(), CliError> {
        Ok(self.0.run()?)
    }
    fn is_right(&mut self, rounds: u64) -> Result<bool, CliError> {
        Ok(self.0.cells()?.iter().all(|&c| u64::from(c) == rounds))
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
        Ok(Launched(Tiny::new(&base, way, n as u32)?))
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
        Ok(FromDevice(DeviceGraphs::new(&base, n as u32)?))
    })
}
pub(super) fn bulk(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, TinyWay::Bulk, None, "one kernel, a thread a task")
}
pub(super) fn bulk_wide(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "one kernel, four tasks a thread and step";
    measure(cx, TinyWay::BulkWide, None, what)
}
