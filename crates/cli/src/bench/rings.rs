//! Ring kernels: 100 messages of 10 us of work each, one after the other, which is the classical example of a kernel that is
//! launched once; and large messages through several kernels.

use std::time::Duration;

use everwarp::ring::{PROGRAM, Ring, RingError, RingKernel};
use everwarp::{Buffer, Device, Engine, EngineKind, Error, HostBytes, ProgramRef};
use everwarp_programs::ring_kernels::{busy, scale};

use super::experiment::Context;
use super::stats::{Role, Row};
use super::work::{Work, repeat};
use crate::error::CliError;

/// Messages of one repetition.
const MESSAGES: u64 = 100;
/// The work of a message.
const EACH: Duration = Duration::from_micros(10);

/// A kernel that computes for 10 us, and numbers its messages.
fn kernel() -> Result<RingKernel<u64, u64>, RingError> {
    busy()?.capacity(MESSAGES as usize)
}

/// An engine that holds the program of a kernel.
fn start(device: &Device, program: Option<ProgramRef>) -> Result<Engine, Error> {
    match (device.kind(), program) {
        (EngineKind::Cuda, Some(program)) => device.engine().program(program).start(),
        _ => device.engine().program(&PROGRAM).start(),
    }
}

/// A message that takes its time.
fn message(number: u64) -> [u64; 2] {
    [number, EACH.as_nanos() as u64]
}

/// Receives a result; true if it is that of the message, and the message was handled in its turn.
fn received(ring: &Ring<u64, u64>, message: u64) -> Result<bool, RingError> {
    let result = ring.receive()?;
    Ok(*result == [message, message] && result.number() == message)
}

/// The start of the engine, 100 messages ahead, and their results.
struct Stream<'d> {
    device: &'d Device,
    right: bool,
}

impl Work for Stream<'_> {
    fn run(&mut self) -> Result<(), CliError> {
        let kernel = kernel()?;
        let engine = start(self.device, kernel.cuda_program())?;
        let ring = kernel.launch(&engine)?;
        ring.activate()?;
        (0..MESSAGES).try_for_each(|n| ring.send(&message(n)))?;
        self.right = true;
        for n in 0..MESSAGES {
            self.right &= received(&ring, n)?;
        }
        Ok(())
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        Ok(self.right)
    }
}

/// Each message is sent after the result of the one before.
struct Relay {
    ring: Ring<u64, u64>,
    next: u64,
    right: bool,
}

impl Work for Relay {
    fn run(&mut self) -> Result<(), CliError> {
        self.right = true;
        for _ in 0..MESSAGES {
            self.ring.send(&message(self.next))?;
            self.right &= received(&self.ring, self.next)?;
            self.next += 1;
        }
        Ok(())
    }
    fn is_right(&mut self, rounds: u64) -> Result<bool, CliError> {
        Ok(self.right && self.next == rounds * MESSAGES)
    }
}

pub(super) fn stream(cx: &Context<'_>) -> Result<(), CliError> {
    let mut work = Stream {
        device: cx.device,
        right: true,
    };
    let (times, right) = repeat(&mut work)?;
    let what = "100 messages of 10 us each to a ring kernel, sent ahead; with the engine's start";
    cx.emit(Row::new(what, "message", MESSAGES as f64, times).verified(right))
}

pub(super) fn relay(cx: &Context<'_>) -> Result<(), CliError> {
    let kernel = kernel()?;
    let engine = start(cx.device, kernel.cuda_program())?;
    let ring = kernel.launch(&engine)?;
    ring.activate()?;
    let mut work = Relay {
        ring,
        next: 0,
        right: true,
    };
    let (times, right) = repeat(&mut work)?;
    let what = "100 messages of 10 us each to a ring kernel, each sent after the last result";
    cx.emit(Row::new(what, "message", MESSAGES as f64, times).verified(right))
}

/// Kernels that large messages go through.
const KERNELS: usize = 8;
/// Elements of a large message: 1 MiB.
const LARGE: usize = 256 << 10;
/// Messages that each kernel has at a time, and in a repetition.
const AHEAD: usize = 4;
const ROUNDS: usize = 32;

