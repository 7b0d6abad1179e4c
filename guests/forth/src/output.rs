//! What a program prints.

use alloc::vec::Vec;
use core::fmt::{self, Write};

use everwarp_guest_wasi::{Stream, exit, write_all};

/// It is written in pieces of about this size.
const PIECE: usize = 1024;

/// What has been printed and not written yet, and the texts that a program may print.
pub(crate) struct Output {
    waiting: Vec<u8>,
    texts: Vec<Vec<u8>>,
}

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.waiting.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl Output {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Vec::with_capacity(PIECE + 64),
            texts: Vec::new(),
        }
    }

    /// Takes a text; answers its number.
    pub(crate) fn text(&mut self, text: &[u8]) -> usize {
        self.texts.push(text.into());
        self.texts.len() - 1
    }

    /// Prints the text of this number.
    #[inline(never)]
    pub(crate) fn print(&mut self, text: usize) {
        self.waiting.extend_from_slice(&self.texts[text]);
        self.printed();
    }

    #[inline(never)]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.waiting.push(byte);
        self.printed();
    }

    #[inline(never)]
    pub(crate) fn number(&mut self, number: i32) {
        write!(self, "{number} ").expect("a vector takes every text");
        self.printed();
    }

    fn printed(&mut self) {
        if self.waiting.len() >= PIECE {
            self.flush();
        }
    }

    /// Writes what has been printed.
    pub(crate) fn flush(&mut self) {
        if write_all(Stream::Out, &self.waiting).is_err() {
            exit(1);
        }
        self.waiting.clear();
    }
}
