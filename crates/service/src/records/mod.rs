//! What each process of a request gets of its own: the client writes records, and the service checks them.
//!
//! The values of a process are one record: a byte of flags ([`SAME_ARGS`], [`SAME_ENV`], and the kind of its standard
//! input); its arguments, unless they are those of the process before; its variables, likewise; and its standard input.
//! Most processes of a large request differ in little, so their records are short.

mod check;
mod lines;
mod write;

pub(crate) use check::CheckedRecords;
pub(crate) use lines::RemoteLines;
pub(crate) use write::{Records, no_sockets};

/// The arguments are those of the process before.
const SAME_ARGS: u8 = 1;
/// The variables are those of the process before.
const SAME_ENV: u8 = 2;
/// Standard input is bytes of the record.
const STDIN_BYTES: u8 = 4;
/// Standard input is a line that the service has read.
const STDIN_LINE: u8 = 8;

/// The arguments and variables of a process, and its standard input, each take less than this.
const LENGTH_MOST: usize = 1 << 31;
