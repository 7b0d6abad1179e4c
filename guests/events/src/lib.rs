//! Events that arrive by themselves, for a process that was started with `--events`: timers, the terminal's keys, mouse and
//! size, signals, and input devices.
//!
//! All of them come through one descriptor, which can be waited for together with sockets and a time limit.
//! `guests/EVENTS.md` says what each of them means.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use everwarp_guest_events::{Event, Events, sources};
//!
//! let mut events = Events::open()?;
//! events.set_timer(1, Duration::from_secs(1), Some(Duration::from_secs(1)))?;
//! events.watch(sources::KEYS, &[])?;
//! loop {
//!     match events.next()?.event {
//!         Event::Timer { count, .. } => println!("{count} seconds have passed"),
//!         Event::Key { key, .. } if key == 'q'.into() => break,
//!         _ => {}
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(target_os = "wasi")]
mod poll;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::time::{Duration, SystemTime};

/// Sources that [`Events::watch`] takes, as bits.
pub mod sources {
    /// Keys of the terminal.
    pub const KEYS: u32 = 1;
    /// The terminal's mouse.
    pub const MOUSE: u32 = 2;
    /// The terminal's size: now, and when it changes.
    pub const RESIZE: u32 = 4;
    /// The input device or the recording of `--events=FILE`.
    pub const INPUT: u32 = 8;
}

/// Numbers of keys without a character.
pub mod keys {
    /// A key that the host does not know.
    pub const UNKNOWN: u32 = 0x11_0000;
    /// An arrow.
    pub const UP: u32 = UNKNOWN + 1;
    /// An arrow.
    pub const DOWN: u32 = UNKNOWN + 2;
    /// An arrow.
    pub const RIGHT: u32 = UNKNOWN + 3;
    /// An arrow.
    pub const LEFT: u32 = UNKNOWN + 4;
    /// The beginning of a line.
    pub const HOME: u32 = UNKNOWN + 5;
    /// The end of a line.
    pub const END: u32 = UNKNOWN + 6;
    /// A page up.
    pub const PAGE_UP: u32 = UNKNOWN + 7;
    /// A page down.
    pub const PAGE_DOWN: u32 = UNKNOWN + 8;
    /// Insert.
    pub const INSERT: u32 = UNKNOWN + 9;
    /// Delete.
    pub const DELETE: u32 = UNKNOWN + 10;
    /// F1; the other function keys follow.
    pub const F1: u32 = UNKNOWN + 33;
}

/// Bits of the flags of keys and of the mouse.
pub mod flags {
    /// The Shift key, for keys without a character, and for the mouse.
    pub const SHIFT: u16 = 1;
    /// The Alt key.
    pub const ALT: u16 = 2;
    /// The Control key.
    pub const CONTROL: u16 = 4;
    /// A button of the mouse was pressed, or its wheel turned.
    pub const PRESS: u16 = 0x100;
    /// A button was released.
    pub const RELEASE: u16 = 0x200;
    /// The mouse was moved while a button was held.
    pub const MOVE: u16 = 0x400;
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A timer has expired.
    Timer {
        /// Its number.
        id: u32,
        /// How often, since the last event of this timer.
        count: u64,
    },
    /// A key was pressed.
    Key {
        /// Its character's code point, or one of [`keys`]. Enter is 13, Tab 9, Backspace 8 and Escape 27.
        key: u32,
        /// [`flags`].
        modifiers: u16,
    },
    /// The mouse has done something.
    Mouse {
        /// 0 to 2 for the left, the middle and the right one, 3 for none; 4 to 7 for the wheel up, down, left and right.
        button: u32,
        /// [`flags`].
        flags: u16,
        /// Where, from 0.
        column: u32,
        /// Where, from 0.
        row: u32,
    },
    /// The terminal's size.
    Resize {
        /// Its columns.
        columns: u32,
        /// Its rows.
        rows: u32,
    },
    /// A signal has come.
    Signal {
        /// Its number on Linux.
        number: u32,
        /// How often, since the last event of this signal.
        count: u64,
    },
    /// An event of an input device, as Linux numbers them.
    Input {
        /// `EV_KEY`, `EV_REL` and so on.
        kind: u16,
        /// `KEY_A`, `REL_X` and so on.
        code: u16,
        /// What it is now, or by how much it has changed.
        value: i32,
    },
    /// Sources have ended.
    End {
        /// Which, as bits of [`sources`].
        sources: u32,
        /// The error number of WASI, or 0 for their regular end.
        errno: u32,
    },
    /// The answer to [`Events::watch`].
    Watching {
        /// The sources that are watched from now on.
        sources: u32,
        /// The signals, a bit for each number.
        signals: u64,
    },
    /// The answer to [`Events::cancel_timer`]: no event of this timer follows.
    Cancelled {
        /// Its number.
        id: u32,
        /// Whether it was set.
        was_set: bool,
    },
    /// A request was refused.
    Refused {
        /// The kind of the request: 1 for a timer.
        request: u16,
        /// The timer's number.
        id: u32,
        /// The error number of WASI.
        errno: u32,
    },
    /// An event that this crate does not know.
    Other(u16),
}

/// An event, and when it happened.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// The time of the host, or of the recording.
    pub time: SystemTime,
    /// What has happened.
    pub event: Event,
}

/// What [`Events::wait`] has waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// An event can be read.
    pub events: bool,
    /// Each of the other descriptors can be read.
    pub others: Vec<bool>,
    /// The time is over.
    pub time_over: bool,
}

