//! What a ring kernel does: its handler, and the types of its messages and results.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;

use everwarp_buffer::{DType, Lease, Shape};

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
    pub(crate) handler: Box<dyn Handler>,
}

impl RawKernel {
    /// A kernel whose streams hold 64 messages.
    pub fn new(
        name: impl Into<String>,
        input: Signature,
        output: Signature,
        handler: impl Handler + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            input,
            output,
            capacity: 64,
            handler: Box::new(handler),
        }
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
