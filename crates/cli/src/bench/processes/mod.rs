//! P: the cost of processes: host calls, file reads, starts and exits.

mod family;
mod pause;
mod run;

use std::time::Instant;

use everwarp::cuda::raw::Raw;
use everwarp::process::Reads;

use self::run::{Bench, ProcessInput};
use super::experiment::{Context, Experiment, On, Part};
use super::stats::{Row, median};
use crate::error::CliError;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "P",
    title: "what processes cost",
    about: "WebAssembly processes that do next to nothing. On a GPU a call of the host crosses the bus both ways; the \
            raw limit next to it is what a flag in pinned memory takes for that, directly and by way of a second \
            multiprocessor. On the CPU engine the same modules run under wasmtime. Where one process calls, each \
            repetition is timed by the process itself; where many do, by the host, from their beginning to the end \
            of the last.",
    parts: &[
        Part::many("calls", On::Both, calls),
        Part::many("reads", On::Both, reads),
        Part::many("life", On::Both, life),
        Part::many("begin", On::Both, begin),
        Part::many("messages", On::Both, family::messages),
        Part::many("children", On::Both, family::children),
        Part::many("pause", On::Cuda, pause::pause),
    ],
};

const CALLS: &[u8] = include_bytes!("calls.wasm");
const READS: &[u8] = include_bytes!("reads.wasm");
const NOTHING: &[u8] = include_bytes!("nothing.wasm");
const BEGIN: &[u8] = include_bytes!("begin.wasm");
/// The calls in a round of `calls`, and the reads in a round of `reads`.
const CALLS_ROUND: usize = 100;
const READS_ROUND: usize = 10;
/// The repetitions with many processes.
const REPEATS: usize = 7;

/// The 8-byte numbers that a process wrote.
fn numbers_in(written: &[u8]) -> Vec<u64> {
    let (words, _) = written.as_chunks::<8>();
    words.iter().map(|w| u64::from_le_bytes(*w)).collect()
}

/// Measures one process by its own clock. Each of `count` rounds is a repetition; the rounds before them are not counted.
fn alone(
    bench: &Bench,
    input: ProcessInput<'_>,
    count: usize,
) -> Result<(Vec<f64>, bool), CliError> {
    let argument = (count + count / 10).to_string();
    let input = ProcessInput {
        argument: Some(&argument),
        ..input
    };
    let written = bench.run(input, 1)?;
    let nanoseconds = numbers_in(&written[0]);
    let mut times: Vec<f64> = nanoseconds.iter().map(|&n| n as f64 * 1e-9).collect();
    let right = times.len() == count + count / 10;
    times.drain(..times.len() - count.min(times.len()));
    Ok((times, right))
}

/// Measures many processes by the host's clock, from the start of the first to the exit of the last. Each must write
/// `bytes` bytes.
fn repeated(
    bench: &Bench,
    input: ProcessInput<'_>,
    processes: usize,
    bytes: usize,
) -> Result<(Vec<f64>, bool), CliError> {
    let (mut times, mut right) = (Vec::new(), true);
    for repetition in 0..=REPEATS {
        let begin = Instant::now();
        let written = bench.run(input, processes)?;
        // The first repetition warms everything up.
        if repetition > 0 {
            times.push(begin.elapsed().as_secs_f64());
        }
        right &= written.len() == processes && written.iter().all(|w| w.len() == bytes);
    }
    Ok((times, right))
}

/// The same for processes that get a number of rounds and write a number for each.
fn together(
    bench: &Bench,
    input: ProcessInput<'_>,
    processes: usize,
    each: usize,
) -> Result<(Vec<f64>, bool), CliError> {
    let argument = each.to_string();
    let input = ProcessInput {
        argument: Some(&argument),
        ..input
    };
    repeated(bench, input, processes, each * 8)
}

fn calls(cx: &Context<'_>) -> Result<(), CliError> {
    let limits = match cx.device.cuda() {
        None => None,
        Some(gpu) => {
            let raw = Raw::new(gpu)?;
            Some((
                raw.round_trips(20_000, false)?,
                raw.round_trips(20_000, true)?,
            ))
        }
    };
    let folder = tempfile::tempdir().map_err(CliError::Folder)?;
    let input = ProcessInput {
        directory: Some(folder.path()),
        ..ProcessInput::default()
    };
    let bench = Bench::start(cx.device, "calls", CALLS, 4096)?;
    let (times, right) = alone(&bench, input, 400)?;
    let what = "a call of the host that does next to nothing, one process";
    let mut row = Row::new(what, "call", CALLS_ROUND as f64, times).verified(right);
    if let Some((direct, relay)) = limits {
        row = row
            .raw("pinned_ping_pong_s", median(direct))
            .raw("three_hop_relay_s", median(relay));
    }
    cx.emit_as("call", row)?;
    let many: &[(usize, usize)] = match cx.is_cuda() {
        true => &[(31, 20), (1000, 4), (4000, 2)],
        false => &[(64, 10)],
    };
    for &(processes, each) in many {
        let (times, right) = together(&bench, input, processes, each)?;
        let units = (processes * each * CALLS_ROUND) as f64;
        let what = "calls of the host that do next to nothing, many processes; those of a GPU are answered by one thread";
        let row = Row::new(what, "call", units, times).size(processes as u64);
        cx.emit_as("calls", row.verified(right))?;
    }
    Ok(())
}

