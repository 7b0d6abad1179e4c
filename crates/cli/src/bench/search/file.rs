//! From a file to a result: reading, copying, searching, copying back.

use std::path::Path;

use everwarp::cuda::baseline::{Baseline, Search, SearchWay};
use everwarp_graph::{Csr, GraphError, ReadOptions, read_path};
use everwarp_programs::bfs::{self, Bfs};

use super::Problem;
use crate::bench::experiment::Context;
use crate::bench::stats::{Role, Row};
use crate::bench::work::{Work, repeat};
use crate::error::CliError;

/// Everything from opening the file on. Returns the levels.
type Solve<'f> = Box<dyn Fn(&Csr) -> Result<Vec<i64>, CliError> + 'f>;

struct FromFile<'f> {
    path: &'f Path,
    problem: &'f Problem,
    solve: Solve<'f>,
    levels: Vec<i64>,
}

impl Work for FromFile<'_> {
    fn run(&mut self) -> Result<(), CliError> {
        self.levels = (self.solve)(&read(self.path)?)?;
        Ok(())
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        Ok(self.levels == self.problem.expected.levels)
    }
}

fn read(path: &Path) -> Result<Csr, GraphError> {
    read_path(path, &ReadOptions::default(), &mut |_, _| {})
}

pub(super) fn all(cx: &Context<'_>, path: &Path, problem: &Problem) -> Result<(), CliError> {
    let measure = |name: &str, role: Role, solve: Solve<'_>| {
        let mut work = FromFile {
            path,
            problem,
            solve,
            levels: Vec::new(),
        };
        let (times, right) = repeat(&mut work)?;
        let what = "from opening the file to levels in the host's memory";
        let row = Row::new(what, "edge", problem.graph.edges() as f64, times)
            .case("roads from file")
            .role(role)
            .verified(right);
        cx.emit_as(name, row)
    };
    let source = problem.source;
    let one_core = |g: &Csr| Ok(bfs::reference(g.rows(), g.columns(), source).levels);
    measure("one_core", Role::Rival, Box::new(one_core))?;
    if cx.is_cuda() {
        let base = Baseline::new(cx.gpu())?;
        let grid = |g: &Csr| {
            let way = SearchWay::Cooperative;
            let mut search = Search::new(&base, way, g.rows(), g.columns())?;
            search.reset(source)?;
            search.run()?;
            Ok(search.levels()?)
        };
        measure("grid", Role::Rival, Box::new(grid))?;
    }
    let engine = cx.device.engine().program(&bfs::PROGRAM).start()?;
    let tasks = |g: &Csr| {
        let search = Bfs::new(&engine, g.rows(), g.columns())?;
        search.reset(&engine, source)?;
        search.search(&engine, source)?;
        Ok(search.found()?.levels)
    };
    measure("tasks", Role::Ours, Box::new(tasks))
}
