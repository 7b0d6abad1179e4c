//! Searches by launches, graphs and cooperative kernels.

use everwarp::cuda::baseline::{Baseline, Search, SearchWay};

use super::Problem;
use crate::bench::experiment::Context;
use crate::bench::stats::Role;
use crate::bench::work::Work;
use crate::error::CliError;

struct Launched<'p> {
    problem: &'p Problem,
    search: Search<'p>,
}

impl Work for Launched<'_> {
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

pub(super) fn all(cx: &Context<'_>, problem: &Problem) -> Result<(), CliError> {
    let base = Baseline::new(cx.gpu())?;
    for (name, way) in [
        ("launches", SearchWay::Launches),
        ("graph_1", SearchWay::Graph(1)),
        ("graph_16", SearchWay::Graph(16)),
        ("grid", SearchWay::Cooperative),
        ("turning", SearchWay::Turning),
    ] {
        if way == SearchWay::Turning && !problem.shallow {
            continue;
        }
        let (rows, columns) = (problem.graph.rows(), problem.graph.columns());
        let search = Search::new(&base, way, rows, columns)?;
        let mut work = Launched { problem, search };
        problem.measure(cx, name, Role::Rival, &mut work)?;
    }
    Ok(())
}
