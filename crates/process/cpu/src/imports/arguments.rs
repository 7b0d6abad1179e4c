//! Checks of the pointers and lengths that a process passes to a host call.
//!
//! A pointer or length beyond the memory is answered with `EFAULT`, and a pointer that is not aligned with `EINVAL`, as on
//! a GPU; wasmtime's library would trap, or return `ENOMEM` for a long length. The check comes before the call, so that a
//! refused call has done nothing.

use wiggle::{GuestError, GuestMemory, GuestPtr};

/// "Bad address".
const FAULT: i32 = 21;
/// "Illegal byte sequence".
const ILLEGAL_SEQUENCE: i32 = 25;
/// "Invalid argument".
const INVALID: i32 = 28;

/// Bytes of a subscription and of an event.
const SUBSCRIPTION: u32 = 48;
const EVENT: u32 = 32;
/// Subscriptions of one call; the library keeps a record of each.
const SUBSCRIPTIONS_MOST: u32 = 1 << 20;

/// The size of a result and its alignment.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultLayout(u32, u32);

pub(super) const U16: ResultLayout = ResultLayout(2, 2);
pub(super) const U32: ResultLayout = ResultLayout(4, 4);
pub(super) const U64: ResultLayout = ResultLayout(8, 8);
pub(super) const PRESTAT: ResultLayout = ResultLayout(8, 4);
/// An address of `everwarp:net`.
pub(super) const ADDRESS: ResultLayout = ResultLayout(24, 4);
pub(super) const FDSTAT: ResultLayout = ResultLayout(24, 8);
pub(super) const FILESTAT: ResultLayout = ResultLayout(64, 8);

/// Memory that a host call reads or writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    /// A pointer and a length.
    Bytes(i32, i32),
    /// A pointer to a result.
    Result(i32, ResultLayout),
    /// A pointer to a number of vectors, each a pointer and a length.
    Vectors(i32, i32),
    /// A pointer to a number of values of this layout.
    List(i32, i32, ResultLayout),
    /// Pointers to subscriptions and to as many events, and their number.
    Poll(i32, i32, i32),
}

/// Checks `length` bytes at `at` in a memory of `size` bytes.
fn check(size: usize, at: u32, length: u64, align: u32) -> Result<(), i32> {
    if u64::from(at) + length > size as u64 {
        return Err(FAULT);
    }
    match at.is_multiple_of(align) {
        true => Ok(()),
        false => Err(INVALID),
    }
}

fn check_vectors(memory: &GuestMemory<'_>, size: usize, at: u32, count: u32) -> Result<(), i32> {
    check(size, at, u64::from(count) * 8, 4)?;
    for n in 0..count {
        let word = |at: u32| memory.read(GuestPtr::<u32>::new(at)).map_err(|_| FAULT);
        let vector = at + 8 * n;
        check(size, word(vector)?, word(vector + 4)?.into(), 1)?;
    }
    Ok(())
}

impl Argument {
    /// Checks that the memory is there.
    fn check(self, memory: &GuestMemory<'_>, size: usize) -> Result<(), i32> {
        match self {
            Self::Bytes(at, length) => check(size, at as u32, (length as u32).into(), 1),
            Self::Result(at, ResultLayout(bytes, align)) => {
                check(size, at as u32, bytes.into(), align)
            }
            Self::List(at, count, ResultLayout(bytes, align)) => {
                let bytes = u64::from(count as u32) * u64::from(bytes);
                check(size, at as u32, bytes, align)
            }
            Self::Vectors(at, count) => check_vectors(memory, size, at as u32, count as u32),
            Self::Poll(_, _, 0) => Err(INVALID),
            Self::Poll(from, to, count) => {
                let count = count as u32;
                let bytes = |each: u32| u64::from(count) * u64::from(each);
                check(size, from as u32, bytes(SUBSCRIPTION), 8)?;
                check(size, to as u32, bytes(EVENT), 8)?;
                match count <= SUBSCRIPTIONS_MOST {
                    true => Ok(()),
                    false => Err(INVALID),
                }
            }
        }
    }
}

/// Bytes of a memory.
pub(super) fn size(memory: &GuestMemory<'_>) -> usize {
    match memory {
        GuestMemory::Unshared(bytes) => bytes.len(),
        GuestMemory::Shared(bytes) => bytes.len(),
    }
}

/// The error number of the first argument whose memory is not there.
pub(super) fn refused(memory: &GuestMemory<'_>, arguments: &[Argument]) -> Option<i32> {
    let size = size(memory);
    arguments
        .iter()
        .find_map(|argument| argument.check(memory, size).err())
}

/// The error number for an argument that the library has refused. It would end the process instead, with a message that
/// shows its own types.
fn argument_errno(error: &GuestError) -> i32 {
    match error {
        GuestError::PtrOverflow | GuestError::PtrOutOfBounds(_) => FAULT,
        GuestError::InvalidUtf8(_) => ILLEGAL_SEQUENCE,
        GuestError::InFunc { err, .. } => argument_errno(err),
        GuestError::InvalidFlagValue(_)
        | GuestError::InvalidEnumValue(_)
        | GuestError::PtrNotAligned(..)
        | GuestError::SliceLengthsDiffer
        | GuestError::TryFromIntError(_) => INVALID,
    }
}

/// Turns the library's trap for an argument that no check has seen into an error number.
pub(super) fn as_errno(result: wasmtime::Result<i32>) -> wasmtime::Result<i32> {
    match result {
        Err(error) => match error.downcast_ref() {
            Some(refused) => Ok(argument_errno(refused)),
            None => Err(error),
        },
        result => result,
    }
}
