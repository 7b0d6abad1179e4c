//! Telemetry: what engines count and measure, and the ways on which it comes out.
//!
//! * [`Level`] says how much is measured. Engines keep their counters always; histograms and traces cost something, and
//!   are made only when they are asked for before an engine starts.
//! * [`EngineRecorder`] is what the workers of an engine write to, and [`Histogram`] is what they write times to.
//! * [`hosted`] is what a host of processes on a GPU writes to, and [`processes`] what those of the CPU engine write to.
//! * [`registry`] knows the engines, hosts and actor systems of this program. [`view`] has what they show.
//! * [`control`] is the socket on which other programs of the same user see that: `everwarp ps`, `top` and `actors`.
//! * [`metrics`] is the same over HTTP, as OpenMetrics.
//! * [`trace`] is the trace of single tasks, handlers, processes and host calls, as a file for the Perfetto UI.
//!
//! This crate is internal to everwarp and promises no stability.

pub mod clock;
#[cfg(unix)]
pub mod control;
pub mod histogram;
pub mod hosted;
mod level;
mod lock;
pub mod metrics;
pub mod processes;
pub mod recorder;
pub mod registry;
mod show;
pub mod trace;
pub mod view;

pub use histogram::{Distribution, Histogram};
pub use level::{Level, VARIABLE, level, raise, warn_unmeasured};
pub use recorder::{EngineRecorder, WorkerHand, WorkerRecorder};
pub use show::{Registration, register};
