//! Tiny tasks on an adapter without the engine.

use everwarp::wgpu::{RawCells, RawWay, RawWgpu};

use super::SIZES;
use crate::bench::experiment::Context;
use crate::bench::stats::Role;
use crate::bench::work::{Label, Work, sweep};
use crate::error::CliError;

struct Dispatched<'r>(RawCells<'r>);

impl Work for Dispatched<'_> {
    fn run(&mut self) -> Result<(), CliError> {
        Ok(self.0.run()?)
    }
    fn is_right(&mut self, rounds: u64) -> Result<bool, CliError> {
        let cells = self.0.cells()?;
        Ok(cells.iter().all(|&c| u64::from(c) == rounds))
    }
}

fn measure(cx: &Context<'_>, way: RawWay, what: &str) -> Result<(), CliError> {
    let adapter = cx.device.adapter();
    let raw = RawWgpu::new(adapter.expect("the part is declared for the wgpu engine"))?;
    sweep(cx, Label::new(what, "task", Role::Rival), &SIZES, |n| {
        Ok(Dispatched(RawCells::new(&raw, way, n as u32)?))
    })
}

pub(super) fn dispatch_and_wait(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "write, dispatch, copy and map for each task";
    measure(cx, RawWay::Waited, what)
}
pub(super) fn dispatches(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a dispatch a task, 1,000 a submission";
    measure(cx, RawWay::Chained, what)
}
pub(super) fn bulk(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "one dispatch, an invocation a task";
    measure(cx, RawWay::Bulk, what)
}
