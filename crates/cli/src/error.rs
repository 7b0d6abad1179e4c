//! The command's errors.

use std::error::Error;
use std::path::PathBuf;

use everwarp::process::{HostError, LoadError, OutputError, SpawnError, StartError};
use miette::Diagnostic;

use crate::exit_code;

/// Any error that ends the command.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(crate) enum CliError {
    #[error("there is no program called `{name}`")]
    #[diagnostic(help(
        "the programs are: {known}; see `everwarp programs`. The name of a WebAssembly module ends in .wasm"
    ))]
    UnknownProgram { name: String, known: String },
    #[error("`{option}` does not apply to `{program}`")]
    #[diagnostic(help(
        "it applies to {applies}; `everwarp run {program} --help` shows the options of {program}"
    ))]
    NotApplicable {
        option: String,
        program: String,
        applies: String,
    },
    #[error("`{option}` does not apply to processes on the {engine} engine")]
    #[diagnostic(help("leave it out, or choose the other engine with --engine {other}"))]
    NotOnEngine {
        option: &'static str,
        engine: &'static str,
        other: &'static str,
    },
    #[error("the wgpu engine runs no WebAssembly processes")]
    #[diagnostic(help("choose another engine with --engine cpu or --engine cuda"))]
    NoProcesses,
    #[error("`--adapter` chooses the adapter of the wgpu engine, which runs native programs")]
    #[diagnostic(help("add --engine wgpu, or leave it out"))]
    AdapterWithoutWgpu,
    #[cfg(feature = "wgpu")]
    #[error("{} is there, and it is not of a page that `everwarp web` has written", path.display())]
    #[diagnostic(help("choose another folder, or move the file away"))]
    NotOfPage { path: PathBuf },
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
    #[error(transparent)]
    ProgramInput(everwarp_programs::InputError),
    #[error(transparent)]
    ProgramRun(everwarp_programs::RunError),
    #[error(transparent)]
    #[diagnostic(help(
        "there is not enough room on this engine: choose smaller numbers, which --help names, or --engine cpu"
    ))]
    TooLarge(everwarp_programs::RunError),
    #[error("the result differs from the plain reference: {what}")]
    #[diagnostic(help("this is a bug in everwarp: please report it with the command line"))]
    Wrong { what: String },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Run(crate::run::RunError),
    #[error("the request of a client is not understood: {what}")]
    Request { what: String },
    #[error("the file for the result: {source}")]
    Result { source: std::io::Error },
    #[error(transparent)]
    Cache(everwarp_cache::NotKept),
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
    #[error("`{option}` is missing: {why}")]
    Missing {
        option: &'static str,
        why: &'static str,
    },
    #[error("{path}: {source}")]
    Compile {
        path: PathBuf,
        source: everwarp_compiler::CompileError,
    },
    #[error("{path}: {source}")]
    Module { path: PathBuf, source: LoadError },
    #[error(transparent)]
    ModuleFile(LoadError),
    #[error("connections cannot be accepted: {0}")]
    Connections(std::io::Error),
    #[error("the server {server} cannot be measured: {source}")]
    BenchServer {
        server: &'static str,
        source: std::io::Error,
    },
    #[error("there are no events: {0}")]
    Events(std::io::Error),
    #[error(transparent)]
    Listen(everwarp::process::ListenError),
    #[error("`{option}` gives `{name}` twice")]
    #[diagnostic(help("give each name once"))]
    Twice { option: &'static str, name: String },
    #[error("{path} has {lines} lines, too few for {wanted} processes")]
    #[diagnostic(help(
        "give --stdin-lines a file with more lines, or --instances a smaller number"
    ))]
    FewLines {
        path: PathBuf,
        lines: u64,
        wanted: u32,
    },
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{0}")]
    #[diagnostic(help(
        "the processes have exited; run them again with room for all of their output"
    ))]
    LostOutput(OutputError),
    #[error("process {pid} ended: {reason}")]
    Process { pid: String, reason: String },
    #[error("{failed} of {instances} processes failed; the first was {first}")]
    Processes {
        failed: u32,
        instances: u32,
        first: Box<CliError>,
    },
    #[error("{}: {done} of {instances} processes had ended well", exit_code::signal_name(*.signal))]
    Signal {
        signal: i32,
        done: u32,
        instances: u32,
    },
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
    #[error("there is no folder {path}")]
    #[diagnostic(help("make it, or choose another --output"))]
    NoFolder { path: PathBuf },
    #[error("there is no folder {path}")]
    #[diagnostic(help("make it first"))]
    NoManFolder { path: PathBuf },
    #[error("a temporary folder: {0}")]
    Folder(std::io::Error),
    #[error("a command could not be measured: {reason}")]
    Measurement { reason: String },
    #[error("standard output is no terminal, and a screen needs one")]
    #[diagnostic(help("use --once, or --once --json"))]
    NoTerminal,
    #[error(transparent)]
    Trace(everwarp::telemetry::TraceError),
    #[error("the trace was not written: {0}")]
    #[diagnostic(help(
        "everything else was done; name a file in a folder with room, or lower --trace-limit"
    ))]
    TraceFile(Box<CliError>),
    #[error(transparent)]
    Metrics(everwarp::telemetry::MetricsError),
    #[error("standard output: {0}")]
    Stdout(std::io::Error),
    #[error("`{name}` is no benchmark: use {known}")]
    UnknownBench { name: String, known: String },
    #[error("`{row}` needs a road network")]
    #[diagnostic(help("give one with --roads FILE"))]
    NeedsRoads { row: &'static str },
    #[error("{failed} of {rows} rows failed")]
    BenchFailed { failed: usize, rows: usize },
    #[error("no benchmark tests the finding {id}")]
    #[diagnostic(help("`everwarp kb check` without a number lists those that benchmarks test"))]
    NoCheck { id: String },
    #[error("`{flag}` is missing, and there is no terminal to ask on")]
    #[diagnostic(help("give all of --piece, --count, --depends, --bytes and --latency"))]
    NeedsAnswer { flag: &'static str },
    #[error(transparent)]
    Knowledge(#[from] everwarp_kb::KbError),
    #[error(transparent)]
    Graph(#[from] everwarp_graph::GraphError),
    #[error(transparent)]
    Spec(#[from] everwarp_graph::SpecError),
    #[error(transparent)]
    Engine(#[from] everwarp::Error),
    #[error(transparent)]
    #[diagnostic(help(
        "run it with --alone to start an engine for this command, or restart the service with `everwarp down` and `everwarp up`"
    ))]
    Service(everwarp::ServiceError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Up(#[from] crate::service::UpError),
    #[error(transparent)]
    Actor(everwarp::actor::ActorError),
    #[error(transparent)]
    Ring(#[from] everwarp::ring::RingError),
    #[error("`{program}` does not run on the engine `{engine}`")]
    #[diagnostic(help("give --engine cpu"))]
    ProgramNotOnEngine {
        program: String,
        engine: everwarp::EngineKind,
    },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Control(#[from] crate::control::ControlError),
}

impl From<everwarp_programs::RunError> for CliError {
    fn from(error: everwarp_programs::RunError) -> Self {
        use everwarp::actor::ActorError;
        use everwarp::{EngineError, Error};
        use everwarp_programs::RunError;
        match error {
            RunError::Engine(Error::Engine(EngineError::OutOfMemory { .. }))
            | RunError::Actor(ActorError::Config { .. }) => Self::TooLarge(error),
            RunError::Engine(error) => Self::Engine(error),
            RunError::Actor(error) => Self::Actor(error),
            error => Self::ProgramRun(error),
        }
    }
}

impl From<everwarp::actor::ActorError> for CliError {
    fn from(error: everwarp::actor::ActorError) -> Self {
        everwarp_programs::RunError::from(error).into()
    }
}

impl From<everwarp::EngineError> for CliError {
    fn from(error: everwarp::EngineError) -> Self {
        Self::Engine(error.into())
    }
}

impl CliError {
    /// The command's exit code after this error.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::UnknownProgram { .. }
            | Self::NotApplicable { .. }
            | Self::NotOnEngine { .. }
            | Self::ProgramNotOnEngine { .. }
            | Self::Twice { .. }
            | Self::FewLines { .. }
            | Self::NeedsGraph { .. }
            | Self::SourceOutOfRange { .. }
            | Self::Value { .. }
            | Self::ProgramInput(_)
            | Self::UnknownBench { .. }
            | Self::NeedsRoads { .. }
            | Self::NoCheck { .. }
            | Self::NeedsAnswer { .. }
            | Self::Knowledge(
                everwarp_kb::KbError::UnknownTopic { .. }
                | everwarp_kb::KbError::UnknownId { .. }
                | everwarp_kb::KbError::Incomplete { .. },
            )
            | Self::Engine(everwarp::Error::UnknownEngine { .. })
            | Self::Up(
                crate::service::UpError::Duration { .. }
                | crate::service::UpError::Level { .. }
                | crate::service::UpError::Config { .. },
            )
            | Self::Missing { .. }
            | Self::Trace(_)
            | Self::Spec(_) => exit_code::USAGE,
            Self::Run(error) => error.exit_code(),
            Self::Signal { signal, .. } => exit_code::of_signal(*signal),
            _ => exit_code::FAILED,
        }
    }
}

/// An error as it is printed. Many messages contain the message of their cause, which is then not printed again.
#[derive(Debug)]
pub(crate) struct Printed(pub(crate) CliError);

impl std::fmt::Display for Printed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Printed {
    /// The first cause that the message does not contain.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let message = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(printed) = cause.filter(|c| message.contains(&c.to_string())) {
            cause = printed.source();
        }
        cause
    }
}

impl Diagnostic for Printed {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.0.help()
    }
}
