//! Devices: where an engine runs.

use std::str::FromStr;

use everwarp_engine::EngineKind;
use everwarp_engine_cuda::{CudaDevice, CudaUnavailable};
#[cfg(feature = "wgpu")]
use everwarp_engine_wgpu::WgpuDevice;

use crate::error::Error;

/// Which device to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// A GPU if one can be used, else the host's cores.
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

#[derive(Debug)]
pub(crate) enum Opened {
    Cpu,
    Cuda(CudaDevice),
    #[cfg(feature = "wgpu")]
    Wgpu(WgpuDevice),
}

/// One GPU, or the host's cores.
#[derive(Debug)]
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
    /// Why this device was chosen.
    pub fn why(&self) -> &str {
        &self.why
    }
}
