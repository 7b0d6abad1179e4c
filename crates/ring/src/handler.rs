//! What a ring kernel does: its handler, and the types of its messages and results.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use everwarp_buffer::{DType, Lease, Shape, Side};

use crate::error::{Failure, RingError};

/// The most messages that a stream holds.
pub(crate) const CAPACITY_MAX: usize = 1 << 20;

/// A message while it is handled.
#[derive(Debug)]
pub struct RawMessage<'m> {
    /// The elements, which are aligned to their size.
    pub input: &'m [u8],
    /// Room for the result, aligned to the size of its elements. It may hold any values.
    pub output: &'m mut [u8],
    /// The number of the message, from 0.
    pub number: u64,
}

/// Handles messages, one at a time.
pub trait Handler: Send {
    /// Handles a message.
    ///
    /// # Errors
    /// The reason why it failed, which becomes the message's result.
    fn handle(&mut self, message: &mut RawMessage<'_>) -> Result<(), Failure>;
}

/// The type and shape of messages or of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The type of the elements.
    pub dtype: DType,
    /// The elements along each axis.
    pub shape: Shape,
}

impl Signature {
    /// A type, and the elements along each axis.
    ///
    /// # Errors
    /// [`BufferError::TooLarge`](everwarp_buffer::BufferError::TooLarge).
    pub fn new(dtype: DType, axes: &[usize]) -> Result<Self, RingError> {
        let shape = Shape::new(axes)?;
        Ok(Self { dtype, shape })
    }
    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.shape.count() * self.dtype.size()
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the shape {}", self.dtype, self.shape)
    }
}

/// A ring kernel that was not launched yet, whose types are known only at run time.
pub struct RawKernel {
    pub(crate) name: String,
    pub(crate) input: Signature,
    pub(crate) output: Signature,
    pub(crate) capacity: usize,
    /// For CPU engines.
    pub(crate) handler: Option<Box<dyn Handler>>,
    /// For CUDA engines.
    pub(crate) cuda: Option<CudaHandler>,
    /// Whether a CPU engine runs the handler as if it were device code.
    pub(crate) as_device: bool,
}

impl RawKernel {
    /// A kernel whose streams hold 64 messages.
    pub fn new(
        name: impl Into<String>,
        input: Signature,
        output: Signature,
        handler: impl Handler + 'static,
    ) -> Self {
        let mut kernel = Self::without_handler(name.into(), input, output);
        kernel.handler = Some(Box::new(handler));
        kernel
    }
    /// A kernel for CUDA engines only, whose streams hold 64 messages.
    pub fn for_cuda(
        name: impl Into<String>,
        input: Signature,
        output: Signature,
        handler: CudaHandler,
    ) -> Self {
        Self::without_handler(name.into(), input, output).cuda(handler)
    }
    fn without_handler(name: String, input: Signature, output: Signature) -> Self {
        Self {
            name,
            input,
            output,
            capacity: 64,
            handler: None,
            cuda: None,
            as_device: false,
        }
    }
    /// Adds the same handler in CUDA C++, for CUDA engines.
    pub fn cuda(mut self, handler: CudaHandler) -> Self {
        self.cuda = Some(handler);
        self
    }
    /// Has a CPU engine run the handler by way of the memory and the tasks of a GPU: for tests of that.
    #[doc(hidden)]
    pub fn as_device(mut self) -> Self {
        self.as_device = true;
        self
    }
    /// Sets how many messages wait, and how many results.
    ///
    /// # Errors
    /// [`RingError::Capacity`].
    pub fn capacity(mut self, messages: usize) -> Result<Self, RingError> {
        if !(1..=CAPACITY_MAX).contains(&messages) {
            return Err(RingError::Capacity {
                given: messages,
                limit: CAPACITY_MAX,
            });
        }
        self.capacity = messages;
        Ok(self)
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for RawKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawKernel {}", self.name)
    }
}

/// A handler in CUDA C++, which a CUDA engine compiles when the kernel is launched for the first time.
///
/// The text defines
///
/// ```cuda
/// __device__ int handle(const T* input, uint64_t inputs, U* output, uint64_t outputs, void* state)
/// ```
///
/// with the types of a message's and a result's elements. The numbers count elements. A block of 256 threads handles a
/// message: all of them call the function, which divides the work by `threadIdx.x` and may use `__syncthreads()`. The result
/// is complete when all have returned. A number other than 0 from any thread fails the message. The text is put into a
/// namespace of its own and includes nothing. A wild pointer ends the engine.
pub struct CudaHandler {
    pub(crate) source: String,
    pub(crate) form: Form,
    pub(crate) state: State,
    pub(crate) reason: Reason,
}

