//! Adapters: which GPU an engine runs on.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use everwarp_engine::{EngineError, HeapConfig, Pools};

use crate::gpu::Gpu;
use crate::sizes::Sizes;

/// Why no adapter can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WgpuUnavailable {
    /// The system has no loader for Vulkan.
    #[error(
        "the library {library} was not loaded ({reason}): install your system's Vulkan loader (on Debian: libvulkan1) and \
         driver"
    )]
    NoLoader {
        /// The library.
        library: &'static str,
        /// The system's reason.
        reason: String,
    },
    /// No driver offers an adapter.
    #[error(
        "no driver offers an adapter: install the GPU's Vulkan driver, or Mesa's software driver (on Debian: \
         mesa-vulkan-drivers)"
    )]
    NoAdapter,
    /// Vulkan's validation layers were asked for and are not installed.
    #[error(
        "EVERWARP_WGPU_VALIDATION is set, but Vulkan's loader has no layer {layer}: install the layers (on Debian: \
         vulkan-validationlayers), name their folder in VK_LAYER_PATH, or unset the variable"
    )]
    NoLayers {
        /// The layer.
        layer: &'static str,
    },
    /// There are only adapters in software, which are only used when they are asked for.
    #[error("there is only the software adapter {name}: to use it, ask for it with --engine wgpu")]
    OnlySoftware {
        /// Its name.
        name: String,
    },
    /// No adapter has this name or number.
    #[error("there is no adapter `{wanted}`: {found}")]
    Unknown {
        /// The name or number.
        wanted: String,
        /// The adapters.
        found: String,
    },
}

/// What the tests of an adapter found that can run an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdapterTests {
    /// Whether a running dispatch sees what the host writes meanwhile. None if that was not tested: the interface is not Vulkan.
    pub host_writes: Option<bool>,
}

/// What an adapter says of itself.
#[derive(Clone, Debug)]
pub struct AdapterFacts {
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
    /// Optional features that the engine could use.
    pub features: Vec<&'static str>,
}

impl fmt::Display for AdapterFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            backend,
            driver,
            ..
        } = self;
        write!(f, "{name} ({backend}, {driver})")
    }
}

/// A GPU, or software that stands in for one.
#[derive(Clone, Debug)]
pub struct WgpuDevice {
    pub(crate) adapter: wgpu::Adapter,
    facts: AdapterFacts,
}

/// The result of a future of wgpu: outside a browser they are ready at once.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return value;
        }
        std::thread::yield_now();
    }
}

fn backends() -> wgpu::Backends {
    wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12
}

