//! `poll_oneoff`: what a process waits for, and what has come of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::errno::{Errno, Result};
use crate::input::Readiness;
use crate::process::Process;
use crate::request::Request;
use crate::sink::lock;
use crate::table::{Descriptor, OpenFile};

/// Bytes of a `subscription`.
const SUBSCRIPTION: usize = 48;

/// `eventtype`.
const CLOCK: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;

/// `eventrwflags`: the other end has hung up, or there is no more.
const HANGUP: u16 = 1;

/// The subscriptions of one call.
pub(crate) struct Poll(Vec<Subscription>);

struct Subscription {
    userdata: u64,
    wish: Wish,
}

enum Wish {
    /// A time; none if it lies beyond what the host's clock will ever show.
    Clock(Option<Instant>),
    Read(Arc<Descriptor>),
    /// Something that always takes what is written.
    Write,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn clock(bytes: &[u8], request: &Request<'_>, now: Instant) -> Result<Wish> {
    // Realtime and monotonic as the process sees them, which are the arguments behind the count.
    let of_process = match u32_at(bytes, 16) {
        0 => request.args[1],
        1 => request.args[2],
        _ => return Err(Errno::INVAL),
    };
    let timeout = u64_at(bytes, 24);
    let timeout = match u16::from_le_bytes([bytes[40], bytes[41]]) {
        0 => timeout,
        1 => timeout.saturating_sub(of_process),
        _ => return Err(Errno::INVAL),
    };
    Ok(Wish::Clock(now.checked_add(Duration::from_nanos(timeout))))
}

impl Poll {
    /// What a request asks for. One descriptor that cannot be waited for fails the whole call, as on the CPU
    /// engine.
    pub(crate) fn new(process: &Process, request: &Request<'_>, now: Instant) -> Result<Self> {
        let (subscriptions, rest) = request.payload.as_chunks::<SUBSCRIPTION>();
        let count = request.word(0)? as usize;
        if count == 0 || count != subscriptions.len() || !rest.is_empty() {
            return Err(Errno::INVAL);
        }
        let mut poll = Vec::with_capacity(count);
        for bytes in subscriptions {
            let wish = match bytes[8] {
                CLOCK => clock(bytes, request, now)?,
                kind @ (READ | WRITE) => {
                    let descriptor = process.descriptor(u32_at(bytes, 16))?;
                    match (&*descriptor, kind) {
                        (Descriptor::Input | Descriptor::File(_), READ) => Wish::Read(descriptor),
                        (Descriptor::Output | Descriptor::Error | Descriptor::File(_), WRITE) => {
                            Wish::Write
                        }
                        _ => return Err(Errno::BADF),
                    }
                }
                _ => return Err(Errno::INVAL),
            };
            let userdata = u64_at(bytes, 0);
            poll.push(Subscription { userdata, wish });
        }
        Ok(Self(poll))
    }

    /// The earliest time that it waits for.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let clocks = self
            .0
            .iter()
            .filter_map(|subscription| match subscription.wish {
                Wish::Clock(at) => at,
                _ => None,
            });
        clocks.min()
    }

    /// Whether it waits for standard input.
    pub(crate) fn wants_input(&self) -> bool {
        let input =
            |wish: &Wish| matches!(wish, Wish::Read(of) if matches!(**of, Descriptor::Input));
        self.0.iter().any(|subscription| input(&subscription.wish))
    }

    /// Writes an event for each subscription that has come true, and says how many there are.
    pub(crate) fn finish(&self, process: &Process, now: Instant, data: &mut Vec<u8>) -> u64 {
        let mut events = 0;
        for Subscription { userdata, wish } in &self.0 {
            let event = match wish {
                Wish::Clock(at) => at
                    .is_some_and(|at| at <= now)
                    .then_some((CLOCK, Ok((0, 0)))),
                // How much a file takes is not known; that it takes something is.
                Wish::Write => Some((WRITE, Ok((1, 0)))),
                Wish::Read(descriptor) => match &**descriptor {
                    Descriptor::File(file) => Some((READ, left(file))),
                    _ => match process.stdin.readiness() {
                        Readiness::Bytes(bytes) => Some((READ, Ok((bytes as u64, 0)))),
                        Readiness::End => Some((READ, Ok((0, HANGUP)))),
                        Readiness::NotYet => None,
                    },
                },
            };
            let Some((kind, outcome)) = event else {
                continue;
            };
            let (errno, (bytes, flags)) = match outcome {
                Ok(outcome) => (0, outcome),
                Err(errno) => (errno.number(), (0, 0)),
            };
            data.extend_from_slice(&userdata.to_le_bytes());
            // A WASI error number has 16 bits; the type stands behind it.
            data.extend_from_slice(&(errno | u32::from(kind) << 16).to_le_bytes());
            data.extend_from_slice(&[0; 4]);
            data.extend_from_slice(&bytes.to_le_bytes());
            data.extend_from_slice(&u64::from(flags).to_le_bytes());
            events += 1;
        }
        events
    }
}

/// How much of a file lies behind the offset.
fn left(file: &OpenFile) -> Result<(u64, u16)> {
    let bytes = file
        .file
        .metadata()?
        .len()
        .saturating_sub(*lock(&file.offset));
    Ok((bytes, if bytes == 0 { HANGUP } else { 0 }))
}
