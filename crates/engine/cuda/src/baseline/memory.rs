//! Device memory for baselines: allocated with the ordinary call, since nothing is resident.

use std::marker::PhantomData;

use everwarp_engine::EngineError;

use super::Baseline;
use crate::driver::call;

/// `len` plain numbers in device memory, zeroed.
#[derive(Debug)]
pub(super) struct Memory<T> {
    pub(super) at: u64,
    len: usize,
    element: PhantomData<T>,
}

/// Numbers for which every bit pattern is valid.
pub(super) trait Number: Copy + Default {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for f32 {}

/// Waits for the synchronous calls: some of them return before the device has done its part.
fn settle() -> Result<(), EngineError> {
    // SAFETY: the null stream is always there.
    unsafe { call!(cuStreamSynchronize(std::ptr::null_mut())) }
}

impl<T: Number> Memory<T> {
    pub(super) fn new(_: &Baseline, len: usize) -> Result<Self, EngineError> {
        let mut at = 0;
        let bytes = len.max(1) * size_of::<T>();
        // SAFETY: the out-pointer is valid.
        unsafe { call!(cuMemAlloc_v2(&raw mut at, bytes)) }.map_err(|e| {
            EngineError::OutOfMemory {
                kind: "device",
                bytes: bytes as u64,
                detail: e.to_string(),
            }
        })?;
        let memory = Self {
            at,
            len,
            element: PhantomData,
        };
        memory.fill(0)?;
        Ok(memory)
    }
    pub(super) fn from(base: &Baseline, data: &[T]) -> Result<Self, EngineError> {
        let memory = Self::new(base, data.len())?;
        memory.write(data)?;
        Ok(memory)
    }
    /// Copies to the start of the memory.
    ///
    /// # Panics
    /// `data` is longer than the memory.
    pub(super) fn write(&self, data: &[T]) -> Result<(), EngineError> {
        assert!(data.len() <= self.len, "more than the memory holds");
        if data.is_empty() {
            return Ok(());
        }
        // SAFETY: the memory is live and long enough.
        unsafe {
            call!(cuMemcpyHtoD_v2(
                self.at,
                data.as_ptr().cast(),
                size_of_val(data)
            ))
        }?;
        settle()
    }
    pub(super) fn read(&self) -> Result<Vec<T>, EngineError> {
        let mut data = vec![T::default(); self.len];
        if !data.is_empty() {
            let bytes = self.len * size_of::<T>();
            // SAFETY: both sides are live and `bytes` long; every bit pattern is a number.
            unsafe { call!(cuMemcpyDtoH_v2(data.as_mut_ptr().cast(), self.at, bytes)) }?;
        }
        Ok(data)
    }
    /// Sets every byte.
    pub(super) fn fill(&self, byte: u8) -> Result<(), EngineError> {
        let bytes = self.len.max(1) * size_of::<T>();
        // SAFETY: the whole allocation.
        unsafe { call!(cuMemsetD8_v2(self.at, byte, bytes)) }?;
        settle()
    }
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once; the call waits for kernels that use it. A failure leaves a leak.
        let _ = unsafe { call!(cuMemFree_v2(self.at)) };
    }
}
