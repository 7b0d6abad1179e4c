//! The words of a program's text.

/// Goes through a text word by word, and knows the line.
pub(crate) struct Text<'p> {
    rest: &'p [u8],
    pub(crate) line: u32,
}

impl<'p> Text<'p> {
    pub(crate) fn new(text: &'p [u8]) -> Self {
        Self {
            rest: text,
            line: 1,
        }
    }

    /// Takes bytes for as long as they are as wanted.
    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> &'p [u8] {
        let end = self.rest.iter().position(|b| !wanted(*b));
        let (taken, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.line += taken.iter().filter(|b| **b == b'\n').count() as u32;
        self.rest = rest;
        taken
    }

    /// The next word.
    pub(crate) fn word(&mut self) -> Option<&'p [u8]> {
        self.take(|b| b.is_ascii_whitespace());
        let word = self.take(|b| !b.is_ascii_whitespace());
        (!word.is_empty()).then_some(word)
    }

    /// What stands before the next `end`, without the space behind the word before; `end` itself is skipped.
    /// `None` if there is no `end`, and then nothing is left.
    pub(crate) fn until(&mut self, end: u8) -> Option<&'p [u8]> {
        let inner = self.take(|b| b != end);
        let (_, rest) = self.rest.split_first()?;
        self.line += u32::from(end == b'\n');
        self.rest = rest;
        Some(inner.strip_prefix(b" ").unwrap_or(inner))
    }
}
