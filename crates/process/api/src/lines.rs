//! Output in whole lines.

use std::mem::take;

/// A longer line is passed on in several parts.
pub const LINE_LIMIT: usize = 64 << 10;

/// Collects the bytes of one stream and returns whole lines.
#[derive(Debug, Default)]
pub struct Lines(Vec<u8>);

impl Lines {
    /// Adds bytes, and returns the lines that are complete now, without the last line feed.
    pub fn add(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            self.0.extend_from_slice(bytes);
            return (self.0.len() >= LINE_LIMIT).then(|| take(&mut self.0));
        };
        let mut whole = take(&mut self.0);
        whole.extend_from_slice(&bytes[..end]);
        self.0.extend_from_slice(&bytes[end + 1..]);
        Some(whole)
    }

    /// Returns the incomplete last line, if there is one.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        (!self.0.is_empty()).then(|| take(&mut self.0))
    }
}

/// Returns lines in one piece, each with the tag before it and a line feed after it.
pub fn tagged(tag: &str, lines: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(lines.len() + tag.len() + 1);
    tag_into(&mut text, tag, lines);
    text
}

/// Appends lines to a text, each with the tag before it and a line feed after it.
pub fn tag_into(text: &mut Vec<u8>, tag: &str, lines: &[u8]) {
    if tag.is_empty() {
        text.extend_from_slice(lines);
        text.push(b'\n');
        return;
    }
    for line in lines.split(|byte| *byte == b'\n') {
        text.extend_from_slice(tag.as_bytes());
        text.extend_from_slice(line);
        text.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_whole_lines() {
        let mut lines = Lines::default();
        assert_eq!(lines.add(b"one"), None);
        assert_eq!(
            lines.add(b" and\n\ntwo\nth"),
            Some(b"one and\n\ntwo".to_vec())
        );
        assert_eq!(lines.rest(), Some(b"th".to_vec()));
        assert_eq!(lines.rest(), None);
        assert_eq!(lines.add(b"\n"), Some(Vec::new()));
        assert_eq!(tagged("[7] ", b"a\n\nb"), b"[7] a\n[7] \n[7] b\n");
    }

    #[test]
    fn a_line_that_reaches_the_limit_is_passed_on() {
        let mut lines = Lines::default();
        assert_eq!(lines.add(&[b'x'; LINE_LIMIT - 1]), None);
        assert_eq!(lines.add(b"x").map(|l| l.len()), Some(LINE_LIMIT));
        assert_eq!(lines.rest(), None);
    }
}
