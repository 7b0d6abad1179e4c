//! The memory that tasks reach, as the host library sees it.

use everwarp_contract::InstanceId;
use everwarp_contract::task::PARAM_BYTES;
use everwarp_engine::{ElementSize, EngineError, EngineMemory, HeapControl, table};

use crate::copy;
use crate::engine::CpuEngine;

impl EngineMemory for CpuEngine {
    fn alloc(&self, bytes: u64) -> Result<u64, EngineError> {
        Ok(table::alloc(bytes)? as u64)
    }
    unsafe fn free(&self, address: u64, bytes: u64) {
        // SAFETY: the caller vouches: from `alloc`, freed once.
        unsafe { table::free(address as *mut u8, bytes) };
    }
    unsafe fn write(
        &self,
        address: u64,
        data: &[u8],
        element: ElementSize,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller vouches for the range and for other accesses to it.
        unsafe { copy::write(data, address as *mut u8, element) };
        Ok(())
    }
    unsafe fn read(
        &self,
        address: u64,
        data: &mut [u8],
        element: ElementSize,
    ) -> Result<(), EngineError> {
        // SAFETY: as in `write`.
        unsafe { copy::read(address as *const u8, data, element) };
        Ok(())
    }
    unsafe fn fill(
        &self,
        address: u64,
        bytes: u64,
        value: u8,
        element: ElementSize,
    ) -> Result<(), EngineError> {
        // SAFETY: as in `write`.
        unsafe { copy::fill(address as *mut u8, bytes as usize, value, element) };
        Ok(())
    }
    fn set_params(&self, instance: InstanceId, params: &[u8]) -> Result<(), EngineError> {
        assert!(
            params.len() <= PARAM_BYTES as usize,
            "checked by the host library"
        );
        let block = self.shared.params.at(instance.index()).cast::<u8>();
        // SAFETY: the block is live and large enough; no task of the instance runs yet.
        unsafe { std::ptr::copy_nonoverlapping(params.as_ptr(), block, params.len()) };
        Ok(())
    }
    fn heap(&self) -> Option<&dyn HeapControl> {
        self.shared.heap.as_ref().map(|h| -> &dyn HeapControl { h })
    }
}
