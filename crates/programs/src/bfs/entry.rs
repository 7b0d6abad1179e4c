//! The registry's entry of `bfs`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use everwarp::{Engine, Program};
use everwarp_graph::Csr;

use super::{Bfs, Found, PROGRAM, reference};
use crate::input::{DIRECTED, GENERATE, GRAPH, InputError, Progress, UNDIRECTED, graph};
use crate::native::{Facts, NativeProgram, OUTPUT, RunError};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct BreadthFirstSearch;

const SOURCE: ProgramOption = ProgramOption::number("--source", "The vertex to start from", 0);

/// A graph, and a vertex of it.
#[derive(Debug)]
pub struct Start {
    graph: Csr,
    source: u32,
}

impl NativeProgram for BreadthFirstSearch {
    type Input = Start;
    type Output = Found;
    const ABOUT: &'static str =
        "breadth-first search: levels and parents; every frontier vertex is a task";
    const OPTIONS: &'static [ProgramOption] =
        &[GRAPH, GENERATE, DIRECTED, UNDIRECTED, SOURCE, OUTPUT];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[("--generate", "grid:50x40")];

    fn program(&self) -> &'static Program {
        &PROGRAM
    }
    fn input(
        &self,
        options: &OptionValues,
        progress: &mut Progress<'_>,
    ) -> Result<Start, InputError> {
        let graph = graph(&PROGRAM.name, options, progress)?;
        let source = options.number(&SOURCE)?;
        if source >= graph.vertices() {
            return Err(InputError::SourceOutOfRange {
                source_vertex: source,
                largest: graph.vertices().saturating_sub(1),
            });
        }
        Ok(Start { graph, source })
    }
    fn run(&self, engine: &Engine, start: &Start) -> Result<(Found, Duration), RunError> {
        let search = Bfs::new(engine, start.graph.rows(), start.graph.columns())?;
        search.reset(engine, start.source)?;
        let begin = Instant::now();
        search.search(engine, start.source)?;
        let elapsed = begin.elapsed();
        Ok((search.found()?, elapsed))
    }
    fn reference(&self, start: &Start) -> Found {
        reference(start.graph.rows(), start.graph.columns(), start.source)
    }
    fn compare(&self, output: &Found, expected: &Found) -> Result<(), String> {
        match output == expected {
            true => Ok(()),
            false => Err("levels or parents".to_owned()),
        }
    }
    fn facts(&self, start: &Start, output: &Found) -> Facts {
        Facts {
            vertices: Some(start.graph.vertices()),
            edges: Some(start.graph.edges()),
            reached: Some(output.reached()),
            levels: Some(output.depth()),
            ..Facts::default()
        }
    }
    fn write(&self, output: &Found, out: &mut dyn Write) -> io::Result<()> {
        let mut lines = output.levels.iter().zip(&output.parents).enumerate();
        lines.try_for_each(|(v, (level, parent))| writeln!(out, "{v}\t{level}\t{parent}"))
    }
}
