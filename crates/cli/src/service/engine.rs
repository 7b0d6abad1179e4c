//! The child of the service that has an engine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use everwarp::process::Module;
use everwarp::process::serving::{DeviceBackend, compile_in_children};
use everwarp::{Device, EngineKind, Select};
use everwarp_service::{Backend, Level, engine_child, log, native_runner, set_level};
use serde::{Deserialize, Serialize};

use super::config::QuotaConfig;

#[derive(Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// The engine: cpu or cuda.
    #[arg(long, value_parser = ["cpu", "cuda"])]
    kind: String,
    /// The settings, as JSON.
    #[arg(long, value_parser = settings)]
    settings: EngineSettings,
    /// Run one native program and end.
    #[arg(long)]
    native: bool,
}

/// What the service tells the child of an engine.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct EngineSettings {
    pub(super) log: String,
    pub(super) modules: Option<PathBuf>,
    pub(super) quota: QuotaConfig,
}

fn settings(text: &str) -> Result<EngineSettings, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The modules of a folder. A module that is refused is left out and logged.
fn modules(folder: &Path) -> Vec<Module> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            log(Level::Warn, &format!("{}: {error}", folder.display()));
            return Vec::new();
        }
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "wasm"))
        .collect();
    paths.sort();
    let load = |path: PathBuf| match Module::from_file(&path) {
        Ok(module) => Some(module),
        Err(error) => {
            log(Level::Warn, &format!("{}: {error}", path.display()));
            None
        }
    };
    paths.into_iter().filter_map(load).collect()
}

/// The command of an engine's child, or of its own child for a native program. It is this program, even if its file was
/// replaced meanwhile.
pub(super) fn child(kind: EngineKind, settings: &EngineSettings, native: bool) -> Command {
    let mut command = Command::new("/proc/self/exe");
    let settings = serde_json::to_string(settings).expect("numbers and strings are always JSON");
    command.args([
        "engine",
        "--kind",
        &kind.to_string(),
        "--settings",
        &settings,
    ]);
    if native {
        command.arg("--native");
    }
    // What a service manager has passed is for the service alone.
    for name in [
        "LISTEN_FDS",
        "LISTEN_PID",
        "LISTEN_FDNAMES",
        "NOTIFY_SOCKET",
    ] {
        command.env_remove(name);
    }
    command
}

/// Serves clients until the supervisor has gone.
pub(crate) fn engine(args: &EngineArgs) -> ! {
    everwarp_telemetry::registry::set_of_service();
    let settings = &args.settings;
    if args.native {
        let ran = native_runner(|| Device::open(Select::Cuda), crate::run::serve_on);
        std::process::exit(ran.is_err().into());
    }
    set_level(Level::of(&settings.log).unwrap_or(Level::Info));
    let select = match args.kind.as_str() {
        "cuda" => Select::Cuda,
        _ => Select::Cpu,
    };
    // A client's module can be made so that compiling it takes minutes and gigabytes.
    compile_in_children(super::compiler::command);
    let own = settings.clone();
    let start = || -> Result<Arc<dyn Backend>, String> {
        let device = Device::open(select).map_err(|error| error.to_string())?;
        let runner = own.clone();
        let runner = move || child(EngineKind::Cuda, &runner, true);
        let backend = DeviceBackend::new(device, Box::new(crate::run::serve), runner);
        Ok(Arc::new(backend.map_err(|error| error.to_string())?))
    };
    let ahead = settings.modules.as_deref().map_or_else(Vec::new, modules);
    let served = engine_child(settings.quota.quotas(), ahead, start);
    // Everything that still runs ends with this process: there is nothing to take down by hand. The supervisor has been
    // told of an engine that cannot be started, and logs it.
    std::process::exit(served.is_err().into())
}
