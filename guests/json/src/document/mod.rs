//! Whether a document is valid, and where the first error is.
//!
//! The automaton is fast and decides; the descent into what is not valid then says why. Both have to agree, which
//! the tests of the command see to, because guests have no tests of their own.

pub(crate) mod automaton;
pub(crate) mod descent;
mod number;
mod text;

use alloc::vec::Vec;

use descent::Wrong;

/// Checks a document. While it does, more stands behind it.
pub(crate) fn check(document: &mut Vec<u8>) -> Result<(), Wrong> {
    match automaton::valid(document) {
        true => Ok(()),
        false => descent::document(document),
    }
}