/// Large messages through several kernels, whose blocks read them and write the results.
struct Copies {
    rings: Vec<Ring<f32, f32>>,
    right: bool,
}

impl Copies {
    fn new(engine: &Engine) -> Result<Self, RingError> {
        let message: Vec<f32> = (0..LARGE).map(|i| (i % 4096) as f32).collect();
        let mut rings = Vec::new();
        for _ in 0..KERNELS {
            let ring = scale(LARGE)?.capacity(AHEAD)?.launch(engine)?;
            // All slots have the message from here on.
            (0..AHEAD).try_for_each(|_| ring.send(&message))?;
            ring.activate()?;
            for _ in 0..AHEAD {
                drop(ring.receive()?);
            }
            rings.push(ring);
        }
        Ok(Self { rings, right: true })
    }
    fn send(ring: &Ring<f32, f32>) -> Result<(), RingError> {
        ring.raw().reserve(None)?.send()
    }
}

impl Work for Copies {
    fn run(&mut self) -> Result<(), CliError> {
        for _ in 0..AHEAD {
            self.rings.iter().try_for_each(Self::send)?;
        }
        for round in 0..ROUNDS {
            for ring in &self.rings {
                let result = ring.receive()?;
                // A look at each result; all elements are looked at outside of the time.
                self.right &= result[round * 8000] == 2.0 * (round * 8000 % 4096) as f32 + 1.0;
                drop(result);
                if round + AHEAD < ROUNDS {
                    Self::send(ring)?;
                }
            }
        }
        Ok(())
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        for ring in &self.rings {
            Self::send(ring)?;
            let result = ring.receive()?;
            let mut all = result.iter().enumerate();
            self.right &= all.all(|(i, value)| *value == 2.0 * (i % 4096) as f32 + 1.0);
        }
        Ok(self.right)
    }
}

/// The same bytes by the engine's copies, from page-locked memory and to it, by a thread for each direction.
struct Plain {
    device: [Buffer<u8>; 2],
    host: [HostBytes; 2],
}

impl Work for Plain {
    fn run(&mut self) -> Result<(), CliError> {
        let ([one, two], [from, to]) = (&self.device, &mut self.host);
        let times = BYTES / from.len();
        std::thread::scope(|scope| {
            let writes = scope.spawn(|| (0..times).try_for_each(|_| one.write(from)));
            let read = (0..times).try_for_each(|_| two.read_at(0, to));
            writes.join().expect("it does not panic").and(read)
        })?;
        Ok(())
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        Ok(self.host[1].iter().all(|byte| *byte == 0))
    }
}

/// Bytes of messages in a repetition.
const BYTES: usize = KERNELS * ROUNDS * LARGE * 4;

pub(super) fn copy(cx: &Context<'_>) -> Result<(), CliError> {
    let engine = start(cx.device, scale(LARGE)?.cuda_program())?;
    let (times, right) = repeat(&mut Copies::new(&engine)?)?;
    let what = format!(
        "messages of 1 MiB through {KERNELS} ring kernels, {AHEAD} at a time each, and results as large; the unit is a byte \
         of messages"
    );
    let row = Row::new(&what, "byte", BYTES as f64, times).against(&["copies"]);
    cx.emit(row.verified(right))
}

pub(super) fn copies(cx: &Context<'_>) -> Result<(), CliError> {
    const PIECE: usize = 64 << 20;
    let engine = start(cx.device, scale(LARGE)?.cuda_program())?;
    let mut plain = Plain {
        device: [engine.buffer(PIECE)?, engine.buffer(PIECE)?],
        host: [cx.device.host_bytes(PIECE)?, cx.device.host_bytes(PIECE)?],
    };
    let (times, right) = repeat(&mut plain)?;
    let what = "as many bytes in both directions at once, by the engine's copies of 64 MiB between its memory and the host's";
    let row = Row::new(what, "byte", BYTES as f64, times).role(Role::Rival);
    cx.emit(row.verified(right))
}
