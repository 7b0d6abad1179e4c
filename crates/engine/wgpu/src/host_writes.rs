//! A test of an adapter: whether a running dispatch sees what the host writes meanwhile.
//!
//! The engine does not rely on it, because adapters differ; `everwarp doctor` says what it found. wgpu maps no buffer that is
//! in use, so the test takes memory from Vulkan itself, and other interfaces are not tested.

use std::time::{Duration, Instant};

use ash::vk;
use everwarp_engine::EngineError;

use crate::gpu::{Gpu, driver};
use crate::single::{Single, results};

/// A dispatch that looks this long and sees nothing will not see anything.
const LONG: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(10);
/// Looks of the first dispatch, and what the next one has more.
const FIRST_LOOKS: u32 = 1 << 12;
const MORE: u32 = 4;
const BYTES: u64 = 256;

const SOURCE: &str =
    "@group(0) @binding(0) var<storage, read_write> shared_words: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read_write> out: array<atomic<u32>>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) thread: u32) {
  if thread > 0u { return; }
  let looks = atomicLoad(&out[1]);
  atomicStore(&shared_words[1], 1u);
  for (var i = 0u; i < looks; i += 1u) {
    if atomicLoad(&shared_words[0]) != 0u {
      atomicStore(&out[0], 1u);
      break;
    }
  }
}";

/// Whether a running dispatch sees what the host writes. None if the adapter's interface is not Vulkan.
pub(crate) fn are_seen(gpu: &Gpu) -> Result<Option<bool>, EngineError> {
    let Some(memory) = HostMemory::new(&gpu.device)? else {
        return Ok(None);
    };
    let out = results(gpu)?;
    let single = Single::new(gpu, "host writes", SOURCE, &[&memory.buffer, &out])?;
    let mut looks = FIRST_LOOKS;
    loop {
        memory.write(0, 0);
        memory.write(1, 0);
        gpu.write_words(&out, 0, &[0, looks]);
        single.submit(gpu);
        let begin = Instant::now();
        // The dispatch may never say that it runs, or end before it is seen to run.
        while memory.read(1) == 0 && begin.elapsed() < LONG {
            std::hint::spin_loop();
        }
        memory.write(0, 1);
        let mut seen = [0; 4];
        gpu.read(&out, 0, &mut seen, LIMIT)?;
        gpu.check()
            .map_err(|e| driver("the test of host writes", &e))?;
        if u32::from_ne_bytes(seen) != 0 {
            return Ok(Some(true));
        }
        if begin.elapsed() > 2 * LONG || looks > u32::MAX / MORE {
            return Ok(Some(false));
        }
        looks *= MORE;
    }
}

/// A buffer in the host's memory that both sides can use at the same time.
struct HostMemory {
    words: *mut u32,
    /// Owns the memory behind `words`.
    buffer: wgpu::Buffer,
}

impl HostMemory {
    fn new(device: &wgpu::Device) -> Result<Option<Self>, EngineError> {
        // SAFETY: the device's handle is used while the guard is held, and nothing of the device is destroyed.
        let Some(hal) = (unsafe { device.as_hal::<wgpu::hal::api::Vulkan>() }) else {
            return Ok(None);
        };
        let raw = hal.raw_device();
        let failed = |call| move |code: vk::Result| driver(call, &code);
        let info = vk::BufferCreateInfo::default()
            .size(BYTES)
            .usage(vk::BufferUsageFlags::STORAGE_BUFFER);
        // SAFETY: the description is valid.
        let buffer = unsafe { raw.create_buffer(&info, None) }.map_err(failed("vkCreateBuffer"))?;
        // SAFETY: the buffer and the physical device are those of this device.
        let (needs, types) = unsafe {
            (
                raw.get_buffer_memory_requirements(buffer),
                hal.shared_instance()
                    .raw_instance()
                    .get_physical_device_memory_properties(hal.raw_physical_device()),
            )
        };
        let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        // Vulkan promises a type with both.
        let kind = (0_u32..)
            .zip(types.memory_types_as_slice())
            .find(|(at, kind)| {
                needs.memory_type_bits >> at & 1 != 0 && kind.property_flags.contains(wanted)
            })
            .map_or(0, |(at, _)| at);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(kind);
        // SAFETY: the size and the type are those that the buffer needs.
        let made = unsafe { raw.allocate_memory(&info, None) };
        let memory = made.map_err(|code| {
            // SAFETY: nothing uses the buffer.
            unsafe { raw.destroy_buffer(buffer, None) };
            driver("vkAllocateMemory", &code)
        })?;
        // SAFETY: the memory is new, belongs to this buffer alone, and can be mapped.
        let mapped = unsafe {
            raw.bind_buffer_memory(buffer, memory, 0)
                .and_then(|()| raw.map_memory(memory, 0, vk::WHOLE_SIZE, Default::default()))
        };
        let words = mapped.map_err(|code| {
            // SAFETY: nothing uses the buffer and its memory.
            unsafe {
                raw.destroy_buffer(buffer, None);
                raw.free_memory(memory, None);
            }
            driver("vkMapMemory", &code)
        })?;
        // SAFETY: the mapped range has these bytes, and they become initialized.
        unsafe { words.cast::<u8>().write_bytes(0, BYTES as usize) };
        // SAFETY: the buffer is bound to all of the memory, and both are handed over.
        let owned =
            unsafe { wgpu::hal::vulkan::Buffer::from_raw_managed(buffer, memory, 0, needs.size) };
        drop(hal);
        // SAFETY: the buffer was made from this device, as described, and is initialized.
        let buffer = unsafe {
            device.create_buffer_from_hal::<wgpu::hal::api::Vulkan>(
                owned,
                &wgpu::BufferDescriptor {
                    label: Some("host memory"),
                    size: BYTES,
                    usage: wgpu::BufferUsages::STORAGE,
                    mapped_at_creation: false,
                },
            )
        };
        Ok(Some(Self {
            words: words.cast(),
            buffer,
        }))
    }
    fn read(&self, word: usize) -> u32 {
        assert!(word < BYTES as usize / 4);
        // SAFETY: the memory is mapped as long as the buffer lives. A dispatch may write the word meanwhile.
        unsafe { self.words.add(word).read_volatile() }
    }
    fn write(&self, word: usize, value: u32) {
        assert!(word < BYTES as usize / 4);
        // SAFETY: as for reading.
        unsafe { self.words.add(word).write_volatile(value) };
    }
}
