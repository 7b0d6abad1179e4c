//! Buffers: typed memory that tasks reach.
//!
//! There is one copy of the data, the device's: the host reads and writes it by copying, so there is
//! no second view that could be stale.

use std::marker::PhantomData;
use std::sync::Arc;

use everwarp_contract::{DevPtr, DevType};
use everwarp_engine::{ElementSize, EngineError};

use crate::Engine;
use crate::core::EngineCore;
use crate::engine::EngineMark;
use crate::error::Error;
use crate::retired::Region;

mod sealed {
    pub trait Sealed {}
}

/// An element of a buffer: a plain number, for which every bit pattern is valid.
pub trait Element: DevType + Default + sealed::Sealed + Send + Sync + 'static {}

macro_rules! elements {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {}
    )*};
}
elements!(u8, u16, u32, u64, i32, i64, f32, f64);

/// A buffer of `len` elements in the engine's memory.
///
/// If it is dropped while tasks are in flight, its memory is kept until everything that was submitted before is done. A
/// read of a buffer that a running task writes returns some mixture of old and new elements; wait for the task first.
#[derive(Debug)]
pub struct Buffer<T: Element> {
    core: Arc<EngineCore>,
    /// The region whose tasks reach it; none is the common one.
    region: Option<Arc<Region>>,
    address: u64,
    len: usize,
    /// As allocated.
    bytes: u64,
    /// Where the host finds it, if it is memory of the host.
    near: Option<HostAddress>,
    element: PhantomData<T>,
}

/// Memory of the host that belongs to a buffer.
#[derive(Clone, Copy, Debug)]
struct HostAddress(*mut u8);

// SAFETY: any thread may reach the memory; those that share the buffer see to it that no two write the same range.
unsafe impl Send for HostAddress {}
// SAFETY: as above.
unsafe impl Sync for HostAddress {}

impl<T: Element> Buffer<T> {
    const ELEMENT: ElementSize = ElementSize::of::<T>();

