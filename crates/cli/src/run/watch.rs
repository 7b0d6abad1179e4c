//! What `everwarp run` shows while it runs, and the trace that it leaves.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use everwarp::telemetry::{self, MetricsServer};

use crate::error::CliError;
use crate::output::{check_place, write_file};
use crate::process::size;

const WATCHING: &str = "Watching it run";

/// How the run is watched.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct WatchOptions {
    /// Measure how long tasks, messages and processes wait and run, for `everwarp top`, on CUDA or on the CPU engine.
    #[arg(long, help_heading = WATCHING)]
    measure: bool,
    /// Serve metrics at this address: ADDRESS:PORT/metrics (OpenMetrics) and ADDRESS:PORT/health (JSON).
    #[arg(long, value_name = "ADDR", help_heading = WATCHING)]
    metrics: Option<SocketAddr>,
    /// Write a trace of tasks, handlers, processes and host calls to this file, which the Perfetto UI opens. On CUDA it
    /// has what each warp ran of a native program with the handlers of its actors, and the processes and host calls of a module.
    #[arg(long, value_name = "FILE", help_heading = WATCHING)]
    trace: Option<PathBuf>,
    /// How large the trace may be: bytes, or a number followed by K, M or G (64M by default). The last events are kept.
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "trace", help_heading = WATCHING)]
    trace_limit: Option<u64>,
}

/// A run that is watched.
#[derive(Debug)]
pub(super) struct Watch {
    _server: Option<MetricsServer>,
    trace: Option<PathBuf>,
}

impl WatchOptions {
    /// Whether anything is watched that only an engine of this command can show.
    pub(super) fn any(&self) -> bool {
        self.measure || self.metrics.is_some() || self.trace.is_some()
    }

    /// The option that asks for what the wgpu engine does not have.
    pub(super) fn times(&self) -> Option<&'static str> {
        let trace = self.trace.as_ref().map(|_| "--trace");
        let measure = self.measure.then_some("--measure");
        measure.or(trace)
    }

    /// Begins to watch, before any engine starts.
    pub(super) fn start(&self) -> Result<Watch, CliError> {
        if let Some(path) = &self.trace {
            check_place(path)?;
            let limit = self.trace_limit.unwrap_or(telemetry::DEFAULT_LIMIT);
            telemetry::start_trace(limit).map_err(CliError::Trace)?;
        }
        if self.measure {
            telemetry::measure();
        }
        let serve = |address| telemetry::serve_metrics(address).map_err(CliError::Metrics);
        let server = self.metrics.map(serve).transpose()?;
        if let Some(server) = &server {
            eprintln!("everwarp: metrics at http://{}/metrics", server.address());
        }
        Ok(Watch {
            _server: server,
            trace: self.trace.clone(),
        })
    }
}

impl Watch {
    /// Writes the trace of a run, which has succeeded or not.
    pub(super) fn finish<T>(self, ran: Result<T, CliError>) -> Result<T, CliError> {
        match (self.write(), ran) {
            (Err(trace), Err(error)) => {
                eprintln!("everwarp: warning: {trace}");
                Err(error)
            }
            (Err(trace), Ok(_)) => Err(trace),
            (Ok(()), ran) => ran,
        }
    }

    fn write(&self) -> Result<(), CliError> {
        let Some(path) = &self.trace else {
            return Ok(());
        };
        let begin = Instant::now();
        let mut written = None;
        write_file(path, |to| {
            written = telemetry::write_trace(to)?;
            Ok(())
        })
        .map_err(|error| CliError::TraceFile(Box::new(error)))?;
        let Some(summary) = written else {
            return Ok(());
        };
        let (events, flows, lost) = (summary.events, summary.flows, summary.lost);
        let rate = summary.bytes as f64 / 1e6 / begin.elapsed().as_secs_f64().max(1e-9);
        let lost = match lost {
            0 => "none lost".to_owned(),
            lost => format!("{lost} older ones lost: raise --trace-limit to keep more"),
        };
        eprintln!(
            "everwarp: trace: {events} events, {flows} flows, {lost}; {} bytes at {rate:.0} MB/s in {}",
            summary.bytes,
            path.display()
        );
        Ok(())
    }
}
