//! Buffers whose type is known only at run time: what all buffers are made of.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everwarp_runtime::EngineKind;

use crate::dtype::DType;
use crate::error::BufferError;
use crate::lease::{Conflict, Holder, Leases, Side, Use};
use crate::memory::{DeviceMemory, HostMemory};
use crate::ranges::{RangeSet, joined};
use crate::shape::Shape;
use crate::strategy::Strategy;

/// What was copied in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Copies.
    pub copies: u64,
    /// Bytes of all copies.
    pub bytes: u64,
}

/// What was copied between the sides of a buffer. Where both sides are one memory it says what would have been copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// From the host to the device.
    pub to_device: Traffic,
    /// From the device to the host.
    pub to_host: Traffic,
}

/// The memory of a buffer and who uses it.
#[derive(Debug)]
pub(crate) struct Core {
    host: HostMemory,
    /// None where the host's memory is the device's.
    device: Option<Box<dyn DeviceMemory>>,
    bytes: usize,
    strategy: Strategy,
    engine: EngineKind,
    state: Mutex<State>,
}

/// What changes.
///
/// 1. A byte is in at most one of the two sets; if it is in none, both sides have it.
/// 2. A lease that writes puts its range into the set of its side when it begins. No lease of the other side can overlap
///    with it, so the range stays there until a later lease of the other side copies it.
#[derive(Debug, Default)]
struct State {
    newer_on_host: RangeSet,
    newer_on_device: RangeSet,
    leases: Leases,
    transfers: Transfers,
}

