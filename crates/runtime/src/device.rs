//! Devices: where an engine runs.

use std::str::FromStr;

#[cfg(feature = "wgpu")]
use everwarp_engine::EngineError;
use everwarp_engine::{EngineKind, ProgramRef};
use everwarp_engine_cuda::{CudaDevice, CudaUnavailable};
#[cfg(feature = "wgpu")]
use everwarp_engine_wgpu::WgpuDevice;

use crate::error::Error;

/// Which device to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// A GPU if one can be used, else the host's cores. [`Device::for_tasks`] may also take an adapter of Vulkan, Metal or
    /// Direct3D 12, which runs programs and nothing else.
    #[default]
    Auto,
    /// The host's cores.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
    /// Any GPU with Vulkan, Metal or Direct3D 12, or software that stands in for one.
    Wgpu,
}

impl FromStr for Select {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            "wgpu" => Ok(Self::Wgpu),
            _ => Err(Error::UnknownEngine {
                name: name.to_owned(),
            }),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Opened {
    Cpu,
    Cuda(CudaDevice),
    #[cfg(feature = "wgpu")]
    Wgpu(WgpuDevice),
}

/// What is known about an adapter of Vulkan, Metal or Direct3D 12.
#[derive(Clone, Debug)]
pub struct AdapterReport {
    /// Its name.
    pub name: String,
    /// `Vulkan`, `Metal` or `Dx12`.
    pub backend: String,
    /// The driver and its version.
    pub driver: String,
    /// Whether it is software, on the host's cores.
    pub software: bool,
    /// The largest window of memory that programs can reach, in bytes.
    pub window_bytes: u64,
    /// Bytes of memory of a workgroup.
    pub workgroup_bytes: u32,
    /// Optional features that the engine uses or could use.
    pub features: Vec<&'static str>,
    /// Whether a running dispatch sees what the host writes meanwhile, which no engine relies on. None if that was not tested:
    /// the interface is not Vulkan, or no engine can start there.
    pub host_writes: Option<bool>,
    /// Why no engine can start there: a limit that is too small, or a driver that fails the tests at the start.
    pub fault: Option<String>,
}

/// One GPU, or the host's cores. A clone is another handle of the same device.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) opened: Opened,
    why: String,
}

