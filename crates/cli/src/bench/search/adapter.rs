//! Searches with a dispatch for each level, on an adapter without the engine.

use everwarp::wgpu::{RawSearch, RawWgpu};

use super::Problem;
use crate::bench::experiment::Context;
use crate::bench::stats::Role;
use crate::bench::work::Work;
use crate::error::CliError;

struct Dispatched<'p> {
    problem: &'p Problem,
    search: RawSearch<'p>,
}

impl Work for Dispatched<'_> {
    fn before(&mut self) -> Result<(), CliError> {
        Ok(self.search.reset(self.problem.source)?)
    }
    fn run(&mut self) -> Result<(), CliError> {
        Ok(self.search.run()?)
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        Ok(self.search.levels()? == self.problem.expected.levels)
    }
}

/// Nothing on a device that is no adapter.
pub(super) fn all(cx: &Context<'_>, problem: &Problem) -> Result<(), CliError> {
    let Some(adapter) = cx.device.adapter() else {
        return Ok(());
    };
    let raw = RawWgpu::new(adapter)?;
    for (name, per) in [("dispatches_1", 1), ("dispatches_64", 64)] {
        let (rows, columns) = (problem.graph.rows(), problem.graph.columns());
        let search = RawSearch::new(&raw, rows, columns, per)?;
        let mut work = Dispatched { problem, search };
        problem.measure(cx, name, Role::Rival, &mut work)?;
    }
    Ok(())
}
