//! `everwarp run MODULE.wasm`: one process, or many of one module.

mod connections;
mod idle;
mod job;
mod options;
mod place;
mod plan;
mod rehearse;
mod report;
mod routes;
mod run;
mod signal;
mod tally;
mod turns;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everwarp::process::{EventSources, Events, LoadError, Module, Recording};
use everwarp::trace::spanned;
use everwarp_telemetry::registry::Source;
use everwarp_telemetry::{Registration, register};

use connections::Gate;
use job::Job;
pub(crate) use options::{Args, Options, Route, Site, directory, size};
use place::Place;
use plan::Plan;

use crate::control::{Socket, socket};
use crate::error::CliError;

/// Whether the name of a program is that of a module.
pub(crate) fn is_module(program: &str) -> bool {
    let extension = Path::new(program).extension();
    extension.is_some_and(|e| e == "wasm" || e == "ewimg")
}

/// Reads a module; with `precompiled` from a file of images, and with its machine code.
fn load(path: &Path, precompiled: bool) -> Result<Module, CliError> {
    let module = match precompiled {
        // SAFETY: the user vouches for the file's author by --allow-precompiled, whose help says what that means.
        true => unsafe { Module::from_file_precompiled(path) },
        false => Module::from_file(path),
    };
    module.map_err(|source| match source {
        // This message contains the path.
        LoadError::File { .. } => CliError::ModuleFile(source),
        _ => CliError::Module {
            path: path.to_owned(),
            source,
        },
    })
}

/// Lets `everwarp ps` and `everwarp kill` reach the processes. The run continues without them if that fails.
fn serve(job: &Arc<Job>) -> (Option<Socket>, Registration) {
    let warn = |e: &everwarp_telemetry::control::ControlError| {
        eprintln!("everwarp: warning: `everwarp ps` will not find this: {e}");
    };
    let socket = socket().inspect_err(warn).ok();
    let job: Arc<dyn Source> = Arc::clone(job) as _;
    (socket, register(Arc::downgrade(&job)))
}

/// What `--events` grants.
fn events(args: &Args) -> Result<Option<Arc<Events>>, CliError> {
    let Some(file) = &args.process.events else {
        return Ok(None);
    };
    let open = |path: &PathBuf| {
        Recording::open(path).map_err(|source| CliError::Input {
            path: path.clone(),
            source,
        })
    };
    let sources = EventSources {
        terminal: true,
        signals: true,
        recording: file.as_ref().map(open).transpose()?,
    };
    Events::new(sources).map(Some).map_err(CliError::Events)
}

/// Gives the terminal its settings from before the processes had it, when it is dropped. The thread that listens for signals
/// keeps the events themselves.
struct GivenBack<'a>(&'a Job);

impl Drop for GivenBack<'_> {
    fn drop(&mut self) {
        if let Some(events) = self.0.events() {
            events.suspend();
        }
    }
}

/// Runs the module and returns the command's exit code.
pub(crate) fn main(args: &Args) -> Result<u8, CliError> {
    args.process.check()?;
    let module = spanned("module: read and validate", || match &args.site {
        None => load(Path::new(&args.program), args.process.allow_precompiled),
        Some(site) => Ok(Module::new(args.program.as_str(), site.program.to_vec())
            .expect("a test runs the program of the server")),
    })?;
    let gate = args.process.per_connection.then(Gate::new).transpose();
    let job = Arc::new(Job::new(
        &args.program,
        gate.map_err(CliError::Connections)?,
        events(args)?,
    ));
    let _terminal = GivenBack(&job);
    let service = Place::in_service(args)?;
    signal::listen(&job, service.is_some())?;
    // The service itself answers for its clients.
    let server = match service {
        Some(_) => None,
        None => Some(serve(&job)),
    };
    let plan = Plan::new(args, module, service, Arc::clone(&job))?;
    let ran = run::run(&plan)?;
    drop(server);
    spanned("report", || report::finish(&plan, ran))
}
