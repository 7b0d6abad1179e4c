//! The memory that tasks reach, as the host library sees it.

use std::time::Duration;

use everwarp_contract::InstanceId;
use everwarp_engine::sync::lock;
use everwarp_engine::{ElementSize, EngineError, EngineMemory, HeapControl};

use crate::engine::{WgpuEngine, no_room};

/// How long a copy may take: submissions in flight come first.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

impl WgpuEngine {
    /// Reads a range; the copy is one of whole words.
    fn read_range(&self, address: u64, data: &mut [u8]) -> Result<(), EngineError> {
        let (begin, end) = (address & !3, (address + data.len() as u64 + 3) & !3);
        let gpu = &self.shared.gpu;
        if begin == address && end == address + data.len() as u64 {
            return self.shared.read(&gpu.window, begin, data, LIMIT);
        }
        let mut words = vec![0; (end - begin) as usize];
        self.shared.read(&gpu.window, begin, &mut words, LIMIT)?;
        data.copy_from_slice(&words[(address - begin) as usize..][..data.len()]);
        Ok(())
    }
    /// Writes a range. The words at its ends that are only partly in it are read before: bytes next to the range must not be
    /// written by a task at the same time.
    fn write_range(&self, address: u64, data: &[u8]) -> Result<(), EngineError> {
        let gpu = &self.shared.gpu;
        gpu.check()?;
        let (begin, end) = (address & !3, (address + data.len() as u64 + 3) & !3);
        if data.is_empty() {
            return Ok(());
        }
        if begin == address && end == address + data.len() as u64 {
            gpu.queue.write_buffer(&gpu.window, begin, data);
            return Ok(());
        }
        let mut words = vec![0; (end - begin) as usize];
        let last = words.len() - 4;
        self.shared
            .read(&gpu.window, begin, &mut words[..4], LIMIT)?;
        if last > 0 {
            self.shared
                .read(&gpu.window, end - 4, &mut words[last..], LIMIT)?;
        }
        words[(address - begin) as usize..][..data.len()].copy_from_slice(data);
        gpu.queue.write_buffer(&gpu.window, begin, &words);
        Ok(())
    }
    fn take(&self, bytes: u64, clear: bool) -> Result<u64, EngineError> {
        let gpu = &self.shared.gpu;
        gpu.check()?;
        let mut window = lock(&self.shared.window);
        let place = window
            .alloc(bytes)
            .ok_or_else(|| no_room(gpu, &window, bytes))?;
        drop(window);
        let used = place.used - place.address;
        if clear && used > 0 {
            let mut encoder = gpu.device.create_command_encoder(&Default::default());
            encoder.clear_buffer(&gpu.window, place.address, Some(used));
            gpu.submit(encoder);
        }
        Ok(place.address)
    }
}

impl EngineMemory for WgpuEngine {
    fn alloc(&self, bytes: u64) -> Result<u64, EngineError> {
        self.take(bytes, true)
    }
    fn alloc_uncleared(&self, bytes: u64) -> Result<u64, EngineError> {
        self.take(bytes, false)
    }
    unsafe fn free(&self, address: u64, bytes: u64) {
        lock(&self.shared.window).free(address, bytes);
    }
    unsafe fn write(&self, address: u64, data: &[u8], _: ElementSize) -> Result<(), EngineError> {
        self.write_range(address, data)
    }
    unsafe fn read(
        &self,
        address: u64,
        data: &mut [u8],
        _: ElementSize,
    ) -> Result<(), EngineError> {
        self.read_range(address, data)
    }
    unsafe fn fill(
        &self,
        address: u64,
        bytes: u64,
        value: u8,
        _: ElementSize,
    ) -> Result<(), EngineError> {
        let gpu = &self.shared.gpu;
        gpu.check()?;
        if value == 0 && address.is_multiple_of(4) && bytes.is_multiple_of(4) {
            let mut encoder = gpu.device.create_command_encoder(&Default::default());
            encoder.clear_buffer(&gpu.window, address, Some(bytes));
            gpu.submit(encoder);
            return Ok(());
        }
        const PIECE: u64 = 1 << 20;
        let piece = vec![value; PIECE.min(bytes) as usize];
        let mut at = 0;
        while at < bytes {
            let count = PIECE.min(bytes - at);
            self.write_range(address + at, &piece[..count as usize])?;
            at += count;
        }
        Ok(())
    }
    fn set_params(&self, instance: InstanceId, params: &[u8]) -> Result<(), EngineError> {
        self.shared.gpu.check()?;
        self.write_params(instance.0.into(), params);
        Ok(())
    }
    fn heap(&self) -> Option<&dyn HeapControl> {
        (self.sizes.round.heap_pages > 0).then_some(self)
    }
}
