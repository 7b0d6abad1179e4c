//! Where buffers are made: for an engine, or for the host alone.

use everwarp_runtime::{Device, Engine, EngineKind};

use crate::dtype::{DType, Number};
use crate::error::BufferError;
use crate::memory::{Aligned, DeviceMemory, Foreign, HostMemory};
use crate::raw::{Core, RawBuffer};
use crate::shape::Shape;
use crate::strategy::Strategy;
use crate::unified::UnifiedBuffer;

/// Makes buffers for one engine.
///
/// On the CPU engine both sides of every buffer are one memory. Ranges are tracked and counted there all the same, unless
/// the strategy is [`Strategy::Mapped`], so that a program shows on a machine without a GPU what it would copy on one.
#[derive(Clone, Debug)]
pub struct Buffers<'d> {
    place: Place<'d>,
}

#[derive(Clone, Debug)]
enum Place<'d> {
    /// Host and device share their memory.
    Shared,
    /// The device has memory of its own.
    Own(&'d Device, Engine),
    /// A stand-in for such a device, on the host.
    Split,
}

impl<'d> Buffers<'d> {
    /// For an engine, and the device that it runs on.
    pub fn on(device: &'d Device, engine: &Engine) -> Self {
        let place = match engine.kind() {
            EngineKind::Cpu => Place::Shared,
            _ => Place::Own(device, engine.clone()),
        };
        Self { place }
    }
    /// For any CPU engine of this process, also one that is started later.
    pub fn cpu() -> Buffers<'static> {
        Buffers {
            place: Place::Shared,
        }
    }
    /// For a device with memory of its own that the host stands in for, without an engine: tests that use it find out
    /// when a range was not copied.
    #[doc(hidden)]
    pub fn split() -> Buffers<'static> {
        Buffers {
            place: Place::Split,
        }
    }
    /// The kind of the engine.
    pub fn kind(&self) -> EngineKind {
        match &self.place {
            Place::Own(_, engine) => engine.kind(),
            Place::Shared | Place::Split => EngineKind::Cpu,
        }
    }

    /// A buffer of zeros.
    ///
    /// # Errors
    /// [`BufferError::TooLarge`], [`BufferError::OutOfMemory`], [`BufferError::NoStrategy`] or the engine's error.
    pub fn zeros<T: Number>(
        &self,
        shape: &[usize],
        strategy: Strategy,
    ) -> Result<UnifiedBuffer<T>, BufferError> {
        Ok(UnifiedBuffer::over(self.raw(T::DTYPE, shape, strategy)?))
    }
    /// A buffer with one axis and these elements.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros).
    #[track_caller]
    pub fn from_slice<T: Number>(
        &self,
        data: &[T],
        strategy: Strategy,
    ) -> Result<UnifiedBuffer<T>, BufferError> {
        let mut buffer = self.zeros(&[data.len()], strategy)?;
        buffer.write(0, data)?;
        Ok(buffer)
    }
    /// A buffer of zeros whose type is known only at run time.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros).
    pub fn raw(
        &self,
        dtype: DType,
        shape: &[usize],
        strategy: Strategy,
    ) -> Result<RawBuffer, BufferError> {
        let shape = Shape::new(shape)?;
        let bytes = shape.count() * dtype.size();
        let device = self.device_memory(bytes, strategy)?;
        let host = match (&self.place, strategy) {
            (Place::Own(device, _), Strategy::Pinned) => {
                HostMemory::locked(device.host_bytes(bytes.max(1))?)
            }
            _ => HostMemory::Own(Aligned::new(bytes)?),
        };
        Ok(self.join(host, device, dtype, shape, strategy))
    }
    /// A buffer whose host side is memory that another library owns. Nothing is copied.
    ///
    /// # Errors
    /// [`BufferError::Import`] if the memory is too short or not aligned; else as [`zeros`](Self::zeros).
    pub fn import(
        &self,
        memory: Foreign,
        dtype: DType,
        shape: &[usize],
        strategy: Strategy,
    ) -> Result<RawBuffer, BufferError> {
        let shape = Shape::new(shape)?;
        let bytes = shape.count() * dtype.size();
        if memory.bytes() < bytes {
            return Err(BufferError::Import(format!(
                "the memory has {} bytes, and {dtype} of the shape {shape} needs {bytes}",
                memory.bytes()
            )));
        }
        if bytes > 0 && !memory.is_aligned(dtype.size()) {
            return Err(BufferError::Import(format!(
                "the memory is not aligned to {} bytes, as {dtype} needs: copy the data into a new array",
                dtype.size()
            )));
        }
        let device = self.device_memory(bytes, strategy)?;
        let buffer = self.join(HostMemory::Foreign(memory), device, dtype, shape, strategy);
        // The device has none of it yet.
        buffer.all_newer_on_host();
        Ok(buffer)
    }

    fn device_memory(
        &self,
        bytes: usize,
        strategy: Strategy,
    ) -> Result<Option<Box<dyn DeviceMemory>>, BufferError> {
        Ok(match (&self.place, strategy) {
            (Place::Shared, _) | (Place::Split, Strategy::Mapped) => None,
            (Place::Own(_, engine), Strategy::Mapped) => {
                return Err(BufferError::NoStrategy {
                    strategy,
                    engine: engine.kind(),
                });
            }
            (Place::Split, _) => Some(Box::new(Aligned::new(bytes)?)),
            (Place::Own(_, engine), _) => Some(Box::new(engine.buffer::<u8>(bytes)?)),
        })
    }
    fn join(
        &self,
        host: HostMemory,
        device: Option<Box<dyn DeviceMemory>>,
        dtype: DType,
        shape: Shape,
        strategy: Strategy,
    ) -> RawBuffer {
        let bytes = shape.count() * dtype.size();
        let core = Core::new(host, device, bytes, strategy, self.kind());
        RawBuffer::new(core, dtype, shape)
    }
}
