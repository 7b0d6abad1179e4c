//! Numbered lines of a byte stream, and the columns of a line.
//!
//! Graph files are large and simple, so nothing is allocated per line and nothing is decoded as
//! UTF-8: a line is a slice of one fixed buffer, and a column is read in place.

use std::io::{ErrorKind, Read};

use crate::error::{GraphError, MAX_ID};

/// Size of the buffer, and so the longest line accepted, in bytes.
pub(crate) const LINE_LIMIT: usize = 256 * 1024;

/// The longest piece of the input that an error message repeats, in characters.
const CLIP: usize = 40;

/// Splits a stream into lines.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Box<[u8]>,
    /// The bytes of the buffer that are read but not yet handed out.
    start: usize,
    end: usize,
    /// Lines handed out so far.
    number: u64,
    ended: bool,
}

/// One line; reading a column moves on to the next.
pub(crate) struct Line<'a> {
    /// Counted from 1.
    pub(crate) number: u64,
    rest: &'a [u8],
    /// The column read last, for messages about it.
    last: &'a [u8],
}

impl<R: Read> Lines<R> {
    /// Starts to read and drops a UTF-8 byte order mark, which some editors put before the first line.
    pub(crate) fn new(reader: R) -> Result<Lines<R>, GraphError> {
        let buffer = vec![0; LINE_LIMIT].into_boxed_slice();
        let mut lines = Lines {
            reader,
            buffer,
            start: 0,
            end: 0,
            number: 0,
            ended: false,
        };
        if lines.begins_with(b"\xef\xbb\xbf")? {
            lines.start = 3;
        }
        Ok(lines)
    }

    /// How many lines have been handed out; the number of the current one.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the bytes to come start with `prefix`, in upper or lower case. Nothing is read beyond
    /// the first byte that differs, so that a failure further on is reported with its own line.
    pub(crate) fn begins_with(&mut self, prefix: &[u8]) -> Result<bool, GraphError> {
        loop {
            let ahead = &self.buffer[self.start..self.end];
            let length = ahead.len().min(prefix.len());
            if !ahead[..length].eq_ignore_ascii_case(&prefix[..length]) {
                return Ok(false);
            }
            if length == prefix.len() || self.ended {
                return Ok(length == prefix.len());
            }
            self.fill()?;
        }
    }

    /// The next line without its line feed, or `None` after the last.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<Option<Line<'_>>, GraphError> {
        let mut searched = 0;
        let (line, next) = loop {
            let from = self.start + searched;
            if let Some(at) = self.buffer[from..self.end]
                .iter()
                .position(|&byte| byte == b'\n')
            {
                break (self.start..from + at, from + at + 1);
            }
            if self.ended {
                if self.start == self.end {
                    return Ok(None);
                }
                break (self.start..self.end, self.end);
            }
            searched = self.end - self.start;
            self.fill()?;
        };
        self.start = next;
        self.number += 1;
        Ok(Some(Line {
            number: self.number,
            rest: &self.buffer[line],
            last: &[],
        }))
    }

    /// Moves the remaining bytes to the front of the buffer and reads more after them.
    #[cold]
    fn fill(&mut self) -> Result<(), GraphError> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            return Err(GraphError::LineTooLong {
                line: self.number + 1,
                limit: LINE_LIMIT,
            });
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(GraphError::Read {
                        line: self.number,
                        source,
                    });
                }
            }
            return Ok(());
        }
    }
}

impl<'a> Line<'a> {
    /// Whether nothing is left but blanks and, from one of the `comment` bytes on, a comment.
    #[inline]
    pub(crate) fn is_over(&mut self, comment: &[u8]) -> bool {
        while let [byte, rest @ ..] = self.rest
            && is_blank(*byte)
        {
            self.rest = rest;
        }
        self.rest.first().is_none_or(|byte| comment.contains(byte))
    }

    /// The next column as a whole number; `u64::MAX` for anything larger.
    #[inline]
    pub(crate) fn whole(&mut self) -> Result<u64, GraphError> {
        if self.is_over(b"") {
            return Err(GraphError::MissingColumn { line: self.number });
        }
        let mut value = 0u64;
        let mut digits = 0;
        while let Some(digit) = self.rest.get(digits).map(|byte| byte.wrapping_sub(b'0'))
            && digit < 10
        {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            digits += 1;
        }
        let ends = self.rest.get(digits).is_none_or(|&byte| is_blank(byte));
        // 19 digits always fit 64 bits.
        if digits == 0 || digits > 19 || !ends {
            return self.whole_slowly();
        }
        (self.last, self.rest) = self.rest.split_at(digits);
        Ok(value)
    }

    /// The columns that `whole` does not decide: malformed ones, and those with very many digits.
    #[cold]
    fn whole_slowly(&mut self) -> Result<u64, GraphError> {
        let column = self.column();
        let (line, found) = (self.number, self.found());
        let (negative, digits) = match column {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(GraphError::NotAnId { line, found });
        }
        if negative {
            return Err(GraphError::NegativeId { line, found });
        }
        let fold =
            |value: u64, &digit: &u8| value.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        Ok(digits.iter().try_fold(0, fold).unwrap_or(u64::MAX))
    }

    /// The next column as a vertex id.
    #[inline]
    pub(crate) fn id(&mut self) -> Result<u32, GraphError> {
        match self.whole()? {
            id if id <= u64::from(MAX_ID) => Ok(id as u32),
            _ => Err(GraphError::IdTooLarge {
                line: self.number,
                found: self.found(),
            }),
        }
    }

    /// Passes over the columns that are left, which must be numbers.
    #[inline]
    pub(crate) fn ignore_numbers(&mut self, comment: &[u8]) -> Result<(), GraphError> {
        while !self.is_over(comment) {
            let column = self.column();
            if !is_number(column) {
                return Err(GraphError::NotANumber {
                    line: self.number,
                    found: self.found(),
                });
            }
        }
        Ok(())
    }

    /// The column read last, as an error message shows it.
    #[cold]
    pub(crate) fn found(&self) -> String {
        clip(self.last)
    }

    /// The rest of the line, as words.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.rest
            .split(|&byte| is_blank(byte))
            .filter(|word| !word.is_empty())
    }

    /// Takes the bytes up to the next blank.
    fn column(&mut self) -> &'a [u8] {
        let length = self
            .rest
            .iter()
            .position(|&byte| is_blank(byte))
            .unwrap_or(self.rest.len());
        (self.last, self.rest) = self.rest.split_at(length);
        self.last
    }
}

/// A piece of the input made fit for a message: printable and short.
pub(crate) fn clip(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * CLIP)]);
    text.chars()
        .take(CLIP)
        .flat_map(char::escape_debug)
        .collect()
}

/// A carriage return counts as blank, so files with Windows line ends need no second rule.
#[inline]
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// Whether a column is an integer or a decimal number; the plain cases are decided without parsing.
fn is_number(column: &[u8]) -> bool {
    column.iter().all(u8::is_ascii_digit)
        || str::from_utf8(column).is_ok_and(|text| text.parse::<f64>().is_ok())
}
