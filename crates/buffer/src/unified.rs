//! Buffers whose type Rust knows, and their views.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

use everwarp_runtime::DevPtr;

use crate::dtype::Number;
use crate::error::BufferError;
use crate::lease::{Holder, Side, Use};
use crate::raw::{Lease, RawBuffer, Transfers};
use crate::shape::Shape;

/// Typed memory with a host side and a device side.
///
/// A view of a side has what the other side wrote: it is copied when the view is made, and only it. The views borrow the
/// buffer, so a view that has become stale does not compile. Tasks in flight hold [`Lent`] parts.
///
/// ```compile_fail
/// # use everwarp_buffer::{Buffers, Strategy};
/// let mut buffer = Buffers::cpu().zeros::<f32>(&[8], Strategy::Private)?;
/// let host = buffer.host()?;
/// buffer.device_mut()?; // what `host` shows would be stale from here on
/// println!("{}", host[0]);
/// # Ok::<(), everwarp_buffer::BufferError>(())
/// ```
#[derive(Debug)]
pub struct UnifiedBuffer<T: Number> {
    raw: RawBuffer,
    number: PhantomData<T>,
}

impl<T: Number> UnifiedBuffer<T> {
    pub(crate) fn over(raw: RawBuffer) -> Self {
        Self {
            raw,
            number: PhantomData,
        }
    }
    /// A buffer over one whose type was not known. No other handle should be left: its uses of the memory are conflicts.
    ///
    /// # Errors
    /// [`BufferError::WrongType`].
    pub fn try_from_raw(raw: RawBuffer) -> Result<Self, BufferError> {
        match raw.dtype() == T::DTYPE {
            true => Ok(Self::over(raw)),
            false => Err(BufferError::WrongType {
                held: raw.dtype(),
                given: T::DTYPE,
            }),
        }
    }
    /// The buffer without its type.
    pub fn raw(&self) -> &RawBuffer {
        &self.raw
    }
    /// The elements along each axis.
    pub fn shape(&self) -> &Shape {
        self.raw.shape()
    }
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape().count()
    }
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// What was copied between the sides so far.
    pub fn transfers(&self) -> Transfers {
        self.raw.transfers()
    }

    /// The elements on the host, to be read.
    ///
    /// # Errors
    /// [`BufferError::InUse`] while a task in flight writes them, or the copy fails.
    #[track_caller]
    pub fn host(&self) -> Result<HostView<'_, T>, BufferError> {
        self.host_rows(0..self.shape().rows())
    }
    /// Some rows on the host, to be read. Rows are the elements along the first axis.
    ///
    /// # Errors
    /// As [`host`](Self::host), and [`BufferError::OutOfBounds`].
    #[track_caller]
    pub fn host_rows(&self, rows: Range<usize>) -> Result<HostView<'_, T>, BufferError> {
        let part = self.raw.part(&rows)?;
        let lease = part.lease(Use::reads(Side::Host), Holder::here("a host view"))?;
        Ok(HostView {
            lease,
            shape: part.shape().clone(),
            buffer: PhantomData,
        })
    }
    /// The elements on the host, to be changed. All of them count as changed: take
    /// [`host_rows_mut`](Self::host_rows_mut) for a part.
    ///
    /// # Errors
    /// [`BufferError::InUse`] while a task in flight uses them, or the copy fails.
    #[track_caller]
    pub fn host_mut(&mut self) -> Result<HostViewMut<'_, T>, BufferError> {
        self.host_rows_mut(0..self.shape().rows())
    }
    /// Some rows on the host, to be changed.
    ///
    /// # Errors
    /// As [`host_mut`](Self::host_mut), and [`BufferError::OutOfBounds`].
    #[track_caller]
    pub fn host_rows_mut(&mut self, rows: Range<usize>) -> Result<HostViewMut<'_, T>, BufferError> {
        let part = self.raw.part(&rows)?;
        let holder = Holder::here("a host view");
        let lease = part.lease(Use::writes(Side::Host), holder)?;
        Ok(HostViewMut(HostView {
            lease,
            shape: part.shape().clone(),
            buffer: PhantomData,
        }))
    }
    /// The address of the elements for tasks that read them while the view is there.
    ///
    /// # Errors
    /// [`BufferError::InUse`] while a task in flight writes them, or the copy fails.
    #[track_caller]
    pub fn device(&self) -> Result<DeviceView<'_, T>, BufferError> {
        let all = 0..self.shape().rows();
        self.view(all, Use::reads(Side::Device), Holder::here("a device view"))
    }
    /// The address of the elements for tasks that change them while the view is there.
    ///
    /// # Errors
    /// [`BufferError::InUse`] while a task in flight uses them, or the copy fails.
    #[track_caller]
    pub fn device_mut(&mut self) -> Result<DeviceView<'_, T>, BufferError> {
        let all = 0..self.shape().rows();
        self.view(
            all,
            Use::writes(Side::Device),
            Holder::here("a device view"),
        )
    }
    /// The address of some rows, to be read.
    ///
    /// # Errors
    /// As [`device`](Self::device), and [`BufferError::OutOfBounds`].
    #[track_caller]
    pub fn device_rows(&self, rows: Range<usize>) -> Result<DeviceView<'_, T>, BufferError> {
        self.view(
            rows,
            Use::reads(Side::Device),
            Holder::here("a device view"),
        )
    }
    /// The address of some rows, to be changed.
    ///
    /// # Errors
    /// As [`device_mut`](Self::device_mut), and [`BufferError::OutOfBounds`].
    #[track_caller]
    pub fn device_rows_mut(
        &mut self,
        rows: Range<usize>,
    ) -> Result<DeviceView<'_, T>, BufferError> {
        self.view(
            rows,
            Use::writes(Side::Device),
            Holder::here("a device view"),
        )
    }
    fn view(
        &self,
        rows: Range<usize>,
        how: Use,
        holder: Holder,
    ) -> Result<DeviceView<'_, T>, BufferError> {
        Ok(DeviceView {
            lent: self.lent(&rows, how, holder)?,
            buffer: PhantomData,
        })
    }

    /// Lends some rows to tasks that read them. The lease is a value of its own, for tasks that are in flight when the
    /// function that submitted them returns.
    ///
    /// # Errors
    /// As [`device_rows`](Self::device_rows).
    #[track_caller]
    pub fn lend(&self, rows: Range<usize>) -> Result<Lent<T>, BufferError> {
        self.lent(&rows, Use::reads(Side::Device), Holder::here("a lent part"))
    }
    /// Lends some rows to tasks that change them. Until the lease is dropped, every other use of them is
    /// [`BufferError::InUse`].
    ///
    /// # Errors
    /// As [`device_rows_mut`](Self::device_rows_mut).
    #[track_caller]
    pub fn lend_mut(&self, rows: Range<usize>) -> Result<Lent<T>, BufferError> {
        self.lent(
            &rows,
            Use::writes(Side::Device),
            Holder::here("a lent part"),
        )
    }
    fn lent(&self, rows: &Range<usize>, how: Use, holder: Holder) -> Result<Lent<T>, BufferError> {
        let lease = self.raw.part(rows)?.lease(how, holder)?;
        Ok(Lent {
            lease,
            number: PhantomData,
        })
    }

    /// Writes elements on the host, from element `at` on; nothing is copied for that.
    ///
    /// # Errors
    /// [`BufferError::OutOfBounds`] (counted in elements), [`BufferError::InUse`].
    #[track_caller]
    pub fn write(&mut self, at: usize, data: &[T]) -> Result<(), BufferError> {
        let flat = self.raw.reshaped(&[self.len()])?;
        let end = at.saturating_add(data.len());
        let holder = Holder::here("a write");
        let lease = flat
            .part(&(at..end))?
            .lease_to_overwrite(Side::Host, holder)?;
        // SAFETY: the lease is for as many elements, and no other use of them is possible.
        unsafe {
            let to = lease.host_address().cast::<T>();
            to.copy_from_nonoverlapping(data.as_ptr(), data.len());
        }
        Ok(())
    }
    /// All elements, copied.
    ///
    /// # Errors
    /// As [`host`](Self::host).
    #[track_caller]
    pub fn read(&self) -> Result<Vec<T>, BufferError> {
        Ok(self.host()?.to_vec())
    }
}

