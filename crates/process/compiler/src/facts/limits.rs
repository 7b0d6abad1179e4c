//! The limits on modules. They bound what the assembler is given, because it needs time and memory out of proportion to
//! what a hostile module has in bytes: ptxas 13.0 took 220 s and 5.3 GB for 200,000 nested blocks, and 14 s and 1.4 GB
//! for 2,000 nested loops. What compilers emit is far below: the interpreter loops of Lua, QuickJS and SQLite nest some
//! hundred blocks and ten loops, and become 1 to 4 MB of PTX.

use crate::error::CompileError;

/// How many blocks, loops and conditions may be nested in each other.
pub(crate) const NESTED_BLOCKS: usize = 10_000;
/// How many loops may be nested in each other.
pub(crate) const NESTED_LOOPS: usize = 250;
/// Bytes of PTX that a function may become.
pub(crate) const FUNCTION_TEXT: usize = 32 << 20;
/// Bytes of PTX that a module may become.
pub(crate) const MODULE_TEXT: usize = 512 << 20;

/// Refuses what is over a limit, at this offset of the module.
pub(crate) fn check(
    offset: usize,
    what: &'static str,
    found: usize,
    most: usize,
) -> Result<(), CompileError> {
    match found <= most {
        true => Ok(()),
        false => Err(CompileError::Limit { offset, what, most }),
    }
}
