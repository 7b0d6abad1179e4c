//! Traces: what each thread did when, in rings of fixed size, written as a Perfetto trace at the end.
//!
//! A thread writes its own ring and takes no lock. A full ring loses its oldest events, and says how many. Slices are
//! recorded when they end, as one event, so what is left of a ring still nests.

#[cfg(feature = "tracing")]
mod layer;
mod names;
mod perfetto;
mod ring;

use std::cell::OnceCell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

#[cfg(feature = "tracing")]
pub use layer::TracingLayer;
pub use names::NameId;
use names::Names;
pub use perfetto::TraceSummary;
pub use ring::{Event, EventKind, Losses, Ring};

use crate::clock;
use crate::level::{Level, raise};
use crate::lock::lock;

/// Bytes that an event takes at most, in memory and in the file.
const EVENT_BYTES: u64 = 112;
/// The bytes of a trace unless the caller says otherwise.
pub const DEFAULT_LIMIT: u64 = 64 << 20;
/// The category of tasks, processes and other work of an engine.
pub const TASK: &str = "task";
/// The category of handlers of actors, whose names are those of their kinds.
pub const HANDLER: &str = "handler";
/// The fewest bytes that a trace may have.
pub const LEAST_LIMIT: u64 = 1 << 20;

/// The trace of this program.
#[derive(Debug)]
pub struct Tracer {
    rings: Mutex<Vec<Arc<Ring>>>,
    names: Mutex<Names>,
    /// Events of one ring.
    capacity: usize,
    /// Rings that may still be made.
    left: AtomicU64,
    /// Events of threads that got no ring.
    lost: AtomicU64,
}

static TRACER: OnceLock<Tracer> = OnceLock::new();

/// A trace was started already, or its limit is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// There is one trace for a program.
    #[error("this program is traced already: a program has one trace")]
    Already,
    /// There is no room for a trace.
    #[error("a trace needs at least {LEAST_LIMIT} bytes, and {limit} were given: raise the limit")]
    Limit {
        /// What was given.
        limit: u64,
    },
}

/// Starts to trace the engines that start from now on. The file will have up to about `limit` bytes.
///
/// # Errors
/// [`TraceError`].
pub fn start(limit: u64) -> Result<&'static Tracer, TraceError> {
    if limit < LEAST_LIMIT {
        return Err(TraceError::Limit { limit });
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    // Workers, threads of processes, and a few others.
    let rings = 2 * threads + 4;
    let mut first = false;
    let tracer = TRACER.get_or_init(|| {
        first = true;
        Tracer {
            rings: Mutex::default(),
            names: Mutex::default(),
            capacity: (limit / EVENT_BYTES / rings).max(64) as usize,
            left: AtomicU64::new(rings),
            lost: AtomicU64::new(0),
        }
    });
    if !first {
        return Err(TraceError::Already);
    }
    clock::now();
    raise(Level::Trace);
    Ok(tracer)
}

/// The trace of this program, if it is traced.
#[inline]
pub fn tracer() -> Option<&'static Tracer> {
    TRACER.get()
}

impl Tracer {
    /// The number of a name, for events.
    pub fn name(&self, category: &'static str, name: &str) -> NameId {
        lock(&self.names).id(category, name)
    }

    /// A ring for a thread; none if too many threads have one, and then its events are lost.
    pub fn ring(&self, thread: &str) -> Option<Arc<Ring>> {
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        taken.ok()?;
        let mut rings = lock(&self.rings);
        let ring = Arc::new(Ring::new(thread, rings.len() as u32 + 1, self.capacity));
        rings.push(Arc::clone(&ring));
        Some(ring)
    }

    /// How many events the workers of a device may have, of what the trace has room for: half of what is left. They go into the
    /// trace with [`add`](Self::add).
    pub fn device_events(&self) -> u64 {
        let take = |left: u64| Some(left - left / 2);
        let before = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let before = before.unwrap_or_else(|left| left);
        before / 2 * self.capacity as u64
    }

    /// Takes the room of one ring for events that go into the trace with [`add`](Self::add), and returns how many events that is; 0 if no
    /// ring is left.
    pub fn reserve(&self) -> usize {
        let take = |left: u64| left.checked_sub(1);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map_or(0, |_| self.capacity)
    }

    /// Adds the events of a worker that has ended: each slice comes before what lies within it, and a slice of handlers before the
    /// cells of its messages.
    pub fn add(&self, worker: &str, events: &[Event], losses: Losses) {
        let mut rings = lock(&self.rings);
        let number = rings.len() as u32 + 1;
        rings.push(Arc::new(Ring::of(worker, number, events, losses)));
    }

    /// Counts an event for which there is no ring.
    pub fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Records an event of the calling thread.
    pub fn record(&self, event: Event) {
        thread_local! {
            static OWN: OnceCell<Option<Arc<Ring>>> = const { OnceCell::new() };
        }
        OWN.with(|own| {
            let own = own.get_or_init(|| {
                let thread = std::thread::current();
                self.ring(thread.name().unwrap_or("unnamed"))
            });
            match own {
                Some(ring) => ring.push(event),
                None => self.lose(),
            }
        });
    }

    /// Writes what the rings have as a Perfetto trace.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, to: &mut dyn Write) -> io::Result<TraceSummary> {
        let rings = lock(&self.rings).clone();
        let names = lock(&self.names).clone();
        perfetto::write(&rings, &names, self.lost.load(Ordering::Relaxed), to)
    }
}

/// A span of the calling thread, recorded when it is dropped.
#[derive(Debug)]
#[must_use = "the span ends when it is dropped"]
pub struct Span(Option<(&'static Tracer, NameId, u64)>);

/// Begins a span of the calling thread, if the program is traced.
#[inline]
pub fn span(category: &'static str, name: &str) -> Span {
    Span(tracer().map(|tracer| (tracer, tracer.name(category, name), clock::now())))
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some((tracer, name, begin)) = self.0.take() {
            tracer.record(Event::slice(name, begin, clock::now(), 0, 0));
        }
    }
}
