//! A file that is the standard input of many processes, a line for each.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use everwarp_process::Bytes;

use crate::error::CliError;

/// Lines that are counted together. A line is counted and let go several times on its way to a process and after its
/// end; if all threads did so at one count, that would cost more than all else about a small process.
const COUNTED: usize = 128;

/// A part of a file.
struct Part {
    file: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }
}

/// The lines of a file, each with its line feed.
pub(super) struct StdinLines(Vec<Bytes>);

impl StdinLines {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let bytes = std::fs::read(path).map_err(|source| CliError::Input {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::of_bytes(bytes))
    }

    fn of_bytes(bytes: Vec<u8>) -> Self {
        let file = Arc::new(bytes);
        let lengths = file.split_inclusive(|&b| b == b'\n').map(<[u8]>::len);
        let lengths: Vec<usize> = lengths.collect();
        let mut lines = Vec::with_capacity(lengths.len());
        let mut begin = 0;
        for lengths in lengths.chunks(COUNTED) {
            let bytes = lengths.iter().sum::<usize>();
            let part = Bytes::from_owner(Part {
                file: Arc::clone(&file),
                range: begin..begin + bytes,
            });
            let mut at = 0;
            for length in lengths {
                lines.push(part.slice(at..at + length));
                at += length;
            }
            begin += bytes;
        }
        Self(lines)
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// How many processes they are for, of so many that are wanted.
    pub(super) fn instances(&self, path: &Path, wanted: Option<u32>) -> Result<u32, CliError> {
        let lines = self.0.len() as u64;
        match wanted {
            None => u32::try_from(lines).ok().filter(|&n| n > 0),
            Some(wanted) => Some(wanted).filter(|&n| u64::from(n) <= lines),
        }
        .ok_or_else(|| CliError::FewLines {
            path: path.to_owned(),
            lines,
            wanted: wanted.unwrap_or(1),
        })
    }

    /// The line of a process.
    pub(super) fn of(&self, number: u32) -> Bytes {
        self.0[number as usize].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_file_across_parts() {
        let mut text = String::new();
        for number in 0..3 * COUNTED + 5 {
            text += &"x".repeat(number % 7);
            text.push('\n');
        }
        text += "the last has no end";
        let lines = StdinLines::of_bytes(text.clone().into_bytes());
        let expected: Vec<_> = text.split_inclusive('\n').collect();
        assert_eq!(lines.0, expected);
        assert_eq!(lines.bytes(), text.len());
        assert!(StdinLines::of_bytes(Vec::new()).0.is_empty());
    }
}
