//! The command's errors.

use std::path::PathBuf;

/// Any error that ends the command.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub(crate) enum CliError {
    #[error("there is no program called `{name}`")]
    #[diagnostic(help(
        "the programs are: {known}; see `everwarp programs`. The name of a WebAssembly module ends in .wasm"
    ))]
    UnknownProgram { name: String, known: String },
    #[error("`{option}` does not apply to the program `{program}`")]
    #[diagnostic(help("see `everwarp programs` and `everwarp run --help` for what it takes"))]
    NotApplicable {
        option: &'static str,
        program: String,
    },
    #[error("the program `{program}` needs a graph")]
    #[diagnostic(help(
        "give one with --graph FILE or --generate SPEC, for example --graph data/karate.txt"
    ))]
    NeedsGraph { program: &'static str },
    #[error("vertex {source_vertex} is not in the graph, which has vertices 0 to {largest}")]
    #[diagnostic(help("choose another --source"))]
    SourceOutOfRange { source_vertex: u32, largest: u32 },
    #[error("`{option}` must be {rule}, not {value}")]
    Value {
        option: &'static str,
        rule: &'static str,
        value: u64,
    },
    #[error("the result differs from the plain reference: {what}")]
    #[diagnostic(help("this is a bug in everwarp: please report it with the command line"))]
    Wrong { what: String },
    #[error("{path}: {source}")]
    Output {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: {source}")]
    Input {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: {source}")]
    Module {
        path: PathBuf,
        source: everwarp_wasm::CompileError,
    },
    #[error("{path}: {source}")]
    Program {
        path: PathBuf,
        source: everwarp_process::LoadError,
    },
    #[error("`{option}` gives `{name}` twice")]
    #[diagnostic(help("give each name once, so that it is clear what it means"))]
    Twice { option: &'static str, name: String },
    #[error("the host of processes does not start: {0}")]
    ProcessHost(std::io::Error),
    #[error(transparent)]
    Spawn(#[from] everwarp_process::SpawnError),
    #[error(transparent)]
    GpuHost(#[from] everwarp_guest::StartError),
    #[error(transparent)]
    GpuSpawn(#[from] everwarp_guest::SpawnError),
    #[error("process {pid} ended: {reason}")]
    Process { pid: String, reason: String },
    #[error("{failed} of {instances} processes failed; the first was {first}")]
    Processes {
        failed: u32,
        instances: u32,
        first: Box<CliError>,
    },
    #[error("there is no folder {path}")]
    #[diagnostic(help("make it, or choose another --output"))]
    NoFolder { path: PathBuf },
    #[error("a temporary folder: {0}")]
    Folder(std::io::Error),
    #[error("standard output: {0}")]
    Stdout(std::io::Error),
    #[error("`{name}` is no benchmark: use {known}")]
    UnknownBench { name: String, known: String },
    #[error("`{row}` needs a road network")]
    #[diagnostic(help("give one with --roads FILE"))]
    NeedsRoads { row: &'static str },
    #[error("{failed} of {rows} rows failed")]
    BenchFailed { failed: usize, rows: usize },
    #[error(transparent)]
    Graph(#[from] everwarp_graph::GraphError),
    #[error(transparent)]
    Spec(#[from] everwarp_graph::SpecError),
    #[error(transparent)]
    Engine(#[from] everwarp::Error),
}

impl From<everwarp::BackendError> for CliError {
    fn from(error: everwarp::BackendError) -> Self {
        Self::Engine(error.into())
    }
}

impl CliError {
    /// 2 for a wrong command line, 1 for everything else.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::UnknownProgram { .. }
            | Self::NotApplicable { .. }
            | Self::Twice { .. }
            | Self::NeedsGraph { .. }
            | Self::SourceOutOfRange { .. }
            | Self::Value { .. }
            | Self::UnknownBench { .. }
            | Self::NeedsRoads { .. }
            | Self::Engine(everwarp::Error::UnknownEngine { .. })
            | Self::Spec(_) => 2,
            _ => 1,
        }
    }
}
