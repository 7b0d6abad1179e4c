//! What `ring.cuh` does, for handlers of the host: tests run the host's half of the protocol with it on the CPU engine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

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

pub(super) fn kick(task: &mut dyn TaskCx) {
    let counted = word(ring(task).own.address());
    if counted.fetch_add(task.arg(), Ordering::AcqRel) == 0 {
        task.spawn(TURN, 0, 0);
    }
}

pub(super) fn turn(task: &mut dyn TaskCx, handler: &mut dyn Handler, bytes: (usize, usize)) {
    let ring = ring(task);
    let [stop, started, done] = [0, 64, 72].map(|at| word(ring.host.address() + at));
    let [counted, next] = [0, 8].map(|at| word(ring.own.address() + at));
    let begin = Instant::now();
    loop {
        let number = next.load(Ordering::Relaxed);
        let at = number % ring.capacity * size_of::<DevRingMessage>() as u64;
        let [input, output, code] =
            [0, 8, 16].map(|field| word(ring.messages.address() + at + field));
        if stop.load(Ordering::Relaxed) != 0 {
            return;
        }
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
        let handled = catch_unwind(AssertUnwindSafe(|| handler.handle(&mut message)));
        let failed = !matches!(handled, Ok(Ok(())));
        code.store(failed.into(), Ordering::Relaxed);
        next.store(number + 1, Ordering::Relaxed);
        done.store(number + 1, Ordering::Release);
        if counted.fetch_sub(1, Ordering::AcqRel) == 1 {
            return;
        }
        if begin.elapsed() >= SLICE {
            return task.spawn(TURN, 0, 0);
        }
    }
}
