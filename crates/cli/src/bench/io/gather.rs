//! Batches of sampled rows through the page cache, next to threads of the host and to PyTorch, which indexes a memory map.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use everwarp_graph::{Csr, Spec};
use everwarp_programs::gather::{self, Features, Gather, Shape, checksum, reference};

use super::failed;
use super::files::{in_turns, threads};
use crate::bench::experiment::Context;
use crate::bench::stats::{Role, Row};
use crate::error::CliError;

/// Bytes of a row.
const ROW: u32 = 1024;
/// Rounds of PyTorch.
const ROUNDS: u32 = 5;
const SCRIPT: &str = include_str!("torch_rows.py");

/// The line that the script prints.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Torch {
    Missing {
        missing: String,
    },
    Done {
        times: Vec<f64>,
        sum: String,
        version: String,
    },
}

/// Reads the rows of all batches by threads of the host: seconds and the checksum.
fn looped(features: &Features, batches: &[Vec<u32>]) -> Result<(f64, u64), CliError> {
    let (next, sum) = (AtomicU64::new(0), AtomicU64::new(0));
    let each = batches[0].len() as u64;
    let all = each * batches.len() as u64;
    let begin = Instant::now();
    let work = || -> std::io::Result<()> {
        let mut row = vec![0; ROW as usize];
        let mut own = 0_u64;
        loop {
            let first = next.fetch_add(64, Ordering::Relaxed);
            if first >= all {
                sum.fetch_add(own, Ordering::Relaxed);
                return Ok(());
            }
            for place in first..all.min(first + 64) {
                let (batch, at) = (place / each, place % each);
                let node = batches[batch as usize][at as usize];
                let from = u64::from(node) * u64::from(ROW);
                features.file.read_exact_at(&mut row, from)?;
                own = own.wrapping_add(checksum(&row, at as u32));
            }
        }
    };
    let ended: std::io::Result<()> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads()).map(|_| scope.spawn(work)).collect();
        let mut threads = threads.into_iter();
        threads.try_for_each(|t| t.join().expect("no thread panics"))
    });
    ended.map_err(failed("loop"))?;
    Ok((begin.elapsed().as_secs_f64(), sum.into_inner()))
}

/// The same rows by PyTorch.
fn torch(cx: &Context<'_>, features: &Features, batches: &[Vec<u32>]) -> std::io::Result<Torch> {
    let mut nodes = tempfile::NamedTempFile::new()?;
    let words = batches.iter().flatten();
    let bytes: Vec<u8> = words
        .flat_map(|&node| u64::from(node).to_le_bytes())
        .collect();
    nodes.write_all(&bytes)?;
    // The file of features has no name.
    let fd = features.file.as_raw_fd();
    let path = format!("/proc/{}/fd/{fd}", std::process::id());
    let python = std::env::var_os("EVERWARP_PYTHON").unwrap_or_else(|| "python3".into());
    let device = if cx.is_cuda() { "cuda" } else { "cpu" };
    let output = Command::new(&python)
        .args(["-c", SCRIPT, &path])
        .arg(nodes.path())
        .args([(ROW / 8).to_string(), batches.len().to_string()])
        .args([&ROUNDS.to_string(), device])
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            let missing = format!("{} does not start: {error}", python.display());
            return Ok(Torch::Missing { missing });
        }
    };
    let line = serde_json::from_slice(&output.stdout);
    line.map_err(|_| std::io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}

pub(super) fn rows(cx: &Context<'_>) -> Result<(), CliError> {
    let (scale, seeds, count) = if cx.is_cuda() {
        (20, 1024, 32)
    } else {
        (16, 256, 16)
    };
    let spec: Spec = format!("rmat:{scale}").parse().expect("a generator");
    let graph: Csr = everwarp_graph::generate(&spec)
        .map_err(|error| failed("the graph")(std::io::Error::other(error)))?;
    let features = Features::generate(&graph, ROW, 1).map_err(failed("the features"))?;
    let shape = Shape {
        row: ROW,
        seeds,
        fanouts: vec![8, 4],
        slots: 4,
    };
    let batches: Vec<Vec<u32>> = (0..count)
        .map(|batch| reference(&graph, &shape, batch))
        .collect();
    let engine = cx.device.engine().program(&gather::PROGRAM).start()?;
    let cache = features.size / 8;
    let gather = Gather::new(&engine, &graph, &features, &shape, cache)?;
    let expected = looped(&features, &batches)?.1;
    let mut ours = || -> Result<(f64, bool), CliError> {
        let begin = Instant::now();
        let mut sum = 0_u64;
        for batch in gather.batches(&engine, count).in_place() {
            sum = sum.wrapping_add(batch?.checksum);
        }
        Ok((begin.elapsed().as_secs_f64(), sum == expected))
    };
    let mut loops = || -> Result<(f64, bool), CliError> {
        let (seconds, sum) = looped(&features, &batches)?;
        Ok((seconds, sum == expected))
    };
    let [ours, plainly] = in_turns([&mut ours, &mut loops])?;
    let all = (batches.len() * batches[0].len()) as f64;
    let emit = |name: &str, role, what: &str, (times, right): (Vec<f64>, bool)| {
        let row = Row::new(what, "row", all, times)
            .case(cx.part)
            .role(role)
            .verified(right);
        cx.emit_as(name, row)
    };
    let (mib, part) = (features.size >> 20, features.size >> 23);
    let what = format!(
        "{count} batches of {} rows of 1 KiB, sampled from rmat:{scale} meanwhile, from a file of {mib} MiB through a page cache of \
         {part} MiB; {}",
        batches[0].len(),
        gather.backend()
    );
    emit(cx.part, Role::Ours, &what, ours)?;
    let what = format!(
        "the same rows, already sampled, by {} threads of the host",
        threads()
    );
    emit(&format!("loop ({})", cx.part), Role::Rival, &what, plainly)?;
    let name = format!("PyTorch ({})", cx.part);
    match torch(cx, &features, &batches).map_err(failed("PyTorch"))? {
        Torch::Missing { missing } => cx.skip(&name, cx.part, &missing),
        Torch::Done {
            times,
            sum,
            version,
        } => {
            let to = if cx.is_cuda() {
                ", then copied to the GPU"
            } else {
                ""
            };
            let what = format!(
                "the same rows, already sampled, by indexing a memory map of the file with PyTorch {version}{to}"
            );
            emit(
                &name,
                Role::Rival,
                &what,
                (times, sum == expected.to_string()),
            )
        }
    }
}
