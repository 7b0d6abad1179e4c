//! Looking at a program while it runs.
//!
//! Every engine keeps counters, and each program with an engine has a socket on which other programs of the same user see
//! them: `everwarp top`, `ps` and `actors`. The variable `EVERWARP_CONTROL=off`, or
//! [`EngineBuilder::shown`](crate::EngineBuilder::shown), keeps it closed. Times are measured only where that was asked for
//! before an engine started: by [`measure`], by [`EngineBuilder::measure`](crate::EngineBuilder::measure), by
//! [`serve_metrics`] or by the variable `EVERWARP_TELEMETRY=on`.
//!
//! ```
//! use everwarp::{Device, Select, TaskCx, program, telemetry};
//!
//! program! {
//!     static SQUARES: squares() { SQUARE: lane(square) }
//! }
//!
//! fn square(task: &mut dyn TaskCx) {
//!     task.report_add(task.arg() * task.arg());
//! }
//!
//! # fn main() -> Result<(), everwarp::Error> {
//! telemetry::measure();
//! let engine = Device::open(Select::Cpu)?.engine().program(&SQUARES).start()?;
//! let squares = engine.plain_instance(&SQUARES)?;
//! let tasks: Vec<_> = (1..=1000).map(|n| squares.task(SQUARE).arg(n).build()).collect();
//! engine.submit_batch(&tasks)?.wait()?;
//!
//! let program = telemetry::view(0);
//! let square = &program.engines[0].functions[0];
//! assert_eq!((square.function.as_str(), square.calls), ("square", Some(1000)));
//! let run = square.run.as_ref().expect("some were measured");
//! assert!(run.p50 <= run.p99 && run.p99 <= run.most); // nanoseconds
//! # Ok(()) }
//! ```

use std::io::Write;
use std::net::SocketAddr;

pub use everwarp_telemetry::Distribution;
pub use everwarp_telemetry::metrics::{MetricsError, MetricsServer, text as openmetrics};
pub use everwarp_telemetry::registry::view;
#[cfg(feature = "tracing")]
pub use everwarp_telemetry::trace::TracingLayer;
pub use everwarp_telemetry::trace::{DEFAULT_LIMIT, TraceError, TraceSummary};
pub use everwarp_telemetry::view::{
    ActorRow, CallTimes, EngineView, FunctionView, Health, HealthState, HostView, KindView,
    ProcessRow, ProcessTotals, ProgramView, SystemView, WorkerView,
};

/// Makes engines that start from now on measure the times of tasks, messages and processes. The CPU engine does, and
/// engines on CUDA.
pub fn measure() {
    everwarp_telemetry::raise(everwarp_telemetry::Level::Measure);
}

/// Serves `/metrics` (OpenMetrics) and `/health` (JSON) until the server is dropped, and [`measure`]s.
///
/// # Errors
/// The address is in use, or is none of this machine.
pub fn serve_metrics(address: SocketAddr) -> Result<MetricsServer, MetricsError> {
    everwarp_telemetry::metrics::serve(address)
}

/// Traces the engines that start from now on: on the CPU each task, handler, process and host call, and on CUDA what each warp
/// ran, with handlers and the way of messages to them, or processes and their host calls. The last ones are kept, as many as a file of about `limit` bytes takes.
///
/// # Errors
/// The program is traced already, or the limit is below a mebibyte.
pub fn start_trace(limit: u64) -> Result<(), TraceError> {
    everwarp_telemetry::trace::start(limit).map(drop)
}

/// Writes what was traced so far as a Perfetto trace, which <https://ui.perfetto.dev> opens; `None` if the program is not
/// traced.
///
/// # Errors
/// The writer's.
pub fn write_trace(to: &mut dyn Write) -> std::io::Result<Option<TraceSummary>> {
    let tracer = everwarp_telemetry::trace::tracer();
    tracer.map(|tracer| tracer.write(to)).transpose()
}
