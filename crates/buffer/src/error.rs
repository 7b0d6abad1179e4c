//! What can go wrong with a buffer.

use everwarp_runtime::EngineKind;

use crate::dtype::DType;
use crate::lease::Conflict;
use crate::strategy::Strategy;

/// A buffer cannot be made or used like this.
#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    /// Another holder uses the range in a way that excludes this use.
    #[error("{0}")]
    InUse(Box<Conflict>),
    /// A range outside of the buffer.
    #[error("rows {begin}..{end} are not in the buffer, which has {rows}")]
    OutOfBounds {
        /// The first row.
        begin: usize,
        /// The row after the last.
        end: usize,
        /// The rows that there are.
        rows: usize,
    },
    /// The shape has too many axes or elements.
    #[error("a buffer of shape {shape} is too large: it has up to 64 axes and 2^60 elements")]
    TooLarge {
        /// The shape.
        shape: String,
    },
    /// The system has no memory for it.
    #[error("the host has no {bytes} bytes of memory for this buffer: make it smaller")]
    OutOfMemory {
        /// The size.
        bytes: usize,
    },
    /// The elements have another type.
    #[error(
        "the buffer holds {held}, and {given} was given: make the buffer with that type, or convert the data"
    )]
    WrongType {
        /// The buffer's.
        held: DType,
        /// The other.
        given: DType,
    },
    /// Data of another shape or length.
    #[error("the buffer's part has the shape {held}, and the data has {given}")]
    WrongShape {
        /// The buffer's.
        held: String,
        /// The data's.
        given: String,
    },
    /// Imported memory that may only be read.
    #[error(
        "the buffer's memory was imported and may only be read: copy it into a buffer of your own"
    )]
    ReadOnly,
    /// A strategy that the engine does not have.
    #[error(
        "the {engine} engine has no buffers with the strategy `{strategy}`: use `private` or `pinned`"
    )]
    NoStrategy {
        /// The strategy.
        strategy: Strategy,
        /// The engine.
        engine: EngineKind,
    },
    /// Memory that another library has exported does not fit.
    #[error("{0}")]
    Import(String),
    /// A buffer that cannot be exported like this.
    #[error("{0}")]
    Export(String),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] everwarp_runtime::Error),
}
