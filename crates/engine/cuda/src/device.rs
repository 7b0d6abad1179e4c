//! Opening a GPU, and why it may not be possible.

use cudarc::driver::sys;
use everwarp_engine::trace::{span, spanned};
use everwarp_engine::{EngineError, Image, Pools};

use crate::driver::{Context, call};
use crate::engine::CudaEngine;
use crate::locked::LockedBytes;

/// Why there is no CUDA device to use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaUnavailable {
    /// The driver's library is not installed.
    #[error(
        "the NVIDIA driver is not installed (libcuda.so.1 was not found): install it, or use --engine cpu"
    )]
    NoDriver,
    /// The driver does not work.
    #[error("the NVIDIA driver does not start: {0}; check nvidia-smi, or use --engine cpu")]
    DriverFailed(#[source] EngineError),
    /// There is no GPU, or fewer than were asked for.
    #[error(
        "there is no GPU number {ordinal}: the driver shows {count}; check CUDA_VISIBLE_DEVICES, or use --engine cpu"
    )]
    NoDevice {
        /// The one asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// The GPU is too old for the engine.
    #[error(
        "{name} has compute capability {major}.{minor}, but the engine needs 8.0 (Ampere): use --engine cpu"
    )]
    TooOld {
        /// The GPU's name.
        name: String,
        /// Compute capability, major.
        major: i32,
        /// Compute capability, minor.
        minor: i32,
    },
    /// The GPU cannot run a resident grid.
    #[error(
        "{name} does not support cooperative launches (is it under MPS or vGPU?): use --engine cpu"
    )]
    NotCooperative {
        /// The GPU's name.
        name: String,
    },
}

/// An NVIDIA GPU that can hold an engine.
#[derive(Clone, Debug)]
pub struct CudaDevice {
    pub(crate) context: Context,
    name: String,
    arch: u32,
    multiprocessors: u32,
}

const NO_DEVICE: i32 = sys::CUresult::CUDA_ERROR_NO_DEVICE as i32;

impl CudaDevice {
    /// How many GPUs the driver shows.
    pub fn count() -> Result<u32, CudaUnavailable> {
        // SAFETY: only looks for the library.
        if !spanned("driver: open the library", || unsafe {
            sys::is_culib_present()
        }) {
            return Err(CudaUnavailable::NoDriver);
        }
        let mut count = 0;
        let _span = span("driver: start (cuInit)");
        // SAFETY: the library is there; `count` is a valid out-pointer.
        match unsafe { call!(cuInit(0)).and_then(|()| call!(cuDeviceGetCount(&raw mut count))) } {
            Ok(()) => Ok(count as u32),
            // A driver that works, and no GPU for it or none that may be seen.
            Err(EngineError::Driver { code, .. }) if code == NO_DEVICE => Ok(0),
            Err(e) => Err(CudaUnavailable::DriverFailed(e)),
        }
    }

    /// Opens a GPU by its number.
    pub fn open(ordinal: u32) -> Result<Self, CudaUnavailable> {
        let count = Self::count()?;
        if ordinal >= count {
            return Err(CudaUnavailable::NoDevice { ordinal, count });
        }
        let (context, name) = Self::context(ordinal).map_err(CudaUnavailable::DriverFailed)?;
        let attribute = |what| {
            context
                .attribute(what)
                .map_err(CudaUnavailable::DriverFailed)
        };
        use sys::CUdevice_attribute as A;
        let major = attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        if major < 8 {
            return Err(CudaUnavailable::TooOld { name, major, minor });
        }
        if attribute(A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? == 0 {
            return Err(CudaUnavailable::NotCooperative { name });
        }
        let multiprocessors = attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32;
        Ok(Self {
            context,
            name,
            arch: (major * 10 + minor) as u32,
            multiprocessors,
        })
    }

    fn context(ordinal: u32) -> Result<(Context, String), EngineError> {
        let mut device = 0;
        let mut name = [0u8; 256];
        // SAFETY: valid out-pointers with their true lengths.
        unsafe {
            call!(cuDeviceGet(&raw mut device, ordinal as i32))?;
            call!(cuDeviceGetName(
                name.as_mut_ptr().cast(),
                name.len() as i32,
                device
            ))?;
        }
        let _span = span("driver: make the context");
        let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
        Ok((
            Context::retain(device)?,
            String::from_utf8_lossy(&name[..end]).into_owned(),
        ))
    }

    /// Host memory that is copied to a GPU without a staging area. Its first contents are arbitrary.
    ///
    /// # Errors
    /// The system gives no more page-locked memory.
    pub fn locked_bytes(&self, len: usize) -> Result<LockedBytes, EngineError> {
        self.context.enter()?;
        LockedBytes::new(len)
    }

    /// The GPU's name, for example `NVIDIA H200`.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Its architecture, for example 90 for `sm_90`.
    pub fn arch(&self) -> u32 {
        self.arch
    }
    /// How many multiprocessors it has.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }
    /// Bytes of device memory: free now, and in all.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn memory(&self) -> Result<(u64, u64), EngineError> {
        self.context.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: valid out-pointers; a context is current.
        unsafe { call!(cuMemGetInfo_v2(&raw mut free, &raw mut total)) }?;
        Ok((free as u64, total as u64))
    }
    /// Starts an engine of `blocks` blocks, or as many as can be resident.
    pub fn start(
        &self,
        image: &Image,
        blocks: Option<u32>,
        pools: Pools,
    ) -> Result<CudaEngine, EngineError> {
        CudaEngine::start(self, image, blocks, pools)
    }
}
