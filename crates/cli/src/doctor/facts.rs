//! The facts about this machine.

use std::path::{Path, PathBuf};

use everwarp::cuda::assembler::{Tool, ToolError};
use everwarp::cuda::cache::Cache;
use everwarp::cuda::nvrtc::{Nvrtc, NvrtcError};
use everwarp::cuda::{assembled_by_driver, driver_version};
use everwarp::files::Backend;
use everwarp::{AdapterReport, CudaUnavailable, Device, EngineKind, Error, Select};

/// A GPU that can hold an engine.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) name: String,
    pub(super) multiprocessors: u32,
    pub(super) arch: u32,
    /// Bytes of device memory, free before the engine started and in all.
    pub(super) memory: Result<(u64, u64), String>,
}

/// An engine of default size that was started.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) device_bytes: u64,
    pub(super) host_bytes: u64,
    pub(super) workers: u32,
    pub(super) size: u32,
    pub(super) milliseconds: f64,
}

/// Why an engine of default size did not start.
#[derive(Debug)]
pub(super) struct NotStarted {
    /// The bytes of device memory that were missing, if that was the reason.
    pub(super) wanted: Option<u64>,
    pub(super) message: String,
}

/// Everything that `doctor` looks at.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) cores: usize,
    /// How many GPUs the driver shows.
    pub(super) driver: Result<u32, CudaUnavailable>,
    /// The version of CUDA that the driver is made for.
    pub(super) cuda: Option<(u32, u32)>,
    pub(super) gpu: Result<Gpu, CudaUnavailable>,
    /// Version and path.
    pub(super) nvrtc: Result<(u32, u32, PathBuf), String>,
    /// ptxas, which assembles modules for the GPU.
    pub(super) assembler: Result<Tool, String>,
    pub(super) cache: Option<PathBuf>,
    pub(super) io_uring: Result<(), String>,
    /// How files are read, if the command line or the environment says that.
    pub(super) backend: Result<Option<Backend>, String>,
    /// Whether the kernel has the module of GPUDirect Storage.
    pub(super) gpu_direct: bool,
    /// Adapters of Vulkan, Metal and Direct3D 12, or why there is none.
    pub(super) adapters: Result<Vec<AdapterReport>, String>,
    /// The kind of the engine that was started: a GPU's if there is one.
    pub(super) kind: EngineKind,
    pub(super) engine: Result<Started, NotStarted>,
}

pub(super) fn look() -> Facts {
    let gpu = match Device::open(Select::Cuda) {
        Ok(device) => Ok(gpu(&device)),
        Err(Error::Cuda(reason)) => Err(reason),
        Err(other) => unreachable!("opening a GPU fails as CudaUnavailable only, not as {other}"),
    };
    let device = Device::open(Select::Auto).expect("the cpu engine is always there");
    Facts {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        driver: everwarp::cuda_device_count(),
        cuda: driver_version(),
        gpu,
        nvrtc: nvrtc(),
        assembler: assembler(),
        cache: Cache::user().folder().map(PathBuf::from),
        io_uring: io_uring(),
        backend: Backend::asked().map_err(|error| error.to_string()),
        gpu_direct: Path::new("/proc/driver/nvidia-fs").exists(),
        adapters: Device::adapters().map_err(|e| e.to_string()),
        kind: device.kind(),
        engine: engine(&device),
    }
}

fn gpu(device: &Device) -> Gpu {
    let gpu = device.cuda().expect("it was selected");
    Gpu {
        name: gpu.name().to_owned(),
        multiprocessors: gpu.multiprocessors(),
        arch: gpu.arch(),
        memory: gpu.memory().map_err(|e| e.to_string()),
    }
}

fn nvrtc() -> Result<(u32, u32, PathBuf), String> {
    let nvrtc = Nvrtc::open().map_err(|e| match e {
        // Its message lists every folder that was searched, and the advice of `judge`.
        NvrtcError::NotFound { .. } => {
            "not found in the loader's path, a CUDA toolkit or a Python package".to_owned()
        }
        other => other.to_string(),
    })?;
    let (major, minor) = nvrtc.version().map_err(|e| e.to_string())?;
    Ok((major, minor, nvrtc.path().to_owned()))
}

fn assembler() -> Result<Tool, String> {
    if assembled_by_driver() {
        return Err("EVERWARP_PTXAS asks for the driver, which assembles on one core".to_owned());
    }
    Tool::ptxas().map_err(|e| match e {
        ToolError::NotFound { .. } => {
            "no ptxas, so the driver assembles modules, on one core".to_owned()
        }
        other => other.to_string(),
    })
}

fn engine(device: &Device) -> Result<Started, NotStarted> {
    let builder = device.engine().program(&everwarp_programs::noop::PROGRAM);
    let engine = builder.start().map_err(|e| NotStarted {
        wanted: match &e {
            Error::Engine(everwarp::EngineError::OutOfMemory {
                kind: "device",
                bytes,
                ..
            }) => Some(*bytes),
            _ => None,
        },
        message: e.to_string(),
    })?;
    let footprint = engine.footprint();
    Ok(Started {
        device_bytes: footprint.device_bytes,
        host_bytes: footprint.host_bytes,
        workers: engine.worker_count(),
        size: engine.max_size(),
        milliseconds: engine.start_time().as_secs_f64() * 1e3,
    })
}

/// Asks the kernel for a ring without entries. A kernel that offers io_uring refuses that as invalid.
#[cfg(target_os = "linux")]
fn io_uring() -> Result<(), String> {
    let mut params = rustix::io_uring::io_uring_params::default();
    // SAFETY: the parameters are the kernel's struct, all zero, and outlive the call.
    match unsafe { rustix::io_uring::io_uring_setup(0, &mut params) } {
        Ok(_) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(rustix::io::Errno::PERM) => Err("this process may not use it".to_owned()),
        Err(rustix::io::Errno::NOSYS) => Err("the kernel does not have it".to_owned()),
        Err(other) => Err(format!("the kernel returns {other}")),
    }
}
#[cfg(not(target_os = "linux"))]
fn io_uring() -> Result<(), String> {
    Err("only Linux has it".to_owned())
}
