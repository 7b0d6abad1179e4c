//! The memory of an engine, as the host reaches it.

use everwarp_contract::InstanceId;

use crate::{EngineError, HeapControl};

/// The size of the elements of a buffer, which a copy must not tear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementSize {
    /// One byte.
    One,
    /// Two bytes.
    Two,
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
}

impl ElementSize {
    /// The size of a number type.
    ///
    /// # Panics
    /// The type has another size, which no element of a buffer has.
    pub const fn of<T>() -> Self {
        match size_of::<T>() {
            1 => Self::One,
            2 => Self::Two,
            4 => Self::Four,
            8 => Self::Eight,
            _ => panic!("an element has 1, 2, 4 or 8 bytes"),
        }
    }
    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// Memory of the host that tasks reach, too.
#[derive(Clone, Copy, Debug)]
pub struct NearMemory {
    /// Where tasks find it.
    pub address: u64,
    /// Where the host does.
    pub host: *mut u8,
}

/// Memory that tasks reach, and copies to and from it. Everything works while the engine is resident.
pub trait EngineMemory {
    /// Allocates zeroed memory that tasks can reach, aligned to 256 bytes.
    fn alloc(&self, bytes: u64) -> Result<u64, EngineError>;
    /// As [`alloc`](Self::alloc), but the memory may hold any bytes.
    fn alloc_uncleared(&self, bytes: u64) -> Result<u64, EngineError> {
        self.alloc(bytes)
    }
    /// Allocates zeroed memory of the host that tasks reach, too, aligned to 64 bytes: what one side writes there reaches the
    /// other one without a copy. None if the engine has no such memory, or all of its memory is the host's.
    ///
    /// # Errors
    /// The system gives no more page-locked memory.
    fn alloc_near(&self, _bytes: u64) -> Result<Option<NearMemory>, EngineError> {
        Ok(None)
    }
    /// Frees memory from [`alloc`](Self::alloc) or [`alloc_near`](Self::alloc_near). `bytes` is the size it was allocated with.
    ///
    /// # Safety
    /// - No task that is queued or running uses the memory, and it is freed once.
    unsafe fn free(&self, address: u64, bytes: u64);
    /// Copies elements to the device and waits until the data is there.
    ///
    /// # Safety
    /// - `address..address + data.len()` is inside one live allocation of this engine, aligned to the element, and
    ///   `data` holds whole elements.
    /// - A task that accesses the range meanwhile does so with atomics of the element's size. It sees, and the copy
    ///   returns, some mixture of old and new elements, none of them torn. (On a GPU no such rule is needed.)
    unsafe fn write(
        &self,
        address: u64,
        data: &[u8],
        element: ElementSize,
    ) -> Result<(), EngineError>;
    /// Copies pieces to the device, one after the other, and waits until all are there.
    ///
    /// # Safety
    /// - As for [`write`](Self::write), with the range from `address` on that the pieces fill.
    unsafe fn write_pieces(
        &self,
        address: u64,
        pieces: &mut dyn Iterator<Item = &[u8]>,
        element: ElementSize,
    ) -> Result<(), EngineError> {
        let mut at = address;
        for piece in pieces {
            // SAFETY: the caller vouches for the whole range.
            unsafe { self.write(at, piece, element) }?;
            at += piece.len() as u64;
        }
        Ok(())
    }
    /// Copies elements from the device. The copy includes everything that a task wrote before its completion was seen.
    ///
    /// # Safety
    /// - As for [`write`](Self::write).
    unsafe fn read(
        &self,
        address: u64,
        data: &mut [u8],
        element: ElementSize,
    ) -> Result<(), EngineError>;
    /// Fills elements with a byte and waits until it is done.
    ///
    /// # Safety
    /// - As for [`write`](Self::write).
    unsafe fn fill(
        &self,
        address: u64,
        bytes: u64,
        value: u8,
        element: ElementSize,
    ) -> Result<(), EngineError>;
    /// Sets the parameter block of an instance, whose tasks must not run yet.
    fn set_params(&self, instance: InstanceId, params: &[u8]) -> Result<(), EngineError>;
    /// The heap of the engine's tasks, if it has one.
    fn heap(&self) -> Option<&dyn HeapControl>;
}
