//! Standard output and standard error.

use alloc::vec::Vec;
use core::fmt;

use crate::errno::Errno;
use crate::raw::{self, Vector};

/// One of the two streams that a process writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out = 1,
    /// Standard error.
    Err = 2,
}

/// Writes all of the bytes.
///
/// # Errors
///
/// What the host says, such as that the reader has gone; some of the bytes may have been written.
pub fn write_all(stream: Stream, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let vector = Vector {
            at: bytes.as_ptr(),
            length: bytes.len(),
        };
        let mut done = 0;
        // SAFETY: the vector names readable bytes, and `done` is valid for a write.
        Errno::check(unsafe { raw::fd_write(stream as u32, &vector, 1, &mut done) })?;
        bytes = &bytes[done..];
    }
    Ok(())
}

struct Text(Vec<u8>);

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Formats and writes with a single host call, which is what costs time.
#[doc(hidden)]
pub fn print(stream: Stream, text: fmt::Arguments<'_>) {
    let written = match text.as_str() {
        Some(text) => write_all(stream, text.as_bytes()),
        None => {
            let mut buffer = Text(Vec::with_capacity(128));
            fmt::Write::write_fmt(&mut buffer, text).expect("a vector takes every text");
            write_all(stream, &buffer.0)
        }
    };
    expect(stream, written);
}

/// Writes a line of these parts to standard output: what [`println!`](crate::println) does with text, without the
/// machinery of formatting.
pub fn line(parts: &[&str]) {
    let mut buffer = Vec::with_capacity(parts.iter().map(|part| part.len()).sum::<usize>() + 1);
    for part in parts {
        buffer.extend_from_slice(part.as_bytes());
    }
    buffer.push(b'\n');
    expect(Stream::Out, write_all(Stream::Out, &buffer));
}

/// Ends the process if standard output cannot be written to. A failure of standard error itself cannot be
/// reported.
fn expect(stream: Stream, written: Result<(), Errno>) {
    if written.is_err() && stream == Stream::Out {
        let _ = write_all(Stream::Err, b"cannot write to standard output\n");
        crate::exit(1);
    }
}

/// Writes to standard output.
#[macro_export]
macro_rules! print {
    ($($part:tt)*) => { $crate::__print($crate::Stream::Out, format_args!($($part)*)) };
}

/// Writes a line to standard output.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($format:literal $($part:tt)*) => { $crate::print!("{}\n", format_args!($format $($part)*)) };
}

/// Writes a line to standard error.
#[macro_export]
macro_rules! eprintln {
    ($format:literal $($part:tt)*) => {
        $crate::__print($crate::Stream::Err, format_args!("{}\n", format_args!($format $($part)*)))
    };
}
