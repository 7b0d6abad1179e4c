//! `everwarp doctor`.

use everwarp::cuda::cache::Cache;
use everwarp::cuda::nvrtc::Nvrtc;
use everwarp::{Device, Select};
use serde::Serialize;

use crate::error::CliError;
use crate::output::{print, print_json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One thing looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    ok: bool,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

fn good(what: &'static str, found: String) -> Finding {
    Finding {
        what,
        ok: true,
        found,
        fix: None,
    }
}
fn missing(what: &'static str, found: impl ToString, fix: &str) -> Finding {
    Finding {
        what,
        ok: false,
        found: found.to_string(),
        fix: Some(fix.to_owned()),
    }
}

/// What an engine of default size occupies.
fn footprint(device: &Device) -> Finding {
    const WHAT: &str = "engine memory";
    match device
        .engine()
        .program(&everwarp_programs::noop::PROGRAM)
        .start()
    {
        Ok(engine) => {
            let f = engine.footprint();
            let mib = |b: u64| b as f64 / f64::from(1 << 20);
            let text = format!(
                "{:.0} MiB of device memory and {:.0} MiB of pinned host memory by default; {} workers of size {}; started in {:.1} ms",
                mib(f.device_bytes),
                mib(f.host_bytes),
                engine.worker_count(),
                engine.max_size(),
                engine.start_time().as_secs_f64() * 1e3
            );
            good(WHAT, text)
        }
        Err(e) => missing(WHAT, e, "see the message"),
    }
}

fn findings() -> Vec<Finding> {
    let mut list = Vec::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    list.push(good("cores", format!("{cores}; the cpu engine runs here")));
    match everwarp::cuda_device_count() {
        Ok(count) => list.push(good("driver", format!("it works and shows {count} GPUs"))),
        Err(e) => list.push(missing(
            "driver",
            e,
            "nothing is needed for the cpu engine; for cuda, install NVIDIA's driver",
        )),
    }
    match Device::open(Select::Cuda) {
        Ok(device) => {
            let gpu = device.cuda().expect("it was selected");
            let (name, sms, arch) = (gpu.name(), gpu.multiprocessors(), gpu.arch());
            list.push(good(
                "GPU",
                format!("{name}, {sms} multiprocessors, sm_{arch}, cooperative launches"),
            ));
        }
        Err(e) => list.push(missing(
            "GPU",
            e,
            "use --engine cpu, or a machine with an NVIDIA GPU (Ampere or later)",
        )),
    }
    match Nvrtc::open().and_then(|n| Ok((n.version()?, n.path().display().to_string()))) {
        Ok(((major, minor), path)) => list.push(good("NVRTC", format!("{major}.{minor} ({path})"))),
        Err(e) => list.push(missing(
            "NVRTC",
            e,
            "images in the cache run without it; to compile new ones, install the CUDA toolkit or the Python package nvidia-cuda-nvrtc",
        )),
    }
    let cache = Cache::user();
    match cache.folder() {
        Some(folder) => list.push(good("image cache", folder.display().to_string())),
        None => list.push(missing(
            "image cache",
            "no folder for it",
            "set EVERWARP_CACHE_DIR",
        )),
    }
    list.push(io_uring());
    let device = Device::open(Select::Auto).expect("the cpu engine is always there");
    list.push(footprint(&device));
    list
}

/// Whether the kernel offers io_uring. Nothing here needs it yet: it is for host calls.
fn io_uring() -> Finding {
    const WHAT: &str = "io_uring";
    const FIX: &str = "nothing is needed: host calls, which will use it, come with processes";
    match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
        .as_deref()
        .map(str::trim)
    {
        Ok("0") => good(WHAT, "the kernel offers it".to_owned()),
        Ok(other) => missing(
            WHAT,
            format!("disabled by the kernel's setting io_uring_disabled = {other}"),
            FIX,
        ),
        Err(_) => missing(WHAT, "the kernel does not say whether it offers it", FIX),
    }
}

pub(crate) fn main(args: &Args) -> Result<(), CliError> {
    let list = findings();
    if args.json {
        return print_json(&list);
    }
    for f in list {
        print(&format!(
            "{} {:<14}{}",
            if f.ok { "ok     " } else { "missing" },
            f.what,
            f.found
        ))?;
        if let Some(fix) = f.fix {
            print(&format!("{:<22}-> {fix}", ""))?;
        }
    }
    Ok(())
}
