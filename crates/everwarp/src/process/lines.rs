//! The lines of a file, in this program's memory.

use std::any::Any;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::{DerefMut, Range};
use std::sync::Arc;

use everwarp_process::{Bytes, InputLines, LineSource};
use everwarp_runtime::{Device, EngineKind};

use super::parallel;

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

/// Reads the bytes of a file from its position on into memory of this size, which the file had when it was looked at.
/// Returns how many bytes were read, and the rest of a file that has grown meanwhile.
fn read_to(bytes: &mut [u8], file: &mut File) -> std::io::Result<(usize, Vec<u8>)> {
    let filled = match file.metadata()?.is_file() {
        true => {
            let begin = file.stream_position()?;
            let filled = parallel::read(file, begin, bytes)?;
            file.seek(SeekFrom::Start(begin + filled as u64))?;
            filled
        }
        false => read_in_order(file, bytes)?,
    };
    let mut rest = Vec::new();
    file.read_to_end(&mut rest)?;
    Ok((filled, rest))
}

/// Fills `bytes` from a stream, up to its end. Returns how many bytes were read.
fn read_in_order(file: &mut File, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
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
pub fn read_lines(file: File, device: &Device) -> std::io::Result<InputLines> {
    let gpu = Some(device).filter(|device| device.kind() == EngineKind::Cuda);
    let len = file.metadata()?.len();
    let gpu = gpu.filter(|_| (1..=LOCKED_MOST).contains(&len));
    match gpu.and_then(|gpu| gpu.host_bytes(len as usize).ok()) {
        Some(locked) => read_lines_to(locked, file),
        // Without page-locked memory the copy is slower.
        None => read_plain_lines(file),
    }
}

/// The same in ordinary memory.
pub(super) fn read_plain_lines(file: File) -> std::io::Result<InputLines> {
    let len = usize::try_from(file.metadata()?.len()).map_err(|_| ErrorKind::FileTooLarge)?;
    read_lines_to(vec![0; len], file)
}

/// The same in memory as large as the file.
fn read_lines_to(
    mut memory: impl AsRef<[u8]> + DerefMut<Target = [u8]> + Send + Sync + 'static,
    mut file: File,
) -> std::io::Result<InputLines> {
    let (filled, rest) = read_to(&mut memory, &mut file)?;
    if rest.is_empty() {
        return Ok(InputLines::new(FileLines::of_first(
            Arc::new(memory),
            filled,
        )));
    }
    let mut bytes = memory[..filled].to_vec();
    bytes.extend_from_slice(&rest);
    Ok(InputLines::new(FileLines::of_bytes(bytes)))
}

impl FileLines {
    fn of_bytes(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        Self::of_first(Arc::new(bytes), len)
    }

    /// The lines of the first `len` bytes.
    fn of_first(file: Whole, len: usize) -> Self {
        let ends = parallel::line_ends(&(*file).as_ref()[..len]);
        let mut lines = Vec::with_capacity(ends.len());
        let mut begin = 0;
        for ends in ends.chunks(COUNTED) {
            let first = begin;
            let range = first..ends[ends.len() - 1];
            let file = Arc::clone(&file);
            let part = Bytes::from_owner(Part { file, range });
            for end in ends {
                lines.push(part.slice(begin - first..end - first));
                begin = *end;
            }
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
