//! `everwarp roofline`: what this machine can do at most, measured, and what that bounds.

mod measure;
mod report;

use std::path::PathBuf;

use crate::error::CliError;
use crate::output::{check_place, print, print_json, write_file};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Threads that measure together; by default one for each core.
    #[arg(long, value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
    /// Seconds for each measurement.
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = seconds)]
    seconds: f64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Write a plot to this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.001..=60.0).contains(seconds));
    seconds.ok_or_else(|| "use a number of seconds from 0.001 to 60".to_owned())
}

/// Measures the host's cores. GPUs are measured by `everwarp bench`, next to each experiment.
pub(crate) fn main(args: &Args) -> Result<(), CliError> {
    if let Some(path) = &args.svg {
        check_place(path)?;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, std::num::NonZeroUsize::get);
    let roofs = measure::measure(threads, args.seconds);
    if let Some(path) = &args.svg {
        write_file(path, |out| out.write_all(report::svg(&roofs).as_bytes()))?;
    }
    match args.json {
        true => print_json(&roofs),
        false => print(report::text(&roofs).trim_end()),
    }
}