/// Bytes of an event, and of a request.
const RECORD: usize = 32;
const SET_TIMER: u16 = 1;
const CANCEL_TIMER: u16 = 2;
const WATCH: u16 = 3;

/// The events of a process.
#[derive(Debug)]
pub struct Events {
    stream: File,
    read: Vec<u8>,
}

impl Events {
    /// Takes the descriptor that the variable `EVERWARP_EVENTS` names. It is closed when the events are dropped, so a program
    /// does this once.
    ///
    /// # Errors
    /// The command was started without `--events`.
    pub fn open() -> io::Result<Self> {
        let number = std::env::var("EVERWARP_EVENTS").ok();
        let number = number.and_then(|number| number.parse::<RawFd>().ok());
        let number = number.ok_or_else(|| {
            let message = "there are no events: start the program with --events";
            io::Error::new(io::ErrorKind::NotFound, message)
        })?;
        Ok(Self {
            // SAFETY: the host has given the process this descriptor, and the caller takes it once.
            stream: unsafe { File::from_raw_fd(number) },
            read: Vec::new(),
        })
    }

    fn ask(&self, kind: u16, id: u32, a: i64, b: i64) -> io::Result<()> {
        let mut bytes = [0; RECORD];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&id.to_le_bytes());
        bytes[16..24].copy_from_slice(&a.to_le_bytes());
        bytes[24..].copy_from_slice(&b.to_le_bytes());
        (&self.stream).write_all(&bytes)
    }

    /// Sets a timer, in the place of one with the same number: it expires after this time, and then after each period of at
    /// least 100 microseconds.
    ///
    /// # Errors
    /// The time is longer than 292 years, or the stream has ended. A period that is too short, or more than 65,536 timers,
    /// are refused by an event.
    pub fn set_timer(&self, id: u32, after: Duration, period: Option<Duration>) -> io::Result<()> {
        let nanoseconds = |time: Duration| {
            i64::try_from(time.as_nanos()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        };
        let period = period.map(|period| nanoseconds(period).map(|period| period.max(1)));
        self.ask(
            SET_TIMER,
            id,
            nanoseconds(after)?,
            period.transpose()?.unwrap_or(0),
        )
    }

    /// Takes a timer away. [`Event::Cancelled`] says when no event of it can follow.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn cancel_timer(&self, id: u32) -> io::Result<()> {
        self.ask(CANCEL_TIMER, id, 0, 0)
    }

    /// Watches [`sources`] and signals, and nothing else from now on. [`Event::Watching`] says which of them there are.
    ///
    /// # Errors
    /// The stream has ended, or a signal's number is not below 64.
    pub fn watch(&self, sources: u32, signals: &[u32]) -> io::Result<()> {
        let mut bits = 0_u64;
        for &signal in signals {
            bits |= 1_u64
                .checked_shl(signal)
                .ok_or(io::ErrorKind::InvalidInput)?;
        }
        self.ask(WATCH, 0, sources.into(), bits as i64)
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// The stream has ended.
    #[expect(
        clippy::should_implement_trait,
        reason = "it waits, and its errors are not an end"
    )]
    pub fn next(&mut self) -> io::Result<Arrived> {
        while self.read.len() < RECORD {
            let mut more = [0; 64 * RECORD];
            match self.stream.read(&mut more)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => self.read.extend_from_slice(&more[..bytes]),
            }
        }
        let mut record = [0; RECORD];
        record.copy_from_slice(&self.read[..RECORD]);
        self.read.drain(..RECORD);
        Ok(arrived(&record))
    }

    /// Waits until an event can be read, or one of the other descriptors, or the time is over.
    ///
    /// # Errors
    /// A descriptor cannot be waited for.
    pub fn wait(&self, others: &[RawFd], limit: Option<Duration>) -> io::Result<Ready> {
        if self.read.len() >= RECORD {
            return Ok(Ready {
                events: true,
                others: vec![false; others.len()],
                time_over: false,
            });
        }
        #[cfg(target_os = "wasi")]
        return poll::wait(self.stream.as_raw_fd(), others, limit);
        #[cfg(not(target_os = "wasi"))]
        {
            let _ = (others, limit);
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

fn arrived(record: &[u8; RECORD]) -> Arrived {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&record[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let (head, a, b) = (word(0), word(16), word(24));
    let (kind, flags, id) = (head as u16, (head >> 16) as u16, (head >> 32) as u32);
    let event = match kind {
        1 => Event::Timer { id, count: a },
        2 => Event::Key {
            key: id,
            modifiers: flags,
        },
        3 => Event::Mouse {
            button: id,
            flags,
            column: a as u32,
            row: b as u32,
        },
        4 => Event::Resize {
            columns: a as u32,
            rows: b as u32,
        },
        5 => Event::Signal {
            number: id,
            count: a,
        },
        6 => Event::Input {
            kind: flags,
            code: id as u16,
            value: a as i32,
        },
        7 => Event::End {
            sources: id,
            errno: a as u32,
        },
        8 => Event::Watching {
            sources: a as u32,
            signals: b,
        },
        9 => Event::Cancelled {
            id,
            was_set: a != 0,
        },
        10 => Event::Refused {
            request: flags,
            id,
            errno: a as u32,
        },
        other => Event::Other(other),
    };
    Arrived {
        time: SystemTime::UNIX_EPOCH + Duration::from_nanos(word(8)),
        event,
    }
}
