//! What `ring.cuh` does, for handlers of the host: tests run the host's half of the protocol with it on the CPU engine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everwarp_runtime::TaskCx;

use super::layout::{DevRing, DevRingMessage};
use super::program::TURN;
use crate::handler::{Handler, RawMessage};
use crate::turn::SLICE;

fn ring(task: &dyn TaskCx) -> DevRing {
    // SAFETY: the instance was made with these parameters.
    *unsafe { task.params::<DevRing>() }
}

/// The atomic at an address of a kernel's memory.
fn word<'a>(address: u64) -> &'a AtomicU64 {
    // SAFETY: the kernel's memory lives as long as its tasks, its words are aligned, and all accesses to them are atomic.
    unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) }
}

/// How long a turn looks for the next message.
const LINGER: Duration = Duration::from_micros(20);

/// What a turn does next.
enum Next {
    Message,
    End,
    Again,
}

pub(super) fn kick(task: &mut dyn TaskCx) {
    let counted = word(ring(task).own.address());
    let before = counted.fetch_add(task.arg(), Ordering::AcqRel);
    if before as i64 <= 0 && before.wrapping_add(task.arg()) as i64 > 0 {
        task.spawn(TURN, 0, 0);
    }
}

/// Waits for the message with this number; `handled` are not taken off the count yet.
fn wait(ring: &DevRing, number: u64, handled: &mut u64, begin: Instant) -> Next {
    let [stop, sent] = [0, 8].map(|at| word(ring.host.address() + at));
    let counted = word(ring.own.address());
    let mut idle = Instant::now();
    loop {
        let stops = stop.load(Ordering::Relaxed) != 0;
        let waits = sent.load(Ordering::Acquire) != number;
        if !stops && waits {
            return match begin.elapsed() < SLICE {
                true => Next::Message,
                false => Next::Again,
            };
        }
        if !stops && idle.elapsed() < LINGER {
            std::hint::spin_loop();
            continue;
        }
        let before = counted.fetch_sub(*handled, Ordering::AcqRel);
        if stops || before.wrapping_sub(*handled) as i64 <= 0 {
            return Next::End;
        }
        *handled = 0;
        idle = Instant::now();
    }
}

pub(super) fn turn(task: &mut dyn TaskCx, handler: &mut dyn Handler, bytes: (usize, usize)) {
    let ring = ring(task);
    let [started, done] = [64, 72].map(|at| word(ring.host.address() + at));
    let next = word(ring.own.address() + 8);
    let begin = Instant::now();
    let mut handled = task.arg();
    loop {
        let number = next.load(Ordering::Relaxed);
        match wait(&ring, number, &mut handled, begin) {
            Next::Message => {}
            Next::End => return,
            Next::Again => return task.spawn(TURN, 0, handled),
        }
        let at = number % ring.capacity * size_of::<DevRingMessage>() as u64;
        let [input, output, code] =
            [0, 8, 16].map(|field| word(ring.messages.address() + at + field));
        started.store(number + 1, Ordering::Relaxed);
        let place = |address: &AtomicU64| address.load(Ordering::Relaxed) as usize;
        // SAFETY: the message has both ranges alone until it was handled, and they are that long.
        let mut message = unsafe {
            RawMessage {
                input: std::slice::from_raw_parts(
                    std::ptr::with_exposed_provenance(place(input)),
                    bytes.0,
                ),
                output: std::slice::from_raw_parts_mut(
                    std::ptr::with_exposed_provenance_mut(place(output)),
                    bytes.1,
                ),
                number,
            }
        };
        let result = catch_unwind(AssertUnwindSafe(|| handler.handle(&mut message)));
        code.store(u64::from(!matches!(result, Ok(Ok(())))), Ordering::Relaxed);
        next.store(number + 1, Ordering::Relaxed);
        done.store(number + 1, Ordering::Release);
        handled += 1;
    }
}
