//! A file that is the standard input of many processes, a line for each.

use std::path::Path;

use everwarp_process::Bytes;

use crate::error::CliError;

/// The lines of a file, each with its line feed.
pub(super) struct StdinLines(Vec<Bytes>);

impl StdinLines {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let bytes = std::fs::read(path).map_err(|source| CliError::Input {
            path: path.to_owned(),
            source,
        })?;
        let bytes = Bytes::from(bytes);
        let lines = bytes.split_inclusive(|&b| b == b'\n');
        Ok(Self(lines.map(|line| bytes.slice_ref(line)).collect()))
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
