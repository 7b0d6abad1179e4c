//! Ring kernels: 100 messages of 10 us of work each, one after the other. It is the classical example of a kernel that is
//! launched once.

use std::time::{Duration, Instant};

use everwarp::Device;
use everwarp::ring::{PROGRAM, Ring, RingError, RingKernel};

use super::experiment::Context;
use super::stats::Row;
use super::work::{Work, repeat};
use crate::error::CliError;

/// Messages of one repetition.
const MESSAGES: u64 = 100;
/// The work of a message.
const EACH: Duration = Duration::from_micros(10);

/// A kernel that computes for 10 us, and numbers its messages.
fn kernel() -> Result<RingKernel<u64, u64>, RingError> {
    let mut handled = 0;
    let busy = move |input: &[u64], output: &mut [u64]| {
        let begin = Instant::now();
        while begin.elapsed() < EACH {
            std::hint::spin_loop();
        }
        output.copy_from_slice(&[input[0], handled]);
        handled += 1;
        Ok(())
    };
    RingKernel::new("busy", &[1], &[2], busy)?.capacity(MESSAGES as usize)
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
        let engine = self.device.engine().program(&PROGRAM).start()?;
        let ring = kernel()?.launch(&engine)?;
        ring.activate()?;
        (0..MESSAGES).try_for_each(|n| ring.send(&[n]))?;
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
            self.ring.send(&[self.next])?;
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
    let engine = cx.device.engine().program(&PROGRAM).start()?;
    let ring = kernel()?.launch(&engine)?;
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
