//! C: breadth-first search. Each graph has a child process, because making a graph takes longer than searching it.

#[cfg(feature = "wgpu")]
mod adapter;
mod file;
mod gpu;
mod host;

use everwarp::Engine;
use everwarp_graph::{Csr, ReadOptions, Spec, generate, read_path};
use everwarp_programs::bfs::{self, Bfs, Found};

use super::experiment::{Context, Experiment, Measure, On, Part};
use super::stats::{Role, Row};
use super::work::{Work, repeat};
use crate::error::CliError;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "C",
    title: "breadth-first search",
    about: "`tasks` is the engine, levels and parents exact: every frontier vertex a task, or, where vertices have many \
            edges, tasks that share a level and look from both sides. The baselines find levels \
            only, which is less work. `launches` launches a kernel for each level; its last block writes the \
            frontier's size for the host; `graph_1` and `graph_16` launch graphs of 1 and 16 levels; `grid` is one cooperative \
            kernel with a barrier of the grid, which goes on with a single block while the frontier is small; `turning` \
            is the same and looks from the unreached side while the frontier is large. On an adapter, `dispatches_1` and \
            `dispatches_64` submit 1 and 64 levels at a time, a dispatch for each. Rates count all edges of the \
            graph. Copying the graph is timed only in the rows from a file, which start with opening it; engine and \
            kernels are loaded before.",
    parts: &[
        Part::many("chain", On::Both, chain),
        Part::many("grid", On::Both, grid),
        Part::many("random", On::Both, random),
        Part::many("rmat", On::Both, rmat),
        Part::many("rmat_22", On::Cuda, rmat_22),
        Part {
            name: "roads",
            on: On::Both,
            roads: true,
            measure: Measure::Many(roads),
        },
    ],
};

/// A graph to search, and the expected result.
pub(super) struct Problem {
    /// The case of its rows.
    case: String,
    what: String,
    graph: Csr,
    source: u32,
    expected: Found,
    /// True if many vertices are reached in few levels, so that searching from the other side may pay.
    shallow: bool,
}

impl Problem {
    fn new(case: &str, graph: Csr, source: u32, shallow: bool) -> Self {
        let expected = bfs::reference(graph.rows(), graph.columns(), source);
        let what = format!(
            "{} vertices, {} directed edges; {} reached in {} levels from vertex {source}",
            graph.vertices(),
            graph.edges(),
            expected.reached(),
            expected.depth()
        );
        Self {
            case: case.to_owned(),
            what,
            graph,
            source,
            expected,
            shallow,
        }
    }
    /// Measures a search and hands over its row.
    fn measure(
        &self,
        cx: &Context<'_>,
        name: &str,
        role: Role,
        work: &mut dyn Work,
    ) -> Result<(), CliError> {
        let (times, right) = repeat(work)?;
        let row = Row::new(&self.what, "edge", self.graph.edges() as f64, times)
            .case(&self.case)
            .role(role)
            .verified(right);
        cx.emit_as(name, row)
    }
}

struct Ours<'p> {
    problem: &'p Problem,
    engine: Engine,
    search: Bfs,
}

impl Work for Ours<'_> {
    fn before(&mut self) -> Result<(), CliError> {
        Ok(self.search.reset(&self.engine, self.problem.source)?)
    }
    fn run(&mut self) -> Result<(), CliError> {
        Ok(self.search.search(&self.engine, self.problem.source)?)
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        Ok(self.search.found()? == self.problem.expected)
    }
}

/// Every way to search one graph. Those without the engine come first, because they need the whole GPU.
fn all_ways(cx: &Context<'_>, problem: &Problem) -> Result<(), CliError> {
    host::one_core(cx, problem)?;
    if cx.is_cuda() {
        gpu::all(cx, problem)?;
    } else {
        host::pool(cx, problem)?;
    }
    #[cfg(feature = "wgpu")]
    adapter::all(cx, problem)?;
    let engine = cx.device.engine().program(&bfs::PROGRAM).start()?;
    let search = Bfs::new(&engine, problem.graph.rows(), problem.graph.columns())?;
    let mut ours = Ours {
        problem,
        engine,
        search,
    };
    problem.measure(cx, "tasks", Role::Ours, &mut ours)
}

fn generated(cx: &Context<'_>, spec: &str, shallow: bool) -> Result<(), CliError> {
    let graph = generate(&spec.parse::<Spec>()?)?;
    // Random graphs have vertices without edges; the vertex with the most edges is in the large component.
    let degree = |v: &u32| graph.neighbors(*v).len();
    let source = match shallow {
        true => (0..graph.vertices()).max_by_key(degree).unwrap_or(0),
        false => 0,
    };
    all_ways(cx, &Problem::new(spec, graph, source, shallow))
}

fn chain(cx: &Context<'_>) -> Result<(), CliError> {
    generated(cx, "chain:20000", false)
}
fn grid(cx: &Context<'_>) -> Result<(), CliError> {
    generated(cx, "grid:1000x1000", false)
}
fn random(cx: &Context<'_>) -> Result<(), CliError> {
    generated(cx, "random:1000000:8000000", true)
}
fn rmat(cx: &Context<'_>) -> Result<(), CliError> {
    generated(cx, "rmat:20", true)
}

fn rmat_22(cx: &Context<'_>) -> Result<(), CliError> {
    generated(cx, "rmat:22", true)
}

fn roads(cx: &Context<'_>) -> Result<(), CliError> {
    let path = cx.roads.expect("the part is declared to need it");
    let graph = read_path(path, &ReadOptions::default(), &mut |_, _| {})?;
    let problem = Problem::new("roads", graph, 0, false);
    // First before an engine is resident, and then with an engine.
    file::all(cx, path, &problem)?;
    all_ways(cx, &problem)
}
