//! The child of the service that has an engine.

use std::sync::Arc;

use everwarp::process::serving::DeviceBackend;
use everwarp::{Device, Select};
use everwarp_service::{Backend, Level, Quotas, engine_child, set_level};

#[derive(Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// The engine: cpu or cuda.
    #[arg(long, value_parser = ["cpu", "cuda"])]
    kind: String,
    /// What is logged.
    #[arg(long, default_value = "info")]
    log: String,
}

/// Serves clients until the supervisor has gone.
pub(crate) fn engine(args: &EngineArgs) -> ! {
    set_level(Level::of(&args.log).unwrap_or(Level::Info));
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
    let served = engine_child(Quotas::default(), start);
    // Everything that still runs ends with this process: there is nothing to take down by hand. The supervisor has been
    // told of an engine that cannot be started, and logs it.
    std::process::exit(served.is_err().into())
}