/// Elements on the host, to be read.
#[derive(Debug)]
pub struct HostView<'b, T> {
    lease: Lease,
    shape: Shape,
    buffer: PhantomData<&'b [T]>,
}

impl<T> HostView<'_, T> {
    /// The elements along each axis.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
}

impl<T: Number> Deref for HostView<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the lease is for these elements, which are numbers and aligned, and excludes writes by others.
        unsafe { std::slice::from_raw_parts(self.lease.host_address().cast(), self.shape.count()) }
    }
}

/// Elements on the host, to be changed.
#[derive(Debug)]
pub struct HostViewMut<'b, T>(HostView<'b, T>);

impl<T> HostViewMut<'_, T> {
    /// The elements along each axis.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }
}

impl<T: Number> Deref for HostViewMut<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Number> DerefMut for HostViewMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let (at, count) = (self.0.lease.host_address(), self.0.shape.count());
        // SAFETY: the lease is for these elements, which are numbers and aligned, and excludes every other use.
        unsafe { std::slice::from_raw_parts_mut(at.cast(), count) }
    }
}

/// Elements on the device, while the buffer is borrowed.
#[derive(Debug)]
pub struct DeviceView<'b, T> {
    lent: Lent<T>,
    buffer: PhantomData<&'b [T]>,
}

impl<T: Number> Deref for DeviceView<'_, T> {
    type Target = Lent<T>;
    fn deref(&self) -> &Lent<T> {
        &self.lent
    }
}

/// Elements on the device that were lent: keep it until the tasks that use its address have completed.
#[derive(Debug)]
pub struct Lent<T> {
    lease: Lease,
    number: PhantomData<T>,
}

impl<T: Number> Lent<T> {
    /// The address, for parameters of tasks.
    pub fn ptr(&self) -> DevPtr<T> {
        DevPtr::new(self.lease.device_address())
    }
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.lease.bytes() / size_of::<T>()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether they may be changed.
    pub fn writes(&self) -> bool {
        self.lease.how().writes
    }
    /// The lease itself.
    pub fn into_lease(self) -> Lease {
        self.lease
    }
}
