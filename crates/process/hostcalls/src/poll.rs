//! `poll_oneoff`: the events that a process waits for, and those that have occurred.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp_contract::hostcall::Fd;
use everwarp_engine::sync::lock;
use everwarp_io::{Interest, Socket};
use everwarp_process::sockets::{HANGUP, event_flags};

use crate::errno::{Errno, Result};
use crate::input::Readiness;
use crate::open::{Descriptor, OpenFile};
use crate::process::Process;

/// Bytes of a `subscription`.
const SUBSCRIPTION: usize = 48;

/// `eventtype`.
const CLOCK: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;

/// The process's clocks when it called, in nanoseconds: absolute timeouts are measured from them.
#[derive(Clone, Copy)]
pub(crate) struct Clocks {
    pub(crate) realtime: u64,
    pub(crate) monotonic: u64,
}

/// The subscriptions of one call.
pub(crate) struct Poll(Vec<Subscription>);

struct Subscription {
    userdata: u64,
    event: Awaited,
}

/// An event that a process waits for.
enum Awaited {
    /// A time; `None` if it is later than the host's clock can show.
    Clock(Option<Instant>),
    Read(Arc<Descriptor>),
    /// Room to write, which there always is.
    Write,
    /// A connection, bytes of a peer, or room to send.
    Socket(Arc<Descriptor>, Interest),
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

fn clock(bytes: &[u8], clocks: Clocks, now: Instant) -> Result<Awaited> {
    let of_process = match u32_at(bytes, 16) {
        0 => clocks.realtime,
        1 => clocks.monotonic,
        _ => return Err(Errno::INVAL),
    };
    let timeout = u64_at(bytes, 24);
    let timeout = match u16::from_le_bytes([bytes[40], bytes[41]]) {
        0 => timeout,
        1 => timeout.saturating_sub(of_process),
        _ => return Err(Errno::INVAL),
    };
    Ok(Awaited::Clock(
        now.checked_add(Duration::from_nanos(timeout)),
    ))
}

impl Poll {
    /// Reads `count` subscriptions. One descriptor that cannot be waited for fails the whole call, as on the CPU
    /// engine.
    pub(crate) fn new(
        process: &Process,
        count: u32,
        payload: &[u8],
        clocks: Clocks,
        now: Instant,
    ) -> Result<Self> {
        let (subscriptions, rest) = payload.as_chunks::<SUBSCRIPTION>();
        let count = count as usize;
        if count == 0 || count != subscriptions.len() || !rest.is_empty() {
            return Err(Errno::INVAL);
        }
        let mut poll = Vec::with_capacity(count);
        for bytes in subscriptions {
            let event = match bytes[8] {
                CLOCK => clock(bytes, clocks, now)?,
                kind @ (READ | WRITE) => {
                    let descriptor = process.descriptor(Fd(u32_at(bytes, 16)))?;
                    match (&*descriptor, kind) {
                        (Descriptor::Input | Descriptor::File(_), READ) => {
                            Awaited::Read(descriptor)
                        }
                        (Descriptor::Output | Descriptor::Error | Descriptor::File(_), WRITE) => {
                            Awaited::Write
                        }
                        (
                            Descriptor::Listener(_)
                            | Descriptor::Connection(_)
                            | Descriptor::Endpoint(_),
                            READ,
                        ) => Awaited::Socket(descriptor, Interest::READ),
                        (Descriptor::Connection(_) | Descriptor::Endpoint(_), WRITE) => {
                            Awaited::Socket(descriptor, Interest::WRITE)
                        }
                        _ => return Err(Errno::BADF),
                    }
                }
                _ => return Err(Errno::INVAL),
            };
            let userdata = u64_at(bytes, 0);
            poll.push(Subscription { userdata, event });
        }
        Ok(Self(poll))
    }

    /// The earliest time that it waits for.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let clocks = self
            .0
            .iter()
            .filter_map(|subscription| match subscription.event {
                Awaited::Clock(at) => at,
                _ => None,
            });
        clocks.min()
    }

    /// Whether it waits for standard input.
    pub(crate) fn wants_input(&self) -> bool {
        let input = |event: &Awaited| matches!(event, Awaited::Read(of) if matches!(**of, Descriptor::Input));
        self.0.iter().any(|subscription| input(&subscription.event))
    }

    /// The sockets that it waits for.
    pub(crate) fn sockets(&self) -> Vec<(Arc<Socket>, Interest)> {
        let sockets = self.0.iter().filter_map(|one| match &one.event {
            Awaited::Socket(descriptor, interest) => {
                Some((Arc::clone(descriptor.socket()?), *interest))
            }
            _ => None,
        });
        sockets.collect()
    }

    /// Appends an event for each subscription whose event has occurred, and returns how many there are.
    pub(crate) fn finish(&self, process: &Process, now: Instant, data: &mut Vec<u8>) -> u64 {
        let mut events = 0;
        for Subscription { userdata, event } in &self.0 {
            let occurred = match event {
                Awaited::Clock(at) => at
                    .is_some_and(|at| at <= now)
                    .then_some((CLOCK, Ok((0, 0)))),
                // How many bytes a file takes is not known, but it takes some.
                Awaited::Write => Some((WRITE, Ok((1, 0)))),
                Awaited::Socket(descriptor, interest) => ready(descriptor, *interest),
                Awaited::Read(descriptor) => match &**descriptor {
                    Descriptor::File(file) => Some((READ, left(file))),
                    _ => match process.stdin.readiness() {
                        Readiness::Bytes(bytes) => Some((READ, Ok((bytes as u64, 0)))),
                        Readiness::End => Some((READ, Ok((0, HANGUP)))),
                        Readiness::NotYet => None,
                    },
                },
            };
            let Some((kind, outcome)) = occurred else {
                continue;
            };
            let (errno, (bytes, flags)) = match outcome {
                Ok(outcome) => (0, outcome),
                Err(errno) => (errno.number(), (0, 0)),
            };
            data.extend_from_slice(&userdata.to_le_bytes());
            // A WASI error number has 16 bits, and the type follows it.
            data.extend_from_slice(&(errno | u32::from(kind) << 16).to_le_bytes());
            data.extend_from_slice(&[0; 4]);
            data.extend_from_slice(&bytes.to_le_bytes());
            data.extend_from_slice(&u64::from(flags).to_le_bytes());
            events += 1;
        }
        events
    }
}

/// The event of a socket, if it has occurred.
fn ready(descriptor: &Descriptor, interest: Interest) -> Option<(u8, Result<(u64, u16)>)> {
    let kind = if interest.read { READ } else { WRITE };
    let socket = descriptor.socket()?;
    let readiness = match socket.readiness() {
        Ok(readiness) => readiness,
        Err(error) => return Some((kind, Err(error.into()))),
    };
    if !readiness.meets(interest) {
        return None;
    }
    // How many connections wait is not known, nor how many bytes can be sent.
    let bytes = match descriptor {
        Descriptor::Connection(_) if interest.read => socket.available(),
        // It may also listen, or hold an empty datagram.
        Descriptor::Endpoint(_) if interest.read && !readiness.hung_up => socket.available().max(1),
        Descriptor::Endpoint(_) if interest.read => socket.available(),
        _ => 1,
    };
    let flags = event_flags(socket, readiness.hung_up);
    Some((kind, Ok((bytes, flags))))
}

/// The bytes of a file after the offset.
fn left(file: &OpenFile) -> Result<(u64, u16)> {
    let bytes = file
        .file
        .metadata()?
        .len()
        .saturating_sub(*lock(&file.offset));
    Ok((bytes, if bytes == 0 { HANGUP } else { 0 }))
}
