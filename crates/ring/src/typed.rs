//! Ring kernels whose types Rust knows.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::ops::Deref;
use std::time::Duration;

use everwarp_buffer::{Lent, Number};
use everwarp_runtime::{Engine, ProgramRef};

use crate::error::{Failure, RingError, sized};
use crate::handler::{CudaHandler, Handler, RawKernel, RawMessage, Signature};
use crate::raw::{RawReceived, RawRing, Reserved, RingStats};

/// A ring kernel that was not launched yet. Its messages are slices of `I`, its results of `O`.
#[derive(Debug)]
pub struct RingKernel<I, O> {
    raw: RawKernel,
    types: PhantomData<fn(I) -> O>,
}

struct Typed<F, I, O>(F, PhantomData<fn(I) -> O>);

impl<F, I: Number, O: Number> Handler for Typed<F, I, O>
where
    F: FnMut(&[I], &mut [O]) -> Result<(), Failure> + Send,
{
    fn handle(&mut self, message: &mut RawMessage<'_>) -> Result<(), Failure> {
        let (inputs, outputs) = (
            message.input.len() / size_of::<I>(),
            message.output.len() / size_of::<O>(),
        );
        // SAFETY: the slices have as many numbers and are aligned to them; the result has any values, which are numbers.
        let (input, output) = unsafe {
            (
                std::slice::from_raw_parts(message.input.as_ptr().cast(), inputs),
                std::slice::from_raw_parts_mut(message.output.as_mut_ptr().cast(), outputs),
            )
        };
        (self.0)(input, output)
    }
}

impl<I: Number, O: Number> RingKernel<I, O> {
    /// A kernel with a name for messages, the shapes of a message and of a result, and the handler. Its streams hold 64
    /// messages.
    ///
    /// # Errors
    /// [`BufferError::TooLarge`](everwarp_buffer::BufferError::TooLarge).
    pub fn new(
        name: impl Into<String>,
        input: &[usize],
        output: &[usize],
        handler: impl FnMut(&[I], &mut [O]) -> Result<(), Failure> + Send + 'static,
    ) -> Result<Self, RingError> {
        let input = Signature::new(I::DTYPE, input)?;
        let output = Signature::new(O::DTYPE, output)?;
        let handler = Typed(handler, PhantomData::<fn(I) -> O>);
        Ok(Self {
            raw: RawKernel::new(name, input, output, handler),
            types: PhantomData,
        })
    }
    /// A kernel for CUDA engines only.
    ///
    /// # Errors
    /// [`BufferError::TooLarge`](everwarp_buffer::BufferError::TooLarge).
    pub fn for_cuda(
        name: impl Into<String>,
        input: &[usize],
        output: &[usize],
        handler: CudaHandler,
    ) -> Result<Self, RingError> {
        let input = Signature::new(I::DTYPE, input)?;
        let output = Signature::new(O::DTYPE, output)?;
        Ok(Self {
            raw: RawKernel::for_cuda(name, input, output, handler),
            types: PhantomData,
        })
    }
    /// Adds the same handler in CUDA C++, for CUDA engines.
    pub fn cuda(self, handler: CudaHandler) -> Self {
        Self {
            raw: self.raw.cuda(handler),
            types: PhantomData,
        }
    }
    /// As [`RawKernel::cuda_program`].
    pub fn cuda_program(&self) -> Option<ProgramRef> {
        self.raw.cuda_program()
    }
    /// Has a CPU engine run the handler by way of the memory and the tasks of a GPU: for tests of that.
    #[doc(hidden)]
    pub fn as_device(self) -> Self {
        Self {
            raw: self.raw.as_device(),
            types: PhantomData,
        }
    }
    /// Sets how many messages wait, and how many results.
    ///
    /// # Errors
    /// [`RingError::Capacity`].
    pub fn capacity(self, messages: usize) -> Result<Self, RingError> {
        Ok(Self {
            raw: self.raw.capacity(messages)?,
            types: PhantomData,
        })
    }
    /// Launches the kernel, which is not active yet.
    ///
    /// # Errors
    /// As [`RawKernel::launch`].
    pub fn launch(self, engine: &Engine) -> Result<Ring<I, O>, RingError> {
        Ok(Ring {
            raw: self.raw.launch(engine)?,
            types: PhantomData,
        })
    }
}

/// A ring kernel that was launched.
#[derive(Debug)]
pub struct Ring<I, O> {
    raw: RawRing,
    types: PhantomData<fn(I) -> O>,
}

