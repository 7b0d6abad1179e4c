//! What a service takes that has nothing to do.

use std::process::Command;
use std::time::{Duration, Instant};

use super::job::Where;
use super::service::{BenchService, failed};
use super::whole::hello_job;
use crate::bench::experiment::Context;
use crate::bench::stats::{Role, Row};
use crate::error::CliError;

/// How long each look takes, and how many there are.
const WINDOW: Duration = Duration::from_secs(1);
const WINDOWS: usize = 5;
/// An engine that was busy may take this long to come to rest.
const REST: Duration = Duration::from_secs(1);
/// Processes that run before, so that engines and modules are there.
const BEFORE: u32 = 1000;

/// The time of all cores that a process of the system has taken, over all of its threads.
fn cpu_time(os_pid: u64) -> Result<Duration, CliError> {
    let tasks = std::fs::read_dir(format!("/proc/{os_pid}/task")).map_err(failed)?;
    let mut total = Duration::ZERO;
    for task in tasks {
        let path = task.map_err(failed)?.path().join("schedstat");
        // A thread may have ended since the folder was read.
        let Ok(text) = std::fs::read_to_string(path) else {
            continue;
        };
        let first = text.split_whitespace().next().unwrap_or_default();
        total += Duration::from_nanos(first.parse().map_err(failed)?);
    }
    Ok(total)
}

/// The processes of the service.
fn os_pids(service: &BenchService) -> Result<Vec<u64>, CliError> {
    let status = service.status()?;
    let engines = status["engines"].as_array().into_iter().flatten();
    let all = std::iter::once(&status).chain(engines);
    Ok(all.filter_map(|row| row["os_pid"].as_u64()).collect())
}

/// What the driver's tool says of the GPU: power, utilization and memory.
fn gpu() -> Option<[f64; 3]> {
    let output = Command::new("nvidia-smi")
        .args([
            "--query-gpu=power.draw,utilization.gpu,memory.used",
            "--format=csv,noheader,nounits",
        ])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut values = text.lines().next()?.split(',');
    let mut next = || values.next()?.trim().parse().ok();
    Some([next()?, next()?, next()?])
}

pub(super) fn idle(cx: &Context<'_>) -> Result<(), CliError> {
    let service = BenchService::start(cx.device.kind())?;
    let engine = cx.device.kind().to_string();
    let job = hello_job(service.folder(), BEFORE)?;
    let mut right = true;
    for engine in [engine.as_str(), "cpu"] {
        let ran = job.run(service.command(), Where::Service, engine, service.folder());
        right &= ran?.1;
    }
    std::thread::sleep(REST);
    let os_pids = os_pids(&service)?;
    let all = || -> Result<Duration, CliError> { os_pids.iter().map(|pid| cpu_time(*pid)).sum() };
    let mut times = Vec::new();
    for _ in 0..WINDOWS {
        let (at, before) = (Instant::now(), all()?);
        std::thread::sleep(WINDOW);
        let taken = all()?.saturating_sub(before);
        // A rate is a number even for a service that took no time at all.
        times.push(taken.as_secs_f64().max(1e-9) / at.elapsed().as_secs_f64());
    }
    // The same processes are still there, with the supervisor among them.
    right &= os_pids.len() > 1 && self::os_pids(&service)? == os_pids;
    let what = "time of all cores that a service without clients takes in a second";
    let mut row = Row::new(what, "second", 1.0, times)
        .case("idle")
        .role(Role::Ours)
        .raw("goal_s", 0.01)
        .verified(right);
    if cx.is_cuda()
        && let Some([power, utilization, memory]) = gpu()
    {
        row = row
            .raw("gpu_watt", power)
            .raw("gpu_utilization_percent", utilization)
            .raw("gpu_memory_mib", memory);
    }
    cx.emit(row)
}