    pub(crate) fn new(
        core: &Arc<EngineCore>,
        region: Option<&Arc<Region>>,
        len: usize,
        clear: bool,
    ) -> Result<Self, Error> {
        // An empty buffer has an address of its own, too.
        let bytes = len
            .max(1)
            .checked_mul(size_of::<T>())
            .ok_or(Error::BufferTooLarge { len })? as u64;
        let alloc = || match clear {
            true => core.engine.alloc(bytes),
            false => core.engine.alloc_uncleared(bytes),
        };
        let address = match alloc() {
            // Dropped buffers are free once the tasks that may use them are known to have ended.
            Err(EngineError::OutOfMemory { .. }) if core.reap() > 0 => alloc()?,
            result => result?,
        };
        Ok(Self {
            core: core.clone(),
            region: region.cloned(),
            address,
            len,
            bytes,
            near: None,
            element: PhantomData,
        })
    }
    /// A zeroed buffer in memory of the host that tasks reach, too, where the engine has such memory.
    pub(crate) fn new_near(
        core: &Arc<EngineCore>,
        region: Option<&Arc<Region>>,
        len: usize,
    ) -> Result<Self, Error> {
        let bytes = (len.max(1) * size_of::<T>()) as u64;
        let Some(memory) = core.engine.alloc_near(bytes)? else {
            return Self::new(core, region, len, true);
        };
        Ok(Self {
            core: core.clone(),
            region: region.cloned(),
            address: memory.address,
            len,
            bytes,
            near: Some(HostAddress(memory.host)),
            element: PhantomData,
        })
    }
    /// Where the host reaches the elements without a copy; see [`Engine::near_buffer`](crate::Engine::near_buffer). Both
    /// sides may access them at the same time, as atomics of their size.
    pub fn near(&self) -> Option<std::ptr::NonNull<T>> {
        std::ptr::NonNull::new(self.near?.0.cast())
    }
    /// The length in elements.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether it is memory of this engine.
    pub fn is_of(&self, engine: &Engine) -> bool {
        Arc::ptr_eq(&self.core, &engine.core)
    }
    /// The same of an engine that may have ended.
    pub fn is_marked(&self, engine: &EngineMark) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.core), engine.0.as_ptr())
    }
    /// The buffer's address, for parameters.
    pub fn ptr(&self) -> DevPtr<T> {
        DevPtr::new(self.address)
    }

    /// Gives the buffer to another region of its engine.
    pub(crate) fn move_to(&mut self, region: Option<&Arc<Region>>) {
        // A task of the old region that has not ended may still reach it; then it waits for everything, when it is dropped.
        let reached = self.region.as_ref().is_none_or(|region| region.is_busy());
        self.region = match reached {
            true => None,
            false => region.cloned(),
        };
    }

    fn range(&self, offset: usize, len: usize) -> Result<u64, Error> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Error::OutOfBounds {
                offset,
                len,
                capacity: self.len,
            });
        }
        Ok(self.address + (offset * size_of::<T>()) as u64)
    }
    /// Copies to the beginning of the buffer.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], or the copy fails.
    pub fn write(&self, data: &[T]) -> Result<(), Error> {
        self.write_at(0, data)
    }
    /// Copies to the buffer, from element `offset` on.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], or the copy fails.
    pub fn write_at(&self, offset: usize, data: &[T]) -> Result<(), Error> {
        let at = self.range(offset, data.len())?;
        if let Some(near) = self.near() {
            // SAFETY: the range was checked; the memory lives as long as the buffer, and `data` is not in it.
            unsafe {
                near.as_ptr()
                    .add(offset)
                    .copy_from_nonoverlapping(data.as_ptr(), data.len())
            };
            return Ok(());
        }
        // SAFETY: elements are plain numbers, so their bytes can be read; the range was checked and is aligned. Tasks
        // that access it meanwhile do so atomically, as the contract of `Engine::instance` says.
        unsafe {
            let bytes = std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), size_of_val(data));
            Ok(self.core.engine.write(at, bytes, Self::ELEMENT)?)
        }
    }
    /// Copies pieces to the buffer, one after the other, from element `offset` on.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], and nothing is copied; or the copy fails.
    pub fn write_pieces<'p>(
        &self,
        offset: usize,
        pieces: impl Iterator<Item = &'p [T]> + Clone,
    ) -> Result<(), Error> {
        let len = pieces.clone().map(<[T]>::len).sum();
        let at = self.range(offset, len)?;
        if self.near.is_some() {
            let mut at = offset;
            for piece in pieces {
                self.write_at(at, piece)?;
                at += piece.len();
            }
            return Ok(());
        }
        // No more than was counted: an iterator that is run twice need not return the same pieces.
        let mut left = len;
        let mut pieces = pieces.map(|piece| {
            let piece = &piece[..piece.len().min(left)];
            left -= piece.len();
            // SAFETY: elements are plain numbers, so their bytes can be read.
            unsafe { std::slice::from_raw_parts(piece.as_ptr().cast(), size_of_val(piece)) }
        });
        // SAFETY: as in `write_at`; the pieces have no more bytes than were counted.
        Ok(unsafe {
            self.core
                .engine
                .write_pieces(at, &mut pieces, Self::ELEMENT)
        }?)
    }
    /// Copies all of it to the host.
    ///
    /// # Errors
    /// The copy fails.
    pub fn read(&self) -> Result<Vec<T>, Error> {
        let mut data = vec![T::default(); self.len];
        self.read_at(0, &mut data)?;
        Ok(data)
    }
    /// Copies from the buffer, from element `offset` on.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], or the copy fails.
    pub fn read_at(&self, offset: usize, data: &mut [T]) -> Result<(), Error> {
        let at = self.range(offset, data.len())?;
        if let Some(near) = self.near() {
            // SAFETY: as in `write_at`.
            unsafe {
                near.as_ptr()
                    .add(offset)
                    .copy_to_nonoverlapping(data.as_mut_ptr(), data.len())
            };
            return Ok(());
        }
        // SAFETY: every bit pattern is a valid element; else as in `write_at`.
        unsafe {
            let bytes =
                std::slice::from_raw_parts_mut(data.as_mut_ptr().cast::<u8>(), size_of_val(data));
            Ok(self.core.engine.read(at, bytes, Self::ELEMENT)?)
        }
    }
    /// Copies all of it into a slice of the same length.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if the slice is longer than the buffer or shorter, or the copy fails.
    pub fn read_into(&self, data: &mut [T]) -> Result<(), Error> {
        if data.len() != self.len {
            return Err(Error::OutOfBounds {
                offset: 0,
                len: data.len(),
                capacity: self.len,
            });
        }
        self.read_at(0, data)
    }
    /// Fills all of it with one byte value.
    ///
    /// # Errors
    /// The copy fails.
    pub fn fill_bytes(&self, value: u8) -> Result<(), Error> {
        if let Some(near) = self.near {
            // SAFETY: the whole buffer is one live allocation.
            unsafe { near.0.write_bytes(value, self.bytes as usize) };
            return Ok(());
        }
        // SAFETY: the whole buffer is one live allocation; else as in `write_at`.
        Ok(unsafe {
            self.core
                .engine
                .fill(self.address, self.bytes, value, Self::ELEMENT)
        }?)
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        let region = Region::id_of(self.region.as_ref());
        self.core.retire(region, self.address, self.bytes);
    }
}
