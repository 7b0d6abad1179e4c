//! A file whose lines are the standard input of many processes.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use everwarp::process::Bytes;
use everwarp::{Device, EngineKind};

use crate::error::CliError;

/// How many lines share a reference count. A line is cloned and dropped several times on its way to a process and after
/// the process has exited; with a single count for all threads that would cost more than everything else about a small
/// process.
const COUNTED: usize = 128;

/// A larger file is not read into page-locked memory, which the system cannot use for anything else.
const LOCKED_MOST: u64 = 8 << 30;

/// The bytes of a file.
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

/// Fills `bytes` from a file. Returns how many bytes were read, and the rest of the file.
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
    let mut rest = Vec::new();
    file.read_to_end(&mut rest)?;
    Ok((filled, rest))
}

/// The lines of a file, each with its line feed.
pub(super) struct StdinLines(Vec<Bytes>);

impl StdinLines {
    /// Reads the file for processes on a device. A GPU copies from page-locked memory without a detour.
    pub(super) fn read(path: &Path, device: &Device) -> Result<Self, CliError> {
        let gpu = Some(device).filter(|device| device.kind() == EngineKind::Cuda);
        Self::read_file(path, gpu).map_err(|source| CliError::Input {
            path: path.to_owned(),
            source,
        })
    }

    fn read_file(path: &Path, gpu: Option<&Device>) -> std::io::Result<Self> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        let gpu = gpu.filter(|_| (1..=LOCKED_MOST).contains(&len));
        // Without page-locked memory the copy is slower.
        let Some(mut locked) = gpu.and_then(|gpu| gpu.host_bytes(len as usize).ok()) else {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(Self::of_bytes(bytes));
        };
        let (filled, rest) = read_to(&mut locked, &mut file)?;
        if rest.is_empty() {
            return Ok(Self::of_first(Arc::new(locked), filled));
        }
        // The file has grown meanwhile.
        let mut bytes = locked[..filled].to_vec();
        bytes.extend_from_slice(&rest);
        Ok(Self::of_bytes(bytes))
    }

    fn of_bytes(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        Self::of_first(Arc::new(bytes), len)
    }

    /// The lines of the first `len` bytes.
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

    /// The bytes of all lines.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// How many processes they are for: as many as wanted, or one for each line.
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

    /// The line of the process with this number.
    pub(super) fn of(&self, number: u32) -> Bytes {
        self.0[number as usize].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_correctly_across_shared_counts() {
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
    fn a_file_that_is_longer_or_shorter_than_its_buffer_is_read_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lines");
        std::fs::write(&path, "one\ntwo\nthree").expect("the folder is writable");
        let device = Device::open(everwarp::Select::Cpu).expect("there is a CPU");
        for device in [None, Some(&device)] {
            let lines = StdinLines::read_file(&path, device).expect("it can be read");
            assert_eq!(lines.0, ["one\n", "two\n", "three"]);
        }
        for (room, expected) in [(3, (3, "\ntwo\nthree")), (13, (13, "")), (20, (13, ""))] {
            let mut bytes = vec![0; room];
            let mut file = File::open(&path).expect("it is there");
            let (filled, rest) = read_to(&mut bytes, &mut file).expect("it can be read");
            assert_eq!((filled, &rest[..]), (expected.0, expected.1.as_bytes()));
            assert_eq!(bytes[..filled], b"one\ntwo\nthree"[..filled]);
        }
    }
}
