//! The input of programs: graphs from files or generated, and what can be wrong with it.

use std::io;
use std::path::PathBuf;

use everwarp_graph::{
    Csr, Direction, GraphError, ReadOptions, Spec, SpecError, generate, read_file, read_path,
};

use crate::option::{OptionValues, ProgramOption};

/// Why a program's input cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The program needs a graph, and none was given.
    #[error("the program `{program}` needs a graph")]
    NeedsGraph {
        /// The program.
        program: &'static str,
    },
    /// The graph does not have the vertex to start from.
    #[error("vertex {source_vertex} is not in the graph, which has vertices 0 to {largest}")]
    SourceOutOfRange {
        /// The vertex to start from.
        source_vertex: u32,
        /// The graph's last vertex.
        largest: u32,
    },
    /// A number that the program cannot work with.
    #[error("`{option}` must be {rule}, not {value}")]
    Value {
        /// The option.
        option: &'static str,
        /// The rule for the number.
        rule: String,
        /// The number that was given.
        value: u64,
    },
    /// The program needs a file, and none was given.
    #[error("the program `{program}` needs a file: give one with --file FILE, or --generate N")]
    NeedsFile {
        /// The program.
        program: &'static str,
    },
    /// A file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The graph cannot be read or generated.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The specification of a generated graph is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// Called while input is prepared, with the name of the current step and, where they are known, how much of the step is
/// done and how much there is in all.
pub type Progress<'a> = dyn FnMut(&str, Option<(u64, u64)>) + 'a;

/// The file of a graph.
pub(crate) const GRAPH: ProgramOption = ProgramOption::file(
    "--graph",
    "A graph: an edge list or Matrix Market, plain or gzip",
)
.excludes("--generate");
/// A generated graph.
pub(crate) const GENERATE: ProgramOption = ProgramOption::text(
    "--generate",
    "A generated graph: chain:N, grid:WxH, random:N:M or rmat:SCALE, with further settings after a colon",
    "SPEC",
);
/// Takes each edge of a file in one direction.
pub(crate) const DIRECTED: ProgramOption =
    ProgramOption::switch("--directed", "Take the edges of the graph as directed")
        .excludes("--undirected");
/// Takes each edge of a file in both directions.
pub(crate) const UNDIRECTED: ProgramOption =
    ProgramOption::switch("--undirected", "Take the edges of the graph as undirected");

/// Reads or generates the graph that the options describe.
pub(crate) fn graph(
    program: &'static str,
    options: &OptionValues,
    progress: &mut Progress<'_>,
) -> Result<Csr, InputError> {
    if let Some(spec) = options.text(&GENERATE) {
        let spec = match options.is_given(&DIRECTED) && !spec.ends_with(",directed") {
            true => format!("{spec},directed"),
            false => spec.to_owned(),
        };
        let spec: Spec = spec.parse()?;
        progress(&format!("generating {spec}"), None);
        return Ok(generate(&spec)?);
    }
    let path = options
        .file(&GRAPH)
        .ok_or(InputError::NeedsGraph { program })?;
    let direction = match (options.is_given(&DIRECTED), options.is_given(&UNDIRECTED)) {
        (true, _) => Some(Direction::Directed),
        (_, true) => Some(Direction::Undirected),
        _ => None,
    };
    let reading = format!("reading {}", path.display());
    let how = ReadOptions {
        direction,
        ..ReadOptions::default()
    };
    let mut report = |done, total| progress(&reading, Some((done, total)));
    let graph = match options.open(&GRAPH) {
        Some(file) => {
            let file = file.try_clone().map_err(|source| GraphError::Open {
                path: path.to_owned(),
                source,
            })?;
            read_file(file, path, &how, &mut report)
        }
        None => read_path(path, &how, &mut report),
    };
    Ok(graph?)
}
