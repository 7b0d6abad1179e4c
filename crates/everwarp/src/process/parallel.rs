//! Large files read and looked through by several threads: one thread copies some 5 GB/s, much less than a disk or a bus.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use everwarp_process::sync::{self, lock};

/// The bytes that a thread works on at a time.
const PIECE: usize = 2 << 20;
/// The most threads. More of them would wait for memory.
const THREADS: usize = 8;

/// Calls `work` on several threads if there are several pieces, and returns what they return.
fn on_threads<T: Send>(pieces: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = pieces.min(cores).clamp(1, THREADS);
    sync::on_threads(threads, work)
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, at)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, at)
}

/// Fills `bytes` from a regular file, from byte `begin` of it on. Returns how many bytes the file had.
pub(super) fn read(file: &File, begin: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let len = bytes.len();
    let pieces = Mutex::new(bytes.chunks_mut(PIECE).enumerate());
    let next = || lock(&pieces).next();
    let ends = on_threads(len.div_ceil(PIECE), || {
        let mut shortest = len;
        while let Some((number, mut piece)) = next() {
            let mut at = number * PIECE;
            while !piece.is_empty() {
                match read_at(file, piece, begin + at as u64) {
                    // The file ends here. What other threads have read beyond is left out.
                    Ok(0) => {
                        shortest = shortest.min(at);
                        break;
                    }
                    Ok(count) => {
                        at += count;
                        piece = &mut piece[count..];
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(shortest)
    });
    ends.into_iter()
        .try_fold(len, |shortest, end| Ok(shortest.min(end?)))
}

/// Where each line of a text ends: behind its line feed, or at the end of the text.
pub(super) fn line_ends(text: &[u8]) -> Vec<usize> {
    let pieces: Vec<_> = text.chunks(PIECE).collect();
    let found: Vec<OnceLock<Vec<usize>>> = pieces.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    on_threads(pieces.len(), || {
        loop {
            // The number orders nothing else.
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = pieces.get(number) else {
                return;
            };
            let behind = number * PIECE + 1;
            let ends = memchr::memchr_iter(b'\n', piece).map(|at| behind + at);
            let first = found[number].set(ends.collect());
            debug_assert!(first.is_ok(), "each number is taken once");
        }
    });
    let mut ends = found
        .into_iter()
        .flat_map(|ends| ends.into_inner().unwrap_or_default())
        .collect::<Vec<_>>();
    if ends.last().copied().unwrap_or(0) < text.len() {
        ends.push(text.len());
    }
    ends
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_end_at_line_feeds_and_at_the_end_of_the_text() {
        assert_eq!(line_ends(b""), [0; 0]);
        assert_eq!(line_ends(b"\n"), [1]);
        assert_eq!(line_ends(b"a\n\nbc"), [2, 3, 5]);
        let mut text = vec![b'x'; 3 * PIECE + 5];
        for at in [0, PIECE - 1, PIECE, 2 * PIECE + 7, 3 * PIECE + 4] {
            text[at] = b'\n';
        }
        let expected = text.split_inclusive(|byte| *byte == b'\n');
        let mut end = 0;
        let expected: Vec<_> = expected
            .map(|line| {
                end += line.len();
                end
            })
            .collect();
        assert_eq!(line_ends(&text), expected);
    }

    #[test]
    fn a_file_is_read_from_the_given_byte_to_its_end() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        let text: Vec<u8> = (0..2 * PIECE + 9).map(|n| (n * 7 % 251) as u8).collect();
        file.write_all(&text).expect("it is writable");
        for (begin, room) in [
            (0, text.len()),
            (3, text.len() - 3),
            (3, text.len()),
            (PIECE, 10),
            (0, 3 * PIECE),
            (text.len(), 1),
        ] {
            let mut bytes = vec![0; room];
            let count = read(&file, begin as u64, &mut bytes).expect("it can be read");
            assert_eq!(count, room.min(text.len() - begin));
            assert!(
                bytes[..count] == text[begin..begin + count],
                "{begin} {room}"
            );
        }
    }
}