/// What the text of a handler defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The function of [`CudaHandler`].
    Function,
    /// `u64 handle(ew::Block&, const u8* input, u8* output, u8* state)`, which returns a reason.
    Module,
}

/// What `state` points to.
#[derive(Debug)]
pub(crate) enum State {
    /// It is null.
    None,
    /// That many bytes of zeros, which belong to the kernel.
    Zeros(usize),
    /// A range of a buffer.
    Lent(Lease),
}

/// Says in words why a message failed.
#[derive(Clone)]
pub(crate) struct Reason(Arc<dyn Fn(u64) -> Failure + Send + Sync>);

impl Reason {
    /// The number that a function returned.
    pub(crate) fn returned() -> Self {
        Self(Arc::new(|code| {
            Failure::new(format!("the handler returned {}", code as i32))
        }))
    }
    pub(crate) fn of(&self, code: u64) -> Failure {
        (self.0)(code)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reason")
    }
}

impl CudaHandler {
    /// A handler without a state.
    pub fn new(source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            form: Form::Function,
            state: State::None,
            reason: Reason::returned(),
        }
    }
    /// The text of a module, which has `bytes` of memory, and what its reasons are in words. Not a stable API.
    #[doc(hidden)]
    pub fn of_module(
        source: String,
        bytes: usize,
        reason: impl Fn(u64) -> Failure + Send + Sync + 'static,
    ) -> Self {
        Self {
            source,
            form: Form::Module,
            state: State::Zeros(bytes),
            reason: Reason(Arc::new(reason)),
        }
    }
    /// Gives it a state of `bytes` zeros.
    ///
    /// # Panics
    /// The handler is a module, whose state is its memory.
    pub fn zeroed_state(self, bytes: usize) -> Self {
        self.with_state(State::Zeros(bytes))
    }
    /// Gives it a range of a buffer as its state, which is leased for as long as the kernel lives.
    ///
    /// # Panics
    /// The lease does not write on the device's side, or the handler is a module, whose state is its memory.
    pub fn state(self, lease: Lease) -> Self {
        assert!(
            lease.how().side == Side::Device && lease.how().writes,
            "the kernel writes its state on the device's side"
        );
        self.with_state(State::Lent(lease))
    }
    fn with_state(mut self, state: State) -> Self {
        assert!(
            self.form == Form::Function,
            "a module has its memory as its state, which nothing replaces"
        );
        self.state = state;
        self
    }
}

impl fmt::Debug for CudaHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaHandler")
            .field("form", &self.form)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// A function of C that handles messages: `int32_t f(const void *input, uint64_t inputs, void *output, uint64_t outputs,
/// void *state)`. The numbers count elements. A result other than 0 is a failure.
pub type CFunction = unsafe extern "C" fn(*const c_void, u64, *mut c_void, u64, *mut c_void) -> i32;

/// A handler that is a function of C.
pub struct CHandler {
    function: CFunction,
    state: Option<Lease>,
    inputs: u64,
    outputs: u64,
    _keep: Box<dyn Any + Send>,
}

impl CHandler {
    /// A function, and what keeps it alive. `state` is leased for as long as the kernel lives; without it the pointer is
    /// null.
    ///
    /// # Safety
    /// - The function reads `inputs` elements, writes up to `outputs`, and touches nothing else but its state; it does not
    ///   unwind. It may be called from any thread, by one at a time, until `keep` is dropped.
    pub unsafe fn new(
        function: CFunction,
        input: &Signature,
        output: &Signature,
        state: Option<Lease>,
        keep: impl Any + Send,
    ) -> Self {
        Self {
            function,
            state,
            inputs: input.shape.count() as u64,
            outputs: output.shape.count() as u64,
            _keep: Box::new(keep),
        }
    }
}

impl fmt::Debug for CHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CHandler")
    }
}

impl Handler for CHandler {
    fn handle(&mut self, message: &mut RawMessage<'_>) -> Result<(), Failure> {
        let state = match &self.state {
            Some(lease) => lease.host_address().cast(),
            None => std::ptr::null_mut(),
        };
        // SAFETY: the slices have that many elements; the caller of `new` vouches for the function.
        let code = unsafe {
            (self.function)(
                message.input.as_ptr().cast(),
                self.inputs,
                message.output.as_mut_ptr().cast(),
                self.outputs,
                state,
            )
        };
        match code {
            0 => Ok(()),
            code => Err(Failure::new(format!("the handler returned {code}"))),
        }
    }
}
