//! The child of the service that has an engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everwarp::process::Module;
use everwarp::process::serving::DeviceBackend;
use everwarp::{Device, Select};
use everwarp_service::{Backend, Level, engine_child, log, set_level};
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

/// Serves clients until the supervisor has gone.
pub(crate) fn engine(args: &EngineArgs) -> ! {
    let settings = &args.settings;
    set_level(Level::of(&settings.log).unwrap_or(Level::Info));
    let select = match args.kind.as_str() {
        "cuda" => Select::Cuda,
        _ => Select::Cpu,
    };
    let start = || -> Result<Arc<dyn Backend>, String> {
        let device = Device::open(select).map_err(|error| error.to_string())?;
        Ok(Arc::new(DeviceBackend::new(
            device,
            Box::new(crate::run::serve),
        )))
    };
    let ahead = settings.modules.as_deref().map_or_else(Vec::new, modules);
    let served = engine_child(settings.quota.quotas(), ahead, start);
    // Everything that still runs ends with this process: there is nothing to take down by hand. The supervisor has been
    // told of an engine that cannot be started, and logs it.
    std::process::exit(served.is_err().into())
}
