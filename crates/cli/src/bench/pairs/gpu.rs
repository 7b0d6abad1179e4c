//! Pairs by launches and graphs.

use everwarp::cuda::baseline::{Baseline, Pairs, PairsWay};
use everwarp_programs::pairs::reference;

use super::SIZES;
use crate::bench::experiment::Context;
use crate::bench::stats::Role;
use crate::bench::work::{Label, Work, sweep};
use crate::error::CliError;

struct Launched<'b>(Pairs<'b>);

impl Work for Launched<'_> {
    fn before(&mut self) -> Result<(), CliError> {
        Ok(self.0.clear()?)
    }
    fn run(&mut self) -> Result<(), CliError> {
        Ok(self.0.run()?)
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        let (seconds, times) = self.0.seconds()?;
        Ok((0..).zip(seconds).all(|(i, s)| s == reference(i, times)))
    }
}

fn measure(cx: &Context<'_>, way: PairsWay, role: Role, what: &str) -> Result<(), CliError> {
    let base = Baseline::new(cx.gpu())?;
    let early = matches!(way, PairsWay::StreamedEarly | PairsWay::GraphEarly);
    if early && !base.has_programmatic_launch() {
        let why = "this GPU has no programmatic dependent launch (Hopper or later has)";
        return cx.skip(cx.part, "", why);
    }
    sweep(cx, Label::new(what, "pair", role), &SIZES, |n| {
        Ok(Launched(Pairs::new(&base, way, n as u32)?))
    })
}

pub(super) fn launch_and_wait(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a launch and a wait for each stage";
    measure(cx, PairsWay::Synchronized, Role::Rival, what)
}
pub(super) fn stream(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "launches in one stream, one wait";
    measure(cx, PairsWay::Streamed, Role::Rival, what)
}
pub(super) fn stream_early(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "programmatic dependent launches in one stream, one wait";
    measure(cx, PairsWay::StreamedEarly, Role::Rival, what)
}
pub(super) fn graph(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "graphs of up to 500 pairs in a row, launched until all ran";
    measure(cx, PairsWay::Graph, Role::Rival, what)
}
pub(super) fn graph_wide(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "graphs of up to 500 pairs side by side, launched until all ran";
    measure(cx, PairsWay::GraphWide, Role::Rival, what)
}
pub(super) fn graph_early(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "graphs of up to 500 pairs in a row with programmatic dependences";
    measure(cx, PairsWay::GraphEarly, Role::Rival, what)
}
pub(super) fn bulk(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "all first stages in one kernel, all second stages in another";
    measure(cx, PairsWay::Bulk, Role::Limit, what)
}
