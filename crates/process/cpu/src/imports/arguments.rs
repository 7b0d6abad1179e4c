//! Checks of the pointers and lengths that a process passes to a host call.
//!
//! A pointer or length beyond the memory is answered with `EFAULT`, as on a GPU; wasmtime's library would trap, or
//! return `ENOMEM` for a long length. The check comes before the call, so that a refused call has done nothing.

use wiggle::{GuestError, GuestMemory, GuestPtr};

/// "Bad address".
pub(super) const FAULT: i32 = 21;
/// "Invalid argument".
pub(super) const INVALID: i32 = 28;
/// "Not enough memory".
const NO_MEMORY: i32 = 48;

/// Bytes of a subscription and of an event.
const SUBSCRIPTION: u32 = 48;
const EVENT: u32 = 32;
/// Subscriptions of one call; the library keeps a record of each.
const SUBSCRIPTIONS_MOST: u32 = 1 << 20;

/// Memory that a host call reads or writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    /// A pointer and a length.
    Bytes(i32, i32),
    /// A pointer to a result of this size.
    Result(i32, u32),
    /// A pointer to a number of vectors, each a pointer and a length.
    Vectors(i32, i32),
    /// Pointers to subscriptions and to as many events, and their number.
    Poll(i32, i32, i32),
}

/// Whether `length` bytes from `at` are in a memory of `size` bytes. No byte is everywhere.
fn fits(size: usize, at: u32, length: u64) -> bool {
    length == 0 || u64::from(at) + length <= size as u64
}

fn vectors_fit(memory: &GuestMemory<'_>, size: usize, at: u32, count: u32) -> bool {
    if !fits(size, at, u64::from(count) * 8) {
        return false;
    }
    let word = |at: u32| memory.read(GuestPtr::<u32>::new(at)).ok();
    (0..count).all(|n| {
        let vector = at + 8 * n;
        match (word(vector), word(vector + 4)) {
            (Some(at), Some(length)) => fits(size, at, length.into()),
            _ => false,
        }
    })
}

impl Argument {
    /// The error for memory that is not there.
    fn refused(self, memory: &GuestMemory<'_>, size: usize) -> Option<i32> {
        let fits = match self {
            Self::Bytes(at, length) => fits(size, at as u32, (length as u32).into()),
            Self::Result(at, bytes) => fits(size, at as u32, bytes.into()),
            Self::Vectors(at, count) => vectors_fit(memory, size, at as u32, count as u32),
            Self::Poll(_, _, 0) => return Some(INVALID),
            Self::Poll(from, to, count) => {
                let count = count as u32;
                let all =
                    |at: i32, bytes| fits(size, at as u32, u64::from(count) * u64::from(bytes));
                if !all(from, SUBSCRIPTION) || !all(to, EVENT) {
                    return Some(FAULT);
                }
                return (count > SUBSCRIPTIONS_MOST).then_some(NO_MEMORY);
            }
        };
        (!fits).then_some(FAULT)
    }
}

/// Bytes of a memory.
pub(super) fn size(memory: &GuestMemory<'_>) -> usize {
    match memory {
        GuestMemory::Unshared(bytes) => bytes.len(),
        GuestMemory::Shared(bytes) => bytes.len(),
    }
}

/// The error of the first argument whose memory is not there.
pub(super) fn refused(memory: &GuestMemory<'_>, arguments: &[Argument]) -> Option<i32> {
    let size = size(memory);
    arguments
        .iter()
        .find_map(|argument| argument.refused(memory, size))
}

fn is_fault(error: &GuestError) -> bool {
    match error {
        GuestError::PtrOverflow | GuestError::PtrOutOfBounds(_) | GuestError::PtrNotAligned(..) => {
            true
        }
        GuestError::InFunc { err, .. } => is_fault(err),
        _ => false,
    }
}

/// Turns the library's trap for a pointer that no check has seen into an error number.
pub(super) fn as_errno(result: wasmtime::Result<i32>) -> wasmtime::Result<i32> {
    match result {
        Err(error) if error.downcast_ref().is_some_and(is_fault) => Ok(FAULT),
        result => result,
    }
}
