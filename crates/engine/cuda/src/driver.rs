//! The driver: cudarc's raw floor with results that keep the error code.

use std::ffi::CStr;

use cudarc::driver::sys;
use everwarp_engine::EngineError;

/// Turns a driver result into ours, with the call's name and the code's.
pub(crate) fn check(call: &'static str, result: sys::CUresult) -> Result<(), EngineError> {
    if result == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut name = std::ptr::null();
    // SAFETY: `name` is a valid out-pointer; the driver hands back a static string or leaves it null.
    unsafe { sys::cuGetErrorName(result, &raw mut name) };
    let name = if name.is_null() {
        "unknown error".to_owned()
    } else {
        // SAFETY: not null, so it is the driver's static, terminated string.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    };
    Err(EngineError::Driver {
        call,
        code: result as i32,
        name,
    })
}

/// Calls a driver function and checks its result: `call!(cuFunction(args…))`.
macro_rules! call {
    ($function:ident($($arg:expr),* $(,)?)) => {
        $crate::driver::check(stringify!($function), cudarc::driver::sys::$function($($arg),*))
    };
}
pub(crate) use call;

/// A context that is current wherever it is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    raw: sys::CUcontext,
    pub(crate) device: sys::CUdevice,
}
// SAFETY: a context handle may be used from any thread that makes it current.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of a device. It lives as long as the process: releasing it while
    /// anything is resident would wait for ever.
    pub(crate) fn retain(device: sys::CUdevice) -> Result<Self, EngineError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a valid out-pointer and `device` came from the driver.
        unsafe { call!(cuDevicePrimaryCtxRetain(&raw mut raw, device)) }?;
        Ok(Self { raw, device })
    }
    /// Makes the context current on this thread.
    pub(crate) fn enter(&self) -> Result<(), EngineError> {
        // SAFETY: the context is never released.
        unsafe { call!(cuCtxSetCurrent(self.raw)) }
    }
    /// A device attribute.
    pub(crate) fn attribute(&self, what: sys::CUdevice_attribute) -> Result<i32, EngineError> {
        let mut value = 0;
        // SAFETY: `value` is a valid out-pointer.
        unsafe { call!(cuDeviceGetAttribute(&raw mut value, what, self.device)) }?;
        Ok(value)
    }
}

/// A stream that never waits for the default stream.
#[derive(Debug)]
pub(crate) struct Stream(pub(crate) sys::CUstream);
// SAFETY: streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new() -> Result<Self, EngineError> {
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: `raw` is a valid out-pointer; a context is current.
        unsafe { call!(cuStreamCreate(&raw mut raw, flags)) }?;
        Ok(Self(raw))
    }
    /// Waits for what was queued. Never called on a stream that carries a resident kernel.
    pub(crate) fn synchronize(&self) -> Result<(), EngineError> {
        // SAFETY: the stream is live.
        unsafe { call!(cuStreamSynchronize(self.0)) }
    }
    /// `Ok(true)` when everything queued has ended; an error when the kernel crashed.
    pub(crate) fn is_done(&self) -> Result<bool, EngineError> {
        // SAFETY: the stream is live.
        let result = unsafe { sys::cuStreamQuery(self.0) };
        if result == sys::CUresult::CUDA_ERROR_NOT_READY {
            return Ok(false);
        }
        check("cuStreamQuery", result).map(|()| true)
    }
}

/// Allocates zeroed memory of the device. A context must be current, and nothing may be resident.
pub(crate) fn alloc_zeroed(bytes: u64) -> Result<u64, EngineError> {
    let mut at = 0;
    // SAFETY: a valid out-pointer; the memory is as long as what is set.
    unsafe {
        call!(cuMemAlloc_v2(&raw mut at, bytes as usize))
            .and_then(|()| call!(cuMemsetD8_v2(at, 0, bytes as usize)))
    }
    .map_err(|e| EngineError::OutOfMemory {
        kind: "device",
        bytes,
        detail: e.to_string(),
    })?;
    Ok(at)
}

/// Pinned host memory that the device reads and writes, zeroed. Freed only with the process: the
/// driver's free waits for the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinned {
    pub(crate) host: *mut u8,
    pub(crate) device: u64,
    pub(crate) bytes: usize,
}
// SAFETY: an address; users follow the contract's access rules.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(crate) fn new(bytes: usize) -> Result<Self, EngineError> {
        let memory = Self::with_anything(bytes)?;
        // SAFETY: the memory is that long, and nothing else has its address yet.
        unsafe { std::ptr::write_bytes(memory.host, 0, bytes) };
        Ok(memory)
    }
    /// With whatever is in it.
    pub(crate) fn with_anything(bytes: usize) -> Result<Self, EngineError> {
        let mut host = std::ptr::null_mut();
        let _span = everwarp_engine::trace::span("pinning");
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: valid out-pointers; a context is current; the memory is at least `bytes` long.
        unsafe {
            call!(cuMemHostAlloc(&raw mut host, bytes, flags)).map_err(|e| {
                EngineError::OutOfMemory {
                    kind: "pinned host",
                    bytes: bytes as u64,
                    detail: e.to_string(),
                }
            })?;
            let mut device = 0;
            call!(cuMemHostGetDevicePointer_v2(&raw mut device, host, 0))?;
            Ok(Self {
                host: host.cast(),
                device,
                bytes,
            })
        }
    }
    /// # Safety
    /// - No kernel and no copy uses it, and it is freed once.
    pub(crate) unsafe fn free(&self) {
        // SAFETY: from `cuMemHostAlloc`; the caller vouches for the rest. A failure leaves a leak.
        let _ = unsafe { call!(cuMemFreeHost(self.host.cast())) };
    }
}
