//! Counting, in pieces of any size.

use core::fmt;

/// What has been counted so far.
#[derive(Default)]
pub(crate) struct Counts {
    lines: u64,
    words: u64,
    bytes: u64,
    in_word: bool,
}

impl Counts {
    /// Goes on with the next piece of the same file.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        for byte in piece {
            self.lines += u64::from(*byte == b'\n');
            let in_word = !byte.is_ascii_whitespace();
            self.words += u64::from(in_word && !self.in_word);
            self.in_word = in_word;
        }
    }

    /// Adds what another file has.
    pub(crate) fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.words += other.words;
        self.bytes += other.bytes;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.lines, self.words, self.bytes)
    }
}
