//! The lines of a file, in this program's memory.

use std::any::Any;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::sync::Arc;

use everwarp_process::{Bytes, InputLines, LineSource};
use everwarp_runtime::{Device, EngineKind};

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
struct FileLines {
    lines: Vec<Bytes>,
    bytes: u64,
}

impl LineSource for FileLines {
    fn count(&self) -> u64 {
        self.lines.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn line(&self, number: u32) -> Option<Bytes> {
        self.lines.get(number as usize).cloned()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Reads the lines of a file for processes on a device: [`StartWriter::stdin_line`](super::StartWriter::stdin_line) gives
/// one to a process. A GPU copies them from page-locked memory without a detour.
///
/// # Errors
/// The file cannot be read.
pub fn read_lines(mut file: File, device: &Device) -> std::io::Result<InputLines> {
    let gpu = Some(device).filter(|device| device.kind() == EngineKind::Cuda);
    let len = file.metadata()?.len();
    let gpu = gpu.filter(|_| (1..=LOCKED_MOST).contains(&len));
    // Without page-locked memory the copy is slower.
    let Some(mut locked) = gpu.and_then(|gpu| gpu.host_bytes(len as usize).ok()) else {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        return Ok(InputLines::new(FileLines::of_bytes(bytes)));
    };
    let (filled, rest) = read_to(&mut locked, &mut file)?;
    if rest.is_empty() {
        return Ok(InputLines::new(FileLines::of_first(
            Arc::new(locked),
            filled,
        )));
    }
    // The file has grown meanwhile.
    let mut bytes = locked[..filled].to_vec();
    bytes.extend_from_slice(&rest);
    Ok(InputLines::new(FileLines::of_bytes(bytes)))
}

/// The same in ordinary memory.
#[cfg(target_os = "linux")]
pub(super) fn read_plain_lines(mut file: File) -> std::io::Result<InputLines> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(InputLines::new(FileLines::of_bytes(bytes)))
}

impl FileLines {
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
        let bytes = len as u64;
        Self { lines, bytes }
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
        let lines = FileLines::of_bytes(text.clone().into_bytes());
        let expected: Vec<_> = text.split_inclusive('\n').collect();
        assert_eq!(lines.lines, expected);
        assert_eq!(lines.bytes(), text.len() as u64);
        assert!(FileLines::of_bytes(Vec::new()).lines.is_empty());
    }

    #[test]
    fn a_file_that_is_longer_or_shorter_than_its_buffer_is_read_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lines");
        std::fs::write(&path, "one\ntwo\nthree").expect("the folder is writable");
        let device = Device::open(everwarp_runtime::Select::Cpu).expect("there is a CPU");
        let file = File::open(&path).expect("it is there");
        let lines = read_lines(file, &device).expect("it can be read");
        let line = |n| lines.source().line(n).expect("it is in memory");
        assert_eq!([line(0), line(1), line(2)], ["one\n", "two\n", "three"]);
        assert_eq!((lines.count(), lines.bytes()), (3, 13));
        for (room, expected) in [(3, (3, "\ntwo\nthree")), (13, (13, "")), (20, (13, ""))] {
            let mut bytes = vec![0; room];
            let mut file = File::open(&path).expect("it is there");
            let (filled, rest) = read_to(&mut bytes, &mut file).expect("it can be read");
            assert_eq!((filled, &rest[..]), (expected.0, expected.1.as_bytes()));
            assert_eq!(bytes[..filled], b"one\ntwo\nthree"[..filled]);
        }
    }
}