/// A file of 8-byte numbers: their positions times an odd constant.
fn numbers(pages: u64) -> Vec<u8> {
    let positions = (0..pages * 4096).step_by(8);
    let number = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    positions.flat_map(number).collect()
}

fn reads(cx: &Context<'_>) -> Result<(), CliError> {
    let folder = tempfile::tempdir().map_err(CliError::Folder)?;
    let path = folder.path().join("numbers");
    std::fs::write(&path, numbers(256)).map_err(|source| CliError::Output { path, source })?;
    let input = ProcessInput {
        directory: Some(folder.path()),
        ..ProcessInput::default()
    };
    let bench = Bench::start(cx.device, "reads", READS, 4096)?;
    let (times, right) = alone(&bench, input, 200)?;
    let what = "a read of 4 KiB from a file in the host's memory, one process";
    let row = Row::new(what, "read", READS_ROUND as f64, times);
    cx.emit_as("read", row.verified(right))?;
    let many: &[(usize, usize)] = match cx.is_cuda() {
        true => &[(64, 20), (400, 10)],
        false => &[(64, 20)],
    };
    let several = |bench: &Bench, how: &str| -> Result<(), CliError> {
        for &(processes, each) in many {
            let (times, right) = together(bench, input, processes, each)?;
            let units = (processes * each * READS_ROUND) as f64;
            let what =
                format!("reads of 4 KiB from a file in the host's memory, many processes{how}");
            let row = Row::new(&what, "read", units, times).size(processes as u64);
            cx.emit_as("reads", row.verified(right))?;
        }
        Ok(())
    };
    several(&bench, "")?;
    drop(bench);
    if cx.is_cuda() {
        let bench = Bench::start_reading(cx.device, "reads", READS, 4096, Reads::Plain)?;
        several(&bench, ", all of them by plain calls")?;
    }
    Ok(())
}

fn life(cx: &Context<'_>) -> Result<(), CliError> {
    let bench = Bench::start(cx.device, "nothing", NOTHING, 100_000)?;
    let counts: &[usize] = match cx.is_cuda() {
        true => &[1, 1000, 30_000, 100_000],
        false => &[1, 1000, 10_000],
    };
    for &count in counts {
        let (times, right) = repeated(&bench, ProcessInput::default(), count, 0)?;
        let what =
            "processes that begin and end, from asking for them to knowing of the last one's end";
        let row = Row::new(what, "process", count as f64, times).size(count as u64);
        cx.emit(row.verified(right))?;
    }
    Ok(())
}

/// The device's part of a start: from the start of the first of many processes to that of the last, by the clock of the
/// device that runs them.
fn begin(cx: &Context<'_>) -> Result<(), CliError> {
    let bench = Bench::start(cx.device, "begin", BEGIN, 1 << 15)?;
    let count = if cx.is_cuda() { 30_000 } else { 1000 };
    let (mut times, mut right) = (Vec::new(), true);
    for repetition in 0..=REPEATS {
        let written = bench.run(ProcessInput::default(), count)?;
        let stamps: Vec<u64> = written.iter().flat_map(|w| numbers_in(w)).collect();
        let (first, last) = (stamps.iter().min(), stamps.iter().max());
        let took = first.zip(last).map_or(0, |(first, last)| last - first);
        right &= stamps.len() == count && took > 0;
        if repetition > 0 {
            times.push(took as f64 * 1e-9);
        }
    }
    let what = "from the start of the first of many processes that are started together to that of the last, by the clock of the engine";
    let row = Row::new(what, "process", count as f64, times).size(count as u64);
    cx.emit(row.verified(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_is_assembled_from_its_text() {
        for (bytes, text) in [
            (CALLS, include_str!("calls.wat")),
            (READS, include_str!("reads.wat")),
            (NOTHING, include_str!("nothing.wat")),
            (BEGIN, include_str!("begin.wat")),
            (family::FAMILY, include_str!("family.wat")),
            (pause::SPIN, include_str!("spin.wat")),
            (pause::SLEEP, include_str!("sleep.wat")),
        ] {
            let made = wat::parse_str(text).expect("it is a module");
            assert!(made == bytes, "the text has changed: assemble it anew");
        }
    }
}
