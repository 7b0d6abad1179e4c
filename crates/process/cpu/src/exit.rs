//! How a process ended.

use std::fmt;
use std::time::Duration;

use everwarp_process::Captured;

/// What went wrong in a trap; the names are those of the GPU compiler's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TrapKind {
    /// An `unreachable` instruction.
    Unreachable,
    /// An integer was divided by zero.
    DivideByZero,
    /// A quotient or a converted number does not fit.
    IntegerOverflow,
    /// A NaN was converted to an integer.
    InvalidConversion,
    /// An access reaches beyond the memory's length, or beyond a data segment.
    MemoryOutOfBounds,
    /// An access or an indirect call reaches beyond a table's length, or beyond an element segment.
    TableOutOfBounds,
    /// An indirect call through a null reference.
    UninitializedElement,
    /// An indirect call of a function of another type.
    IndirectCallTypeMismatch,
    /// Calls nest too deep.
    StackExhausted,
    /// The address of an atomic access is no multiple of its size.
    UnalignedAtomic,
    /// A wait in a memory that is not shared.
    ExpectedSharedMemory,
    /// A host call could not be carried out at all, such as one by a module that exports no memory.
    Host,
}

impl TrapKind {
    /// What happened, in the words of the WebAssembly specification where it has some.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::DivideByZero => "integer divide by zero",
            Self::IntegerOverflow => "integer overflow",
            Self::InvalidConversion => "invalid conversion to integer",
            Self::MemoryOutOfBounds => "out of bounds memory access",
            Self::TableOutOfBounds => "out of bounds table access",
            Self::UninitializedElement => "uninitialized element",
            Self::IndirectCallTypeMismatch => "indirect call type mismatch",
            Self::StackExhausted => "call stack exhausted",
            Self::UnalignedAtomic => "unaligned atomic",
            Self::ExpectedSharedMemory => "expected shared memory",
            Self::Host => "host call failed",
        }
    }
}

impl fmt::Display for TrapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Why a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It returned from `_start` (code 0) or asked to end with this code.
    Normal(u32),
    /// It did something that cannot be done.
    Trap {
        /// What that was.
        kind: TrapKind,
        /// The function that did it: its name if the module says it, otherwise `function` and its number.
        function: Option<String>,
        /// What there is to say beyond the kind; empty if nothing.
        message: String,
    },
    /// [`Host::kill`](crate::Host::kill), or the host itself was dropped.
    Killed,
    /// Its fuel is spent.
    OutOfFuel,
    /// The machine could not give the memory that the process starts with. A process that asks for more
    /// later gets -1 from `memory.grow` and lives on.
    OutOfMemory,
}

impl Reason {
    /// One word for the kind of reason, for counting.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Normal(_) => "normal",
            Self::Trap { .. } => "trap",
            Self::Killed => "killed",
            Self::OutOfFuel => "out of fuel",
            Self::OutOfMemory => "out of memory",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal(code) => write!(f, "exit code {code}"),
            Self::Trap {
                kind,
                function,
                message,
            } => {
                write!(f, "trap: {kind}")?;
                if let Some(name) = function {
                    write!(f, " in `{name}`")?;
                }
                match message.is_empty() {
                    true => Ok(()),
                    false => write!(f, ": {message}"),
                }
            }
            other => f.write_str(other.word()),
        }
    }
}

/// How a process ended and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Why it ended.
    pub reason: Reason,
    /// Fuel that it used.
    pub fuel_used: u64,
    /// From its start on a thread to its end; zero if it never started.
    pub elapsed: Duration,
    /// Its standard output, if that was captured.
    pub stdout: Option<Captured>,
    /// Its standard error, if that was captured.
    pub stderr: Option<Captured>,
}

impl Exit {
    /// Whether it ended by itself with code 0.
    pub fn success(&self) -> bool {
        self.reason == Reason::Normal(0)
    }
}