fn facts(adapter: &wgpu::Adapter) -> AdapterFacts {
    let (info, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
    let named = [
        ("PASSTHROUGH_SHADERS", wgpu::Features::PASSTHROUGH_SHADERS),
        ("SHADER_INT64", wgpu::Features::SHADER_INT64),
        ("SUBGROUP", wgpu::Features::SUBGROUP),
        ("PIPELINE_CACHE", wgpu::Features::PIPELINE_CACHE),
        (
            "MAPPABLE_PRIMARY_BUFFERS",
            wgpu::Features::MAPPABLE_PRIMARY_BUFFERS,
        ),
    ];
    AdapterFacts {
        name: info.name,
        backend: format!("{:?}", info.backend),
        driver: format!("{} {}", info.driver, info.driver_info)
            .trim()
            .to_owned(),
        software: info.device_type == wgpu::DeviceType::Cpu,
        window_bytes: limits
            .max_storage_buffer_binding_size
            .min(limits.max_buffer_size),
        workgroup_bytes: limits.max_compute_workgroup_storage_size,
        features: named
            .iter()
            .filter(|(_, feature)| features.contains(*feature))
            .map(|(name, _)| *name)
            .collect(),
    }
}

impl WgpuDevice {
    /// All adapters, hardware before software; the numbers of `--adapter` count from 0 in this order.
    ///
    /// # Errors
    /// There is none.
    pub fn list() -> Result<Vec<Self>, WgpuUnavailable> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: backends(),
            flags: crate::trials::instance_flags(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        let adapters = now(instance.enumerate_adapters(backends()));
        let mut devices: Vec<_> = adapters
            .into_iter()
            .map(|adapter| Self {
                facts: facts(&adapter),
                adapter,
            })
            .collect();
        devices.sort_by_key(|device| device.facts.software);
        // Without a driver the layers do not matter.
        if let Some(layer) = crate::trials::missing_layers().filter(|_| !devices.is_empty()) {
            return Err(WgpuUnavailable::NoLayers { layer });
        }
        match devices.is_empty() {
            true => Err(absence()),
            false => Ok(devices),
        }
    }

    /// Opens the adapter with a name or number, or the first one.
    ///
    /// # Errors
    /// There is no such adapter, or none at all.
    pub fn open(wanted: Option<&str>) -> Result<Self, WgpuUnavailable> {
        let devices = Self::list()?;
        let Some(wanted) = wanted else {
            return Ok(devices.into_iter().next().expect("there is one"));
        };
        let chosen = match wanted.parse::<usize>() {
            Ok(number) => devices.get(number),
            Err(_) => {
                let lower = wanted.to_lowercase();
                let mut named = devices.iter();
                named.find(|d| !lower.is_empty() && d.facts.name.to_lowercase().contains(&lower))
            }
        };
        chosen.cloned().ok_or_else(|| WgpuUnavailable::Unknown {
            wanted: wanted.to_owned(),
            found: devices
                .iter()
                .enumerate()
                .map(|(number, device)| format!("{number} is {}", device.facts))
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// Opens the first adapter that is hardware.
    ///
    /// # Errors
    /// There is none.
    pub fn open_hardware() -> Result<Self, WgpuUnavailable> {
        let device = Self::open(None)?;
        match device.facts.software {
            false => Ok(device),
            true => Err(WgpuUnavailable::OnlySoftware {
                name: device.facts.name,
            }),
        }
    }

    /// Opens the adapter and tests it as every start does: its limits, and if its driver runs long loops to their end. Then
    /// tests what no start needs.
    ///
    /// # Errors
    /// Why no engine can start there.
    pub fn check(&self) -> Result<AdapterTests, EngineError> {
        let pools = Pools {
            submission_slots: 64,
            tokens: 64,
            arena_tasks: 64,
            tasks: 1024,
            groups: 64,
            heap: HeapConfig::default(),
        };
        let sizes = Sizes::new(pools, 1, self.facts.window_bytes)?;
        let gpu = Gpu::new(self, &sizes)?;
        crate::loops::check(&gpu)?;
        Ok(AdapterTests {
            host_writes: host_writes(&gpu)?,
        })
    }

    /// The adapter's name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }
    /// What is known about the adapter.
    pub fn facts(&self) -> &AdapterFacts {
        &self.facts
    }
    /// How many workgroups an engine has by default. The interface of wgpu does not say how many a GPU runs at a time.
    pub(crate) fn default_workgroups(&self) -> u32 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        match self.adapter.get_info().device_type {
            // More of them cost more at the beginning of each dispatch, and give nothing.
            wgpu::DeviceType::Cpu => (2 * cores).clamp(4, 64),
            // An H200 runs 396 at a time; the ones after that wait until others leave.
            wgpu::DeviceType::DiscreteGpu => 396,
            _ => 64,
        }
    }
}

#[cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    windows
))]
use crate::host_writes::are_seen as host_writes;
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    windows
)))]
fn host_writes(_: &Gpu) -> Result<Option<bool>, EngineError> {
    Ok(None)
}

/// Why there is no adapter.
fn absence() -> WgpuUnavailable {
    #[cfg(all(unix, not(target_vendor = "apple")))]
    {
        let library = "libvulkan.so.1";
        // SAFETY: the loader's initializers have no preconditions; wgpu has just tried to load it, too.
        if let Err(error) = unsafe { libloading::Library::new(library) } {
            let reason = error.to_string();
            return WgpuUnavailable::NoLoader { library, reason };
        }
    }
    WgpuUnavailable::NoAdapter
}
