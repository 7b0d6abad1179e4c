//! A file that is the standard input of many processes, a line for each.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use everwarp::Device;
use everwarp_process::Bytes;

use crate::error::CliError;

/// Lines that are counted together. A line is counted and let go several times on its way to a process and after its
/// end; if all threads did so at one count, that would cost more than all else about a small process.
const COUNTED: usize = 128;

/// More of a file is not read to where a GPU copies it from, because the system cannot use that memory for anything else.
const LOCKED_MOST: u64 = 8 << 30;

/// The bytes of a file, wherever they are.
type Whole = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A part of a file.
struct Part {
    file: Whole,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &(*self.file).as_ref()[self.range.clone()]
    }
}

/// Reads a file of so many bytes to where a GPU copies it from; answers how many there were, and what was behind them.
fn read_to(bytes: &mut [u8], file: &mut File) -> std::io::Result<(usize, Vec<u8>)> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let mut behind = Vec::new();
    file.read_to_end(&mut behind)?;
    Ok((filled, behind))
}

/// The lines of a file, each with its line feed.
pub(super) struct StdinLines(Vec<Bytes>);

impl StdinLines {
    /// Reads the file, for processes on this GPU if they are to run on one.
    pub(super) fn read(path: &Path, gpu: Option<&Device>) -> Result<Self, CliError> {
        Self::read_file(path, gpu).map_err(|source| CliError::Input {
            path: path.to_owned(),
            source,
        })
    }

    fn read_file(path: &Path, gpu: Option<&Device>) -> std::io::Result<Self> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        let gpu = gpu.filter(|_| (1..=LOCKED_MOST).contains(&len));
        // Without such memory it is slower, and that is all.
        let Some(mut there) = gpu.and_then(|gpu| gpu.host_bytes(len as usize).ok()) else {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(Self::of_bytes(bytes));
        };
        let (filled, behind) = read_to(&mut there, &mut file)?;
        if behind.is_empty() {
            return Ok(Self::of_first(Arc::new(there), filled));
        }
        // It has grown meanwhile.
        let mut bytes = there[..filled].to_vec();
        bytes.extend_from_slice(&behind);
        Ok(Self::of_bytes(bytes))
    }

    fn of_bytes(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        Self::of_first(Arc::new(bytes), len)
    }

    /// The lines of the first so many bytes.
    fn of_first(file: Whole, len: usize) -> Self {
        let text = &(*file).as_ref()[..len];
        let lengths = text.split_inclusive(|&b| b == b'\n').map(<[u8]>::len);
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

    #[test]
    fn a_file_is_read_whole_to_where_a_device_wants_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lines");
        std::fs::write(&path, "one\ntwo\nthree").expect("the folder is writable");
        let device = Device::open(everwarp::Select::Cpu).expect("there is a CPU");
        for device in [None, Some(&device)] {
            let lines = StdinLines::read(&path, device).expect("it can be read");
            assert_eq!(lines.0, ["one\n", "two\n", "three"]);
        }
        for (room, expected) in [(3, (3, "\ntwo\nthree")), (13, (13, "")), (20, (13, ""))] {
            let mut bytes = vec![0; room];
            let mut file = File::open(&path).expect("it is there");
            let (filled, behind) = read_to(&mut bytes, &mut file).expect("it can be read");
            assert_eq!((filled, &behind[..]), (expected.0, expected.1.as_bytes()));
            assert_eq!(bytes[..filled], b"one\ntwo\nthree"[..filled]);
        }
    }
}
