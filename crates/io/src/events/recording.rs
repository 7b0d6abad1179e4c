//! Events of input devices, from a device or from a recording of one.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags};

use super::record::{Record, event};

/// Bytes of `struct input_event` on 64-bit Linux: seconds and microseconds with 64 bits each, type and code with 16, and a
/// value with 32.
const INPUT_EVENT: usize = 24;
/// Events that are read at once.
const CHUNK: usize = 64 * INPUT_EVENT;

/// Events of an input device of Linux (evdev), in the form in which the kernel gives them.
///
/// A recording is what `cat /dev/input/event0 > FILE` writes. Its events come with the pauses that they had; those of a
/// device, or of a pipe, come when it has them.
#[derive(Debug)]
pub struct Recording {
    file: File,
    live: bool,
    read: Vec<u8>,
    taken: usize,
    ended: bool,
    /// When the first event came, and its own time.
    begin: Option<(Instant, u64)>,
}

/// What the next event is.
pub(super) enum Next {
    Event(Record),
    /// None before this time.
    At(Instant),
    /// None until the file is readable.
    Later,
    End,
}

impl Recording {
    /// Opens a recording or a device.
    ///
    /// # Errors
    /// The file cannot be opened, or it is a file that does not consist of events.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let live = kind != FileType::RegularFile;
        let length = stat.st_size as usize;
        if !live && (length == 0 || !length.is_multiple_of(INPUT_EVENT)) {
            let message = format!(
                "{length} bytes are no recording, which has {INPUT_EVENT} for each event: record with `cat /dev/input/eventN`"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(Self {
            file: file.into(),
            live,
            read: Vec::new(),
            taken: 0,
            ended: false,
            begin: None,
        })
    }

    /// Whether its events come when they happen.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// The next event, if it has come.
    ///
    /// # Errors
    /// The file cannot be read, or it ends within an event, or an event has no time.
    pub(super) fn next(&mut self, now: Instant) -> io::Result<Next> {
        let Some(bytes) = self.peek()? else {
            return Ok(if self.ended { Next::End } else { Next::Later });
        };
        let record = read_event(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        if !self.live {
            let (begin, first) = *self.begin.get_or_insert((now, record.time));
            // A clock that was set back makes no pause.
            let pause = Duration::from_nanos(record.time.saturating_sub(first));
            match begin.checked_add(pause) {
                Some(at) if at > now => return Ok(Next::At(at)),
                Some(_) => {}
                None => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        self.taken += INPUT_EVENT;
        Ok(Next::Event(record))
    }

    /// The bytes of the next event, which stays.
    fn peek(&mut self) -> io::Result<Option<[u8; INPUT_EVENT]>> {
        while !self.ended && self.read.len() - self.taken < INPUT_EVENT {
            self.read.drain(..self.taken);
            self.taken = 0;
            let mut chunk = [0; CHUNK];
            match self.file.read(&mut chunk) {
                Ok(0) => self.ended = true,
                Ok(bytes) => self.read.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let left = &self.read[self.taken..];
        match left.first_chunk() {
            Some(bytes) => Ok(Some(*bytes)),
            None if left.is_empty() => Ok(None),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl AsFd for Recording {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// An event as the kernel gives it; `None` if its time is none.
fn read_event(bytes: &[u8; INPUT_EVENT]) -> Option<Record> {
    let (words, _) = bytes.as_chunks::<8>();
    let [seconds, micros, rest] = [0, 1, 2].map(|at| u64::from_le_bytes(words[at]));
    if micros >= 1_000_000 {
        return None;
    }
    let nanoseconds = seconds.checked_mul(1_000_000_000)?;
    Some(Record {
        kind: event::INPUT,
        flags: rest as u16,
        id: (rest >> 16) as u16 as u32,
        time: nanoseconds.checked_add(micros * 1000)?,
        a: i64::from((rest >> 32) as i32),
        b: 0,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn bytes_of(micros: u64, kind: u16, code: u16, value: i32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&(micros / 1_000_000).to_le_bytes());
        bytes.extend_from_slice(&(micros % 1_000_000).to_le_bytes());
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&code.to_le_bytes());
        bytes.extend_from_slice(&value.to_le_bytes());
        bytes
    }

    /// A file with these bytes, which has no name any more.
    fn recording(bytes: &[u8]) -> io::Result<Recording> {
        let path = std::env::temp_dir().join(format!(
            "everwarp-recording-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut file = File::create(&path).expect("a temporary file");
        file.write_all(bytes).expect("it is written");
        let opened = Recording::open(&path);
        std::fs::remove_file(&path).expect("it is there");
        opened
    }

    #[test]
    fn events_come_with_the_pauses_that_they_had() {
        let bytes = [
            bytes_of(5_000_000, 1, 30, 1),
            bytes_of(5_000_000, 0, 0, 0),
            bytes_of(5_250_000, 1, 30, -2),
            bytes_of(4_000_000, 4, 65535, 7),
        ];
        let mut recording = recording(&bytes.concat()).expect("it is one");
        let now = Instant::now();
        let mut next = |at| recording.next(at).expect("it is right");
        let Next::Event(first) = next(now) else {
            panic!("the first comes at once")
        };
        assert_eq!((first.flags, first.id, first.a), (1, 30, 1));
        assert_eq!(first.time, 5_000_000_000);
        assert!(matches!(next(now), Next::Event(_)));
        let due = now + Duration::from_millis(250);
        assert!(matches!(next(now), Next::At(at) if at == due));
        let Next::Event(later) = next(due) else {
            panic!("it is time")
        };
        assert_eq!(later.a, -2);
        // The clock was set back.
        let Next::Event(last) = next(due) else {
            panic!("there is no pause")
        };
        assert_eq!((last.flags, last.id, last.a), (4, 65535, 7));
        assert!(matches!(next(due), Next::End));
    }

    #[test]
    fn what_is_no_recording_says_how_to_make_one() {
        for bytes in [&b""[..], &[0; 25]] {
            let error = recording(bytes).expect_err("it is none").to_string();
            assert!(error.contains("cat /dev/input/eventN"), "{error}");
        }
        let wrong = bytes_of(0, 0, 0, 0);
        let wrong = [&wrong[..8], &1_000_000_u64.to_le_bytes(), &wrong[16..]].concat();
        let mut recording = recording(&wrong).expect("its length is right");
        let error = recording.next(Instant::now()).err().expect("no such time");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
