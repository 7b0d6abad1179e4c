//! The task of ring kernels. All kernels are one program, whose task finds its kernel by a number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use everwarp_runtime::{TaskCx, program};

use crate::shared::Shared;

program! {
    /// The program of all ring kernels. An engine that is started with it needs no pause when a kernel is launched.
    pub static PROGRAM: ring() {
        /// Argument: the number of a kernel, whose messages it handles.
        TURN: block(turn).spawns(1),
    }
}

/// How long a kernel handles messages before other tasks of the engine have a turn. A worker of the CPU engine looks for new
/// tasks of the host once in some sixty turns.
pub(crate) const SLICE: Duration = Duration::from_micros(50);

static NEXT: AtomicU64 = AtomicU64::new(0);
static KERNELS: Mutex<Option<HashMap<u64, Weak<Shared>>>> = Mutex::new(None);

fn kernels() -> MutexGuard<'static, Option<HashMap<u64, Weak<Shared>>>> {
    KERNELS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of a kernel, which holds until it is dropped.
#[derive(Debug)]
pub(crate) struct Number(pub(crate) u64);

impl Number {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut kernels = kernels();
        let map = kernels.get_or_insert_default();
        map.insert(number, Arc::downgrade(shared));
        Self(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if let Some(map) = &mut *kernels() {
            map.remove(&self.0);
        }
    }
}

fn turn(task: &mut dyn TaskCx) {
    let number = task.arg();
    let kernel = kernels()
        .as_ref()
        .and_then(|map| map.get(&number)?.upgrade());
    // A kernel that was dropped has no messages.
    let Some(kernel) = kernel else {
        return;
    };
    let begin = Instant::now();
    let more = kernel.handle(|| begin.elapsed() >= SLICE);
    if more {
        task.spawn(TURN, 0, number);
    }
}