impl Core {
    pub(crate) fn new(
        host: HostMemory,
        device: Option<Box<dyn DeviceMemory>>,
        bytes: usize,
        strategy: Strategy,
        engine: EngineKind,
    ) -> Arc<Self> {
        Arc::new(Self {
            host,
            device,
            bytes,
            strategy,
            engine,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves sets that name too many bytes at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies to a side what is newer on the other, inside a range.
    fn synchronize(
        &self,
        state: &mut State,
        range: &Range<usize>,
        to: Side,
    ) -> Result<(), BufferError> {
        let State {
            newer_on_host,
            newer_on_device,
            leases,
            transfers,
        } = state;
        let (newer, older, traffic) = match to {
            Side::Device => (newer_on_host, newer_on_device, &mut transfers.to_device),
            Side::Host => (newer_on_device, newer_on_host, &mut transfers.to_host),
        };
        let parts = newer.within(range);
        // A gap between two parts may be copied as well, unless it would overwrite what is newer there, or in use there.
        let copies = joined(parts, |gap| !older.overlaps(gap) && !leases.uses(gap, to));
        for part in copies {
            if let Some(device) = &self.device {
                // SAFETY: the part is inside the memory. Neither side writes it now: a lease that does would have been
                // a conflict where bytes are newer, and in the gaps only the source side may have leases, which do not
                // write, because what they wrote would be newer.
                unsafe {
                    let at = self.host.at().add(part.start);
                    match to {
                        Side::Device => {
                            device.write(part.start, std::slice::from_raw_parts(at, part.len()))?;
                        }
                        Side::Host => {
                            let to = std::slice::from_raw_parts_mut(at, part.len());
                            device.read(part.start, to)?;
                        }
                    }
                }
            }
            newer.remove(&part);
            traffic.copies += 1;
            traffic.bytes += part.len() as u64;
        }
        Ok(())
    }

    fn lease(
        self: &Arc<Self>,
        range: Range<usize>,
        how: Use,
        holder: Holder,
        overwrites: bool,
    ) -> Result<Lease, BufferError> {
        if how.writes && self.host.is_read_only() {
            return Err(BufferError::ReadOnly);
        }
        let mut state = self.state();
        if let Some((holder, held)) = state.leases.conflict(&range, how) {
            return Err(BufferError::InUse(Box::new(Conflict {
                holder,
                held,
                wanted: how,
                engine: self.engine,
            })));
        }
        if !overwrites {
            self.synchronize(&mut state, &range, how.side)?;
        }
        if how.writes && self.strategy != Strategy::Mapped {
            let State {
                newer_on_host,
                newer_on_device,
                ..
            } = &mut *state;
            let (own, other) = match how.side {
                Side::Host => (newer_on_host, newer_on_device),
                Side::Device => (newer_on_device, newer_on_host),
            };
            own.insert(&range);
            other.remove(&range);
        }
        let id = state.leases.add(range.clone(), how, holder);
        Ok(Lease {
            core: self.clone(),
            id,
            range,
            how,
        })
    }
}

/// The right to use a range of a buffer on one side. It keeps the memory alive, and ends when it is dropped.
#[derive(Debug)]
pub struct Lease {
    core: Arc<Core>,
    id: u64,
    range: Range<usize>,
    how: Use,
}

impl Lease {
    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.range.len()
    }
    /// How they may be used.
    pub fn how(&self) -> Use {
        self.how
    }
    /// Where the range begins in the host's memory. Only a lease of the host's side may use it, and any lease where both
    /// sides are one memory.
    pub fn host_address(&self) -> *mut u8 {
        debug_assert!(self.how.side == Side::Host || self.core.device.is_none());
        // SAFETY: the range is inside the memory.
        unsafe { self.core.host.at().add(self.range.start) }
    }
    /// Where the range begins, as tasks see it.
    pub fn device_address(&self) -> u64 {
        let begin = match &self.core.device {
            Some(device) => device.address(),
            None => self.core.host.at().addr() as u64,
        };
        begin + self.range.start as u64
    }
    /// The kind of the engine that the buffer belongs to.
    pub fn engine(&self) -> EngineKind {
        self.core.engine
    }
    /// Whether both sides are one memory of the host, so that code on the host's threads reaches the device's side.
    pub fn is_shared(&self) -> bool {
        self.core.device.is_none()
    }
    /// Copies the range to a device that the host stands in for, or from it: what a task would do there.
    #[doc(hidden)]
    pub fn poke(&self, change: impl FnOnce(&mut [u8])) -> Result<(), BufferError> {
        assert!(self.how.side == Side::Device, "tasks run on the device");
        let mut data = vec![0; self.range.len()];
        match &self.core.device {
            Some(device) => {
                device.read(self.range.start, &mut data)?;
                change(&mut data);
                if self.how.writes {
                    device.write(self.range.start, &data)?;
                }
            }
            None => {
                // SAFETY: the range is inside the memory, and the lease excludes other writes, and reads if it writes.
                unsafe {
                    let at = self.core.host.at().add(self.range.start);
                    at.copy_to_nonoverlapping(data.as_mut_ptr(), data.len());
                    change(&mut data);
                    if self.how.writes {
                        at.copy_from_nonoverlapping(data.as_ptr(), data.len());
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.core.state().leases.end(self.id);
    }
}

/// A buffer, or a part of one, whose type is known at run time. Clones and parts share the memory.
#[derive(Clone, Debug)]
pub struct RawBuffer {
    core: Arc<Core>,
    dtype: DType,
    shape: Shape,
    /// Where it begins in the memory, in bytes.
    begin: usize,
}

impl RawBuffer {
    pub(crate) fn new(core: Arc<Core>, dtype: DType, shape: Shape) -> Self {
        Self {
            core,
            dtype,
            shape,
            begin: 0,
        }
    }
    pub(crate) fn all_newer_on_host(&self) {
        if self.core.strategy != Strategy::Mapped {
            self.core
                .state()
                .newer_on_host
                .insert(&(0..self.core.bytes));
        }
    }
    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// The elements along each axis.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.shape.count() * self.dtype.size()
    }
    /// The strategy.
    pub fn strategy(&self) -> Strategy {
        self.core.strategy
    }
    /// The kind of the engine that it belongs to.
    pub fn engine(&self) -> EngineKind {
        self.core.engine
    }
    /// Whether it may only be read.
    pub fn is_read_only(&self) -> bool {
        self.core.host.is_read_only()
    }
    /// What was copied between the sides of the whole buffer.
    pub fn transfers(&self) -> Transfers {
        self.core.state().transfers
    }
    /// How many bytes of the whole buffer are newer on the host, and on the device.
    pub fn newer(&self) -> (usize, usize) {
        let state = self.core.state();
        (state.newer_on_host.bytes(), state.newer_on_device.bytes())
    }
    /// The holders of the whole buffer's leases.
    pub fn holders(&self) -> Vec<Holder> {
        self.core.state().leases.holders()
    }
    /// Some of the rows, which are the elements along the first axis. They share the memory.
    ///
    /// # Errors
    /// [`BufferError::OutOfBounds`].
    pub fn part(&self, rows: &Range<usize>) -> Result<Self, BufferError> {
        let shape = self.shape.part(rows)?;
        let begin = self.begin + rows.start * self.shape.row() * self.dtype.size();
        Ok(Self {
            shape,
            begin,
            ..self.clone()
        })
    }
    /// The same elements with another shape.
    ///
    /// # Errors
    /// [`BufferError::WrongShape`] if it has another number of elements.
    pub fn reshaped(&self, axes: &[usize]) -> Result<Self, BufferError> {
        let shape = Shape::new(axes)?;
        if shape.count() != self.shape.count() {
            return Err(BufferError::WrongShape {
                held: self.shape.to_string(),
                given: shape.to_string(),
            });
        }
        Ok(Self {
            shape,
            ..self.clone()
        })
    }
    /// Leases the elements. What is newer on the other side is copied before.
    ///
    /// # Errors
    /// [`BufferError::InUse`], [`BufferError::ReadOnly`], or the copy fails.
    pub fn lease(&self, how: Use, holder: Holder) -> Result<Lease, BufferError> {
        self.core.lease(self.range(), how, holder, false)
    }
    /// Leases the elements to overwrite all of them, so that nothing is copied before. Until they are written they have
    /// any value.
    ///
    /// # Errors
    /// As [`lease`](Self::lease).
    pub fn lease_to_overwrite(&self, side: Side, holder: Holder) -> Result<Lease, BufferError> {
        (self.core).lease(self.range(), Use::writes(side), holder, true)
    }
    fn range(&self) -> Range<usize> {
        self.begin..self.begin + self.bytes()
    }
}
