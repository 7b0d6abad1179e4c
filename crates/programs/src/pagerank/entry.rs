//! The registry's entry of `pagerank`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use everwarp::{Engine, Program};
use everwarp_graph::Csr;

use super::{MAX_ITERATIONS, PROGRAM, PageRank, reference};
use crate::input::{DIRECTED, GENERATE, GRAPH, InputError, Progress, UNDIRECTED, graph};
use crate::native::{Facts, NativeProgram, OUTPUT, RunError};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct PageRanks;

const ITERATIONS: ProgramOption =
    ProgramOption::number("--iterations", "How many iterations", 20).at_most(MAX_ITERATIONS);
/// The largest error of a rank, as a part of its value: sums are formed in another order than the reference's.
const TOLERANCE: f64 = 1e-9;

/// A graph, as the program needs it.
#[derive(Debug)]
pub struct RankedGraph {
    graph: Csr,
    incoming: Csr,
    degrees: Vec<u32>,
    iterations: u32,
}

impl NativeProgram for PageRanks {
    type Input = RankedGraph;
    type Output = Vec<f64>;
    const ABOUT: &'static str =
        "the power iteration; every iteration forks over ranges of vertices and joins";
    const OPTIONS: &'static [ProgramOption] =
        &[GRAPH, GENERATE, DIRECTED, UNDIRECTED, ITERATIONS, OUTPUT];
    const EXAMPLE: &'static [(&'static str, &'static str)] =
        &[("--generate", "random:1000:5000"), ("--iterations", "10")];

    fn program(&self) -> &'static Program {
        &PROGRAM
    }
    fn input(
        &self,
        options: &OptionValues,
        progress: &mut Progress<'_>,
    ) -> Result<RankedGraph, InputError> {
        let iterations = options.number(&ITERATIONS)?;
        let graph = graph(&PROGRAM.name, options, progress)?;
        Ok(RankedGraph {
            incoming: graph.transpose(),
            degrees: graph.rows().windows(2).map(|w| w[1] - w[0]).collect(),
            iterations,
            graph,
        })
    }
    fn run(&self, engine: &Engine, input: &RankedGraph) -> Result<(Vec<f64>, Duration), RunError> {
        let program = PageRank::new(
            engine,
            input.incoming.rows(),
            input.incoming.columns(),
            &input.degrees,
            input.iterations,
        )?;
        let begin = Instant::now();
        let ranks = program.run(engine)?;
        Ok((ranks, begin.elapsed()))
    }
    fn reference(&self, input: &RankedGraph) -> Vec<f64> {
        let RankedGraph {
            incoming,
            degrees,
            iterations,
            ..
        } = input;
        reference(incoming.rows(), incoming.columns(), degrees, *iterations)
    }
    fn compare(&self, output: &Vec<f64>, expected: &Vec<f64>) -> Result<(), String> {
        let errors = output.iter().zip(expected).map(|(a, b)| (a - b).abs() / b);
        let worst = errors.fold(0.0, f64::max);
        match output.len() == expected.len() && worst < TOLERANCE {
            true => Ok(()),
            false => Err(format!("a rank is off by {worst:e} of its value")),
        }
    }
    fn facts(&self, input: &RankedGraph, _: &Vec<f64>) -> Facts {
        Facts {
            vertices: Some(input.graph.vertices()),
            edges: Some(input.graph.edges()),
            ..Facts::default()
        }
    }
    fn write(&self, output: &Vec<f64>, out: &mut dyn Write) -> io::Result<()> {
        let mut lines = output.iter().enumerate();
        lines.try_for_each(|(v, rank)| writeln!(out, "{v}\t{rank:e}"))
    }
}