impl<I: Number, O: Number> Ring<I, O> {
    /// The kernel without its types.
    pub fn raw(&self) -> &RawRing {
        &self.raw
    }
    /// The messages.
    pub fn stats(&self) -> RingStats {
        self.raw.stats()
    }
    /// Handles messages from here on.
    ///
    /// # Errors
    /// As [`RawRing::activate`].
    pub fn activate(&self) -> Result<(), RingError> {
        self.raw.activate()
    }
    /// Keeps messages from here on and handles none. When it returns, the handler does not run.
    ///
    /// # Errors
    /// As [`RawRing::deactivate`].
    pub fn deactivate(&self) -> Result<(), RingError> {
        self.raw.deactivate()
    }
    /// Handles what was sent before, and takes no messages from here on.
    ///
    /// # Errors
    /// As [`RawRing::terminate`].
    pub fn terminate(&self) -> Result<(), RingError> {
        self.raw.terminate(None)
    }
    /// Sends a message, and waits until there is room.
    ///
    /// # Errors
    /// [`RingError::WrongMessage`] for another length; else as [`RawRing::reserve`].
    pub fn send(&self, message: &[I]) -> Result<(), RingError> {
        self.check(message)?;
        self.fill(self.raw.reserve(None)?, message)
    }
    /// Sends a message if there is room.
    ///
    /// # Errors
    /// [`RingError::Full`]; else as [`send`](Self::send).
    pub fn try_send(&self, message: &[I]) -> Result<(), RingError> {
        self.check(message)?;
        self.fill(self.raw.try_reserve()?, message)
    }
    /// Sends a message, and waits until there is room. No executor is needed.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_async(&self, message: &[I]) -> Result<(), RingError> {
        self.check(message)?;
        let room = poll_fn(|cx| self.raw.poll_reserve(cx)).await?;
        self.fill(room, message)
    }
    /// Sends a slice of a buffer without a copy, and waits until there is room. The lease ends before the result is
    /// received.
    ///
    /// # Errors
    /// As [`Reserved::send_slices`].
    pub fn send_slice(&self, message: Lent<I>) -> Result<(), RingError> {
        let room = self.raw.reserve(None)?;
        room.send_slices(Some(message.into_lease()), None)
    }
    /// Sends a slice of a buffer, and has the result written to another one. What is received then has no elements.
    ///
    /// # Errors
    /// As [`Reserved::send_slices`].
    ///
    /// # Panics
    /// `result` was lent to be read.
    pub fn send_slices(&self, message: Lent<I>, result: Lent<O>) -> Result<(), RingError> {
        assert!(result.writes(), "lend the result's slice with `lend_mut`");
        let room = self.raw.reserve(None)?;
        room.send_slices(Some(message.into_lease()), Some(result.into_lease()))
    }
    fn check(&self, message: &[I]) -> Result<(), RingError> {
        match message.len() == self.raw.input().shape.count() {
            true => Ok(()),
            false => Err(RingError::WrongMessage {
                kernel: self.raw.name().to_owned(),
                what: "message",
                wanted: self.raw.input().to_string(),
                given: sized(I::DTYPE, message.len()),
            }),
        }
    }
    fn fill(&self, mut room: Reserved<'_>, message: &[I]) -> Result<(), RingError> {
        let to = room.bytes();
        assert_eq!(to.len(), size_of_val(message), "checked before");
        // SAFETY: both are that long, and numbers are plain bytes.
        unsafe {
            let from = message.as_ptr().cast::<u8>();
            to.as_mut_ptr().copy_from_nonoverlapping(from, to.len());
        }
        room.send()
    }
    /// Takes the oldest result, and waits until there is one.
    ///
    /// # Errors
    /// As [`RawRing::receive`].
    pub fn receive(&self) -> Result<Received<O>, RingError> {
        Ok(self.raw.receive(None)?.into())
    }
    /// Takes the oldest result, and waits for it for a limited time.
    ///
    /// # Errors
    /// As [`RawRing::receive`].
    pub fn receive_timeout(&self, limit: Duration) -> Result<Received<O>, RingError> {
        Ok(self.raw.receive(Some(limit))?.into())
    }
    /// Takes the oldest result, if there is one.
    ///
    /// # Errors
    /// As [`RawRing::try_receive`].
    pub fn try_receive(&self) -> Result<Received<O>, RingError> {
        Ok(self.raw.try_receive()?.into())
    }
    /// Takes the oldest result, and waits until there is one. No executor is needed.
    ///
    /// # Errors
    /// As [`RawRing::receive`].
    pub async fn receive_async(&self) -> Result<Received<O>, RingError> {
        Ok(poll_fn(|cx| self.raw.poll_receive(cx)).await?.into())
    }
}

/// The result of a message, which is a slice of the kernel's stream: nothing was copied. Its memory is used for another
/// result after it is dropped.
#[derive(Debug)]
pub struct Received<O> {
    raw: RawReceived,
    number: PhantomData<O>,
}

impl<O> From<RawReceived> for Received<O> {
    fn from(raw: RawReceived) -> Self {
        Self {
            raw,
            number: PhantomData,
        }
    }
}

impl<O> Received<O> {
    /// The number of the message, from 0.
    pub fn number(&self) -> u64 {
        self.raw.number()
    }
}

impl<O: Number> Deref for Received<O> {
    type Target = [O];
    fn deref(&self) -> &[O] {
        let bytes = self.raw.bytes();
        if bytes.is_empty() {
            return &[];
        }
        // SAFETY: these are numbers of this type, and aligned.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<O>()) }
    }
}
