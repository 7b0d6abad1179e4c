//! Devices: where an engine runs.

use std::str::FromStr;

use everwarp_engine::EngineKind;
use everwarp_engine_cuda::{CudaDevice, CudaUnavailable};

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
}

impl FromStr for Select {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
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
    /// With [`Select::Cuda`], the reason why no GPU can be used.
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
            Select::Auto => Ok(match CudaDevice::open(0) {
                Ok(device) => Self {
                    opened: Opened::Cuda(device),
                    why: "a GPU is there".to_owned(),
                },
                Err(reason) => cpu(format!("no GPU can be used: {reason}")),
            }),
        }
    }
    /// The kind of engine that runs here.
    pub fn kind(&self) -> EngineKind {
        match self.opened {
            Opened::Cpu => EngineKind::Cpu,
            Opened::Cuda(_) => EngineKind::Cuda,
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
        }
    }
    /// The GPU, if the device is one: for `doctor` and for raw limits. Not a stable API.
    #[doc(hidden)]
    pub fn cuda(&self) -> Option<&CudaDevice> {
        match &self.opened {
            Opened::Cpu => None,
            Opened::Cuda(device) => Some(device),
        }
    }
    /// Why this device was chosen.
    pub fn why(&self) -> &str {
        &self.why
    }
}
