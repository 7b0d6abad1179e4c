//! The thread that looks for results while nothing but wakers of futures waits for them. It ends when there are none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long the thread yields before it sleeps between looks.
const YIELDS: Duration = Duration::from_micros(300);
/// How long it sleeps between looks, at first and after a tenth of a second.
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(500)];
/// How long it stays without kernels to look at.
const LINGERS: Duration = Duration::from_millis(200);

/// What the thread looks at.
pub(crate) trait Watched: Send + Sync {
    /// Looks for results. Returns whether something has changed.
    fn look(&self) -> bool;
    /// Whether wakers wait.
    fn is_awaited(&self) -> bool;
}

#[derive(Default)]
struct Watch {
    kernels: Vec<Weak<dyn Watched>>,
    running: bool,
}

static WATCH: Mutex<Watch> = Mutex::new(Watch {
    kernels: Vec::new(),
    running: false,
});

fn lock() -> MutexGuard<'static, Watch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks for results of this kernel until no waker waits.
pub(crate) fn watch(kernel: &Arc<dyn Watched>) {
    let mut watch = lock();
    let this = Arc::downgrade(kernel);
    if !watch.kernels.iter().any(|other| other.ptr_eq(&this)) {
        watch.kernels.push(this);
    }
    if !watch.running {
        let thread = std::thread::Builder::new().name("everwarp-rings".into());
        watch.running = thread.spawn(run).is_ok();
    }
}

fn run() {
    let mut moved = Instant::now();
    loop {
        let kernels: Vec<_> = lock().kernels.iter().filter_map(Weak::upgrade).collect();
        let mut awaited = false;
        for kernel in &kernels {
            if kernel.look() {
                moved = Instant::now();
            }
            awaited |= kernel.is_awaited();
        }
        drop(kernels);
        let rests = moved.elapsed();
        if !awaited && rests > LINGERS {
            let mut watch = lock();
            // A kernel that came meanwhile is looked at.
            watch
                .kernels
                .retain(|kernel| kernel.upgrade().is_some_and(|kernel| kernel.is_awaited()));
            if watch.kernels.is_empty() {
                watch.running = false;
                return;
            }
        }
        match rests < YIELDS {
            true => std::thread::yield_now(),
            false => std::thread::sleep(NAPS[usize::from(rests.as_millis() >= 100)]),
        }
    }
}