/// How many NVIDIA GPUs the driver shows.
///
/// # Errors
/// The driver is missing or does not start.
pub fn cuda_device_count() -> Result<u32, CudaUnavailable> {
    CudaDevice::count()
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// With [`Select::Cuda`] and [`Select::Wgpu`], the reason why no GPU can be used.
    pub fn open(select: Select) -> Result<Self, Error> {
        let cpu = |why| Self {
            opened: Opened::Cpu,
            why,
        };
        match select {
            Select::Cpu => Ok(cpu("it was asked for".to_owned())),
            Select::Cuda => Ok(Self {
                opened: Opened::Cuda(CudaDevice::open(0)?),
                why: "it was asked for".to_owned(),
            }),
            Select::Wgpu => Self::open_adapter(None),
            Select::Auto => Ok(match CudaDevice::open(0) {
                Ok(device) => Self {
                    opened: Opened::Cuda(device),
                    why: "a GPU is there".to_owned(),
                },
                Err(reason) => cpu(format!("no GPU can be used: {reason}")),
            }),
        }
    }
    /// Opens a device for programs. [`Select::Auto`] takes an NVIDIA GPU; else the first adapter of Vulkan, Metal or
    /// Direct3D 12 that is hardware, if all of `programs` have WGSL and its window is larger than `heap`, the bytes to which
    /// a heap may grow, or 0; else the host's cores. [`why`](Self::why) has the reasons. Other selections are those of
    /// [`open`](Self::open).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn for_tasks(
        select: Select,
        programs: impl IntoIterator<Item = impl Into<ProgramRef>>,
        heap: u64,
    ) -> Result<Self, Error> {
        let device = Self::open(select)?;
        if select != Select::Auto || device.kind() != EngineKind::Cpu {
            return Ok(device);
        }
        let programs: Vec<ProgramRef> = programs.into_iter().map(Into::into).collect();
        let bare = programs.iter().find(|p| p.wgsl_source.is_empty());
        let refused = match bare {
            Some(program) => format!("the program `{}` has no WGSL", program.name),
            None => match Self::open_hardware(heap) {
                Ok(opened) => {
                    return Ok(Self {
                        why: format!("{}, but this adapter is there", device.why),
                        opened,
                    });
                }
                Err(reason) => reason.to_string(),
            },
        };
        Ok(Self {
            why: format!("{}; no other adapter either: {refused}", device.why),
            ..device
        })
    }
    #[cfg(feature = "wgpu")]
    fn open_hardware(heap: u64) -> Result<Opened, Error> {
        let device = WgpuDevice::open_hardware()?;
        let facts = device.facts();
        if heap >= facts.window_bytes {
            return Err(Error::Engine(EngineError::OutOfMemory {
                kind: "device",
                bytes: heap,
                detail: format!(
                    "programs reach a window of {} bytes on {}",
                    facts.window_bytes, facts.name
                ),
            }));
        }
        Ok(Opened::Wgpu(device))
    }
    #[cfg(not(feature = "wgpu"))]
    fn open_hardware(_heap: u64) -> Result<Opened, Error> {
        Err(Error::NotBuilt)
    }
    /// All adapters of Vulkan, Metal and Direct3D 12, by the numbers that [`open_adapter`](Self::open_adapter) takes. Each is
    /// opened and tested, which takes some time.
    ///
    /// # Errors
    /// There is none, or the program was built without the feature `wgpu`.
    #[cfg(feature = "wgpu")]
    pub fn adapters() -> Result<Vec<AdapterReport>, Error> {
        let devices = WgpuDevice::list()?;
        let report = |device: &WgpuDevice| {
            let facts = device.facts().clone();
            let tests = device.check();
            AdapterReport {
                name: facts.name,
                backend: facts.backend,
                driver: facts.driver,
                software: facts.software,
                window_bytes: facts.window_bytes,
                workgroup_bytes: facts.workgroup_bytes,
                features: facts.features,
                host_writes: tests.as_ref().ok().and_then(|tests| tests.host_writes),
                fault: tests.err().map(|error| error.to_string()),
            }
        };
        Ok(devices.iter().map(report).collect())
    }
    /// All adapters of Vulkan, Metal and Direct3D 12; this program was built without them.
    ///
    /// # Errors
    /// Always [`Error::NotBuilt`].
    #[cfg(not(feature = "wgpu"))]
    pub fn adapters() -> Result<Vec<AdapterReport>, Error> {
        Err(Error::NotBuilt)
    }
    /// Opens an adapter of Vulkan, Metal or Direct3D 12: the one whose name contains `wanted`, or with that number
    /// (the error for an unknown one lists them); without `wanted` the first, and hardware comes before software.
    ///
    /// # Errors
    /// There is no such adapter, or the program was built without the feature `wgpu`.
    #[cfg(feature = "wgpu")]
    pub fn open_adapter(wanted: Option<&str>) -> Result<Self, Error> {
        Ok(Self {
            opened: Opened::Wgpu(WgpuDevice::open(wanted)?),
            why: "it was asked for".to_owned(),
        })
    }
    /// Opens an adapter of Vulkan, Metal or Direct3D 12; this program was built without them.
    ///
    /// # Errors
    /// Always [`Error::NotBuilt`].
    #[cfg(not(feature = "wgpu"))]
    pub fn open_adapter(_wanted: Option<&str>) -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }
    /// The kind of engine that runs here.
    pub fn kind(&self) -> EngineKind {
        match self.opened {
            Opened::Cpu => EngineKind::Cpu,
            Opened::Cuda(_) => EngineKind::Cuda,
            #[cfg(feature = "wgpu")]
            Opened::Wgpu(_) => EngineKind::Wgpu,
        }
    }
    /// The device's name.
    pub fn name(&self) -> String {
        match &self.opened {
            Opened::Cpu => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                format!("host, {cores} cores")
            }
            Opened::Cuda(device) => device.name().to_owned(),
            #[cfg(feature = "wgpu")]
            Opened::Wgpu(device) => device.name().to_owned(),
        }
    }
    /// The GPU, if the device is one: for `doctor` and for raw limits. Not a stable API.
    #[doc(hidden)]
    pub fn cuda(&self) -> Option<&CudaDevice> {
        match &self.opened {
            Opened::Cuda(device) => Some(device),
            _ => None,
        }
    }
    /// The adapter, if the device is one: for raw limits. Not a stable API.
    #[cfg(feature = "wgpu")]
    #[doc(hidden)]
    pub fn adapter(&self) -> Option<&WgpuDevice> {
        match &self.opened {
            Opened::Wgpu(device) => Some(device),
            _ => None,
        }
    }
    /// Why this device was chosen.
    pub fn why(&self) -> &str {
        &self.why
    }
}
