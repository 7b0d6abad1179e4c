//! Runs a part in a child process with a watchdog, and reads the rows that it writes line by line.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::stats::Outcome;

/// A part that takes longer than this has hung.
const LIMIT: Duration = Duration::from_secs(120);

/// What the command line says about the inputs of parts.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'i> {
    pub(crate) roads: Option<&'i Path>,
    pub(crate) processes: u32,
    pub(crate) connections: u32,
    pub(crate) timers: u32,
}

/// Runs a part of an experiment and returns its rows. The last one is a failure if the child failed.
pub(crate) fn run(engine: &str, bench: &str, part: &str, inputs: Inputs<'_>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    if let Err(error) = attempt(engine, bench, part, inputs, &mut outcomes) {
        outcomes.push(Outcome::Failed {
            bench: bench.to_owned(),
            row: part.to_owned(),
            error,
        });
    }
    outcomes
}

fn attempt(
    engine: &str,
    bench: &str,
    part: &str,
    inputs: Inputs<'_>,
    outcomes: &mut Vec<Outcome>,
) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.args(["bench", bench, "--engine", engine, "--row", part]);
    command.args(["--processes", &inputs.processes.to_string()]);
    command.args(["--connections", &inputs.connections.to_string()]);
    command.args(["--timers", &inputs.timers.to_string()]);
    if let Some(roads) = inputs.roads {
        command.arg("--roads").arg(roads);
    }
    command.envs(super::backend_setting());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let stdout = child.stdout.take().expect("it is piped");
    let mut stderr = child.stderr.take().expect("it is piped");
    // Both pipes are read while the child runs, because a full pipe would block it.
    std::thread::scope(|scope| {
        let lines = scope.spawn(move || BufReader::new(stdout).lines().collect::<Vec<_>>());
        let errors = scope.spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        let ended = watch(&mut child);
        let lines = lines.join().map_err(|_| "its output cannot be read")?;
        let errors = errors.join().map_err(|_| "its errors cannot be read")?;
        for line in lines {
            // A child that the watchdog killed may leave half a line.
            let parsed = line.ok().map(|l| serde_json::from_str(&l));
            match parsed {
                Some(Ok(outcome)) => outcomes.push(outcome),
                _ if ended.is_err() => {}
                _ => return Err("it wrote a line that is not a row".to_owned()),
            }
        }
        match ended? {
            status if status.success() => Ok(()),
            status if errors.is_empty() => Err(format!("it ended with {status}")),
            _ => Err(errors),
        }
    })
}

/// Waits for the child, and kills it when it takes too long.
fn watch(child: &mut Child) -> Result<std::process::ExitStatus, String> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            return Ok(status);
        }
        if begin.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("still running after {LIMIT:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
